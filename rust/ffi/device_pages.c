// SPDX-License-Identifier: GPL-2.0
/* The bodies of include/rkfd_shims.h of pages that move between a device's memory and system memory. */
#include <linux/highmem.h>
#include <linux/memremap.h>
#include <linux/pagemap.h>

#include "rkfd_shims.h"

struct page *rkfd_pfn_to_page(unsigned long pfn)
{
	return pfn_to_page(pfn);
}

/* The first of pages that nobody else knows, a large one's or one, locked; NULL when there is none. */
struct page *rkfd_pages_alloc_locked(gfp_t gfp, unsigned int order)
{
	struct folio *folio = folio_alloc(gfp, order);

	if (!folio)
		return NULL;
	folio_lock(folio);
	return folio_page(folio, 0);
}

void rkfd_page_unlock_put(struct page *page)
{
	unlock_page(page);
	put_page(page);
}

void rkfd_pages_clear(struct page *page, unsigned long count)
{
	while (count--)
		clear_highpage(page++);
}

struct dev_pagemap *rkfd_page_pgmap(const struct page *page)
{
	return page_pgmap(page);
}

/* Has free pages of the device's begin their life, one or as a large one, with one reference and locked. */
void rkfd_device_pages_init(struct page *page, struct dev_pagemap *pagemap, unsigned int order,
			    void *data)
{
	zone_device_folio_init((struct folio *)page, pagemap, order);
	folio_set_zone_device_data(page_folio(page), data);
}

/* Gives @tail, which was a part of @head, what it has of the device's. */
void rkfd_device_folio_split(const struct folio *head, struct folio *tail)
{
	tail->pgmap = head->pgmap;
	folio_set_zone_device_data(tail, folio_zone_device_data(head));
}

void *rkfd_device_page_data(const struct page *page)
{
	return folio_zone_device_data(page_folio(page));
}

void *rkfd_device_folio_data(const struct folio *folio)
{
	return folio_zone_device_data(folio);
}
