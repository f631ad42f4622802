// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "tap.h"
#include "hip_copy.h"

/* Bytes by which a size may be beside a whole number of KiB or MiB, and be called by that. */
#define BESIDE		64

/* hipMemcpyDeviceToDeviceNoCU came with 6.0. */
#define HAS_NO_CU	(HIP_VERSION >= 60000000)
#if HAS_NO_CU
#define NO_CU		hipMemcpyDeviceToDeviceNoCU
#else
#define NO_CU		hipMemcpyDeviceToDevice
#endif

hipStream_t stream;

static uint64_t seed;

static const char *const host_names[HOST_KINDS] = {
	[HOST_PAGEABLE] = "pageable",
	[HOST_PINNED] = "hipHostMalloc",
	[HOST_REGISTERED] = "hipHostRegister",
};

void must(hipError_t error, const char *what)
{
	if (error != hipSuccess)
		die("%s: %s", what, hipGetErrorName(error));
}

static uint8_t *host_new(enum host_kind kind, size_t size)
{
	void *p = NULL;

	if (kind == HOST_PINNED) {
		must(hipHostMalloc(&p, size, hipHostMallocDefault), "hipHostMalloc");
		return p;
	}
	if (posix_memalign(&p, 4096, size))
		die("out of memory");
	if (kind == HOST_REGISTERED)
		must(hipHostRegister(p, size, hipHostRegisterDefault), "hipHostRegister");
	return p;
}

static void host_free(enum host_kind kind, uint8_t *p)
{
	if (kind == HOST_PINNED) {
		must(hipHostFree(p), "hipHostFree");
		return;
	}
	if (kind == HOST_REGISTERED)
		must(hipHostUnregister(p), "hipHostUnregister");
	free(p);
}

/* "16 KiB", "16 KiB + 4 B", "16 KiB - 4 B". */
static void size_name(char *text, size_t room, size_t bytes)
{
	static const struct unit {
		size_t bytes;
		const char *name;
	} units[] = { { MIB, "MiB" }, { KIB, "KiB" } };
	size_t i;

	for (i = 0; i < COUNT_OF(units); i++) {
		const size_t whole = bytes / units[i].bytes, rest = bytes % units[i].bytes;
		const size_t missing = units[i].bytes - rest;

		if (missing <= BESIDE) {
			snprintf(text, room, "%zu %s - %zu B", whole + 1, units[i].name, missing);
			return;
		}
		if (!whole || (rest > BESIDE && i + 1 < COUNT_OF(units) && rest % KIB))
			continue;
		if (!rest) {
			snprintf(text, room, "%zu %s", whole, units[i].name);
			return;
		}
		if (rest <= BESIDE) {
			snprintf(text, room, "%zu %s + %zu B", whole, units[i].name, rest);
			return;
		}
	}
	snprintf(text, room, "%zu B", bytes);
}

static struct box box_of(const struct call *c)
{
	if (c->box)
		return *c->box;
	return (struct box){
		.width = c->bytes / (64 * 7) & ~(size_t)3,
		.rows = 64,
		.layers = 7,
		.src_spare = 96,
		.dst_spare = 160,
	};
}

const char *call_name(const struct call *c)
{
	static const char *const hows[] = { "hipMemcpy", "hipMemcpy (default)", "hipMemcpyAsync",
					   "hipMemcpy3D" };
	static const char *const ways[] = {
		[TO_DEVICE] = "from",
		[TO_HOST] = "to",
		[HOST_TO_HOST] = "host to host,",
		[WITHIN] = "device to device",
		[WITHIN_NO_CU] = "device to device, NoCU",
	};
	static char text[128];
	char size[64];

	if (c->box)
		snprintf(size, sizeof(size), "rows of %zu B in %zu", c->box->width,
			 c->box->width + c->box->src_spare);
	else
		size_name(size, sizeof(size), c->bytes);
	if (c->way == WITHIN || c->way == WITHIN_NO_CU)
		snprintf(text, sizeof(text), "%s %s, %s", hows[c->how], ways[c->way], size);
	else
		snprintf(text, sizeof(text), "%s %s %s, %s", hows[c->how], ways[c->way],
			 host_names[c->host], size);
	return text;
}

bool call_exists(const struct call *c)
{
	return c->way != WITHIN_NO_CU || HAS_NO_CU;
}

static const hipMemcpyKind kinds[] = {
	[TO_DEVICE] = hipMemcpyHostToDevice,
	[TO_HOST] = hipMemcpyDeviceToHost,
	[HOST_TO_HOST] = hipMemcpyHostToHost,
	[WITHIN] = hipMemcpyDeviceToDevice,
	[WITHIN_NO_CU] = NO_CU,
};

/* The copy alone, and the wait for its end. */
static void copy(const struct call *c, void *dst, const void *src)
{
	const hipMemcpyKind kind = c->how == HOW_DEFAULT ? hipMemcpyDefault : kinds[c->way];

	if (c->how != HOW_ASYNC) {
		must(hipMemcpy(dst, src, c->bytes, kind), "hipMemcpy");
		/* A copy from the device to the device may return before it is done. */
		must(hipDeviceSynchronize(), "hipDeviceSynchronize");
		return;
	}
	must(hipMemcpyAsync(dst, src, c->bytes, kind, stream), "hipMemcpyAsync");
	must(hipStreamSynchronize(stream), "hipStreamSynchronize");
}

/* A copy by a call of no interest here, for the other direction. */
static void plain(void *dst, const void *src, size_t bytes, hipMemcpyKind kind)
{
	must(hipMemcpy(dst, src, bytes, kind), "hipMemcpy");
}

static bool run_linear(const struct call *c, struct counts *counts)
{
	const bool from_host = c->way == TO_DEVICE || c->way == HOST_TO_HOST;
	const bool to_host = c->way == TO_HOST || c->way == HOST_TO_HOST;
	uint8_t *src = host_new(from_host ? c->host : HOST_PAGEABLE, c->bytes);
	uint8_t *dst = host_new(to_host ? c->host : HOST_PAGEABLE, c->bytes);
	const struct pattern_copy p = {
		.dst = dst,
		.dst_size = c->bytes,
		.src = src,
		.bytes = c->bytes,
		.seed = ++seed,
	};
	void *from, *to;
	bool ok;

	must(hipMalloc(&from, c->bytes), "hipMalloc");
	must(hipMalloc(&to, c->bytes), "hipMalloc");
	pattern_prepare(&p);
	if (!from_host)
		plain(from, src, c->bytes, hipMemcpyHostToDevice);
	*counts = counts_now();
	copy(c, to_host ? dst : to, from_host ? src : from);
	*counts = counts_since(counts);
	if (!to_host)
		plain(dst, to, c->bytes, hipMemcpyDeviceToHost);
	ok = pattern_verify(&p);
	must(hipFree(to), "hipFree");
	must(hipFree(from), "hipFree");
	host_free(to_host ? c->host : HOST_PAGEABLE, dst);
	host_free(from_host ? c->host : HOST_PAGEABLE, src);
	return ok;
}

static hipPitchedPtr pitched(void *p, size_t pitch, const struct box *box)
{
	return (hipPitchedPtr){ .ptr = p, .pitch = pitch, .xsize = box->width, .ysize = box->rows };
}

/* A box in pitched memory on both sides. */
static bool run_3d(const struct call *c, struct counts *counts)
{
	const struct box box = box_of(c);
	const size_t width = box.width, rows = box.rows * box.layers;
	const size_t src_pitch = width + box.src_spare, dst_pitch = width + box.dst_spare;
	const size_t src_size = src_pitch * rows, dst_size = dst_pitch * rows;
	uint8_t *src = host_new(c->way == TO_DEVICE ? c->host : HOST_PAGEABLE, src_size);
	uint8_t *dst = host_new(c->way == TO_HOST ? c->host : HOST_PAGEABLE, dst_size);
	const uint64_t s = ++seed;
	hipMemcpy3DParms parms;
	void *from, *to;
	bool ok = true;
	size_t row;

	must(hipMalloc(&from, src_size), "hipMalloc");
	must(hipMalloc(&to, dst_size), "hipMalloc");
	pattern_fill(src, src_size, s, 0);
	pattern_fill(dst, dst_size, ~s, 0);
	if (c->way != TO_DEVICE)
		plain(from, src, src_size, hipMemcpyHostToDevice);
	if (c->way != TO_HOST)
		plain(to, dst, dst_size, hipMemcpyHostToDevice);
	memset(&parms, 0, sizeof(parms));
	parms.extent.width = width;
	parms.extent.height = box.rows;
	parms.extent.depth = box.layers;
	parms.srcPtr = pitched(c->way == TO_DEVICE ? src : from, src_pitch, &box);
	parms.dstPtr = pitched(c->way == TO_HOST ? dst : to, dst_pitch, &box);
	parms.kind = kinds[c->way];
	*counts = counts_now();
	must(hipMemcpy3D(&parms), "hipMemcpy3D");
	must(hipDeviceSynchronize(), "hipDeviceSynchronize");
	*counts = counts_since(counts);
	if (c->way != TO_HOST)
		plain(dst, to, dst_size, hipMemcpyDeviceToHost);
	/* Each row's bytes were copied, and those between rows are unchanged. */
	for (row = 0; row < rows && ok; row++) {
		const size_t at = row * dst_pitch, end = at + width;

		ok = pattern_check(dst + at, width, s, row * src_pitch) == width &&
		     pattern_check(dst + end, box.dst_spare, ~s, end) == box.dst_spare;
		if (!ok)
			tap_note("row %zu of %zu bytes differs", row, width);
	}
	must(hipFree(to), "hipFree");
	must(hipFree(from), "hipFree");
	host_free(c->way == TO_HOST ? c->host : HOST_PAGEABLE, dst);
	host_free(c->way == TO_DEVICE ? c->host : HOST_PAGEABLE, src);
	return ok;
}

bool call_run(const struct call *c, struct counts *counts)
{
	return c->how == HOW_3D ? run_3d(c, counts) : run_linear(c, counts);
}
