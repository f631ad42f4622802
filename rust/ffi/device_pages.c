// SPDX-License-Identifier: GPL-2.0
/* Shims of include/rkfd_shims.h for pages that move between a device's memory and system memory. */
#include <linux/highmem.h>
#include <linux/memremap.h>
#include <linux/pagemap.h>

#include "rkfd_shims.h"

struct page *rkfd_pfn_to_page(unsigned long pfn)
{
	return pfn_to_page(pfn);
}

/* Allocates a page and locks it; the caller has the only reference. NULL if there is none. */
struct page *rkfd_page_alloc_locked(gfp_t gfp)
{
	struct page *page = alloc_page(gfp);

	if (page)
		lock_page(page);
	return page;
}

void rkfd_page_unlock_put(struct page *page)
{
	unlock_page(page);
	put_page(page);
}

void rkfd_page_clear(struct page *page)
{
	clear_highpage(page);
}

struct dev_pagemap *rkfd_page_pgmap(const struct page *page)
{
	return page_pgmap(page);
}

/* Initializes a free page of the device, with one reference and locked. */
void rkfd_device_page_init(struct page *page, struct dev_pagemap *pagemap, void *data)
{
	zone_device_page_init(page, pagemap, 0);
	folio_set_zone_device_data(page_folio(page), data);
}

void *rkfd_device_page_data(const struct page *page)
{
	return folio_zone_device_data(page_folio(page));
}

void *rkfd_device_folio_data(const struct folio *folio)
{
	return folio_zone_device_data(folio);
}
