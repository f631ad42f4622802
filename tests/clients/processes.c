// SPDX-License-Identifier: GPL-2.0
/*
 * Processes at once, each with a VM, memory and queues of its own, and more of them than the
 * hardware has VMIDs: those with work take turns, and none is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/child.h"
#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"
#include "kfd_compute.h"

#define RING_SIZE	(16u << 10)
#define QUEUES		2u
#define BYTES		(256u << 10)
/* More than there are VMIDs, and slots of the engines for copies with the host. */
#define PROCESSES	20u
#define FAIR_MS		2000u
#define FAIR_MOST_MS	120000u
#define FAIR_BYTES	(1u << 20)

/* Shared by all processes. */
static volatile struct {
	unsigned int ready, stop;
	uint64_t done[PROCESSES];
} *shared;

/* The work of one process; the exit status is 0 if all was right. */
static int copies(unsigned int who)
{
	const unsigned int turns = work(100, 5);
	struct buffer src, dst[QUEUES];
	struct queue queue[QUEUES];
	struct gpu gpu;
	unsigned int t, q;

	gpu_open(&gpu);
	buffer_create(&gpu, &src, who & 1 ? BUFFER_USERPTR : BUFFER_GTT, BYTES);
	for (q = 0; q < QUEUES; q++) {
		queue_create(&gpu, &queue[q], RING_SIZE, BUFFER_GTT);
		buffer_create(&gpu, &dst[q], BUFFER_VRAM, BYTES);
	}
	for (t = 0; t < turns; t++) {
		const uint64_t seed = who * 100000 + t;
		uint32_t last[QUEUES];

		pattern_fill(src.cpu, BYTES, seed, 0);
		for (q = 0; q < QUEUES; q++) {
			struct packets p = { 0 };

			sdma_copy(&p, dst[q].gpu, src.gpu, BYTES);
			last[q] = queue_submit(&queue[q], &p);
		}
		for (q = 0; q < QUEUES; q++) {
			if (!queue_wait(&queue[q], last[q]))
				return 1;
			if (pattern_check(dst[q].cpu, BYTES, seed, 0) != BYTES) {
				tap_note("process %u, queue %u, round %u: wrong data", who, q, t);
				return 1;
			}
		}
	}
	/* Half of them leave their objects to the kernel. */
	if (who & 1)
		return 0;
	for (q = 0; q < QUEUES; q++) {
		queue_destroy(&queue[q]);
		buffer_destroy(&dst[q]);
	}
	buffer_destroy(&src);
	gpu_close();
	return 0;
}

/* True if the other processes get as far as this one. */
static bool meet(unsigned int count)
{
	const unsigned long long end = now_ns() + 3 * timeout_ms() * 1000000ull;

	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (shared->ready < count) {
		if (now_ns() > end)
			return false;
		usleep(1000);
	}
	return true;
}

static uint64_t fence_of(const struct kfd_queue *queue)
{
	return (uintptr_t)queue->pointers.cpu + KFD_QUEUE_FENCE;
}

/* Submits a copy and a fence. */
static void copy(struct kfd_queue *queue, struct packets *p, uint64_t dst, uint64_t src,
		 uint64_t bytes)
{
	sdma_copy(p, dst, src, bytes);
	sdma_fence(p, fence_of(queue), ++queue->fence);
	kfd_queue_submit(queue, p->dwords, p->count);
}

static bool finished(const struct kfd_queue *queue)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

	while (*(volatile uint32_t *)(uintptr_t)fence_of(queue) != queue->fence) {
		if (now_ns() > end)
			return false;
		usleep(100);
	}
	return true;
}

/*
 * Copies wait for a compute queue, which waits for copies: all three queues get on, whatever
 * other queues want to. No queue exists before all processes have theirs, nor goes before all
 * are done.
 */
static int waits(unsigned int who, unsigned int count)
{
	const unsigned int turns = work(30, 3);
	struct kfd_queue there, back;
	struct kfd_compute compute;
	struct kfd_bo src, dst;
	struct kfd_save save;
	struct kfd_dev dev;
	unsigned int t;

	if (kfd_open(&dev) || kfd_save_create(&dev, &save) ||
	    kfd_bo_create(&dev, &src, BYTES, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &dst, BYTES, KFD_ALLOC_VRAM))
		return 1;
	if (kfd_queue_create(&dev, &there, RING_SIZE) ||
	    kfd_queue_create(&dev, &back, RING_SIZE) ||
	    kfd_compute_create(&dev, &compute, &save, false, RING_SIZE))
		return 2;
	if (!meet(count))
		return 3;
	for (t = 1; t <= turns; t++) {
		const uint64_t seed = who * 100000 + t;
		struct packets p = { 0 };

		pattern_fill(src.cpu, BYTES, seed, 0);
		/* The queue that waits for the others comes first. */
		sdma_wait_memory(&p, kfd_compute_address(&compute, KFD_COMPUTE_FENCE), t);
		copy(&back, &p, (uintptr_t)src.cpu + BYTES / 2, (uintptr_t)dst.cpu, BYTES / 2);
		p.count = 0;
		pm4_wait_memory(&p, fence_of(&there), t);
		pm4_release(&p, kfd_compute_address(&compute, KFD_COMPUTE_FENCE), t, 0);
		if (!kfd_compute_pm4(&compute, &p))
			return 4;
		p.count = 0;
		copy(&there, &p, (uintptr_t)dst.cpu, (uintptr_t)src.cpu, BYTES);
		if (!finished(&back))
			return 5;
		if (pattern_check(dst.cpu, BYTES, seed, 0) != BYTES ||
		    pattern_check((uint8_t *)src.cpu + BYTES / 2, BYTES / 2, seed, 0) != BYTES / 2)
			return 6;
	}
	if (!meet(2 * count))
		return 7;
	if (kfd_queue_destroy(&dev, &there) || kfd_queue_destroy(&dev, &back) ||
	    kfd_compute_destroy(&dev, &compute))
		return 8;
	return 0;
}

/* Copies without a pause, a few at a time in progress. */
static int streams(unsigned int who, unsigned int count)
{
	struct kfd_queue queue;
	struct kfd_bo src, dst;
	struct kfd_dev dev;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &src, FAIR_BYTES, KFD_ALLOC_GTT) ||
	    kfd_bo_create(&dev, &dst, FAIR_BYTES, KFD_ALLOC_VRAM) ||
	    kfd_queue_create(&dev, &queue, RING_SIZE))
		return 1;
	if (!meet(count))
		return 2;
	while (!shared->stop) {
		volatile uint32_t *fence = (volatile uint32_t *)(uintptr_t)fence_of(&queue);
		struct packets p = { 0 };

		/* The engine may be faster than this: it counts and looks after each copy. */
		shared->done[who] = *fence;
		if (queue.fence - *fence < 64)
			copy(&queue, &p, (uintptr_t)dst.cpu, (uintptr_t)src.cpu, FAIR_BYTES);
		else
			usleep(1000);
	}
	return finished(&queue) ? 0 : 3;
}

/* Stops the others after two seconds, or later, when each has done something. */
static void tick(unsigned int count)
{
	const unsigned long long end = now_ns() + FAIR_MOST_MS * 1000000ull;
	unsigned int i;

	usleep(FAIR_MS * 1000);
	for (i = 0; i < count && now_ns() < end; )
		if (shared->done[i])
			i++;
		else
			usleep(10000);
	shared->stop = 1;
}

/* Runs @what in @count processes; true if all return 0. */
static bool together(unsigned int count, int (*what)(unsigned int who, unsigned int count))
{
	pid_t pid[PROCESSES + 1];
	unsigned int i;
	bool good;

	memset((void *)shared, 0, sizeof(*shared));
	for (i = 0; i <= count; i++) {
		pid[i] = child_fork();
		if (pid[i])
			continue;
		if (i < count)
			exit(what(i, count));
		/* The last is the clock. */
		while (shared->ready < count)
			usleep(1000);
		tick(count);
		exit(0);
	}
	good = children_succeed(pid, count);
	child_kill(pid[count]);
	return good;
}

static void fairness(unsigned int count)
{
	const bool good = together(count, streams);
	uint64_t least = UINT64_MAX, most = 1, all = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		const uint64_t done = shared->done[i];

		least = done < least ? done : least;
		most = done > most ? done : most;
		all += done;
	}
	/* A starving process does nothing; beyond that, the evenness depends on the machine. */
	tap_ok(good && least > 0,
	       "none of %u processes that copy all the time starves", count);
	tap_note("the least does %.2f of the most, all together %llu", (double)least / (double)most,
		 (unsigned long long)all);
}

static void at_once(unsigned int count)
{
	pid_t pid[PROCESSES];
	unsigned int i;

	for (i = 0; i < count; i++) {
		pid[i] = child_fork();
		if (pid[i] == 0)
			exit(copies(i));
	}
	tap_ok(children_succeed(pid, count), "%u processes at once", count);
}

int main(void)
{
	const unsigned int most = work(PROCESSES, 14);

	tap_start();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("no shared memory");
	at_once(2);
	at_once(work(PROCESSES, 9));
	tap_ok(together(most, waits),
	       "%u processes whose copies wait for compute queues and the other way round", most);
	fairness(4);
	fairness(most);
	return tap_end();
}
