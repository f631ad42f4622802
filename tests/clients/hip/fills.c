// SPDX-License-Identifier: GPL-2.0
/* hipMemset in all its forms; the memory around the filled bytes stays unchanged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern.h"
#include "tap.h"
#include "hip_copy.h"

#define ROOM	(9 * MIB)
#define WIDTH	1000
#define PITCH	1536
#define ROWS	65

static uint8_t *device, *host;

/*
 * True if @count units of @unit bytes from @at on hold @value, and all others the pattern of
 * @seed.
 */
static bool filled(uint64_t seed, size_t at, size_t unit, size_t count, uint32_t value)
{
	const size_t end = at + unit * count;
	size_t n;

	must(hipMemcpy(host, device, ROOM, hipMemcpyDeviceToHost), "hipMemcpy");
	for (n = 0; n < count; n++) {
		if (memcmp(host + at + n * unit, &value, unit) != 0) {
			tap_note("unit %zu of %zu differs", n, count);
			return false;
		}
	}
	return pattern_check(host, at, seed, 0) == at &&
	       pattern_check(host + end, ROOM - end, seed, end) == ROOM - end;
}

static void linear(uint64_t seed, size_t at, size_t unit, size_t count)
{
	const uint32_t value = 0x9e3779b9u * (uint32_t)(seed | 1);
	bool ok;

	pattern_fill(host, ROOM, seed, 0);
	must(hipMemcpy(device, host, ROOM, hipMemcpyHostToDevice), "hipMemcpy");
	if (unit == 4)
		must(hipMemsetD32(device + at, (int)value, count), "hipMemsetD32");
	else if (unit == 2)
		must(hipMemsetD16(device + at, (unsigned short)value, count), "hipMemsetD16");
	else if (seed % 2)
		must(hipMemset(device + at, (int)(value & 0xff), count), "hipMemset");
	else
		must(hipMemsetAsync(device + at, (int)(value & 0xff), count, stream),
		     "hipMemsetAsync");
	must(hipDeviceSynchronize(), "hipDeviceSynchronize");
	ok = filled(seed, at, unit, count, value);
	tap_ok(ok, "hipMemset of %zu units of %zu bytes at +%zu", count, unit, at);
}

/* Rows with a gap behind each; ends with the row that lies behind all of them. */
static void boxes(uint64_t seed, size_t layers)
{
	const hipPitchedPtr to = { .ptr = device, .pitch = PITCH, .xsize = WIDTH, .ysize = ROWS };
	const hipExtent extent = { .width = WIDTH, .height = ROWS, .depth = layers };
	bool ok = true;
	size_t row;

	pattern_fill(host, ROOM, seed, 0);
	must(hipMemcpy(device, host, ROOM, hipMemcpyHostToDevice), "hipMemcpy");
	if (layers > 1)
		must(hipMemset3D(to, 0x5a, extent), "hipMemset3D");
	else
		must(hipMemset2D(device, PITCH, 0x5a, WIDTH, ROWS), "hipMemset2D");
	must(hipDeviceSynchronize(), "hipDeviceSynchronize");
	must(hipMemcpy(host, device, ROOM, hipMemcpyDeviceToHost), "hipMemcpy");
	for (row = 0; row <= ROWS * layers; row++) {
		const size_t width = row < ROWS * layers ? WIDTH : 0;
		const uint8_t *p = host + row * PITCH;
		size_t n;

		for (n = 0; n < width; n++)
			ok &= p[n] == 0x5a;
		ok &= pattern_check(p + width, PITCH - width, seed, row * PITCH + width) ==
		      PITCH - width;
	}
	tap_ok(ok, "hipMemset%s", layers > 1 ? "3D" : "2D");
}

void fills(void)
{
	static const size_t counts[] = { 1, 63, 1000, 65536, 2 * MIB + 3 };
	static const size_t units[] = { 1, 1, 2, 4 };
	uint64_t seed = 1000;
	size_t u, n;

	must(hipMalloc((void **)&device, ROOM), "hipMalloc");
	host = malloc(ROOM);
	if (!host)
		die("out of memory");
	for (u = 0; u < COUNT_OF(units); u++) {
		for (n = 0; n < COUNT_OF(counts); n++, seed++)
			linear(seed, units[u] * (n * 3 % 7), units[u], counts[n]);
	}
	boxes(seed++, 1);
	boxes(seed, 3);
	free(host);
	must(hipFree(device), "hipFree");
}
