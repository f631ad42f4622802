// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory whose pages the kernel may merge with others of the same content (KSM).
 * It stays in system memory, as a page that is being merged cannot move, and goes to VRAM once
 * merging is off.
 */
#include <pthread.h>
#include <stdio.h>

#include "kfd_svm.h"
#include "pagemap.h"
#include "userptr_fixture.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define PAGES		(SIZE / KFD_PAGE)
#define KSM		"/sys/kernel/mm/ksm/"

/* Makes the kernel look for pages to merge all the time. */
static bool merge_always(void)
{
	return !kfd_write_file(KSM "sleep_millisecs", "0") &&
	       !kfd_write_file(KSM "pages_to_scan", "1000") && !kfd_write_file(KSM "run", "1");
}

/* Undoes all merges. */
static void merge_never(void)
{
	kfd_write_file(KSM "run", "2");
}

/* The number of merged pages of the process. */
static unsigned int merged(void)
{
	FILE *f = fopen("/proc/self/ksm_merging_pages", "re");
	unsigned int pages = 0;

	if (f) {
		if (fscanf(f, "%u", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	return pages;
}

TEST_F(userptr, to_vram_when_not_merged)
{
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	memset(self->mem, 0x21, SIZE);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_MERGEABLE));
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, GPU));
	EXPECT_EQ(0, in_vram(self->mem, SIZE));
	EXPECT_GPU_SEES(0x21);
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_UNMERGEABLE));
	EXPECT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_PREFETCH, GPU));
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	/* Memory that is there stays there when merging is allowed. */
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_MERGEABLE));
	EXPECT_EQ(PAGES, in_vram(self->mem, SIZE));
	EXPECT_GPU_SEES(0x21);
	EXPECT_TRUE(all(self->mem, 0x21, SIZE));
}

struct prefetcher {
	int fd;
	uint32_t gpu;
	uint8_t *mem;
	volatile bool stop;
	unsigned int rounds, failed;
};

static void *prefetch(void *arg)
{
	struct prefetcher *me = arg;

	while (!me->stop) {
		me->failed += !!svm_set(me->fd, me->mem, SIZE, SVM_PREFETCH,
					me->rounds % 2 ? SVM_SYSTEM : me->gpu);
		me->rounds++;
	}
	return NULL;
}

/*
 * A move must not find a page that is being merged: it would be lost, and each access to it
 * would wait for ever.
 */
TEST_F(userptr, merged_meanwhile)
{
	struct prefetcher it = { .fd = FD, .gpu = GPU, .mem = self->mem };
	const uint64_t start = kfd_now_ms();
	unsigned int rounds = 0, most = 0;
	pthread_t thread;

	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, madvise(self->mem, SIZE, MADV_MERGEABLE));
	ASSERT_EQ(0, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	ASSERT_TRUE(merge_always());
	ASSERT_EQ(0, pthread_create(&thread, NULL, prefetch, &it));
	while (kfd_now_ms() < start + 5000 || (!most && kfd_now_ms() < start + KFD_HANG_MS)) {
		const uint8_t value = (uint8_t)(1 + rounds++ % 16);

		memset(self->mem, value, SIZE);
		/* The kernel merges pages that have not changed at its second look. */
		usleep(20000);
		if (merged() > most)
			most = merged();
		EXPECT_TRUE(all(self->mem, value, SIZE));
	}
	it.stop = true;
	pthread_join(thread, NULL);
	merge_never();
	EXPECT_EQ(0, it.failed);
	EXPECT_LT(0, it.rounds);
	EXPECT_LT(0, most);
	EXPECT_GPU_WRITES(0x22);
	printf("# %u prefetches beside %u rounds, %u pages merged at most\n", it.rounds, rounds,
	       most);
}

KFD_HARNESS_MAIN
