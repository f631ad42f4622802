// SPDX-License-Identifier: GPL-2.0
/*
 * Accesses to unmapped addresses, which the hardware retries until the driver answers. The
 * process gets one fault event, its queues end, it can go on with others, and a process beside
 * it copies all the time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_userptr.h"
#include "model.h"
#include "packets.h"
#include "tap.h"

#define RING_SIZE	(16u << 10)
#define BYTES		(64u << 10)
#define SOON_MS		60000u
/* The number of processes and queues in a flood. */
#define FLOODS		4u
#define ENGINES		5u

/* Shared with the process beside. */
struct beside {
	volatile int stop;
	volatile unsigned int copies;
	volatile int failed;
};

FIXTURE(retries) {
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo good;
	struct beside *beside;
	pid_t pid;
	uint32_t event;
};

static int copy_beside(struct beside *beside)
{
	struct kfd_queue queue[ENGINES];
	struct kfd_bo from, to;
	struct kfd_dev dev;
	unsigned int i;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &from, BYTES, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &to, BYTES, KFD_ALLOC_VRAM))
		return 1;
	for (i = 0; i < ENGINES; i++)
		if (kfd_queue_create_on(&dev, &queue[i], RING_SIZE, i))
			return 1;
	while (!beside->stop) {
		struct kfd_queue *one = &queue[beside->copies % ENGINES];

		memset(from.cpu, (int)(beside->copies + 1), BYTES);
		if (kfd_queue_copy(one, (uintptr_t)to.cpu, (uintptr_t)from.cpu, BYTES, SOON_MS) ||
		    memcmp(from.cpu, to.cpu, BYTES))
			return 1;
		beside->copies++;
	}
	return 0;
}

static bool goes_on_beside(struct beside *beside, unsigned int more)
{
	const unsigned int wanted = beside->copies + more;
	const uint64_t end = kfd_now_ms() + KFD_HANG_MS;

	while (beside->copies < wanted && !beside->failed && kfd_now_ms() < end)
		usleep(1000);
	return beside->copies >= wanted;
}

FIXTURE_SETUP(retries)
{
	self->beside = mmap(NULL, sizeof(*self->beside), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->beside);
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (self->pid == 0) {
		self->beside->failed = copy_beside(self->beside);
		_exit(self->beside->failed);
	}
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, true, &self->event));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->good, BYTES, KFD_ALLOC_VRAM));
	memset(self->good.cpu, 0x11, BYTES);
	ASSERT_TRUE(goes_on_beside(self->beside, ENGINES));
}

FIXTURE_TEARDOWN(retries)
{
	int status;

	EXPECT_TRUE(goes_on_beside(self->beside, ENGINES));
	self->beside->stop = 1;
	EXPECT_EQ(self->pid, waitpid(self->pid, &status, 0));
	EXPECT_EQ(0, status);
	kfd_close(&self->dev);
}

static void submit_copy(struct kfd_queue *queue, uint64_t dst, uint64_t src, size_t bytes)
{
	struct packets p = { 0 };

	sdma_copy(&p, dst, src, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* Waits for the fault at @address, expects no second report of it, and expects the queue to end. */
static void ends(struct __test_metadata *_metadata, FIXTURE_DATA(retries) *self,
		 uint64_t address, bool read_only)
{
	struct kfd_event_data data = { .event_id = self->event };
	unsigned long long before;

	ASSERT_EQ(0, event_wait_many(&self->dev, &data, 1, false, SOON_MS));
	before = model_count("retries", "accesses");
	EXPECT_EQ(self->dev.gpu_id, data.memory_exception_data.gpu_id);
	EXPECT_EQ(address, data.memory_exception_data.va);
	EXPECT_EQ(!read_only, data.memory_exception_data.failure.NotPresent);
	EXPECT_EQ(read_only, data.memory_exception_data.failure.ReadOnly);
	ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	/* All later faults were caused by the first one. */
	EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->event, 200));
	EXPECT_EQ(before, model_count("retries", "accesses"));
	TH_LOG("the longest retry: %llu us", model_count("retries", "longest_us"));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
}

/* After mapping memory at the address, the next queue can use it there. */
static void is_usable(struct __test_metadata *_metadata, FIXTURE_DATA(retries) *self,
		      void *address)
{
	uint64_t handle;

	ASSERT_EQ(address, anonymous(address, BYTES, PROT_READ | PROT_WRITE));
	memset(address, 0x55, BYTES);
	ASSERT_EQ(0, kfd_userptr_create(&self->dev, address, BYTES, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->good.cpu,
				    (uintptr_t)address, BYTES, SOON_MS));
	EXPECT_TRUE(all(self->good.cpu, 0x55, BYTES));
}

/* Far more pages than can be answered one by one. */
#define MANY_BYTES	(512u << 20)

TEST_F(retries, reads_end)
{
	void *bad = kfd_reserve(MANY_BYTES, KFD_PAGE);

	submit_copy(&self->queue, (uintptr_t)self->good.cpu, (uintptr_t)bad, KFD_PAGE);
	ends(_metadata, self, (uintptr_t)bad, false);
	is_usable(_metadata, self, bad);
}

TEST_F(retries, writes_end)
{
	void *bad = kfd_reserve(MANY_BYTES, KFD_PAGE);

	submit_copy(&self->queue, (uintptr_t)bad, (uintptr_t)self->good.cpu, KFD_PAGE);
	ends(_metadata, self, (uintptr_t)bad, false);
	is_usable(_metadata, self, bad);
}

TEST_F(retries, long_copies_end)
{
	void *bad = kfd_reserve(MANY_BYTES, KFD_PAGE);

	submit_copy(&self->queue, (uintptr_t)bad, (uintptr_t)bad, MANY_BYTES);
	ends(_metadata, self, (uintptr_t)bad, false);
	is_usable(_metadata, self, bad);
}

/* A read-only mapping is unchanged after the fault. */
TEST_F(retries, writes_to_what_is_for_reading_end)
{
	struct kfd_bo bo;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, BYTES,
				   KFD_ALLOC_GTT & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE));
	memset(bo.cpu, 0x33, BYTES);
	submit_copy(&self->queue, (uintptr_t)bo.cpu + KFD_PAGE, (uintptr_t)self->good.cpu,
		    KFD_PAGE);
	ends(_metadata, self, (uintptr_t)bo.cpu + KFD_PAGE, true);
	EXPECT_TRUE(all(bo.cpu, 0x33, BYTES));
	ASSERT_EQ(0, kfd_queue_copy(&self->queue, (uintptr_t)self->good.cpu, (uintptr_t)bo.cpu,
				    BYTES, SOON_MS));
	EXPECT_TRUE(all(self->good.cpu, 0x33, BYTES));
}

/*
 * On a busy host nothing carries over from one life to the next: neither a second fault, nor a
 * new one that is taken for the first.
 */
#define ROUNDS	work(100, 10)
#define SPINNERS	4u

TEST_F(retries, each_is_told_once)
{
	pid_t pid[SPINNERS];
	struct kfd_bo bo;
	unsigned int i;
	int status;

	ASSERT_EQ(0, kfd_bo_create(&self->dev, &bo, BYTES,
				   KFD_ALLOC_GTT & ~(uint32_t)KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE));
	for (i = 0; i < SPINNERS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		while (pid[i] == 0)
			;
	}
	for (i = 0; i < ROUNDS; i++) {
		struct kfd_event_data data = { .event_id = self->event };
		const struct kfd_memory_exception_failure *why =
			&data.memory_exception_data.failure;

		submit_copy(&self->queue, (uintptr_t)bo.cpu, (uintptr_t)self->good.cpu, KFD_PAGE);
		EXPECT_EQ(0, event_wait_many(&self->dev, &data, 1, false, SOON_MS));
		EXPECT_EQ((uintptr_t)bo.cpu, data.memory_exception_data.va);
		EXPECT_EQ(0, why->NotPresent);
		EXPECT_EQ(1, why->ReadOnly);
		ASSERT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
		ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
		EXPECT_EQ(ETIMEDOUT, event_wait(&self->dev, self->event, 0))
			TH_LOG("of round %u", i);
	}
	for (i = 0; i < SPINNERS; i++) {
		EXPECT_EQ(0, kill(pid[i], SIGKILL));
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
	}
}

/*
 * Every engine of the process stalls; ending one queue ends all of it. *@stands becomes 1 when
 * that has been requested.
 */
static int flood(volatile uint32_t *stands)
{
	struct kfd_queue queue[ENGINES];
	struct kfd_dev dev;
	unsigned int round, i;

	if (kfd_open(&dev))
		return 1;
	for (round = 0; round < 4; round++) {
		void *bad = kfd_reserve(MANY_BYTES, KFD_PAGE);

		for (i = 0; i < ENGINES; i++)
			if (kfd_queue_create_on(&dev, &queue[i], RING_SIZE, i))
				return 2;
		for (i = 0; i < ENGINES; i++)
			submit_copy(&queue[i], (uintptr_t)bad, (uintptr_t)bad + MANY_BYTES / 2,
				    MANY_BYTES / 2);
		*stands = 1;
		/* Also while it is under way. */
		usleep(round * 2000);
		for (i = 0; i < ENGINES; i++)
			if (kfd_queue_destroy(&dev, &queue[i]))
				return 3;
		munmap(bad, MANY_BYTES);
	}
	return 0;
}

static void flood_all(struct __test_metadata *_metadata, FIXTURE_DATA(retries) *self)
{
	uint32_t stands = 0;
	pid_t pid[FLOODS];
	unsigned int i;
	int status;

	for (i = 0; i < FLOODS; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i] == 0)
			_exit(flood(&stands));
	}
	EXPECT_TRUE(goes_on_beside(self->beside, ENGINES));
	for (i = 0; i < FLOODS; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	TH_LOG("the longest retry: %llu us", model_count("retries", "longest_us"));
}

TEST_F(retries, floods_end)
{
	flood_all(_metadata, self);
}

/* Each retry raises an entry. */
TEST_F(retries, floods_that_nothing_filters_end)
{
	if (!model_present())
		SKIP(return, "no model");
	ASSERT_TRUE(model_command("retry-cam off"));
	flood_all(_metadata, self);
	ASSERT_TRUE(model_command("retry-cam on"));
}

/* Killed in the middle. */
TEST_F(retries, who_stands_can_be_killed)
{
	volatile uint32_t *stands = kfd_share();
	unsigned int i;
	int status;

	ASSERT_NE(NULL, stands);
	for (i = 0; i < 8; i++) {
		pid_t pid;

		*stands = 0;
		pid = fork();
		ASSERT_LE(0, pid);
		if (pid == 0)
			_exit(flood(stands));
		EXPECT_TRUE(kfd_becomes(stands, 1, KFD_HANG_MS));
		usleep(i * 3000);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	TH_LOG("the longest retry: %llu us", model_count("retries", "longest_us"));
}

KFD_HARNESS_MAIN
