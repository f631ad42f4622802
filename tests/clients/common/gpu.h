/* SPDX-License-Identifier: GPL-2.0 */
/* The GPU node as libhsakmt shows it. Failures end the program. */
#ifndef RKFD_TEST_GPU_H
#define RKFD_TEST_GPU_H

#include <stdint.h>

struct gpu {
	uint32_t node;
	uint32_t gpu_id;
	uint64_t vram;			/* bytes */
	unsigned int sdma_queues;	/* hardware slots */
};

/* Opens KFD and takes the first GPU node. Fork before, not after. */
void gpu_open(struct gpu *gpu);
void gpu_close(void);

/* Whether there are jobs of what user SDMA queues do: module parameter sdma_sched. */
int gpu_scheduled(void);

/*
 * Whether the jobs are made after the fact: up to a tick later, and one of many submissions that
 * follow each other closely.
 */
int gpu_followed(void);

#endif /* RKFD_TEST_GPU_H */
