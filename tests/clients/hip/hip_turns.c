// SPDX-License-Identifier: GPL-2.0
/*
 * The program that `make timeline` records: a process that has a part of VRAM (argument: per
 * cent) and in each of some rounds makes HIP copy there, run a kernel (of hip_module.co, the
 * next argument), and copy back. Two of them with more than half each displace each other. With
 * a folder and a number as further arguments it begins when that many processes have arrived
 * there, so that they run at the same time.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

#define ROUNDS	4u
#define THREADS	(64u << 10)
#define BLOCK	256u

/* Declared in hip_ext.h, which is C++. */
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t x, uint32_t y, uint32_t z,
				    uint32_t block_x, uint32_t block_y, uint32_t block_z,
				    size_t shared, hipStream_t stream, void **args,
				    void **extra, hipEvent_t start, hipEvent_t stop,
				    uint32_t flags);

struct turns {
	hipStream_t stream;
	hipFunction_t scale;
	hipEvent_t begin, end;
	uint32_t *host, *back;	/* SIZE bytes each */
	uint8_t *memory;
};

/* out[n] = n * factor + offset, with the GPU's own times of it. */
static void run_scale(const struct turns *t, void *out, uint32_t factor, uint8_t offset)
{
	void *args[] = { &out, &offset, &factor };

	must(hipExtModuleLaunchKernel(t->scale, THREADS, 1, 1, BLOCK, 1, 1, 0, t->stream,
				      args, NULL, t->begin, t->end, 0),
	     "hipExtModuleLaunchKernel");
}

static bool is_scaled(const uint32_t *p, uint32_t factor, uint8_t offset)
{
	uint32_t n;

	for (n = 0; n < THREADS; n++)
		if (p[n] != n * factor + offset)
			return false;
	return true;
}

static bool turn(const struct turns *t, uint32_t seed)
{
	uint8_t *kernels = t->memory + SIZE;
	float ms = -1;
	bool ok;

	fill(t->host, seed);
	memset(t->back, 0, SIZE);
	must(hipMemcpyAsync(t->memory, t->host, SIZE, hipMemcpyHostToDevice, t->stream),
	     "hipMemcpyAsync");
	run_scale(t, kernels, seed, 1);
	must(hipMemcpyAsync(t->back, t->memory, SIZE, hipMemcpyDeviceToHost, t->stream),
	     "hipMemcpyAsync");
	must(hipStreamSynchronize(t->stream), "hipStreamSynchronize");
	ok = holds(t->back, seed);
	must(hipMemcpyAsync(t->back, kernels, THREADS * 4, hipMemcpyDeviceToHost, t->stream),
	     "hipMemcpyAsync");
	must(hipStreamSynchronize(t->stream), "hipStreamSynchronize");
	must(hipEventElapsedTime(&ms, t->begin, t->end), "hipEventElapsedTime");
	return ok && is_scaled(t->back, seed, 1) && ms >= 0;
}

/* The number of files in @folder. */
static unsigned int there(const char *folder)
{
	unsigned int count = 0;
	struct dirent *entry;
	DIR *dir = opendir(folder);

	if (!dir)
		die("no folder %s", folder);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Waits until @count processes have arrived in @folder. */
static void meet(const char *folder, unsigned int count)
{
	const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s/%d", folder, getpid());
	f = fopen(name, "we");
	if (!f)
		die("no file %s", name);
	fclose(f);
	while (there(folder) < count) {
		if (now_ns() > end)
			die("the others do not come");
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	const unsigned int percent = argc > 1 ? (unsigned int)atoi(argv[1]) : 60;
	const char *file = argc > 2 ? argv[2] : "hip_module.co";
	size_t available, total;
	hipModule_t module;
	struct turns t;
	uint32_t i;

	tap_start();
	must(hipMemGetInfo(&available, &total), "hipMemGetInfo");
	must(hipModuleLoad(&module, file), "hipModuleLoad");
	must(hipModuleGetFunction(&t.scale, module, "scale"), "hipModuleGetFunction");
	must(hipHostMalloc((void **)&t.host, SIZE, hipHostMallocDefault), "hipHostMalloc");
	must(hipHostMalloc((void **)&t.back, SIZE, hipHostMallocDefault), "hipHostMalloc");
	must(hipStreamCreate(&t.stream), "hipStreamCreate");
	must(hipEventCreate(&t.begin), "hipEventCreate");
	must(hipEventCreate(&t.end), "hipEventCreate");
	if (argc > 4)
		meet(argv[3], (unsigned int)atoi(argv[4]));
	must(hipMalloc((void **)&t.memory, total / 100 * percent), "hipMalloc");
	for (i = 1; i <= ROUNDS; i++) {
		tap_ok(turn(&t, i), "round %u", i);
		usleep(20000);
	}
	must(hipFree(t.memory), "hipFree");
	must(hipEventDestroy(t.end), "hipEventDestroy");
	must(hipEventDestroy(t.begin), "hipEventDestroy");
	must(hipStreamDestroy(t.stream), "hipStreamDestroy");
	must(hipHostFree(t.back), "hipHostFree");
	must(hipHostFree(t.host), "hipHostFree");
	must(hipModuleUnload(module), "hipModuleUnload");
	return tap_end();
}
