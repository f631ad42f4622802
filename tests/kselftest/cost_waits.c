// SPDX-License-Identifier: GPL-2.0
/*
 * Objects of one process do not delay other processes that hardly use them.
 * Documentation/limits.md has the table.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "debugfs.h"
#include "kfd_event.h"
#include "kfd_harness.h"
#include "kworkers.h"
#include "packets.h"
#include "many_queues.h"
#include "trace.h"

KFD_FIXTURE(waits)

/* Queues with rings full of packets of one dword each. */
#define FULL_QUEUES	16u
#define FULL_RING	(1ull << 18)
#define FULL_BYTES	(FULL_RING - KFD_PAGE)

/*
 * Limits, in bytes, on the packets taken at a time: by a job, by the store that rings the
 * doorbell (the page may be taken away from it a few times before it completes), and by a pass
 * (which may look twice).
 */
#define JOB_BYTES	(1024u * 4)
#define STORE_BYTES	(4 * JOB_BYTES)
#define PASS_BYTES	(2 * 4 * JOB_BYTES)

/* The maxima of each, from the trace. */
struct taken {
	uint64_t upto[1024];	/* of a queue */
	struct {
		int thread;
		uint64_t bytes;
	} passes[64];
	unsigned int threads;
	uint64_t all, job, store, pass;
};

static void see_taken(const char *line, int thread, void *arg)
{
	const char *event = strstr(line, ": rkfd_doorbell: ");
	struct taken *taken = arg;
	unsigned long long wptr;
	unsigned int i, queue;
	uint64_t bytes;
	int pid;

	for (i = 0; i < taken->threads && taken->passes[i].thread != thread; i++)
		;
	if (!event && i < taken->threads)
		taken->passes[i].bytes = 0;
	if (!event ||
	    sscanf(event, ": rkfd_doorbell: pid=%d queue=%u wptr=%llx", &pid, &queue, &wptr) != 3 ||
	    pid != getpid() || queue >= ARRAY_SIZE(taken->upto) || i == ARRAY_SIZE(taken->passes))
		return;
	bytes = wptr - taken->upto[queue];
	taken->upto[queue] = wptr;
	taken->all += bytes;
	taken->job = bytes > taken->job ? bytes : taken->job;
	if (thread == pid) {
		taken->store += bytes;
		return;
	}
	if (i == taken->threads)
		taken->passes[taken->threads++].thread = thread;
	taken->passes[i].bytes += bytes;
	bytes = taken->passes[i].bytes;
	taken->pass = bytes > taken->pass ? bytes : taken->pass;
}

static struct taken read_taken(void)
{
	struct taken taken = { 0 };

	trace_each(see_taken, &taken);
	return taken;
}

/*
 * A doorbell may announce as many packets as all rings hold. The store that does so, and each
 * pass, delay others: the process's page faults and its calls for queues. Therefore both take
 * few packets.
 */
TEST_F(waits, full_rings_keep_nobody_waiting)
{
	struct kfd_ioctl_create_queue_args args;
	volatile uint64_t *pointers, *doorbell;
	struct queues queues;
	struct taken taken;
	char text[512] = "";
	uint64_t end;
	void *slice;

	SKIP_ON_AMDKFD("reads no packets");
	if (debugfs_read("parameters", text, sizeof(text)) &&
	    debugfs_number(text, "sdma_sched") == 2)
		SKIP(return, "the packets are with the hardware before they are looked at");
	/* Zeroes are NOPs of one dword. */
	ASSERT_EQ(0, queues_prepare(&self->dev, &queues, FULL_RING, KFD_ALLOC_GTT));
	pointers = queues.pointers.cpu;
	kfd_queue_args(&self->dev, &queues.ring, &queues.pointers, &args);
	ASSERT_EQ(0, kfd_ioctl(self->dev.fd, AMDKFD_IOC_CREATE_QUEUE, &args));
	ASSERT_EQ(0, kfd_doorbell_map(self->dev.fd, args.doorbell_offset, &slice, &doorbell));
	while (queues.count + 1 < FULL_QUEUES)
		ASSERT_EQ(0, queues_add(&self->dev, &queues));
	ASSERT_TRUE(trace_open("waits"));
	ASSERT_TRUE(trace_enable("rkfd/rkfd_doorbell"));
	ASSERT_TRUE(trace_enable("workqueue/workqueue_execute_start"));

	pointers[KFD_QUEUE_WPTR / 8] = FULL_BYTES;
	__sync_synchronize();
	*doorbell = FULL_BYTES;
	/* All of them are taken and done in the end. */
	end = kfd_now_ms() + KFD_HANG_MS;
	while (read_taken().all != FULL_QUEUES * FULL_BYTES && kfd_now_ms() < end)
		usleep(100000);
	while (pointers[KFD_QUEUE_RPTR / 8] != FULL_BYTES && kfd_now_ms() < end)
		usleep(10000);
	EXPECT_EQ(FULL_BYTES, pointers[KFD_QUEUE_RPTR / 8]);
	taken = read_taken();
	EXPECT_EQ(FULL_QUEUES * FULL_BYTES, taken.all);
	TH_LOG("at most %llu bytes by a job, %llu by the store, %llu by a pass",
	       (unsigned long long)taken.job, (unsigned long long)taken.store,
	       (unsigned long long)taken.pass);
	EXPECT_GE(JOB_BYTES, taken.job);
	EXPECT_GE(STORE_BYTES, taken.store);
	EXPECT_GE(PASS_BYTES, taken.pass);
	trace_close();
	EXPECT_EQ(0, queues_remove(&self->dev, &queues));
	EXPECT_EQ(0, kfd_destroy_queue(self->dev.fd, args.queue_id));
}

/* Threads that an event has activated, but that also wait for another one. */
#define HALF_DONE	400u
#define SETS		300u
#define ROUNDS		5u
#define ROUNDS_AT_MOST	100u

struct half_done {
	pthread_t thread;
	const struct kfd_dev *dev;
	const uint32_t *ids;
	int err;
};

static void *wait_for_both(void *arg)
{
	struct half_done *one = arg;
	struct kfd_event_data data[2] = { { .event_id = one->ids[0] },
					 { .event_id = one->ids[1] } };

	one->err = event_wait_many(one->dev, data, 2, true, KFD_HANG_MS);
	return NULL;
}

/* Nanoseconds that @SETS settings of event @id take. */
static uint64_t time_sets(const struct kfd_dev *dev, uint32_t id)
{
	struct timespec from, to;
	unsigned int i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < SETS; i++)
		if (event_set(dev, id))
			return 0;
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000 + (uint64_t)to.tv_nsec -
	       (uint64_t)from.tv_nsec;
}

/*
 * The cost of setting an event depends on the threads that wait for it, not on those that
 * already have it.
 */
TEST_F(waits, who_has_an_event_costs_nothing)
{
	struct half_done *waiters = calloc(HALF_DONE, sizeof(*waiters));
	uint64_t set = UINT64_MAX, other = UINT64_MAX;
	unsigned int i, round;
	pthread_attr_t attr;
	uint32_t ids[3];

	SKIP_ON_AMDKFD("looks at all of them");
	ASSERT_NE(NULL, waiters);
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_SIGNAL, false, &ids[i]));
	ASSERT_EQ(0, pthread_attr_init(&attr));
	ASSERT_EQ(0, pthread_attr_setstacksize(&attr, 64u << 10));
	for (i = 0; i < HALF_DONE; i++) {
		waiters[i] = (struct half_done){ .dev = &self->dev, .ids = ids };
		ASSERT_EQ(0, pthread_create(&waiters[i].thread, &attr, wait_for_both, &waiters[i]));
	}
	/* A thread that begins to wait later has the event, too, but is not in its list. */
	usleep(2000000);
	/*
	 * The minimum of each, as sooner or later a round is free of other activity. A scan of
	 * all threads that have the event would show in every round.
	 */
	for (round = 0; round < ROUNDS || (round < ROUNDS_AT_MOST && set >= 3 * other); round++) {
		uint64_t one = time_sets(&self->dev, ids[0]), two = time_sets(&self->dev, ids[2]);

		set = one < set ? one : set;
		other = two < other ? two : other;
	}
	TH_LOG("a setting takes %llu ns where %u threads have the event, %llu ns elsewhere",
	       (unsigned long long)(set / SETS), HALF_DONE, (unsigned long long)(other / SETS));
	EXPECT_NE(0, other);
	EXPECT_GT(3 * other, set);
	EXPECT_EQ(0, event_set(&self->dev, ids[1]));
	for (i = 0; i < HALF_DONE; i++) {
		pthread_join(waiters[i].thread, NULL);
		EXPECT_EQ(0, waiters[i].err);
	}
	free(waiters);
}

/*
 * How often kworker threads that are bound to no processor go to sleep in @ms milliseconds
 * during which none of them ends.
 */
static unsigned long long kworker_sleeps(unsigned int ms)
{
	struct kworkers before, after;

	do {
		before = kworkers("u");
		usleep(ms * 1000);
		after = kworkers("u");
	} while (after.count < before.count);
	return after.sleeps - before.sleeps;
}

/*
 * The time after which a waiting queue is counted, the time of counting, and the number of
 * polls allowed in it.
 */
#define WAITED_MS	4000u
#define COUNTED_MS	6000u
#define LOOKS		30u

/*
 * A packet that waits for ever is polled less and less often, so that hundreds of processes
 * with one each leave the processors to others.
 */
TEST_F(waits, a_queue_that_waits_is_seldom_looked_at)
{
	unsigned long long idle, waiting;
	struct packets p = { 0 };
	struct kfd_queue queue;

	ASSERT_EQ(0, kfd_queue_create(&self->dev, &queue, KFD_PAGE));
	ASSERT_NE(0, kworkers("u").sleeps);
	idle = kworker_sleeps(COUNTED_MS);

	sdma_wait_memory(&p, (uintptr_t)queue.pointers.cpu + KFD_QUEUE_FENCE + 64, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&queue, WAITED_MS));
	waiting = kworker_sleeps(COUNTED_MS);
	TH_LOG("%llu times with an idle queue, %llu with one that waits", idle, waiting);
	EXPECT_GT(idle + LOOKS, waiting);
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &queue));
}

KFD_HARNESS_MAIN
