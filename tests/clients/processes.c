// SPDX-License-Identifier: GPL-2.0
/* Processes at once, each with a VM, memory and queues of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "common/tap.h"

#define RING_SIZE	(16u << 10)
#define QUEUES		2u
#define BYTES		(256u << 10)

/* What one process does; the exit status says whether all was right. */
static int copies(unsigned int who)
{
	const unsigned int turns = work(100, 10);
	struct buffer src, dst[QUEUES];
	struct queue queue[QUEUES];
	struct gpu gpu;
	unsigned int t, q;

	gpu_open(&gpu);
	buffer_create(&gpu, &src, who & 1 ? BUFFER_USERPTR : BUFFER_GTT, BYTES);
	for (q = 0; q < QUEUES; q++) {
		queue_create(&gpu, &queue[q], RING_SIZE, BUFFER_GTT);
		buffer_create(&gpu, &dst[q], BUFFER_VRAM, BYTES);
	}
	for (t = 0; t < turns; t++) {
		const uint64_t seed = who * 100000 + t;
		uint32_t last[QUEUES];

		pattern_fill(src.cpu, BYTES, seed, 0);
		for (q = 0; q < QUEUES; q++) {
			struct packets p = { 0 };

			sdma_copy(&p, dst[q].gpu, src.gpu, BYTES);
			last[q] = queue_submit(&queue[q], &p);
		}
		for (q = 0; q < QUEUES; q++) {
			if (!queue_wait(&queue[q], last[q]))
				return 1;
			if (pattern_check(dst[q].cpu, BYTES, seed, 0) != BYTES) {
				tap_note("process %u, queue %u, round %u: wrong data", who, q, t);
				return 1;
			}
		}
	}
	/* Half of them leave their things to the kernel. */
	if (who & 1)
		return 0;
	for (q = 0; q < QUEUES; q++) {
		queue_destroy(&queue[q]);
		buffer_destroy(&dst[q]);
	}
	buffer_destroy(&src);
	gpu_close();
	return 0;
}

static void at_once(unsigned int count)
{
	unsigned int i, good = 0;
	int status;

	fflush(stdout);
	for (i = 0; i < count; i++) {
		const pid_t pid = fork();

		if (pid < 0)
			die("fork failed");
		if (pid == 0)
			exit(copies(i));
	}
	for (i = 0; i < count; i++)
		if (wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			good++;
	tap_ok(good == count, "%u processes at once", count);
}

int main(void)
{
	tap_start();
	at_once(2);
	/* Directly driven queues need a slot each. */
	at_once(work(gpu_scheduled() ? 12 : 6, 4));
	return tap_end();
}
