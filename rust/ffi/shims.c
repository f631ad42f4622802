// SPDX-License-Identifier: GPL-2.0
/* The bodies of include/rkfd_shims.h. */
#include "rkfd_shims.h"

/* I/O */

u64 rkfd_readq(const void __iomem *addr)
{
	return readq(addr);
}

/* Pages */

void *rkfd_page_address(const struct page *page)
{
	return page_address(page);
}

unsigned long rkfd_page_to_pfn(const struct page *page)
{
	return page_to_pfn(page);
}
