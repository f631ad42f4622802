// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults that are retried (XNACK on): queues access memory without attributes, and find
 * the process's memory there. An access to unmapped memory is an error, with the address of the
 * access.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"
#include "kfd_waves.h"
#include "model.h"
#include "packets.h"
#include "pagemap.h"
#include "processors.h"
#include "smi_lines.h"
#include "svm_touch.h"
#include "svm_work.h"
#include "tap.h"

#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define MIB		(1ull << 20)
#define HUGE		(2 * MIB)
/* Pages of a storm: a multiple of a wave's lanes, and so is a quarter of them. */
#define STORM		work(1280, 512)

FIXTURE(svm_faults)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_compute compute;
	struct kfd_save save;
	struct waves waves;
	struct kfd_bo vram;
	uint8_t *mem;
	uint32_t fault;
};

FIXTURE_SETUP(svm_faults)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, xnack_set(FD, 1));
	ASSERT_EQ(1, xnack_get(FD));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, true, &self->fault));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_save_create(&self->dev, &self->save));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->compute, &self->save, false, RING));
	ASSERT_EQ(0, waves_create(&self->dev, &self->waves, 1));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
	self->mem = kfd_reserve(STORM * KFD_PAGE, HUGE);
	ASSERT_NE(NULL, self->mem);
}

FIXTURE_TEARDOWN(svm_faults)
{
	kfd_close(&self->dev);
}

static void start_copy(struct kfd_queue *queue, const void *dst, const void *src, size_t bytes)
{
	struct packets p = { 0 };

	sdma_copy(&p, (uintptr_t)dst, (uintptr_t)src, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* Expects a report of the fault at @address, and no other. */
#define EXPECT_FAULT(address, is_read_only)						\
	do {										\
		struct kfd_event_data data = { .event_id = self->fault };		\
		EXPECT_EQ(0, event_wait_many(&self->dev, &data, 1, false, WAIT_MS));	\
		EXPECT_EQ(GPU, data.memory_exception_data.gpu_id);			\
		EXPECT_EQ((uintptr_t)(address), data.memory_exception_data.va);		\
		if (kfd_is_rkfd()) {							\
			EXPECT_EQ(is_read_only,						\
				  data.memory_exception_data.failure.ReadOnly);		\
			EXPECT_EQ(!(is_read_only),					\
				  data.memory_exception_data.failure.NotPresent);	\
		}									\
	} while (0)

TEST_F(svm_faults, sdma_comes_to_memory)
{
	uint8_t *from = memory(NULL, SIZE), *to = memory(NULL, SIZE);

	memset(from, 0x11, SIZE);
	/* The destination of the copy has no pages yet. */
	ASSERT_EQ(0, copy(&self->queue, to, from, SIZE));
	EXPECT_TRUE(all(to, 0x11, SIZE));
	/* The GPU sees the process's changes, */
	memset(from, 0x12, SIZE);
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, from, SIZE));
	EXPECT_TRUE(all(self->vram.cpu, 0x12, SIZE));
	/* also with other pages. */
	ASSERT_EQ(0, madvise(from, SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, from, SIZE));
	EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

TEST_F(svm_faults, waves_come_to_memory)
{
	uint8_t *mem = memory(NULL, STORM * KFD_PAGE);

	ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, LANES));
	EXPECT_TRUE(touched(mem, LANES, 1));
	/* With other pages, by a decision of the kernel. */
	madvise(mem, LANES * KFD_PAGE, MADV_PAGEOUT);
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, LANES));
	EXPECT_TRUE(touched(mem, LANES, 2));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

/*
 * Makes each page fault on its own and stay in system memory. The storm is the subject, not the
 * move of single pages to VRAM, for which an SDMA engine would stall too long.
 */
static int one_by_one(int fd, const void *mem, size_t size)
{
	struct svm_attribute how[] = {
		{ SVM_GRANULARITY, 0 },
		{ SVM_PREFERRED, SVM_SYSTEM },
	};

	return svm(fd, SVM_SET, mem, size, how, ARRAY_SIZE(how));
}

/* Each page on its own, all at once, and to VRAM. */
TEST_F(svm_faults, storm_of_waves)
{
	uint8_t *mem = memory(self->mem, STORM * KFD_PAGE);

	ASSERT_EQ(0, svm_set(FD, mem, STORM * KFD_PAGE, SVM_GRANULARITY, 0));
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, STORM));
	EXPECT_TRUE(touched(mem, STORM, 1));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
	TH_LOG("the longest retry: %llu us", model_count("retries", "longest_us"));
}

/*
 * Pages that one access needs at once, in memory that is one piece now but was not when the GPU
 * reached its end: resolving a fault in one part does not take the other part from the GPU. The
 * processor does not look meanwhile, as that would bring them back.
 */
TEST_F(svm_faults, waves_across_chunks)
{
	const size_t size = LANES * KFD_PAGE, part = 8 * KFD_PAGE;
	uint8_t *mem = self->mem;

	memory(mem + part, size - part);
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem + part, size - part));
	memory(mem, part);
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, LANES));
	ASSERT_TRUE(kfd_compute_works(&self->compute, WAIT_MS));
	EXPECT_TRUE(touched(mem, LANES, 1));
}

TEST_F(svm_faults, storm_of_sdma)
{
	/*
	 * No more in one packet than the engine may stall for while the kernel's ring, which
	 * clears VRAM, needs it.
	 */
	const size_t size = STORM / 8 * KFD_PAGE;
	uint8_t *mem = memory(self->mem, 2 * size);

	ASSERT_EQ(0, one_by_one(FD, mem, 2 * size));
	memset(mem, 0x21, size);
	ASSERT_EQ(0, copy(&self->queue, mem + size, mem, size));
	EXPECT_TRUE(all(mem + size, 0x21, size));
}

TEST_F(svm_faults, others_beside_a_storm)
{
	volatile uint32_t *shared = kfd_share();
	uint8_t *mem = memory(self->mem, STORM * KFD_PAGE);
	unsigned int i, round;
	pid_t pid[2];
	int status;

	ASSERT_NE(NULL, shared);
	for (i = 0; i < 2; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(work_beside(&shared[0], &shared[1 + i], i));
	}
	ASSERT_EQ(0, one_by_one(FD, mem, STORM * KFD_PAGE));
	for (round = 1; round <= 2; round++) {
		const uint32_t before[2] = { shared[1], shared[2] };
		uint64_t end = kfd_now_ms() + WAIT_MS;

		ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, STORM));
		while ((shared[1] == before[0] || shared[2] == before[1]) && kfd_now_ms() < end)
			usleep(500);
		EXPECT_NE(before[0], shared[1]);
		EXPECT_NE(before[1], shared[2]);
		ASSERT_TRUE(touched(mem, STORM, round));
		ASSERT_EQ(0, mprotect(mem, STORM * KFD_PAGE, PROT_READ));
		ASSERT_EQ(0, mprotect(mem, STORM * KFD_PAGE, PROT_READ | PROT_WRITE));
	}
	shared[0] = 1;
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

TEST_F(svm_faults, sdma_at_a_bad_address)
{
	uint8_t *mem = memory(NULL, SIZE);

	start_copy(&self->queue, self->mem + 3 * KFD_PAGE, mem, KFD_PAGE);
	EXPECT_FAULT(self->mem + 3 * KFD_PAGE, 0);
	ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	/* With memory there the next queue finds it. */
	ASSERT_EQ(self->mem, memory(self->mem, SIZE));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	memset(mem, 0x31, SIZE);
	ASSERT_EQ(0, copy(&self->queue, self->mem, mem, SIZE));
	EXPECT_TRUE(all(self->mem, 0x31, SIZE));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

TEST_F(svm_faults, waves_at_a_bad_address)
{
	unsigned int i;

	/* One page is missing. */
	memory(self->mem, LANES * KFD_PAGE);
	ASSERT_EQ(0, munmap(self->mem + 7 * KFD_PAGE, KFD_PAGE));
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, self->mem, LANES));
	EXPECT_FAULT(self->mem + 7 * KFD_PAGE, 0);
	ASSERT_EQ(0, kfd_compute_destroy(&self->dev, &self->compute));
	for (i = 0; i < LANES; i++)
		if (i != 7)
			EXPECT_GE(1, *(uint32_t *)(self->mem + i * KFD_PAGE + 4));
	ASSERT_EQ(self->mem, memory(self->mem, LANES * KFD_PAGE));
	ASSERT_EQ(0, kfd_compute_create(&self->dev, &self->compute, &self->save, false, RING));
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, self->mem, LANES));
	EXPECT_TRUE(touched(self->mem, LANES, 1));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

TEST_F(svm_faults, writes_to_what_is_for_reading)
{
	uint8_t *mem = memory(self->mem, SIZE);

	memset(mem, 0x41, SIZE);
	ASSERT_EQ(0, mprotect(mem, SIZE, PROT_READ));
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem, SIZE));
	EXPECT_TRUE(all(self->vram.cpu, 0x41, SIZE));
	start_copy(&self->queue, mem + KFD_PAGE, self->vram.cpu, KFD_PAGE);
	EXPECT_FAULT(mem + KFD_PAGE, 1);
	EXPECT_TRUE(all(mem, 0x41, SIZE));
}

TEST_F(svm_faults, waves_write_to_what_is_for_reading)
{
	uint8_t *mem = memory(self->mem, LANES * KFD_PAGE);

	ASSERT_EQ(0, mprotect(mem + 5 * KFD_PAGE, KFD_PAGE, PROT_READ));
	ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, LANES));
	EXPECT_FAULT(mem + 5 * KFD_PAGE, 1);
	EXPECT_EQ(0, mem[5 * KFD_PAGE]);
}

TEST_F(svm_faults, what_was_taken_from_the_gpu)
{
	uint8_t *mem = memory(self->mem, SIZE);

	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem, SIZE));
	ASSERT_EQ(0, svm_set(FD, mem + 8 * KFD_PAGE, KFD_PAGE, SVM_NO_ACCESS, GPU));
	ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem, 8 * KFD_PAGE));
	start_copy(&self->queue, self->vram.cpu, mem + 8 * KFD_PAGE, KFD_PAGE);
	EXPECT_FAULT(mem + 8 * KFD_PAGE, 0);
}

TEST_F(svm_faults, nothing_of_what_was_before)
{
	uint8_t *mem;
	unsigned int i;

	for (i = 1; i < work(30, 10); i++) {
		mem = memory(self->mem, SIZE);
		memset(mem, (int)i, SIZE);
		ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, mem, SIZE));
		ASSERT_TRUE(all(self->vram.cpu, (uint8_t)i, SIZE));
		/* In parts, too. */
		ASSERT_EQ(0, munmap(mem + (i % 2) * KFD_PAGE, SIZE - (i % 2) * KFD_PAGE));
	}
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

/*
 * A process may unmap memory when the GPU is done with it, however many of its faults are still
 * pending.
 */
TEST_F(svm_faults, unmapped_when_done)
{
	unsigned int i;

	for (i = 0; i < work(20, 5); i++) {
		uint8_t *mem = memory(self->mem, STORM / 4 * KFD_PAGE);

		ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, STORM / 4));
		ASSERT_TRUE(touched(mem, STORM / 4, 1));
		ASSERT_EQ(0, munmap(mem, STORM / 4 * KFD_PAGE));
	}
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 200));
	EXPECT_TRUE(kfd_compute_works(&self->compute, WAIT_MS));
}

/*
 * The same if the unmapping thread is preempted after the unmap, before the notifiers have run:
 * others then hold the mmap lock for reading. The unmap takes long to get there, with many
 * pieces, so that others wait for the lock.
 */
TEST_F(svm_faults, unmapped_by_who_is_cut_in_on)
{
	const size_t pieces = 1024 * KFD_PAGE, size = STORM * KFD_PAGE;
	unsigned int i, page;

	ASSERT_TRUE(be_cut_in(memory(NULL, KFD_PAGE)));
	for (i = 0; i < work(10, 3); i++) {
		uint8_t *mem = memory(NULL, size + pieces);

		ASSERT_NE(MAP_FAILED, mem);
		for (page = 0; page < pieces / KFD_PAGE; page += 2)
			ASSERT_EQ(0, mprotect(mem + size + page * KFD_PAGE, KFD_PAGE, PROT_READ));
		ASSERT_TRUE(start_touch(&self->compute, &self->waves, mem, STORM));
		ASSERT_TRUE(touched(mem, STORM, 1));
		ASSERT_EQ(0, munmap(mem, size + pieces));
		ASSERT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 200));
	}
	EXPECT_TRUE(kfd_compute_works(&self->compute, WAIT_MS));
}

/* A process that ends can end, whatever it waits for. *@stands becomes 1 when it waits. */
static int wait_for_page(volatile uint32_t *stands, bool waves)
{
	struct kfd_compute compute;
	struct kfd_queue queue;
	struct kfd_save save;
	struct waves code;
	struct kfd_dev dev;
	uint8_t *mem;
	unsigned int i;

	if (kfd_open(&dev) || xnack_set(dev.fd, 1) || kfd_save_create(&dev, &save) ||
	    waves_create(&dev, &code, 1))
		return 1;
	for (i = 0; i < work(6, 3); i++) {
		if (kfd_queue_create(&dev, &queue, RING) ||
		    kfd_compute_create(&dev, &compute, &save, false, RING))
			return 2;
		mem = memory(NULL, STORM * KFD_PAGE);
		if (one_by_one(dev.fd, mem, STORM * KFD_PAGE))
			return 3;
		if (waves)
			start_touch(&compute, &code, mem, STORM);
		else
			start_copy(&queue, mem, mem + STORM / 2 * KFD_PAGE, STORM / 2 * KFD_PAGE);
		*stands = 1;
		usleep(i * 2000);
		if (kfd_queue_destroy(&dev, &queue) || kfd_compute_destroy(&dev, &compute))
			return 4;
		munmap(mem, STORM * KFD_PAGE);
	}
	return 0;
}

static void let_go(struct __test_metadata *_metadata, FIXTURE_DATA(svm_faults) *self, bool waves)
{
	volatile uint32_t *stands = kfd_share();
	const unsigned int last = work(6, 3);
	unsigned int i;
	int status;

	ASSERT_NE(NULL, stands);
	for (i = 0; i <= last; i++) {
		pid_t pid;

		*stands = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(wait_for_page(stands, waves));
		EXPECT_TRUE(kfd_becomes(stands, 1, WAIT_MS));
		usleep(i * 3000);
		/* One of them may come to its end. */
		if (i < last)
			ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		if (i == last)
			EXPECT_EQ(0, status);
	}
	TH_LOG("the longest retry: %llu us", model_count("retries", "longest_us"));
	/* The other processes have lost nothing. */
	EXPECT_TRUE(kfd_compute_works(&self->compute, WAIT_MS));
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, memory(NULL, SIZE), SIZE));
}

TEST_F(svm_faults, sdma_that_waits_can_go)
{
	let_go(_metadata, self, false);
}

TEST_F(svm_faults, waves_that_wait_can_go)
{
	let_go(_metadata, self, true);
}

struct racer {
	uint8_t *mem;
	volatile int stop;
};

static void *unmap_and_map(void *data)
{
	struct racer *racer = data;

	while (!racer->stop) {
		madvise(racer->mem, SIZE, MADV_DONTNEED);
		mprotect(racer->mem + SIZE / 2, SIZE / 2, PROT_READ);
		mprotect(racer->mem + SIZE / 2, SIZE / 2, PROT_READ | PROT_WRITE);
		usleep(300);
	}
	return NULL;
}

/*
 * The process makes all kinds of changes during the GPU's accesses; these read current or
 * former content.
 */
TEST_F(svm_faults, changes_meanwhile)
{
	struct racer racer = { .mem = memory(self->mem, SIZE) };
	pthread_t thread;
	unsigned int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, unmap_and_map, &racer));
	for (i = 0; i < work(40, 10); i++) {
		ASSERT_EQ(0, copy(&self->queue, self->vram.cpu, racer.mem, SIZE));
		EXPECT_TRUE(all(self->vram.cpu, 0, SIZE));
	}
	racer.stop = 1;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->fault, 0));
}

/* A page that the process gets from a file. */
TEST_F(svm_faults, files)
{
	uint8_t *mem;
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));
	mem = mmap(self->mem, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	ASSERT_EQ(self->mem, mem);
	memset(self->vram.cpu, 0x51, SIZE);
	ASSERT_EQ(0, copy(&self->queue, mem, self->vram.cpu, SIZE));
	ASSERT_EQ(SIZE, pread(fd, self->vram.cpu, SIZE, 0));
	EXPECT_TRUE(all(mem, 0x51, SIZE));
}

/* A watcher gets a line before a page is mapped, and one after it. */
TEST_F(svm_faults, told)
{
	uint8_t *mem = memory(self->mem, SIZE);
	const unsigned long page = (uintptr_t)mem / KFD_PAGE + 1;
	int file = smi_watch(&self->dev, SMI_MASK(PAGE_FAULT_START) | SMI_MASK(PAGE_FAULT_END));
	char text[1024], wanted[128];

	ASSERT_LE(0, file);
	ASSERT_EQ(0, copy(&self->queue, mem + KFD_PAGE, self->vram.cpu, KFD_PAGE));
	/* The page is there before its second line. */
	ASSERT_TRUE(smi_lines(file, 2, text, sizeof(text)));
	snprintf(wanted, sizeof(wanted), "7 -%d @%lx(%x) W\n8 -%d @%lx(%x) M\n", getpid(), page,
		 GPU, getpid(), page, GPU);
	EXPECT_STREQ(wanted, text);
	close(file);
}

KFD_FIXTURE(mode)

TEST_F(mode, changes)
{
	struct kfd_queue queue;

	EXPECT_EQ(0, xnack_get(FD));
	EXPECT_EQ(0, xnack_set(FD, 0));
	EXPECT_EQ(0, xnack_set(FD, 1));
	EXPECT_EQ(1, xnack_get(FD));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	EXPECT_EQ(EBUSY, xnack_set(FD, 0));
	EXPECT_EQ(EBUSY, xnack_set(FD, 1));
	EXPECT_EQ(1, xnack_get(FD));
	ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	EXPECT_EQ(0, xnack_set(FD, 0));
	EXPECT_EQ(0, xnack_get(FD));
}

/* Access to memory without attributes. */
TEST_F(mode, access)
{
	uint8_t *mem = memory(NULL, SIZE);

	EXPECT_EQ(SVM_NO_ACCESS, svm_access(FD, mem, SIZE, GPU));
	ASSERT_EQ(0, xnack_set(FD, 1));
	EXPECT_EQ(SVM_ACCESS, svm_access(FD, mem, SIZE, GPU));
	ASSERT_EQ(0, svm_set(FD, mem, SIZE, SVM_GRANULARITY, 3));
	EXPECT_EQ(SVM_ACCESS, svm_access(FD, mem, SIZE, GPU));
	ASSERT_EQ(0, svm_set(FD, mem, KFD_PAGE, SVM_NO_ACCESS, GPU));
	EXPECT_EQ(SVM_NO_ACCESS, svm_access(FD, mem, SIZE, GPU));
}

/* Attributes that were set apply in either mode. */
TEST_F(mode, with_memory)
{
	struct kfd_queue queue;
	struct kfd_bo vram;
	uint8_t *mem = memory(NULL, SIZE);
	int mode;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &vram, SIZE, KFD_ALLOC_VRAM));
	memset(mem, 0x61, SIZE);
	ASSERT_EQ(0, svm_set(FD, mem, SIZE, SVM_IN_PLACE, GPU));
	for (mode = 1; mode >= 0; mode--) {
		ASSERT_EQ(0, xnack_set(FD, mode));
		ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
		memset(vram.cpu, 0, SIZE);
		ASSERT_EQ(0, copy(&queue, vram.cpu, mem, SIZE));
		EXPECT_TRUE(all(vram.cpu, 0x61, SIZE));
		ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
	}
}

/*
 * A queue finds memory that a change of the mode took, though no thread but the caller has run
 * since.
 */
TEST_F(mode, with_memory_at_once)
{
	struct kfd_queue queue;
	struct kfd_bo vram;
	uint8_t *mem = memory(NULL, SIZE);

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &vram, SIZE, KFD_ALLOC_VRAM));
	memset(mem, 0x61, SIZE);
	ASSERT_EQ(0, svm_set(FD, mem, SIZE, SVM_IN_PLACE, GPU));
	ASSERT_EQ(0, xnack_set(FD, 1));
	ASSERT_TRUE(take_processors());
	ASSERT_EQ(0, xnack_set(FD, 0));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, RING));
	ASSERT_EQ(0, copy(&queue, vram.cpu, mem, SIZE));
	EXPECT_TRUE(all(vram.cpu, 0x61, SIZE));
}

KFD_HARNESS_MAIN
