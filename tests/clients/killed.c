// SPDX-License-Identifier: GPL-2.0
/*
 * Processes killed in the middle of copies, or with busy compute queues, leave nothing behind:
 * after 100 of them the counts of debugfs are back where they were.
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/check.h"
#include "common/child.h"
#include "common/queue.h"
#include "tap.h"
#include "objects.h"

#define RING_SIZE	(16u << 10)
#define QUEUES		2u
#define BYTES		(4u << 20)

/* Copies without end; writes a byte to @ready when the first ones are in progress. */
static void copy_for_ever(int ready, unsigned int round)
{
	struct buffer src, dst;
	struct queue queue[QUEUES];
	struct packets blocked = { 0 };
	struct gpu gpu;
	unsigned int q;

	gpu_open(&gpu);
	buffer_create(&gpu, &src, round % 3 ? BUFFER_GTT : BUFFER_REGISTERED, BYTES);
	buffer_create(&gpu, &dst, round % 2 ? BUFFER_VRAM : BUFFER_USERPTR, BYTES);
	for (q = 0; q < QUEUES; q++)
		queue_create(&gpu, &queue[q], RING_SIZE, q ? BUFFER_GTT : BUFFER_USERPTR);
	/* Every fourth also ends with a queue that waits for ever. */
	if (round % 4 == 0) {
		sdma_wait_memory(&blocked, queue[1].status.gpu + 64, 1);
		queue_submit(&queue[1], &blocked);
	}
	for (unsigned int i = 0; ; i++) {
		struct packets p = { 0 };

		sdma_copy(&p, dst.gpu, src.gpu, BYTES);
		q = round % 4 ? i % QUEUES : 0;
		queue_submit(&queue[q], &p);
		if (i == 3 && write(ready, "", 1) != 1)
			exit(1);
	}
}

/* False if the child did not get as far as its first copies, or counts. */
static bool kill_one(unsigned int round)
{
	const pid_t pid = round % 3 == 2 ? busy_start(2 + round % 4) :
			  child_start(copy_for_ever, round);

	usleep(random_below(20000));
	return child_kill(pid);
}

int main(void)
{
	const unsigned int rounds = work(100, 10);
	char base[OBJECTS_MAX];
	unsigned int i, killed = 0;
	pid_t other;

	tap_start();
	/* The first use may create lasting objects; the base line follows it. */
	tap_ok(check_process_copies(), "a copy beforehand");
	if (!objects_base(base, 0))
		die("the GPU is in use");
	other = busy_start(4);
	for (i = 0; i < rounds; i++) {
		killed += kill_one(i);
		if (i % 10 == 9)
			tap_note("%u of %u", i + 1, rounds);
	}
	tap_ok(killed == rounds, "%u of %u processes killed in the middle of copies and counts",
	       killed, rounds);
	tap_ok(child_kill(other), "and one that had compute queues all the time");
	tap_ok(objects_return_to(base, timeout_ms()),
	       "VRAM, GTT, VMIDs, doorbells, queues are back at the base line");
	tap_ok(check_process_copies(), "a copy afterwards");
	tap_ok(objects_return_to(base, timeout_ms()), "back at the base line again");
	return tap_end();
}
