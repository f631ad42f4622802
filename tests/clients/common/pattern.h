/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data that can be told apart: each byte follows from a seed and its position, so a byte from
 * elsewhere, or of another run, is detected.
 */
#ifndef RKFD_TEST_PATTERN_H
#define RKFD_TEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the pattern of @seed, positions @at onwards. */
void pattern_fill(uint8_t *p, size_t size, uint64_t seed, uint64_t at);
/* The position of the first byte that differs (counted from @p), or @size. */
size_t pattern_check(const uint8_t *p, size_t size, uint64_t seed, uint64_t at);

/* A copy to be checked: source, target, and the surroundings that must not change. */
struct pattern_copy {
	uint8_t *dst;
	size_t dst_size;	/* of the whole target */
	size_t dst_at;
	uint8_t *src;
	size_t src_at;
	size_t bytes;
	uint64_t seed;
};

/* Fills the source and, with another pattern, the whole target. */
void pattern_prepare(const struct pattern_copy *c);
/* The copied bytes are the source's, all others untouched; notes the differences. */
bool pattern_verify(const struct pattern_copy *c);

#endif /* RKFD_TEST_PATTERN_H */
