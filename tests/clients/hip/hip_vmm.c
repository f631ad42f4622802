// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses and memory apart, by the HIP runtime: hipMemAddressReserve, hipMemCreate, hipMemMap
 * and hipMemSetAccess, as in programs that let an array grow in its place; on each GPU, and
 * from other GPUs that reach it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define MOST	8

/* Pieces of SIZE bytes in a GPU's memory; there are addresses for twice as many. */
#define PIECES	2

static uint32_t *host, *back;
static uint32_t seed;

static hipMemAllocationProp memory_of(int gpu)
{
	hipMemAllocationProp prop = { 0 };

	prop.type = hipMemAllocationTypePinned;
	prop.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
	prop.location.type = hipMemLocationTypeDevice;
	prop.location.id = gpu;
	return prop;
}

/* True if GPU @gpu copies the host's data to @p, and back from there. */
static bool there_and_back(int gpu, void *p)
{
	must(hipSetDevice(gpu), "hipSetDevice");
	fill(host, ++seed);
	memset(back, 0, SIZE);
	must(hipMemcpy(p, host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
	must(hipMemcpy(back, p, SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
	return holds(back, seed);
}

static bool has(void *p, uint32_t what)
{
	memset(back, 0, SIZE);
	must(hipMemcpy(back, p, SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
	return holds(back, what);
}

/* Gives @gpu access to a piece at @p. */
static void allow(int gpu, void *p)
{
	hipMemAccessDesc desc = { 0 };

	desc.location.type = hipMemLocationTypeDevice;
	desc.location.id = gpu;
	desc.flags = hipMemAccessFlagsProtReadWrite;
	must(hipMemSetAccess(p, SIZE, &desc, 1), "hipMemSetAccess");
}

static void one_gpu(int gpu, int gpus)
{
	const hipMemAllocationProp prop = memory_of(gpu);
	hipMemGenericAllocationHandle_t piece[PIECES];
	size_t before, between, after, total, step = 0;
	uint32_t written[PIECES];
	char *at;
	int i;

	must(hipSetDevice(gpu), "hipSetDevice");
	must(hipMemGetAllocationGranularity(&step, &prop, hipMemAllocationGranularityMinimum),
	     "hipMemGetAllocationGranularity");
	tap_ok(step > 0 && SIZE % step == 0, "GPU %d: memory in multiples of %zu", gpu, step);
	must(hipMemGetInfo(&before, &total), "hipMemGetInfo");
	must(hipMemAddressReserve((void **)&at, 2 * PIECES * SIZE, 0, NULL, 0),
	     "hipMemAddressReserve");
	for (i = 0; i < PIECES; i++) {
		must(hipMemCreate(&piece[i], SIZE, &prop, 0), "hipMemCreate");
		must(hipMemMap(at + i * SIZE, SIZE, 0, piece[i], 0), "hipMemMap");
		allow(gpu, at + i * SIZE);
		tap_ok(there_and_back(gpu, at + i * SIZE), "GPU %d: piece %d", gpu, i);
		written[i] = seed;
	}
	must(hipMemGetInfo(&between, &total), "hipMemGetInfo");
	tap_ok(before - between >= PIECES * SIZE, "GPU %d: which takes memory", gpu);
	for (i = 0; i < PIECES; i++)
		tap_ok(has(at + i * SIZE, written[i]), "GPU %d: piece %d has its own", gpu, i);
	/* Other addresses, other order: data stays with the memory. */
	for (i = 0; i < PIECES; i++)
		must(hipMemUnmap(at + i * SIZE, SIZE), "hipMemUnmap");
	for (i = 0; i < PIECES; i++) {
		char *to = at + (2 * PIECES - 1 - i) * SIZE;

		must(hipMemMap(to, SIZE, 0, piece[i], 0), "hipMemMap");
		allow(gpu, to);
		tap_ok(has(to, written[i]), "GPU %d: piece %d elsewhere", gpu, i);
	}
	/* Where other GPUs reach it, they copy too. */
	for (i = 0; i < gpus; i++) {
		char *to = at + (2 * PIECES - 1) * SIZE;
		int can = 0;

		if (i == gpu)
			continue;
		must(hipDeviceCanAccessPeer(&can, i, gpu), "hipDeviceCanAccessPeer");
		if (!can)
			continue;
		allow(i, to);
		tap_ok(there_and_back(i, to), "GPU %d: GPU %d copies there", gpu, i);
		must(hipSetDevice(gpu), "hipSetDevice");
		tap_ok(has(to, seed), "GPU %d: and it finds that", gpu);
	}
	must(hipSetDevice(gpu), "hipSetDevice");
	for (i = 0; i < PIECES; i++) {
		must(hipMemUnmap(at + (2 * PIECES - 1 - i) * SIZE, SIZE), "hipMemUnmap");
		must(hipMemRelease(piece[i]), "hipMemRelease");
	}
	must(hipMemAddressFree(at, 2 * PIECES * SIZE), "hipMemAddressFree");
	must(hipMemGetInfo(&after, &total), "hipMemGetInfo");
	tap_ok(after - between >= PIECES * SIZE, "GPU %d: which is given back", gpu);
}

int main(void)
{
	int gpus = 0, i;

	/* As in hip_copy: no copy by a shader. */
	setenv("GPU_FORCE_BLIT_COPY_SIZE", "0", 1);
	tap_start();
	host = malloc(SIZE);
	back = malloc(SIZE);
	must(hipGetDeviceCount(&gpus), "hipGetDeviceCount");
	for (i = 0; i < gpus && i < MOST; i++) {
		int can = 0;

		must(hipDeviceGetAttribute(&can, hipDeviceAttributeVirtualMemoryManagementSupported,
					   i), "hipDeviceGetAttribute");
		tap_ok(can, "GPU %d manages virtual memory", i);
		if (can)
			one_gpu(i, gpus);
	}
	free(host);
	free(back);
	return tap_end();
}
