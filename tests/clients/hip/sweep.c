// SPDX-License-Identifier: GPL-2.0
/*
 * The way of copies whose sizes are around each threshold of HIP 6.4, and of boxes with each size
 * of an element. Documentation/hipmemcpy.md names the thresholds.
 */
#include <stdio.h>
#include <string.h>

#include "hip_copy.h"

#define MOST		6
#define WORD		4

/* Sizes around a threshold, and the calls that are made with each. */
static const struct threshold {
	const char *name;
	size_t sizes[MOST];	/* 0 ends them */
	struct call calls[MOST];
	unsigned int count;
} thresholds[] = {
	{
		.name = "GPU_FORCE_BLIT_COPY_SIZE, 16 KiB",
		.sizes = { 16 * KIB, 16 * KIB + WORD },
		.calls = {
			{ .way = TO_DEVICE, .host = HOST_PAGEABLE },
			{ .way = TO_HOST, .host = HOST_PAGEABLE },
			{ .way = TO_DEVICE, .host = HOST_PINNED },
			{ .way = TO_HOST, .host = HOST_REGISTERED },
		},
		.count = 4,
	},
	{
		.name = "GPU_PINNED_MIN_XFER_SIZE, 1 MiB",
		.sizes = { MIB, MIB + WORD },
		.calls = {
			{ .way = TO_DEVICE, .host = HOST_PAGEABLE },
			{ .way = TO_HOST, .host = HOST_PAGEABLE },
		},
		.count = 2,
	},
	{
		.name = "GPU_PINNED_XFER_SIZE, 32 MiB",
		.sizes = { 32 * MIB, 32 * MIB + WORD, 33 * MIB + WORD },
		.calls = { { .way = TO_DEVICE, .host = HOST_PAGEABLE } },
		.count = 1,
	},
	{
		.name = "HSA_FORCE_SDMA_SIZE, 1 MiB, and the first one again",
		.sizes = { 16 * KIB, 16 * KIB + WORD, MIB - WORD, MIB },
		.calls = { { .way = WITHIN_NO_CU } },
		.count = 1,
	},
};

/* No threshold: the ways of such copies are the same at any size. */
static const struct call others[] = {
	{ .way = TO_DEVICE, .host = HOST_PINNED, .bytes = 33 * MIB + WORD },
	{ .way = WITHIN, .bytes = 16 * KIB + WORD },
	{ .way = WITHIN, .bytes = 4 * MIB },
	{ .way = HOST_TO_HOST, .host = HOST_PAGEABLE, .bytes = 4 * MIB },
};

/* Widths and pitches that 16, 8, 4 bytes divide, and less. */
static const struct box boxes[] = {
	{ .width = 4096, .rows = 8, .layers = 3, .src_spare = 96, .dst_spare = 160 },
	{ .width = 4088, .rows = 8, .layers = 3, .src_spare = 96, .dst_spare = 160 },
	{ .width = 4084, .rows = 8, .layers = 3, .src_spare = 96, .dst_spare = 160 },
	{ .width = 4082, .rows = 8, .layers = 3, .src_spare = 98, .dst_spare = 162 },
	{ .width = 4081, .rows = 8, .layers = 3, .src_spare = 99, .dst_spare = 163 },
	{ .width = 4082, .rows = 8, .layers = 1, .src_spare = 96, .dst_spare = 160 },
};

/* "16 B", or all sizes of elements of which there were copies. */
static const char *elements(const struct counts *c)
{
	static char text[64];
	size_t n, at = 0;

	text[0] = '\0';
	for (n = 0; n < ELEMENTS; n++)
		if (c->windows[n])
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u B",
					       at ? ", " : "", 1u << n);
	return at ? text : "-";
}

static bool row(const struct call *c, struct counts *counts)
{
	bool ok;

	if (!call_exists(c)) {
		printf("%-56s  not in this release\n", call_name(c));
		*counts = (struct counts){ 0 };
		return true;
	}
	ok = call_run(c, counts);
	printf("%-56s  %-28s  %4u  %6u  %7s  %8u  %s\n", call_name(c), path_of(counts, c),
	       counts->jobs, counts->mapped, elements(counts), counts->kernel_jobs,
	       ok ? "yes" : "NO");
	return ok;
}

/* What a threshold may change. */
static bool same_way(const struct counts *a, const struct counts *b)
{
	return a->jobs == b->jobs && a->copies == b->copies && a->kernels == b->kernels &&
	       a->mapped == b->mapped;
}

static bool around(const struct threshold *t)
{
	bool ok = true;
	size_t n, i;

	printf("%s:\n", t->name);
	for (n = 0; n < t->count; n++) {
		struct counts first, then;
		bool changed = false;

		for (i = 0; i < MOST && t->sizes[i]; i++) {
			struct call c = t->calls[n];

			c.bytes = t->sizes[i];
			ok &= row(&c, i ? &then : &first);
			changed |= i && !same_way(&first, &then);
		}
		if (!changed) {
			printf("nothing changed\n");
			ok = false;
		}
	}
	return ok;
}

bool sweep(void)
{
	/* The first copy of a kind makes a queue, whose memory is mapped as well. */
	const struct call first[] = {
		{ .way = TO_DEVICE, .host = HOST_PINNED, .bytes = 64 * KIB },
		{ .way = TO_HOST, .host = HOST_PINNED, .bytes = 64 * KIB },
		{ .way = WITHIN_NO_CU, .bytes = 4 * MIB },
	};
	struct counts counts;
	bool ok = true;
	size_t i;

	for (i = 0; i < COUNT_OF(first); i++)
		ok &= call_run(&first[i], &counts);
	printf("%-56s  %-28s  %4s  %6s  %7s  %8s  %s\n", "copy", "way", "jobs", "ioctls",
	       "element", "kernel's", "verified");
	for (i = 0; i < COUNT_OF(thresholds); i++)
		ok &= around(&thresholds[i]);
	printf("at any size:\n");
	for (i = 0; i < COUNT_OF(others); i++)
		ok &= row(&others[i], &counts);
	printf("boxes, by the greatest element that divides pitches and width:\n");
	for (i = 0; i < COUNT_OF(boxes); i++) {
		const struct call c = {
			.way = TO_DEVICE, .how = HOW_3D, .host = HOST_PINNED, .box = &boxes[i],
		};

		ok &= row(&c, &counts);
	}
	return ok;
}
