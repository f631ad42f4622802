// SPDX-License-Identifier: GPL-2.0
/*
 * A process with very many small buffers makes room for another one, and a process that is
 * killed meanwhile ends. Wants a device with little VRAM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "kfd_userptr.h"
#include "objects.h"
#include "packets.h"
#include "tap.h"
#include "trace.h"

#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)
#define OTHER_VA	(2ull << 40)
/* Packets of one submission. */
#define TOGETHER	32u

FIXTURE(yield)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo host;
	uint64_t *handles;
	unsigned int count;
};

static int alloc(const struct kfd_dev *dev, uint64_t va, uint64_t size, uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = va,
		.size = size,
		.gpu_id = dev->gpu_id,
		.flags = KFD_ALLOC_VRAM,
	};
	int err = kfd_alloc(dev->fd, &args);

	*handle = args.handle;
	return err;
}

static uint64_t small(unsigned int i)
{
	return GPU_VA + (uint64_t)i * KFD_PAGE;
}

FIXTURE_SETUP(yield)
{
	unsigned int i, j;

	self->count = work(8000, 2000);
	self->handles = calloc(self->count, sizeof(*self->handles));
	ASSERT_NE(NULL, self->handles);
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->host, TOGETHER * KFD_PAGE, KFD_ALLOC_GTT));
	for (i = 0; i < self->count; i++) {
		ASSERT_EQ(0, alloc(&self->dev, small(i), KFD_PAGE, &self->handles[i]));
		ASSERT_EQ(0, kfd_map(self->dev.fd, self->handles[i], self->dev.gpu_id));
	}
	for (i = 0; i < self->count; i += j) {
		struct packets p = { 0 };

		for (j = 0; j < TOGETHER && i + j < self->count; j++)
			sdma_fill(&p, small(i + j), ~(i + j), KFD_PAGE / 4);
		kfd_queue_submit(&self->queue, p.dwords, p.count);
		ASSERT_EQ(0, kfd_queue_finish(&self->queue, TIMEOUT_MS));
	}
}

FIXTURE_TEARDOWN(yield)
{
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	kfd_close(&self->dev);
	free(self->handles);
}

/* The number of dwords of the small buffers that differ from the engine's values. */
static long wrong(FIXTURE_DATA(yield) *self)
{
	const uint32_t *host = self->host.cpu;
	unsigned int i, j, k;
	long bad = 0;

	for (i = 0; i < self->count; i += j) {
		struct packets p = { 0 };

		for (j = 0; j < TOGETHER && i + j < self->count; j++)
			sdma_copy(&p, (uintptr_t)host + j * KFD_PAGE, small(i + j), KFD_PAGE);
		kfd_queue_submit(&self->queue, p.dwords, p.count);
		if (kfd_queue_finish(&self->queue, TIMEOUT_MS))
			return -1;
		for (j = 0; j < TOGETHER && i + j < self->count; j++)
			for (k = 0; k < KFD_PAGE / 4; k++)
				bad += host[j * KFD_PAGE / 4 + k] != ~(i + j);
	}
	return bad;
}

static pid_t taker(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(kfd_take_vram(OTHER_VA, 0));
	return pid;
}

TEST_F(yield, makes_room)
{
	uint64_t start = kfd_now_ms(), taken, back;
	pid_t pid = taker();
	int status;

	ASSERT_LT(0, pid);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	taken = kfd_now_ms() - start;
	EXPECT_EQ(0, wrong(self));
	back = kfd_now_ms() - start - taken;
	TH_LOG("%u buffers: out within %llu ms, home and read within %llu ms", self->count,
	       (unsigned long long)taken, (unsigned long long)back);
	EXPECT_GT(TIMEOUT_MS, taken);
}

/* Killed at any moment of that, it ends, and nothing is lost. */
TEST_F(yield, killed)
{
	unsigned int i;
	uint64_t end;

	for (i = 0; i < 6; i++) {
		pid_t pid = taker();
		int status;

		ASSERT_LT(0, pid);
		end = kfd_now_ms() + TIMEOUT_MS;
		while (objects_count("evicted_bytes") <= 0 && kfd_now_ms() < end)
			usleep(1000);
		EXPECT_LT(0, objects_count("evicted_bytes"));
		usleep(i * 50000);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(objects_become("evicted_bytes", 0, TIMEOUT_MS));
	}
	EXPECT_EQ(0, wrong(self));
}

/*
 * Two processes that want room at the same time both get it: one after the other, all that
 * there is.
 */
TEST_F(yield, two_at_once)
{
	int status, i;

	for (i = 0; i < 2; i++)
		ASSERT_LT(0, taker());
	for (i = 0; i < 2; i++) {
		ASSERT_LT(0, wait(&status));
		EXPECT_TRUE(WIFEXITED(status));
		EXPECT_EQ(0, WEXITSTATUS(status));
	}
	EXPECT_EQ(0, wrong(self));
}

/* In a child: allocates and frees @size bytes, again and again. */
static int allocate_and_free(uint64_t size, volatile unsigned int *times)
{
	struct kfd_dev dev;
	uint64_t handle;
	int err = kfd_open(&dev);

	while (!err) {
		err = alloc(&dev, OTHER_VA, size, &handle);
		if (!err)
			err = kfd_free(dev.fd, handle);
		++*times;
	}
	return err;
}

/* Gives the queue some milliseconds of work on the memory at OTHER_VA, with a fence at its end. */
static void fill_much(struct kfd_queue *queue)
{
	const uint32_t size = 2u << 20;
	struct packets p = { 0 };
	unsigned int i;

	for (i = 0; i < 16; i++)
		sdma_fill(&p, OTHER_VA + i * size, i, size / 4);
	sdma_fence(&p, (uintptr_t)queue->pointers.cpu + KFD_QUEUE_FENCE, ++queue->fence);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/*
 * A process allocates VRAM that is not free, and frees it, without end. The process that makes
 * room for that gets its time slices: it is not evicted for ever, and not evicted again before
 * its time slice is over.
 */
TEST_F(yield, allocates_and_frees)
{
	const uint64_t room = 16u << 20, piece = 4u << 20, length = 4000;
	volatile unsigned int *times = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const volatile uint32_t *fence =
		(void *)((char *)self->queue.pointers.cpu + KFD_QUEUE_FENCE);
	const unsigned int pieces = (kfd_available(&self->dev) - room) / piece;
	uint64_t *handles = calloc(pieces, sizeof(*handles));
	uint64_t start, since, longest = 0;
	unsigned int before, evicted, i;
	char text[64];
	pid_t pid;
	int status;

	ASSERT_NE(MAP_FAILED, (void *)times);
	ASSERT_TRUE(trace_open("yield"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_queue_evict"));
	ASSERT_NE(NULL, handles);
	for (i = 0; i < pieces; i++) {
		ASSERT_EQ(0, alloc(&self->dev, OTHER_VA + i * piece, piece, &handles[i]));
		ASSERT_EQ(0, kfd_map(self->dev.fd, handles[i], self->dev.gpu_id));
	}
	snprintf(text, sizeof(text), "pid=%d ", getpid());
	before = trace_count("rkfd_queue_evict", text);
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0)
		_exit(allocate_and_free(room + (8u << 20), times));
	start = since = kfd_now_ms();
	/* On the debug kernel both may have had no more than one time slice by then. */
	while (since - start < length || *times < 2) {
		uint64_t now;

		ASSERT_GT(KFD_HANG_MS, since - start);
		/* It always has work. */
		fill_much(&self->queue);
		while ((int32_t)(*fence - (self->queue.fence - 3)) < 0) {
			ASSERT_GT(TIMEOUT_MS, kfd_now_ms() - since);
			usleep(50);
		}
		now = kfd_now_ms();
		if (now - since > longest)
			longest = now - since;
		since = now;
	}
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	evicted = trace_count("rkfd_queue_evict", text) - before;
	TH_LOG("%u times out in %llu ms, for %llu ms at most, while the other allocated %u times",
	       evicted, (unsigned long long)(since - start), (unsigned long long)longest, *times);
	EXPECT_LT(0, evicted);
	EXPECT_LT(1, *times);
	/* Each time slice is of a quarter of a second at least. */
	EXPECT_GE((since - start) / 250 + 2, evicted);
	trace_close();
	EXPECT_EQ(0, wrong(self));
	for (i = 0; i < pieces; i++) {
		EXPECT_EQ(0, kfd_unmap(self->dev.fd, handles[i], self->dev.gpu_id));
		EXPECT_EQ(0, kfd_free(self->dev.fd, handles[i]));
	}
	free(handles);
}

static void tick(int signal)
{
	(void)signal;
}

/*
 * Microseconds between signals in which a call that does not wait gets done, twice over. A
 * kernel with all checks takes more than a millisecond for one, and with faster signals no call
 * makes progress.
 */
static long signal_us(const struct kfd_dev *dev)
{
	const unsigned int times = 32;
	uint64_t begun = kfd_now_ms(), handle;
	unsigned int i;
	long us;

	for (i = 0; i < times; i++)
		if (alloc(dev, OTHER_VA, KFD_PAGE, &handle) || kfd_free(dev->fd, handle))
			return 0;
	us = (kfd_now_ms() - begun) * 1000 / times * 2;
	return us > 1000 ? us : 1000;
}

/*
 * An allocation that waits for the clearing of memory completes, though signals come faster
 * than that.
 */
TEST_F(yield, signals)
{
	struct itimerval often = { 0 };
	const struct itimerval never = { 0 };
	const struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	const uint64_t size = kfd_available(&self->dev);
	unsigned int i;
	uint64_t handle;

	often.it_interval.tv_usec = signal_us(&self->dev);
	often.it_value = often.it_interval;
	ASSERT_LT(0, often.it_interval.tv_usec);
	TH_LOG("a signal each %ld us", (long)often.it_interval.tv_usec);
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
		ASSERT_EQ(0, alloc(&self->dev, OTHER_VA, size, &handle));
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
		/* And is not clear when it is free. */
		ASSERT_EQ(0, kfd_free(self->dev.fd, handle));
	}
}

/*
 * A queue that does not leave the hardware is waited for a second, no longer, by a call that
 * takes pages of its process that the GPU does not use then. A move of the process's other
 * memory a moment later waits until it has left.
 */
TEST(after_a_hang)
{
	const struct sdma_rect rect = { .x = 1 << 14, .y = 1 << 14, .z = 1 << 11 };
	struct sdma_window window = { .pitch = 1, .slice = 1 };
	int file = memfd_create("yield", MFD_CLOEXEC), status;
	char ring[64], line[256], done[96], moved[64];
	unsigned long long context, number;
	volatile uint32_t *begun;
	struct packets p = { 0 };
	struct kfd_queue queue;
	struct kfd_bo window_bo;
	struct kfd_dev dev;
	uint64_t handle;
	uint8_t *mem;
	pid_t pid;

	ASSERT_LE(0, file);
	ASSERT_EQ(0, ftruncate(file, KFD_PAGE));
	mem = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ASSERT_NE(MAP_FAILED, (void *)mem);
	ASSERT_EQ(0, kfd_open(&dev));
	ASSERT_EQ(0, kfd_queue_create_on(&dev, &queue, RING, 0));
	ASSERT_EQ(0, kfd_bo_create(&dev, &window_bo, 1u << 20, KFD_ALLOC_GTT));
	ASSERT_EQ(0, kfd_userptr_create(&dev, mem, KFD_PAGE, KFD_ALLOC_USERPTR, &handle));
	ASSERT_EQ(0, alloc(&dev, GPU_VA, 1u << 20, &handle));
	ASSERT_EQ(0, kfd_map(dev.fd, handle, dev.gpu_id));
	ASSERT_TRUE(trace_open("yield"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_unmap"));
	ASSERT_TRUE(trace_enable("gpu_scheduler/drm_sched_job_run"));
	ASSERT_TRUE(trace_enable("gpu_scheduler/drm_sched_job_done"));
	snprintf(ring, sizeof(ring), "ring=sdma0.%d.%u,", getpid(), queue.id);
	snprintf(moved, sizeof(moved), "rkfd_unmap: pid=%d va=0x%llx ", getpid(), GPU_VA);
	/* A packet that takes hours. */
	begun = (volatile uint32_t *)((char *)queue.pointers.cpu + KFD_QUEUE_FENCE);
	window.base = (uintptr_t)window_bo.cpu;
	sdma_fence(&p, (uintptr_t)begun, 1);
	sdma_copy_rect(&p, 4, &window, &window, &rect);
	kfd_queue_submit(&queue, p.dwords, p.count);
	ASSERT_TRUE(kfd_becomes(begun, 1, TIMEOUT_MS));
	pid = fork();
	ASSERT_LE(0, pid);
	if (pid == 0) {
		if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, KFD_PAGE))
			_exit(1);
		_exit(kfd_take_vram(OTHER_VA, 0));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	/* The measures that make it leave end its job. */
	ASSERT_TRUE(trace_find("drm_sched_job_run", ring, line, sizeof(line)));
	ASSERT_EQ(2, sscanf(strstr(line, "fence="), "fence=%llu:%llu", &context, &number));
	snprintf(done, sizeof(done), "drm_sched_job_done: fence=%llu:%llu ", context, number);
	EXPECT_TRUE(trace_before(done, moved));
	trace_print("# ", done, 1);
	trace_print("# ", "rkfd_unmap", 4);
	trace_close();
	kfd_close(&dev);
}

KFD_HARNESS_MAIN
