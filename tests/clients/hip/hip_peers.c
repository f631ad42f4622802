// SPDX-License-Identifier: GPL-2.0
/*
 * Several GPUs by the HIP runtime: copies from the host to each and from each to each other,
 * and hipDeviceEnablePeerAccess where the driver reports a link. Argument: "linked" or "apart",
 * whichever it must be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define MOST	8

int main(int argc, char **argv)
{
	const bool linked = argc > 1 && strcmp(argv[1], "linked") == 0;
	uint32_t *host = malloc(SIZE), *back = malloc(SIZE), seed = 0;
	void *memory[MOST];
	int gpus = 0, i, j;

	/* As in hip_copy: no copy by a shader. */
	setenv("GPU_FORCE_BLIT_COPY_SIZE", "0", 1);
	tap_start();
	must(hipGetDeviceCount(&gpus), "hipGetDeviceCount");
	tap_ok(gpus > 1 && gpus <= MOST, "%d GPUs", gpus);
	for (i = 0; i < gpus; i++) {
		must(hipSetDevice(i), "hipSetDevice");
		must(hipMalloc(&memory[i], SIZE), "hipMalloc");
		fill(host, ++seed);
		memset(back, 0, SIZE);
		must(hipMemcpy(memory[i], host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
		must(hipMemcpy(back, memory[i], SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
		tap_ok(holds(back, seed), "GPU %d: there and back", i);
	}
	for (i = 0; i < gpus; i++) {
		for (j = 0; j < gpus; j++) {
			int can = 0;

			if (i == j)
				continue;
			must(hipSetDevice(i), "hipSetDevice");
			must(hipDeviceCanAccessPeer(&can, i, j), "hipDeviceCanAccessPeer");
			tap_ok(can == linked, "GPU %d has access to GPU %d: %s", i, j,
			       can ? "yes" : "no");
			if (can)
				must(hipDeviceEnablePeerAccess(j, 0), "hipDeviceEnablePeerAccess");
		}
	}
	for (i = 0; i < gpus; i++) {
		for (j = 0; j < gpus; j++) {
			if (i == j)
				continue;
			fill(host, ++seed);
			memset(back, 0, SIZE);
			must(hipSetDevice(i), "hipSetDevice");
			must(hipMemcpy(memory[i], host, SIZE, hipMemcpyHostToDevice), "hipMemcpy");
			must(hipMemcpyPeer(memory[j], j, memory[i], i, SIZE), "hipMemcpyPeer");
			must(hipDeviceSynchronize(), "hipDeviceSynchronize");
			must(hipSetDevice(j), "hipSetDevice");
			must(hipMemcpy(back, memory[j], SIZE, hipMemcpyDeviceToHost), "hipMemcpy");
			tap_ok(holds(back, seed), "from GPU %d to GPU %d", i, j);
		}
	}
	for (i = 0; i < gpus; i++) {
		must(hipSetDevice(i), "hipSetDevice");
		must(hipFree(memory[i]), "hipFree");
	}
	free(host);
	free(back);
	return tap_end();
}
