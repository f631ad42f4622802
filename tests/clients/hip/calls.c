// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "common/tap.h"
#include "hip_copy.h"

/* How hipMemcpy3D's boxes lie in memory. */
#define ROWS		64
#define LAYERS		7
#define HOST_SPARE	96	/* bytes behind each row of the host */
#define DEVICE_SPARE	160	/* and of the device */

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
	static const char *const hows[] = { "hipMemcpy", "hipMemcpyAsync", "hipMemcpy3D" };
	static char text[128];
	char size[32];

	if (c->bytes >= MIB)
		snprintf(size, sizeof(size), "%zu MiB", c->bytes / MIB);
	else
		snprintf(size, sizeof(size), "%zu KiB", c->bytes / KIB);
	if (c->way == WITHIN)
		snprintf(text, sizeof(text), "%s device to device, NoCU, %s", hows[c->how], size);
	else
		snprintf(text, sizeof(text), "%s %s %s, %s", hows[c->how],
			 c->way == TO_DEVICE ? "from" : "to", host_names[c->host], size);
	return text;
}

bool call_exists(const struct call *c)
{
	return c->way != WITHIN || HAS_NO_CU;
}

/* The copy alone, and the end of it. */
static void copy(const struct call *c, void *dst, const void *src, hipMemcpyKind kind)
{
	if (c->how == HOW_MEMCPY) {
		must(hipMemcpy(dst, src, c->bytes, kind), "hipMemcpy");
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
	uint8_t *host = host_new(c->host, c->bytes), *check = host_new(HOST_PAGEABLE, c->bytes);
	struct pattern_copy p = {
		.dst = c->way == TO_HOST ? host : check,
		.dst_size = c->bytes,
		.src = c->way == TO_HOST ? check : host,
		.bytes = c->bytes,
		.seed = ++seed,
	};
	void *device, *other;
	bool ok;

	must(hipMalloc(&device, c->bytes), "hipMalloc");
	must(hipMalloc(&other, c->bytes), "hipMalloc");
	pattern_prepare(&p);
	if (c->way != TO_DEVICE)
		plain(device, p.src, c->bytes, hipMemcpyHostToDevice);
	*counts = counts_now();
	if (c->way == TO_DEVICE)
		copy(c, device, host, hipMemcpyHostToDevice);
	else if (c->way == TO_HOST)
		copy(c, host, device, hipMemcpyDeviceToHost);
	else
		copy(c, other, device, NO_CU);
	*counts = counts_since(counts);
	if (c->way != TO_HOST)
		plain(check, c->way == WITHIN ? other : device, c->bytes, hipMemcpyDeviceToHost);
	ok = pattern_verify(&p);
	must(hipFree(other), "hipFree");
	must(hipFree(device), "hipFree");
	host_free(HOST_PAGEABLE, check);
	host_free(c->host, host);
	return ok;
}

/* Rows of @width bytes in pitched memory on both sides. */
static bool run_3d(const struct call *c, struct counts *counts)
{
	const size_t width = c->bytes / (ROWS * LAYERS) & ~(size_t)3;
	const size_t host_pitch = width + HOST_SPARE, device_pitch = width + DEVICE_SPARE;
	const size_t host_size = host_pitch * ROWS * LAYERS;
	const size_t device_size = device_pitch * ROWS * LAYERS;
	uint8_t *host = host_new(c->host, host_size), *flat = host_new(HOST_PAGEABLE, device_size);
	const bool up = c->way == TO_DEVICE;
	const uint64_t s = ++seed;
	hipMemcpy3DParms parms;
	bool ok = true;
	void *device;
	size_t row;

	memset(&parms, 0, sizeof(parms));
	must(hipMalloc(&device, device_size), "hipMalloc");
	pattern_fill(host, host_size, s, 0);
	pattern_fill(flat, device_size, ~s, 0);
	plain(device, flat, device_size, hipMemcpyHostToDevice);
	parms.extent.width = width;
	parms.extent.height = ROWS;
	parms.extent.depth = LAYERS;
	parms.srcPtr.ptr = up ? (void *)host : device;
	parms.srcPtr.pitch = up ? host_pitch : device_pitch;
	parms.dstPtr.ptr = up ? device : (void *)host;
	parms.dstPtr.pitch = up ? device_pitch : host_pitch;
	parms.srcPtr.xsize = width;
	parms.dstPtr.xsize = width;
	parms.srcPtr.ysize = ROWS;
	parms.dstPtr.ysize = ROWS;
	parms.kind = up ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost;
	*counts = counts_now();
	must(hipMemcpy3D(&parms), "hipMemcpy3D");
	*counts = counts_since(counts);
	if (up)
		plain(flat, device, device_size, hipMemcpyDeviceToHost);
	/* Each row's bytes have come over, and those between rows have stayed. */
	for (row = 0; row < ROWS * LAYERS && ok; row++) {
		const size_t from = row * host_pitch, to = row * device_pitch;

		if (up)
			ok = pattern_check(flat + to, width, s, from) == width &&
			     pattern_check(flat + to + width, DEVICE_SPARE, ~s, to + width) ==
			     DEVICE_SPARE;
		else
			ok = pattern_check(host + from, width, ~s, to) == width &&
			     pattern_check(host + from + width, HOST_SPARE, s, from + width) ==
			     HOST_SPARE;
		if (!ok)
			tap_note("row %zu of %zu bytes differs", row, width);
	}
	must(hipFree(device), "hipFree");
	host_free(HOST_PAGEABLE, flat);
	host_free(c->host, host);
	return ok;
}

bool call_run(const struct call *c, struct counts *counts)
{
	return c->how == HOW_3D ? run_3d(c, counts) : run_linear(c, counts);
}
