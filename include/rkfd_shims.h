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
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>

/* I/O */
u64 rkfd_readq(const void __iomem *addr);

/* Pages */
void *rkfd_page_address(const struct page *page);
unsigned long rkfd_page_to_pfn(const struct page *page);

/* Mappings of user space */
vm_flags_t rkfd_vma_flags(const struct vm_area_struct *vma);
void rkfd_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags);
void rkfd_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags);
pgprot_t rkfd_pgprot_writecombine(pgprot_t prot);
pgprot_t rkfd_pgprot_noncached(pgprot_t prot);

/* DRM */
void rkfd_drm_gem_object_get(struct drm_gem_object *obj);
void rkfd_drm_gem_object_put(struct drm_gem_object *obj);
u64 rkfd_drm_vma_node_offset_addr(struct drm_vma_offset_node *node);
void rkfd_drm_vma_node_unmap(struct drm_vma_offset_node *node, struct address_space *mapping);

#endif /* RKFD_SHIMS_H */
