/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One-line wrappers of what Rust cannot call: inline functions, macros, variadic functions. A shim is
 * named rkfd_<what it wraps>, grouped by subsystem, and holds no logic. bindgen reads this header.
 */
#ifndef RKFD_SHIMS_H
#define RKFD_SHIMS_H

#include <linux/io.h>
#include <linux/mm.h>
#include <linux/types.h>

/* I/O */
u64 rkfd_readq(const void __iomem *addr);

/* Pages */
void *rkfd_page_address(const struct page *page);
unsigned long rkfd_page_to_pfn(const struct page *page);

#endif /* RKFD_SHIMS_H */
