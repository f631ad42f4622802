/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of HIP that must not fail, and buffers with numbers that identify them. */
#ifndef RKFD_TEST_HIP_MEMORY_H
#define RKFD_TEST_HIP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip/hip_runtime_api.h>

#include "tap.h"

#define SIZE	((size_t)4 << 20)

static inline void must(hipError_t error, const char *what)
{
	if (error != hipSuccess)
		die("%s: %s", what, hipGetErrorString(error));
}

static inline uint32_t number(uint32_t seed, size_t i)
{
	return seed * 0x10001 + (uint32_t)i;
}

/* Fills SIZE bytes with the numbers of @seed. */
static inline void fill(uint32_t *p, uint32_t seed)
{
	size_t i;

	for (i = 0; i < SIZE / 4; i++)
		p[i] = number(seed, i);
}

/* True if SIZE bytes are those that fill() has written. */
static inline bool holds(const uint32_t *p, uint32_t seed)
{
	size_t i;

	for (i = 0; i < SIZE / 4; i++)
		if (p[i] != number(seed, i))
			return false;
	return true;
}

#endif /* RKFD_TEST_HIP_MEMORY_H */
