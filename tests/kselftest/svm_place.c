// SPDX-License-Identifier: GPL-2.0
/*
 * The location of memory after a queue has accessed it (XNACK on): the GPU's VRAM, unless
 * attributes say otherwise, together with its surroundings, by its granularity; and system
 * memory again after an access of the CPU.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "pagemap.h"
#include "smi_lines.h"
#include "toucher.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define RING		(16u << 10)
#define WAIT_MS		KFD_HANG_MS
#define HUGE		((size_t)2 << 20)
#define HUGE_PAGES	(HUGE / KFD_PAGE)

FIXTURE(svm_place)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;	/* the other end of copies of a page */
	uint8_t *mem;		/* addresses of two large pages, with memory of the process */
};

FIXTURE_SETUP(svm_place)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, xnack_set(FD, 1));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, KFD_PAGE, KFD_ALLOC_VRAM));
	self->mem = kfd_reserve(2 * HUGE, HUGE);
	ASSERT_NE(NULL, self->mem);
	ASSERT_EQ(self->mem, anonymous(self->mem, 2 * HUGE, PROT_READ | PROT_WRITE));
}

FIXTURE_TEARDOWN(svm_place)
{
	kfd_close(&self->dev);
}

/* The GPU reads the page at @mem, which holds @value. */
#define EXPECT_GPU_READS(value, mem)							\
	do {										\
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu,	\
					    (uintptr_t)(mem), KFD_PAGE, WAIT_MS));	\
		EXPECT_TRUE(all(self->vram.cpu, value, KFD_PAGE));			\
	} while (0)

/* The GPU writes @value to the page at @mem. A check by the CPU brings it back. */
#define EXPECT_GPU_HAS_WRITTEN(value, mem)						\
	do {										\
		memset(self->vram.cpu, value, KFD_PAGE);				\
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)(mem),		\
					    (uintptr_t)self->vram.cpu, KFD_PAGE, WAIT_MS)); \
	} while (0)

/*
 * The GPU reads the page at @page, which holds @value; then @pages pages of @size bytes at @mem are
 * in VRAM. On a busy machine an engine may have waited for the memory for so long that the driver
 * maps it where it is, for once: the next tries are at memory that was mapped anew, later than the
 * moves before count.
 */
#define TRIES		3
#define LATER_US	2000000
#define EXPECT_COME(pages, mem, size, value, page)					\
	do {										\
		int tries = TRIES;							\
											\
		EXPECT_GPU_READS(value, page);						\
		while (in_vram(mem, size) != (pages) && --tries) {			\
			printf("# %zu pages in VRAM\n", in_vram(mem, size));		\
			usleep(LATER_US);						\
			ASSERT_EQ(0, mprotect(mem, size, PROT_NONE));			\
			ASSERT_EQ(0, mprotect(mem, size, PROT_READ | PROT_WRITE));	\
			EXPECT_GPU_READS(value, page);					\
		}									\
		EXPECT_EQ(pages, in_vram(mem, size));					\
	} while (0)

/* Memory without attributes. */
TEST_F(svm_place, comes_to_vram)
{
	uint8_t *page = self->mem + 5 * KFD_PAGE;

	memset(self->mem, 0x31, HUGE);
	EXPECT_COME(HUGE_PAGES, self->mem, HUGE, 0x31, page);
	EXPECT_EQ(0, in_vram(self->mem + HUGE, HUGE));
	EXPECT_GPU_HAS_WRITTEN(0x32, page);
	EXPECT_EQ(HUGE_PAGES, in_vram(self->mem, HUGE));
	/* The CPU's access brings all of it back, and the GPU's next one moves it there again. */
	EXPECT_TRUE(all(page, 0x32, KFD_PAGE));
	EXPECT_EQ(0, in_vram(self->mem, HUGE));
	EXPECT_TRUE(all(self->mem, 0x31, 5 * KFD_PAGE));
	EXPECT_TRUE(all(page + KFD_PAGE, 0x31, HUGE - 6 * KFD_PAGE));
	EXPECT_COME(HUGE_PAGES, self->mem, HUGE, 0x32, page);
}

/* Memory that was never touched never was in system memory, and is zeroes. */
TEST_F(svm_place, untouched)
{
	EXPECT_COME(HUGE_PAGES, self->mem + HUGE, HUGE, 0, self->mem + HUGE);
	EXPECT_TRUE(all(self->mem + HUGE, 0, HUGE));
}

TEST_F(svm_place, granularity)
{
	uint8_t *page = self->mem + 21 * KFD_PAGE;

	memset(self->mem, 0x33, HUGE);
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_GRANULARITY, 2));
	EXPECT_COME(4, self->mem, HUGE, 0x33, page);
	EXPECT_EQ(4, in_vram(self->mem + 20 * KFD_PAGE, 4 * KFD_PAGE));
}

TEST_F(svm_place, preferred)
{
	memset(self->mem, 0x34, 2 * HUGE);
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_PREFERRED, SVM_SYSTEM));
	EXPECT_GPU_READS(0x34, self->mem);
	EXPECT_EQ(0, in_vram(self->mem, HUGE));
	/* A mapped page stays where it is until an access does not find it. */
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_PREFERRED, GPU));
	EXPECT_GPU_READS(0x34, self->mem);
	EXPECT_EQ(0, in_vram(self->mem, HUGE));
	/* In place, but with VRAM as preferred location. */
	ASSERT_EQ(0, svm_set(FD, self->mem + HUGE, HUGE, SVM_PREFERRED, GPU));
	EXPECT_COME(HUGE_PAGES, self->mem + HUGE, HUGE, 0x34, self->mem + HUGE);
	/* Back, when system memory is preferred and the GPU accesses it anew. */
	ASSERT_EQ(0, svm_set(FD, self->mem + HUGE, HUGE, SVM_PREFERRED, SVM_SYSTEM));
	self->mem[HUGE] = 0x34;
	EXPECT_GPU_READS(0x34, self->mem + HUGE);
	EXPECT_EQ(0, in_vram(self->mem + HUGE, HUGE));
}

TEST_F(svm_place, in_place)
{
	memset(self->mem, 0x35, HUGE);
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_IN_PLACE, GPU));
	EXPECT_GPU_READS(0x35, self->mem + KFD_PAGE);
	EXPECT_EQ(0, in_vram(self->mem, HUGE));
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_PREFETCH, GPU));
	EXPECT_EQ(HUGE_PAGES, in_vram(self->mem, HUGE));
	EXPECT_GPU_READS(0x35, self->mem + KFD_PAGE);
	EXPECT_EQ(HUGE_PAGES, in_vram(self->mem, HUGE));
}

/*
 * The memory that a queue accesses need never be there all at once, so the share does not bound
 * it.
 */
TEST_F(svm_place, beyond_the_share)
{
	const uint64_t left = HUGE / 2;
	uint64_t size = (uint64_t)1 << 36, handle;
	uint8_t *all_of_it = kfd_reserve(size, HUGE);
	uint8_t *at = all_of_it;

	SKIP_ON_AMDKFD("nothing of it is counted");
	memset(self->mem, 0x39, 2 * HUGE);
	ASSERT_NE(NULL, all_of_it);
	ASSERT_EQ(at, mmap(at, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
	while (size >= left) {
		if (kfd_alloc_at(&self->dev, KFD_ALLOC_USERPTR, (uintptr_t)at, size, &handle))
			size /= 2;
		else
			at += size;
	}
	ASSERT_NE(all_of_it, at);
	EXPECT_GPU_READS(0x39, self->mem);
	EXPECT_GPU_READS(0x39, self->mem + HUGE);
}

/* The process uses them itself all the time. */
TEST_F(svm_place, heap_and_stack)
{
	uint8_t on_stack[4 * KFD_PAGE], *stack, *heap = sbrk(2 * KFD_PAGE);

	ASSERT_NE((void *)-1, heap);
	heap = (uint8_t *)(((uintptr_t)heap + KFD_PAGE - 1) & ~(KFD_PAGE - 1ul));
	stack = (uint8_t *)(((uintptr_t)on_stack + KFD_PAGE - 1) & ~(KFD_PAGE - 1ul));
	memset(heap, 0x36, KFD_PAGE);
	memset(on_stack, 0x37, sizeof(on_stack));
	EXPECT_GPU_READS(0x36, heap);
	EXPECT_EQ(0, in_vram(heap, KFD_PAGE));
	EXPECT_GPU_READS(0x37, stack);
	EXPECT_EQ(0, in_vram(stack, KFD_PAGE));
}

/* One line each for the begin and the end of the move, between those of the fault. */
TEST_F(svm_place, told)
{
	const unsigned long first = (uintptr_t)self->mem / KFD_PAGE;
	int file = smi_watch(&self->dev, SMI_MASK(MIGRATE_START) | SMI_MASK(MIGRATE_END) |
					 SMI_MASK(PAGE_FAULT_START) | SMI_MASK(PAGE_FAULT_END));
	char text[1024], wanted[256];

	ASSERT_LE(0, file);
	memset(self->mem, 0x38, HUGE);
	EXPECT_GPU_READS(0x38, self->mem + KFD_PAGE);
	ASSERT_TRUE(smi_lines(file, 4, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted),
		 "7 -%d @%lx(%x) R\n5 -%d @%lx(%zx) 0->%x ffffffff:ffffffff 1\n"
		 "6 -%d @%lx(%zx) 0->%x 1 0\n8 -%d @%lx(%x) M\n",
		 getpid(), first + 1, GPU, getpid(), first, HUGE_PAGES, GPU,
		 getpid(), first, HUGE_PAGES, GPU, getpid(), first + 1, GPU);
	EXPECT_STREQ(wanted, text);
	close(file);
}

/* The GPU loses memory that moves or changes, and its queues are not evicted for that. */
TEST_F(svm_place, told_of_what_is_lost)
{
	const unsigned long first = (uintptr_t)self->mem / KFD_PAGE;
	char text[1024], wanted[256];
	int file;

	memset(self->mem, 0x3a, HUGE);
	EXPECT_COME(HUGE_PAGES, self->mem, HUGE, 0x3a, self->mem);
	file = smi_watch(&self->dev, SMI_MASK(MIGRATE_START) | SMI_MASK(MIGRATE_END) |
				     SMI_MASK(UNMAP_FROM_GPU) | SMI_MASK(QUEUE_EVICTION));
	ASSERT_LE(0, file);
	EXPECT_EQ(0x3a, self->mem[KFD_PAGE]);
	ASSERT_TRUE(smi_lines(file, 3, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted),
		 "5 -%d @%lx(%zx) %x->0 ffffffff:ffffffff 2\n"
		 "b -%d @%lx(%zx) %x 1\n"
		 "6 -%d @%lx(%zx) %x->0 2 0\n",
		 getpid(), first, HUGE_PAGES, GPU, getpid(), first, HUGE_PAGES, GPU,
		 getpid(), first, HUGE_PAGES, GPU);
	EXPECT_STREQ(wanted, text);
	ASSERT_EQ(0, svm_set(FD, self->mem, HUGE, SVM_PREFERRED, SVM_SYSTEM));
	EXPECT_GPU_READS(0x3a, self->mem);
	ASSERT_EQ(0, madvise(self->mem + KFD_PAGE, KFD_PAGE, MADV_DONTNEED));
	ASSERT_TRUE(smi_lines(file, 1, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted), "b -%d @%lx(1) %x 0\n", getpid(), first + 1, GPU);
	EXPECT_STREQ(wanted, text);
	close(file);
}

/* The CPU and the GPU access the same pages all the time: both get on, and no write is lost. */
TEST_F(svm_place, both_at_once)
{
	struct toucher it = {
		.mem = (volatile uint32_t *)self->mem,
		.pages = HUGE_PAGES,
		.number = 1,
	};
	const uint64_t end = kfd_now_ms() + 3000;
	volatile uint32_t *own = self->vram.cpu;
	uint32_t copies = 0;
	pthread_t thread;

	memset(self->mem, 0, HUGE);
	ASSERT_EQ(0, pthread_create(&thread, NULL, touch, &it));
	while (kfd_now_ms() < end || copies < 16) {
		const size_t page = copies * 7 % HUGE_PAGES;

		/* Its word of the page is the first one. */
		*own = ++copies;
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->mem + page * KFD_PAGE,
					    (uintptr_t)self->vram.cpu, 4, WAIT_MS));
		EXPECT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->vram.cpu + 4,
					    (uintptr_t)self->mem + page * KFD_PAGE, 4, WAIT_MS));
		EXPECT_EQ(copies, own[1]);
	}
	it.stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, it.wrong);
	EXPECT_LT(0, it.rounds);
	printf("# %u copies each way beside %u rounds\n", copies, it.rounds);
}

KFD_HARNESS_MAIN
