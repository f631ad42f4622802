// SPDX-License-Identifier: GPL-2.0
/*
 * The program behind the figures of `make bench` for copies within the device: by a kernel of
 * ROCr's, which hipMemcpy uses, and by SDMA, which hipMemcpyDeviceToDeviceNoCU asks for. Small
 * and large ones use a kernel all the same, unless GPU_FORCE_BLIT_COPY_SIZE is 0 and
 * HSA_FORCE_SDMA_SIZE more than their size.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"

#define MOST	(16 * SIZE)
#define ROUNDS	15u

static uint32_t *host;
static uint8_t *from, *to;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Nanoseconds that SDMA has worked for this process. */
static unsigned long long sdma_ns(void)
{
	DIR *dir = opendir("/proc/self/fdinfo");
	unsigned long long sum = 0, ns;
	struct dirent *entry;
	char path[300], line[256];

	while (dir && (entry = readdir(dir))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "drm-engine-dma: %llu ns", &ns) == 1)
				sum += ns;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median from the call to the end of the copy; the copied data is checked. */
static void measure(const char *name, hipMemcpyKind kind, size_t bytes)
{
	const size_t looked_at = bytes < SIZE ? bytes : SIZE;
	double took[ROUNDS];
	unsigned long long sdma;
	unsigned int i;

	fill(host, (uint32_t)kind);
	must(hipMemcpy(from + bytes - looked_at, host, looked_at, hipMemcpyHostToDevice),
	     "hipMemcpy");
	must(hipMemset(to, 0, bytes), "hipMemset");
	/* The first copy pays for the one-time setup. */
	must(hipMemcpy(to, from, bytes, kind), "hipMemcpy");
	must(hipDeviceSynchronize(), "hipDeviceSynchronize");
	sdma = sdma_ns();
	for (i = 0; i < ROUNDS; i++) {
		const double begun = now_us();

		must(hipMemcpy(to, from, bytes, kind), "hipMemcpy");
		must(hipDeviceSynchronize(), "hipDeviceSynchronize");
		took[i] = now_us() - begun;
	}
	if ((sdma_ns() > sdma) != (kind != hipMemcpyDeviceToDevice))
		die("%s: %zu bytes went another way", name, bytes);
	memset(host, 0, looked_at);
	must(hipMemcpy(host, to + bytes - looked_at, looked_at, hipMemcpyDeviceToHost),
	     "hipMemcpy");
	for (i = 0; i < looked_at / 4; i++)
		if (host[i] != number((uint32_t)kind, i))
			die("%s: %zu bytes are not what they were", name, bytes);
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	printf("bench %s %zu %.1f us\n", name, bytes, took[ROUNDS / 2]);
}

int main(void)
{
	static const size_t sizes[] = { 4096, 64 << 10, 1 << 20, SIZE, MOST };
	size_t i;

	must(hipHostMalloc((void **)&host, SIZE, hipHostMallocDefault), "hipHostMalloc");
	must(hipMalloc((void **)&from, MOST), "hipMalloc");
	must(hipMalloc((void **)&to, MOST), "hipMalloc");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure("within_by_kernel", hipMemcpyDeviceToDevice, sizes[i]);
		measure("within_by_sdma", hipMemcpyDeviceToDeviceNoCU, sizes[i]);
	}
	must(hipFree(to), "hipFree");
	must(hipFree(from), "hipFree");
	must(hipHostFree(host), "hipHostFree");
	return EXIT_SUCCESS;
}
