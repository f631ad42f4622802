// SPDX-License-Identifier: GPL-2.0
/*
 * Sub-window copies of three dimensions in all five element sizes, with random
 * shapes, against a copy by the CPU.
 */
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "common/queue.h"
#include "tap.h"

#define RING_SIZE	(64u << 10)
#define SIZE		(1u << 20)	/* of each surface, bytes */

static struct gpu gpu;
static struct queue queue;

/* A surface of whole rows and planes within SIZE bytes, in elements. */
struct surface {
	uint32_t base;			/* byte offset, a multiple of 4 */
	uint32_t pitch, slice, planes;
};

static uint32_t round_up(uint32_t n, uint32_t to)
{
	return (n + to - 1) / to * to;
}

/* A surface into which @rect fits, with room around it where @loose. */
static struct surface random_surface(unsigned int element, const struct sdma_rect *rect,
				     bool loose)
{
	/* Pitch and slice are multiples of 4 bytes. */
	const uint32_t unit = element < 2 ? 4u >> element : 1;
	const uint32_t extra = loose ? 1 + random_below(8) : 0;
	struct surface s;

	s.base = random_below(64) * 4;
	s.pitch = round_up(rect->x + extra + random_below(16), unit);
	s.slice = s.pitch * (rect->y + extra) + round_up(random_below(32), unit);
	s.planes = rect->z + (loose ? random_below(3) : 0);
	return s;
}

static bool fits(const struct surface *s, unsigned int element)
{
	return s->base + ((uint64_t)s->slice * s->planes << element) <= SIZE;
}

static struct sdma_window random_window(const struct surface *s, const struct buffer *b,
					const struct sdma_rect *rect)
{
	const uint32_t rows = s->slice / s->pitch;

	return (struct sdma_window){
		.base = b->gpu + s->base,
		.x = random_below(s->pitch - rect->x + 1),
		.y = random_below(rows - rect->y + 1),
		.z = random_below(s->planes - rect->z + 1),
		.pitch = s->pitch,
		.slice = s->slice,
	};
}

static size_t offset(const struct sdma_window *w, const struct surface *s,
		     unsigned int element, uint32_t y, uint32_t z)
{
	const uint64_t elements = (uint64_t)(w->z + z) * w->slice +
				  (uint64_t)(w->y + y) * w->pitch + w->x;

	return s->base + (elements << element);
}

static void reference(uint8_t *dst, const uint8_t *src, unsigned int element,
		      const struct sdma_window *dw, const struct surface *ds,
		      const struct sdma_window *sw, const struct surface *ss,
		      const struct sdma_rect *rect)
{
	uint32_t y, z;

	for (z = 0; z < rect->z; z++)
		for (y = 0; y < rect->y; y++)
			memcpy(dst + offset(dw, ds, element, y, z),
			       src + offset(sw, ss, element, y, z),
			       (size_t)rect->x << element);
}

/* A rectangle and two surfaces that hold it. */
static void random_shape(unsigned int element, struct sdma_rect *rect,
			 struct surface *dst, struct surface *src)
{
	do {
		*rect = (struct sdma_rect){
			.x = 1 + random_below(random_below(4) ? 40 : 700),
			.y = 1 + random_below(random_below(4) ? 20 : 200),
			.z = 1 + random_below(random_below(4) ? 4 : 20),
		};
		*dst = random_surface(element, rect, random_below(4));
		*src = random_surface(element, rect, random_below(4));
	} while (!fits(dst, element) || !fits(src, element));
}

static bool random_rect(unsigned int element, const struct buffer *dst,
			const struct buffer *src, uint8_t *expected)
{
	struct sdma_window dw, sw;
	struct sdma_rect rect;
	struct packets p = { 0 };
	struct surface ds, ss;

	random_shape(element, &rect, &ds, &ss);
	dw = random_window(&ds, dst, &rect);
	sw = random_window(&ss, src, &rect);
	/* The target keeps the result of earlier copies, so that more errors show. */
	memcpy(expected, dst->cpu, SIZE);
	reference(expected, src->cpu, element, &dw, &ds, &sw, &ss, &rect);
	sdma_copy_rect(&p, element, &dw, &sw, &rect);
	if (!queue_wait(&queue, queue_submit(&queue, &p)))
		return false;
	if (memcmp(expected, dst->cpu, SIZE) == 0)
		return true;
	tap_note("element %u: %ux%ux%u from %u,%u,%u pitch %u slice %u to %u,%u,%u pitch %u slice %u",
		 1u << element, rect.x, rect.y, rect.z, sw.x, sw.y, sw.z, sw.pitch, sw.slice,
		 dw.x, dw.y, dw.z, dw.pitch, dw.slice);
	return false;
}

static void element_size(unsigned int element, enum buffer_kind from, enum buffer_kind to)
{
	const unsigned int rounds = work(60, 8);
	uint8_t *expected = malloc(SIZE);
	struct buffer src, dst;
	bool ok = expected;
	unsigned int i;

	buffer_create(&gpu, &src, from, SIZE);
	buffer_create(&gpu, &dst, to, SIZE);
	pattern_fill(src.cpu, SIZE, 3 + element, 0);
	pattern_fill(dst.cpu, SIZE, 17 + element, 0);
	for (i = 0; i < rounds && ok; i++)
		ok = random_rect(element, &dst, &src, expected);
	tap_ok(ok, "%u random windows of %u-byte elements, %s to %s", rounds, 1u << element,
	       buffer_kind_name[from], buffer_kind_name[to]);
	buffer_destroy(&dst);
	buffer_destroy(&src);
	free(expected);
}

int main(void)
{
	unsigned int element;

	tap_start();
	gpu_open(&gpu);
	queue_create(&gpu, &queue, RING_SIZE, BUFFER_USERPTR);
	for (element = 0; element < 5; element++) {
		element_size(element, BUFFER_GTT, BUFFER_VRAM);
		element_size(element, BUFFER_VRAM, BUFFER_USERPTR);
	}
	queue_destroy(&queue);
	gpu_close();
	return tap_end();
}
