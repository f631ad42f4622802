// SPDX-License-Identifier: GPL-2.0
/* Random attributes of shared virtual memory, checked against a model page by page. */
#include <stdlib.h>

#include "svm_fixture.h"
#include "tap.h"

/* State of a page in the model. */
struct page {
	bool set;
	uint32_t preferred, prefetch, access, flags, granularity;
};

static const struct page unset = {
	.preferred = SVM_UNDEFINED,
	.prefetch = SVM_UNDEFINED,
	.access = SVM_NO_ACCESS,
	.flags = SVM_DEFAULT_FLAGS,
	.granularity = SVM_DEFAULT_GRANULARITY,
};

static void apply(struct page *page, const struct svm_attribute *attribute)
{
	switch (attribute->type) {
	case SVM_PREFERRED:
		page->preferred = attribute->value;
		break;
	case SVM_PREFETCH:
		page->prefetch = attribute->value;
		break;
	case SVM_SET_FLAGS:
		page->flags |= attribute->value;
		break;
	case SVM_CLR_FLAGS:
		page->flags &= ~attribute->value;
		break;
	case SVM_GRANULARITY:
		page->granularity = attribute->value < 0x3f ? attribute->value : 0x3f;
		break;
	default:
		page->access = attribute->type;
	}
}

struct summary {
	struct page common;
	uint32_t flags_or;
};

static struct summary summary(const struct page *pages, unsigned int first, unsigned int count)
{
	struct summary is = { .common = unset, .flags_or = unset.flags };
	bool any = false;
	unsigned int i;

	for (i = first; i < first + count; i++) {
		const struct page *page = &pages[i];
		struct page *common = &is.common;

		if (!page->set)
			continue;
		if (!any) {
			*common = *page;
			is.flags_or = page->flags;
			any = true;
			continue;
		}
		if (common->preferred != page->preferred)
			common->preferred = SVM_UNDEFINED;
		if (common->prefetch != page->prefetch)
			common->prefetch = SVM_UNDEFINED;
		if (common->access != page->access)
			common->access = SVM_NO_ACCESS;
		common->flags &= page->flags;
		is.flags_or |= page->flags;
		if (page->granularity < common->granularity)
			common->granularity = page->granularity;
	}
	return is;
}

static struct svm_attribute random_attribute(uint32_t gpu_id)
{
	switch (random() % 9) {
	case 0:
		return (struct svm_attribute){ SVM_PREFERRED,
					       (uint32_t[]){ gpu_id, SVM_SYSTEM, SVM_UNDEFINED }
					       [random() % 3] };
	case 1:
		return (struct svm_attribute){ SVM_PREFETCH, SVM_SYSTEM };
	case 2:
		return (struct svm_attribute){ SVM_ACCESS, gpu_id };
	case 3:
		return (struct svm_attribute){ SVM_IN_PLACE, gpu_id };
	case 4:
	case 5:
		return (struct svm_attribute){ SVM_NO_ACCESS, gpu_id };
	case 6:
		return (struct svm_attribute){ SVM_SET_FLAGS, 1u << random() % 6 };
	case 7:
		return (struct svm_attribute){ SVM_CLR_FLAGS, 1u << random() % 6 };
	default:
		return (struct svm_attribute){ SVM_GRANULARITY, (uint32_t)(random() % 80) };
	}
}

static bool agrees(int fd, uint32_t gpu_id, const uint8_t *mem, const struct page *pages,
		   unsigned int first, unsigned int count)
{
	struct svm_attribute asked[] = {
		{ SVM_PREFERRED, 0 }, { SVM_PREFETCH, 0 }, { SVM_ACCESS, gpu_id },
		{ SVM_SET_FLAGS, 0 }, { SVM_CLR_FLAGS, 0 }, { SVM_GRANULARITY, 0 },
	};
	struct summary is = summary(pages, first, count);

	return !svm(fd, SVM_GET, mem + (size_t)first * KFD_PAGE, (size_t)count * KFD_PAGE,
		    asked, 6) &&
	       asked[0].value == is.common.preferred && asked[1].value == is.common.prefetch &&
	       asked[2].type == is.common.access && asked[3].value == is.common.flags &&
	       asked[4].value == ~is.flags_or && asked[5].value == is.common.granularity;
}

/*
 * Random attributes of random ranges, which come and go: the answer for each part is that of
 * its pages.
 */
TEST_F(svm, random_ranges)
{
	const unsigned int steps = work(3000, 300);
	struct page pages[PAGES];
	unsigned int step, i;

	for (i = 0; i < PAGES; i++)
		pages[i] = unset;
	srandom(getenv("RKFD_SEED") ? (unsigned int)atoi(getenv("RKFD_SEED")) : 1);
	for (step = 0; step < steps; step++) {
		const unsigned int first = (unsigned int)random() % PAGES;
		const unsigned int count = 1 + (unsigned int)random() % (PAGES - first);
		const size_t size = (size_t)count * KFD_PAGE;

		if (random() % 16 == 0) {
			if (random() % 2)
				munmap(PAGE(first), size);
			ASSERT_EQ(PAGE(first),
				  anonymous(PAGE(first), size, PROT_READ | PROT_WRITE));
			for (i = first; i < first + count; i++)
				pages[i] = unset;
		} else {
			struct svm_attribute attributes[4];
			const uint32_t n = (uint32_t)random() % 5;
			unsigned int j;

			for (j = 0; j < n; j++)
				attributes[j] = random_attribute(GPU);
			ASSERT_EQ(0, svm(FD, SVM_SET, PAGE(first), size, attributes, n)) {
				TH_LOG("step %u", step);
			}
			for (i = first; i < first + count; i++) {
				pages[i].set = true;
				for (j = 0; j < n; j++)
					apply(&pages[i], &attributes[j]);
			}
		}
		for (i = 0; i < 4; i++) {
			const unsigned int from = (unsigned int)random() % PAGES;
			const unsigned int many = 1 + (unsigned int)random() % (PAGES - from);

			ASSERT_TRUE(agrees(FD, GPU, self->mem, pages, from, many)) {
				TH_LOG("step %u, pages %u to %u", step, from, from + many - 1);
			}
		}
	}
}

KFD_HARNESS_MAIN
