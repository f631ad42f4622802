// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "check.h"
#include "child.h"
#include "pattern.h"
#include "queue.h"
#include "tap.h"

#define RING_SIZE	4096u
#define BYTES		(1u << 20)

bool check_copies(const struct gpu *gpu)
{
	const uint64_t seed = now_ns();
	struct buffer src, vram, dst;
	struct queue queue;
	bool ok;

	buffer_create(gpu, &src, BUFFER_GTT, BYTES);
	buffer_create(gpu, &vram, BUFFER_VRAM, BYTES);
	buffer_create(gpu, &dst, BUFFER_USERPTR, BYTES);
	queue_create(gpu, &queue, RING_SIZE, BUFFER_GTT);
	pattern_fill(src.cpu, BYTES, seed, 0);
	ok = queue_copy(&queue, vram.gpu, src.gpu, BYTES) &&
	     queue_copy(&queue, dst.gpu, vram.gpu, BYTES) &&
	     pattern_check(vram.cpu, BYTES, seed, 0) == BYTES &&
	     pattern_check(dst.cpu, BYTES, seed, 0) == BYTES;
	queue_destroy(&queue);
	buffer_destroy(&dst);
	buffer_destroy(&vram);
	buffer_destroy(&src);
	return ok;
}

bool check_process_copies(void)
{
	const pid_t pid = child_fork();

	if (pid == 0) {
		struct gpu gpu;
		bool ok;

		gpu_open(&gpu);
		ok = check_copies(&gpu);
		gpu_close();
		exit(ok ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	return child_status(pid) == EXIT_SUCCESS;
}
