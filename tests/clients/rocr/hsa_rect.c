// SPDX-License-Identifier: GPL-2.0
/*
 * hsa_amd_memory_async_copy_rect in one to three dimensions, against copies made
 * by the processor. Bases, pitches and slices are multiples of 4, as ROCr asks;
 * everything else is random.
 */
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "tap.h"
#include "hsa.h"

/* One side of a copy: a box in a pitched block of memory. */
struct box {
	uint32_t pitch, slice, layers;
	hsa_dim3_t at;
};

struct rect {
	struct box src, dst;
	hsa_dim3_t range;
};

static const struct {
	const char *name;
	hsa_amd_copy_direction_t dir;
} directions[] = {
	{ "to the GPU", hsaHostToDevice },
	{ "to the host", hsaDeviceToHost },
	{ "within the GPU", hsaDeviceToDevice },
};

static uint64_t seed = 1 << 20;

static size_t bytes_of(const struct box *box)
{
	return (size_t)box->slice * box->layers;
}

static size_t place_of(const struct box *box, uint32_t y, uint32_t z)
{
	return (size_t)(box->at.z + z) * box->slice + (size_t)(box->at.y + y) * box->pitch +
		box->at.x;
}

/* A box with room for @range at a random place. */
static struct box random_box(const hsa_dim3_t *range)
{
	struct box box = {
		.at = { random_below(70), random_below(9), random_below(4) },
	};
	uint32_t rows;

	box.pitch = (box.at.x + range->x + random_below(200) + 3) & ~3u;
	rows = box.at.y + range->y + random_below(5);
	box.slice = box.pitch * rows + random_below(8) * 4;
	box.layers = box.at.z + range->z;
	return box;
}

static struct rect random_rect(unsigned int dimensions)
{
	struct rect rect = { .range = { 1 + random_below(dimensions == 1 ? 20000 : 700), 1, 1 } };

	if (dimensions > 1)
		rect.range.y = 1 + random_below(40);
	if (dimensions > 2)
		rect.range.z = 1 + random_below(6);
	/* Rows of whole words use wide elements. */
	if (random_below(3) == 0)
		rect.range.x = (rect.range.x + 15) & ~15u;
	rect.src = random_box(&rect.range);
	rect.dst = random_box(&rect.range);
	return rect;
}

/* Computes the expected content of @dst. */
static void reference(const struct rect *rect, uint8_t *dst, const uint8_t *src)
{
	uint32_t y, z;

	for (z = 0; z < rect->range.z; z++)
		for (y = 0; y < rect->range.y; y++)
			memcpy(dst + place_of(&rect->dst, y, z), src + place_of(&rect->src, y, z),
			       rect->range.x);
}

static bool rect_copy(const struct rect *rect, void *dst, const void *src,
		      hsa_amd_copy_direction_t dir)
{
	const hsa_pitched_ptr_t to = { dst, rect->dst.pitch, rect->dst.slice };
	const hsa_pitched_ptr_t from = { (void *)src, rect->src.pitch, rect->src.slice };
	hsa_signal_t done = signal_new(1);
	bool ok;

	must(hsa_amd_memory_async_copy_rect(&to, &rect->dst.at, &from, &rect->src.at, &rect->range,
					    gpu, dir, 0, NULL, done),
	     "hsa_amd_memory_async_copy_rect");
	submissions++;
	ok = signal_wait(done);
	must(hsa_signal_destroy(done), "hsa_signal_destroy");
	return ok;
}

static bool check(const struct rect *rect, hsa_amd_copy_direction_t dir)
{
	const size_t src_size = bytes_of(&rect->src), dst_size = bytes_of(&rect->dst);
	uint8_t *device_src = device_new(src_size), *device_dst = device_new(dst_size);
	uint8_t *wanted = malloc(dst_size);
	const uint64_t s = ++seed;
	struct host src, dst;
	bool ok = true;

	if (!wanted)
		die("out of memory");
	host_new(&src, HOST_FINE, src_size);
	host_new(&dst, HOST_COARSE, dst_size);
	pattern_fill(src.cpu, src_size, s, 0);
	pattern_fill(dst.cpu, dst_size, ~s, 0);
	memcpy(wanted, dst.cpu, dst_size);
	reference(rect, wanted, src.cpu);

	/* The linear copies around it are part of other tests. */
	if (dir != hsaHostToDevice)
		ok = copy(device_src, gpu, src.gpu, cpu, src_size);
	if (dir != hsaDeviceToHost)
		ok = ok && copy(device_dst, gpu, dst.gpu, cpu, dst_size);
	ok = ok && rect_copy(rect, dir == hsaDeviceToHost ? dst.gpu : device_dst,
			     dir == hsaHostToDevice ? src.gpu : device_src, dir);
	if (dir != hsaDeviceToHost)
		ok = ok && copy(dst.gpu, cpu, device_dst, gpu, dst_size);
	ok = ok && memcmp(dst.cpu, wanted, dst_size) == 0;
	if (!ok)
		tap_note("%ux%ux%u from +%u+%u+%u of %u/%u to +%u+%u+%u of %u/%u", rect->range.x,
			 rect->range.y, rect->range.z, rect->src.at.x, rect->src.at.y,
			 rect->src.at.z, rect->src.pitch, rect->src.slice, rect->dst.at.x,
			 rect->dst.at.y, rect->dst.at.z, rect->dst.pitch, rect->dst.slice);
	free(wanted);
	host_free(&dst);
	host_free(&src);
	device_free(device_dst);
	device_free(device_src);
	return ok;
}

void rect_tests(void)
{
	const unsigned int cases = work(30, 8);
	unsigned int d, dimensions, i;

	for (d = 0; d < COUNT(directions); d++) {
		for (dimensions = 1; dimensions <= 3; dimensions++) {
			bool ok = true;

			for (i = 0; i < cases && ok; i++) {
				const struct rect rect = random_rect(dimensions);

				ok = check(&rect, directions[d].dir);
			}
			tap_ok(ok, "async_copy_rect %s, %u-dimensional, %u random cases",
			       directions[d].name, dimensions, cases);
		}
	}
}
