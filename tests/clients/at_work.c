// SPDX-License-Identifier: GPL-2.0
/*
 * A process for tools to look at: it has 64 MiB of VRAM, and an SDMA queue with a
 * packet that waits until the program is ended. Prints "ready" when that is submitted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"
#include "packets.h"

#define VRAM	(64u << 20)
#define RING	(64u * 1024)

int main(void)
{
	struct packets wait = { 0 };
	struct kfd_queue queue;
	struct kfd_bo vram, gate;
	struct kfd_dev dev;

	if (kfd_open(&dev) || kfd_bo_create(&dev, &vram, VRAM, KFD_ALLOC_VRAM) ||
	    kfd_bo_create(&dev, &gate, KFD_PAGE, KFD_ALLOC_GTT) ||
	    kfd_queue_create(&dev, &queue, RING)) {
		printf("at_work: no queue\n");
		return EXIT_FAILURE;
	}
	memset(gate.cpu, 0, KFD_PAGE);
	sdma_wait_memory(&wait, (uintptr_t)gate.cpu, 1);
	kfd_queue_submit(&queue, wait.dwords, wait.count);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
