/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The objects of a process on a GPU while the machine sleeps: memory of all kinds, shared
 * virtual memory in VRAM, a queue that copies, one that counts, waves.
 */
#ifndef RKFD_TEST_SUSPEND_HELD_H
#define RKFD_TEST_SUSPEND_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "kfd_compute.h"
#include "kfd_waves.h"

struct held {
	struct kfd_dev dev;
	struct kfd_bo vram, gtt, user;
	/*
	 * Shared virtual memory, out of small pages and then of huge ones, and room for a copy
	 * of it.
	 */
	uint8_t *shared;
	struct kfd_bo scratch;
	uint64_t seed;		/* of the pattern in it */
	/* A page of such memory, to which a compute queue counts. */
	uint64_t *count;
	struct kfd_queue sdma;
	struct kfd_save save, waves_save;
	struct kfd_compute compute, waves_compute;
	struct kfd_bo loop;
	struct waves waves;
	unsigned int turn;	/* number of their dispatches */
	uint64_t counted;
};

/* Creates all of it on the GPU of @dev, or ends the program. */
void held_start(struct held *held, const struct kfd_dev *dev);
/* Before a sleep: begins the work that is to go on after it; true if it has begun. */
bool held_before(struct held *held);
/*
 * After a sleep: all objects are there, and can be used. @swapped: memory may have been
 * swapped, so that the process cannot see which is in VRAM.
 */
bool held_after(struct held *held, bool swapped);

#endif /* RKFD_TEST_SUSPEND_HELD_H */
