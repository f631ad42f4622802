// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "tap.h"
#include "hip_copy.h"

/* The layout of hipMemcpy3D's boxes in memory. */
#define ROWS		64
#define LAYERS		7
#define SRC_SPARE	96	/* bytes behind each row of the source */
#define DST_SPARE	160	/* and of the target */

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
	char size[32];

	if (c->bytes >= MIB)
		snprintf(size, sizeof(size), "%zu MiB", c->bytes / MIB);
	else if (c->bytes >= KIB)
		snprintf(size, sizeof(size), "%zu KiB", c->bytes / KIB);
	else
		snprintf(size, sizeof(size), "%zu B", c->bytes);
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

static hipPitchedPtr pitched(void *p, size_t pitch, size_t width)
{
	return (hipPitchedPtr){ .ptr = p, .pitch = pitch, .xsize = width, .ysize = ROWS };
}

/* Rows of @width bytes in pitched memory on both sides. */
static bool run_3d(const struct call *c, struct counts *counts)
{
	const size_t width = c->bytes / (ROWS * LAYERS) & ~(size_t)3;
	const size_t src_pitch = width + SRC_SPARE, dst_pitch = width + DST_SPARE;
	const size_t src_size = src_pitch * ROWS * LAYERS, dst_size = dst_pitch * ROWS * LAYERS;
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
	parms.extent.height = ROWS;
	parms.extent.depth = LAYERS;
	parms.srcPtr = pitched(c->way == TO_DEVICE ? src : from, src_pitch, width);
	parms.dstPtr = pitched(c->way == TO_HOST ? dst : to, dst_pitch, width);
	parms.kind = kinds[c->way];
	*counts = counts_now();
	must(hipMemcpy3D(&parms), "hipMemcpy3D");
	must(hipDeviceSynchronize(), "hipDeviceSynchronize");
	*counts = counts_since(counts);
	if (c->way != TO_HOST)
		plain(dst, to, dst_size, hipMemcpyDeviceToHost);
	/* Each row's bytes were copied, and those between rows are unchanged. */
	for (row = 0; row < ROWS * LAYERS && ok; row++) {
		const size_t at = row * dst_pitch, end = at + width;

		ok = pattern_check(dst + at, width, s, row * src_pitch) == width &&
		     pattern_check(dst + end, DST_SPARE, ~s, end) == DST_SPARE;
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
