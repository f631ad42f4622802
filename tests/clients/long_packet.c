// SPDX-License-Identifier: GPL-2.0
/*
 * A packet may be as long as its process likes: the largest sub-window reads and writes
 * terabytes within less than a MiB of memory. It costs the other users of the engine seconds,
 * not the engine, and its process its queues.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/child.h"
#include "model.h"
#include "packets.h"
#include "tap.h"
#include "kfd.h"
#include "objects.h"

#define ENGINES		5u
#define RING_SIZE	(16u << 10)
#define BYTES		(1u << 20)
#define RETURN_MS	timeout_ms()
/* For a hang: each engine that is found hanging costs some seconds. */
#define PATIENCE_MS	(3 * timeout_ms())

/* 2^14 x 2^14 x 2^11 elements of 16 bytes, all rows and planes one element apart. */
static void longest(struct packets *p, uint64_t at)
{
	const struct sdma_window window = { .base = at, .pitch = 1, .slice = 1 };
	const struct sdma_rect rect = { .x = 1 << 14, .y = 1 << 14, .z = 1 << 11 };

	sdma_copy_rect(p, 4, &window, &window, &rect);
}

/* Makes @engine execute the longest packet, and stays. */
static void hog(int ready, unsigned int engine)
{
	volatile uint32_t *begun;
	struct packets p = { 0 };
	struct kfd_queue queue;
	struct kfd_dev dev;
	struct kfd_bo bo;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &bo, BYTES, KFD_ALLOC_GTT) ||
	    kfd_queue_create_on(&dev, &queue, RING_SIZE, engine))
		exit(1);
	/* The engine writes it just before the packet. */
	begun = (volatile uint32_t *)((char *)queue.pointers.cpu + KFD_QUEUE_FENCE + 64);
	sdma_nop(&p, 1);
	kfd_queue_submit(&queue, p.dwords, p.count);
	if (kfd_queue_finish(&queue, timeout_ms()))
		exit(1);
	p.count = 0;
	sdma_fence(&p, (uintptr_t)begun, 1);
	longest(&p, (uintptr_t)bo.cpu);
	kfd_queue_submit(&queue, p.dwords, p.count);
	if (!kfd_becomes(begun, 1, timeout_ms()))
		exit(1);
	if (write(ready, "", 1) != 1)
		exit(1);
	/* The end of the process must not be the solution. */
	for (;;)
		pause();
}

/* A process of its own, none of whose queues has failed. */
static bool copies(struct kfd_dev *dev, unsigned int engine)
{
	struct kfd_queue queue;
	struct kfd_bo bo;
	uint32_t *data;
	bool ok;

	if (kfd_queue_create_on(dev, &queue, RING_SIZE, engine) ||
	    kfd_bo_create(dev, &bo, BYTES, KFD_ALLOC_GTT))
		return false;
	data = bo.cpu;
	data[0] = 0xc0ffee + engine;
	ok = !kfd_queue_copy(&queue, (uintptr_t)&data[1024], (uintptr_t)&data[0], 4,
			     PATIENCE_MS) && data[1024] == 0xc0ffee + engine;
	ok = !kfd_queue_destroy(dev, &queue) && ok;
	return !kfd_bo_destroy(dev, &bo) && ok;
}

static bool allocates(struct kfd_dev *dev, unsigned int count)
{
	struct kfd_bo bo;
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		err = kfd_bo_create(dev, &bo, BYTES, KFD_ALLOC_VRAM);
		if (err) {
			tap_note("ALLOC number %u: errno %d", i, err);
			return false;
		}
		if (kfd_bo_destroy(dev, &bo))
			return false;
	}
	return true;
}

static bool runs(const struct kfd_dev *dev, const struct kfd_queue *queue, uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = {
		.queue_id = queue->id,
		.ring_base_address = (uintptr_t)queue->ring.cpu,
		.ring_size = RING_SIZE,
		.queue_percentage = percentage,
		.queue_priority = 7,
	};

	return !kfd_ioctl(dev->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

/*
 * A queue without work is taken off an engine that a packet of another process keeps, and that
 * does not let go of any queue before the packet ends. It is not the queue that hangs.
 */
static bool innocent_goes_on(struct kfd_dev *dev)
{
	struct kfd_queue queue;
	pid_t pid;
	bool ok;

	if (kfd_queue_create_on(dev, &queue, RING_SIZE, 0))
		return false;
	ok = !kfd_queue_finish(&queue, PATIENCE_MS) && model_command("linger packet");
	pid = child_start(hog, 0);
	ok = pid && ok && runs(dev, &queue, 0);
	ok = model_command("linger 0") && ok;
	ok = runs(dev, &queue, 100) && ok && !kfd_queue_finish(&queue, PATIENCE_MS);
	ok = !kfd_queue_destroy(dev, &queue) && ok;
	return pid && child_kill(pid) && ok;
}

/* Notes the time that @ok took. */
static bool timed(bool ok, uint64_t since)
{
	tap_note("%llu ms", (unsigned long long)(kfd_now_ms() - since));
	return ok;
}

int main(void)
{
	char base[OBJECTS_MAX];
	pid_t hogs[ENGINES];
	struct kfd_dev dev;
	unsigned int e, alive = 0;
	uint64_t since;

	tap_start();
	if (kfd_open(&dev))
		die("no device");
	tap_ok(copies(&dev, 0) && allocates(&dev, 1), "a copy and VRAM beforehand");
	if (!objects_base(base, 1))
		die("the GPU is in use");

	hogs[0] = child_start(hog, 0);
	since = kfd_now_ms();
	tap_ok(timed(copies(&dev, 0), since),
	       "a copy on an engine that a packet of terabytes keeps");
	tap_ok(hogs[0] && child_kill(hogs[0]),
	       "the process with the packet was there all the time");

	since = kfd_now_ms();
	if (model_present())
		tap_ok(timed(innocent_goes_on(&dev), since),
		       "the queue that hangs is the one that the engine is at");
	else
		tap_skip("the queue that hangs", "needs the device model");

	for (e = 0; e < ENGINES; e++)
		hogs[e] = child_start(hog, e);
	since = kfd_now_ms();
	tap_ok(timed(allocates(&dev, 2 * ENGINES), since),
	       "VRAM with such a packet on every engine");
	since = kfd_now_ms();
	for (e = 0; e < ENGINES; e++)
		tap_ok(timed(copies(&dev, e), since), "a copy on engine %u", e);
	tap_ok(allocates(&dev, 2 * ENGINES), "VRAM again");
	for (e = 0; e < ENGINES; e++)
		alive += hogs[e] && child_kill(hogs[e]);
	tap_ok(alive == ENGINES, "%u of %u processes with such packets were there", alive, ENGINES);
	tap_ok(objects_return_to(base, RETURN_MS), "nothing is left of them");
	return tap_end();
}
