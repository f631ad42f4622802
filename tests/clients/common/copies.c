// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "copies.h"
#include "pattern.h"
#include "queue.h"
#include "rounds.h"

#define RING_SIZE	(64u << 10)
#define BYTES		(256u << 10)

static struct rounds rounds;

static void run(int ready, unsigned int number)
{
	struct buffer src, vram, dst;
	struct queue queue;
	uint64_t seed = 1;
	struct gpu gpu;
	bool ok;

	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &vram, BUFFER_VRAM, BYTES);
	buffer_create(&gpu, &dst, BUFFER_USERPTR, BYTES);
	do {
		pattern_fill(src.cpu, BYTES, seed, 0);
		ok = queue_copy(&queue, vram.gpu, src.gpu, BYTES) &&
		     queue_copy(&queue, dst.gpu, vram.gpu, BYTES) &&
		     pattern_check(dst.cpu, BYTES, seed, 0) == BYTES;
		seed++;
	} while (rounds_next(&rounds, ready, number) && ok);
	exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
}

void copies_start(void)
{
	rounds_start(&rounds, run, 1);
}

bool copies_go_on(void)
{
	return rounds_go_on(&rounds);
}

bool copies_stop(void)
{
	return rounds_stop(&rounds);
}
