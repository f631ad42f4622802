// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include "pattern.h"
#include "tap.h"

#define OLD_SEED(seed)	((seed) ^ 0xa5a5a5a55a5a5a5a)

static uint64_t word(uint64_t seed, uint64_t index)
{
	uint64_t x = (index + seed * 0xd1342543de82ef95) * 0x9e3779b97f4a7c15;

	return x ^ x >> 29;
}

static uint8_t byte(uint64_t seed, uint64_t at)
{
	return (uint8_t)(word(seed, at / 8) >> at % 8 * 8);
}

void pattern_fill(uint8_t *p, size_t size, uint64_t seed, uint64_t at)
{
	size_t i = 0;

	for (; i < size && (at + i) % 8; i++)
		p[i] = byte(seed, at + i);
	for (; i + 8 <= size; i += 8) {
		uint64_t w = word(seed, (at + i) / 8);

		memcpy(p + i, &w, 8);
	}
	for (; i < size; i++)
		p[i] = byte(seed, at + i);
}

size_t pattern_check(const uint8_t *p, size_t size, uint64_t seed, uint64_t at)
{
	size_t i = 0;

	for (; i < size && (at + i) % 8; i++)
		if (p[i] != byte(seed, at + i))
			return i;
	for (; i + 8 <= size; i += 8) {
		uint64_t w;

		memcpy(&w, p + i, 8);
		if (w != word(seed, (at + i) / 8))
			break;
	}
	for (; i < size; i++)
		if (p[i] != byte(seed, at + i))
			return i;
	return size;
}

void pattern_prepare(const struct pattern_copy *c)
{
	pattern_fill(c->src + c->src_at, c->bytes, c->seed, c->src_at);
	pattern_fill(c->dst, c->dst_size, OLD_SEED(c->seed), 0);
	__sync_synchronize();
}

bool pattern_verify(const struct pattern_copy *c)
{
	const size_t after = c->dst_at + c->bytes;
	size_t at;

	__sync_synchronize();
	at = pattern_check(c->dst + c->dst_at, c->bytes, c->seed, c->src_at);
	if (at != c->bytes) {
		tap_note("byte %zu of %zu differs: 0x%02x, should be 0x%02x", at, c->bytes,
			 c->dst[c->dst_at + at], byte(c->seed, c->src_at + at));
		return false;
	}
	at = pattern_check(c->dst, c->dst_at, OLD_SEED(c->seed), 0);
	if (at != c->dst_at) {
		tap_note("byte %zu before the target was changed", c->dst_at - at);
		return false;
	}
	at = pattern_check(c->dst + after, c->dst_size - after, OLD_SEED(c->seed), after);
	if (at != c->dst_size - after) {
		tap_note("byte %zu after the target was changed", at);
		return false;
	}
	return true;
}
