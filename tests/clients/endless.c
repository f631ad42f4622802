// SPDX-License-Identifier: GPL-2.0
/*
 * Copies from system memory to VRAM until it is killed: who is to be seen by
 * programs that show what goes on.
 */
#include <stdio.h>

#include "common/gpu.h"
#include "common/queue.h"
#include "common/tap.h"

#define RING_SIZE	(64u << 10)
#define BYTES		(4u << 20)

int main(void)
{
	struct buffer src, dst;
	struct queue queue;
	struct gpu gpu;

	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_GTT);
	buffer_create(&gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(&gpu, &dst, BUFFER_VRAM, BYTES);
	puts("begun");
	fflush(stdout);
	while (queue_copy(&queue, dst.gpu, src.gpu, BYTES))
		;
	die("a copy does not end");
}
