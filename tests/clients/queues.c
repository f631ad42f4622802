// SPDX-License-Identifier: GPL-2.0
/* Several queues of one process at once. */
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"

#define RING_SIZE	(16u << 10)
#define QUEUES		8u
#define MANY		56u	/* more than any set of engines has slots */
#define BYTES		(64u << 10)

static struct gpu gpu;

/* A queue that copies between two buffers of its own. */
struct lane {
	struct queue queue;
	struct buffer src, dst;
	uint64_t seed;
	uint32_t last;
};

static bool lane_create(struct lane *lane, unsigned int index, size_t bytes)
{
	const enum buffer_kind from = index & 1 ? BUFFER_VRAM : BUFFER_GTT;
	const enum buffer_kind to = index & 2 ? BUFFER_USERPTR : BUFFER_VRAM;

	if (!queue_try_create(&gpu, &lane->queue, RING_SIZE, BUFFER_GTT))
		return false;
	buffer_create(&gpu, &lane->src, from, bytes);
	buffer_create(&gpu, &lane->dst, to, bytes);
	lane->seed = index + 1;
	return true;
}

static void lane_destroy(struct lane *lane)
{
	queue_destroy(&lane->queue);
	buffer_destroy(&lane->src);
	buffer_destroy(&lane->dst);
}

static void lane_fill(struct lane *lane)
{
	lane->seed += 1000;
	pattern_fill(lane->src.cpu, lane->src.size, lane->seed, 0);
	memset(lane->dst.cpu, 0, lane->dst.size);
}

static void lane_start(struct lane *lane)
{
	struct packets p = { 0 };

	sdma_copy(&p, lane->dst.gpu, lane->src.gpu, lane->src.size);
	lane->last = queue_submit(&lane->queue, &p);
}

static bool lane_finish(struct lane *lane)
{
	return queue_wait(&lane->queue, lane->last) &&
	       pattern_check(lane->dst.cpu, lane->dst.size, lane->seed, 0) == lane->dst.size;
}

/* All lanes fill, then all start, then all are checked. */
static bool rounds(struct lane *lanes, unsigned int count, unsigned int turns)
{
	bool ok = true;
	unsigned int i, t;

	for (t = 0; t < turns && ok; t++) {
		for (i = 0; i < count; i++)
			lane_fill(&lanes[i]);
		for (i = 0; i < count; i++)
			lane_start(&lanes[i]);
		for (i = 0; i < count; i++)
			if (!lane_finish(&lanes[i])) {
				tap_note("queue %u of %u, round %u", i, count, t);
				ok = false;
			}
	}
	return ok;
}

static void at_once(void)
{
	const unsigned int turns = work(40, 5);
	struct lane lanes[QUEUES];
	unsigned int i;

	for (i = 0; i < QUEUES; i++)
		if (!lane_create(&lanes[i], i, BYTES))
			die("no queue %u", i);
	tap_ok(rounds(lanes, QUEUES, turns), "%u queues at once, %u copies each", QUEUES, turns);
	for (i = 0; i < QUEUES; i++)
		lane_destroy(&lanes[i]);
}

static void distinct_doorbells(void)
{
	struct lane lanes[QUEUES];
	bool ok = true;
	unsigned int i, k;

	for (i = 0; i < QUEUES; i++) {
		if (!lane_create(&lanes[i], i, 4096))
			die("no queue %u", i);
		for (k = 0; k < i; k++)
			ok &= lanes[k].queue.resource.Queue_DoorBell !=
			      lanes[i].queue.resource.Queue_DoorBell;
	}
	tap_ok(ok, "each queue has a doorbell of its own");
	for (i = 0; i < QUEUES; i++)
		lane_destroy(&lanes[i]);
}

/* A queue that waits in its ring for memory to change stops no other queue. */
static void blocked(void)
{
	struct lane waiting, others[QUEUES];
	struct packets p = { 0 };
	volatile uint32_t *gate;
	unsigned int i;
	bool ok;

	if (!lane_create(&waiting, 0, BYTES))
		die("no queue");
	for (i = 0; i < QUEUES; i++)
		if (!lane_create(&others[i], i, BYTES))
			die("no queue %u", i);
	lane_fill(&waiting);
	gate = (volatile uint32_t *)(waiting.queue.status.cpu + 64);
	sdma_wait_memory(&p, waiting.queue.status.gpu + 64, 0xabad1dea);
	sdma_copy(&p, waiting.dst.gpu, waiting.src.gpu, BYTES);
	waiting.last = queue_submit(&waiting.queue, &p);
	ok = rounds(others, QUEUES, work(10, 3));
	tap_ok(ok && !queue_done(&waiting.queue, waiting.last),
	       "%u queues work while one waits in POLL_REGMEM", QUEUES);
	*gate = 0xabad1dea;
	tap_ok(lane_finish(&waiting), "the waiting queue goes on when it may");
	for (i = 0; i < QUEUES; i++)
		lane_destroy(&others[i]);
	lane_destroy(&waiting);
}

/* More queues than slots: they take turns. Directly driven ones are refused. */
static void more_than_slots(void)
{
	const unsigned int wanted = MANY;
	struct lane *lanes = calloc(wanted, sizeof(*lanes));
	unsigned int n = 0, i;

	if (!lanes)
		die("no memory");
	while (n < wanted && lane_create(&lanes[n], n, 4096))
		n++;
	if (gpu_scheduled())
		tap_ok(n == wanted, "%u queues on %u slots", n, gpu.sdma_queues);
	else
		tap_ok(n >= QUEUES && n < wanted, "%u queues on as many slots", n);
	tap_ok(rounds(lanes, n, work(5, 2)), "all of %u queues at once", n);
	for (i = 0; i < n; i++)
		lane_destroy(&lanes[i]);
	free(lanes);
}

/* As many blocked queues as there are slots leave a slot for the others, by turns. */
static void all_slots_blocked(void)
{
	const unsigned int count = gpu.sdma_queues;
	struct lane *lanes, other;
	unsigned int i;

	if (!gpu_scheduled()) {
		tap_skip("blocked queues on all slots", "no scheduler in direct mode");
		return;
	}
	lanes = calloc(count, sizeof(*lanes));
	if (!lanes)
		die("no memory");
	for (i = 0; i < count; i++) {
		struct packets p = { 0 };

		if (!lane_create(&lanes[i], i, 4096))
			die("no queue %u", i);
		lane_fill(&lanes[i]);
		sdma_wait_memory(&p, lanes[i].queue.status.gpu + 64, 1);
		sdma_copy(&p, lanes[i].dst.gpu, lanes[i].src.gpu, 4096);
		lanes[i].last = queue_submit(&lanes[i].queue, &p);
	}
	if (!lane_create(&other, 0, 4096))
		die("no queue");
	tap_ok(rounds(&other, 1, 3), "a queue works while %u wait in POLL_REGMEM", count);
	for (i = 0; i < count; i++)
		*(volatile uint32_t *)(lanes[i].queue.status.cpu + 64) = 1;
	for (i = 0; i < count; i++)
		if (!lane_finish(&lanes[i]))
			break;
	tap_ok(i == count, "all of them finish when they may");
	lane_destroy(&other);
	for (i = 0; i < count; i++)
		lane_destroy(&lanes[i]);
	free(lanes);
}

/* A queue is created and destroyed often, and used each time. */
static void again_and_again(void)
{
	const unsigned int times = work(50, 10);
	bool ok = true;
	unsigned int i;

	for (i = 0; i < times && ok; i++) {
		struct lane lane;

		if (!lane_create(&lane, i, 4096))
			die("no queue after %u", i);
		ok = rounds(&lane, 1, 1);
		lane_destroy(&lane);
	}
	tap_ok(ok, "%u queues one after the other", times);
}

int main(void)
{
	tap_start();
	gpu_open(&gpu);
	distinct_doorbells();
	at_once();
	blocked();
	more_than_slots();
	all_slots_blocked();
	again_and_again();
	gpu_close();
	return tap_end();
}
