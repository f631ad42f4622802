// SPDX-License-Identifier: GPL-2.0
/*
 * at_work [copies | twice]: a process for tools to watch until it is killed. It has 64 MiB of
 * VRAM, and an SDMA queue with a packet that waits; with copies, one that copies from system
 * memory to VRAM; with twice, a second descriptor of the render node's file, as libdrm takes
 * one. Prints "ready" when that has begun.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "kfd.h"
#include "packets.h"

#define VRAM	(64u << 20)
/*
 * A copy takes longer than the program needs for the next: a tool mostly finds the engine at
 * work.
 */
#define BYTES	(32u << 20)
#define RING	(64u * 1024)

int main(int argc, char **argv)
{
	const bool copies = argc > 1 && !strcmp(argv[1], "copies");
	struct packets wait = { 0 };
	struct kfd_queue queue;
	struct kfd_bo vram, gtt;
	struct kfd_dev dev;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &vram, VRAM, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(&dev, &gtt, BYTES, KFD_ALLOC_GTT) ||
	    kfd_queue_create(&dev, &queue, RING))
		die("no queue");
	if (argc > 1 && !strcmp(argv[1], "twice") && dup(dev.drm_fd) < 0)
		die("no second descriptor");
	memset(gtt.cpu, 0, BYTES);
	if (!copies) {
		sdma_wait_memory(&wait, (uintptr_t)gtt.cpu, 1);
		kfd_queue_submit(&queue, wait.dwords, wait.count);
	}
	puts("ready");
	fflush(stdout);
	while (!copies)
		pause();
	while (!kfd_queue_copy(&queue, (uintptr_t)vram.cpu, (uintptr_t)gtt.cpu, BYTES,
			       timeout_ms()))
		;
	die("a copy does not end");
}
