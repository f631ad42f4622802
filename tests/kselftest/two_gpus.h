/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of two GPUs stand on: what their engines fill and copy. */
#ifndef RKFD_TEST_TWO_GPUS_H
#define RKFD_TEST_TWO_GPUS_H

#include <string.h>

#include "kfd_harness.h"
#include "kfd_share.h"
#include "objects.h"

#define SIZE		(3u << 20)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS
/* Addresses that only the GPU uses. */
#define GPU_VA		(1ull << 40)

static inline int gpu_fill(struct kfd_queue *queue, const void *dst, uint32_t value)
{
	return kfd_queue_fill(queue, (uintptr_t)dst, value, SIZE, TIMEOUT_MS);
}

/* How many dwords of @src, as the engine copies it to @host, are not @value; or -1. */
static inline long gpu_unequal(struct kfd_queue *queue, struct kfd_bo *host, const void *src,
			       uint32_t value)
{
	memset(host->cpu, 0xee, SIZE);
	if (kfd_queue_copy(queue, (uintptr_t)host->cpu, (uintptr_t)src, SIZE, TIMEOUT_MS))
		return -1;
	return (long)unequal(host->cpu, value, SIZE);
}

#endif /* RKFD_TEST_TWO_GPUS_H */
