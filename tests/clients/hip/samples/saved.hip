// SPDX-License-Identifier: GPL-2.0
/*
 * The HIP program that criu.sh saves and restores: a kernel that goes on until the file of the
 * first argument is there, and more work afterwards. Prints a line when the kernel runs, and TAP
 * at the end.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <vector>

#include <hip/hip_runtime.h>

extern "C" {
#include "hip/memory.h"
}

#define MUST(call)	must(call, #call)

namespace {

constexpr uint32_t GROUP = 64, GROUPS = 8, COUNT = GROUP * GROUPS;
constexpr uint32_t TABLE = 1u << 16;
constexpr useconds_t NAP_US = 20000;

/* What the kernel and the CPU share while it runs. */
struct Shared {
	uint32_t stop;
	uint32_t rounds[GROUPS];
};

struct Result {
	uint32_t rounds, value;
};

__host__ __device__ uint32_t next(uint32_t value, const uint32_t *table)
{
	return value * 1664525u + table[value >> 16] + 1013904223u;
}

/* A chain of values for each thread, whose groups have a number of rounds in common. */
__global__ void chains(Shared *shared, const uint32_t *table, Result *results)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;
	uint32_t value = n, rounds = 0;

	while (!__hip_atomic_load(&shared->stop, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)) {
		value = next(value, table);
		rounds++;
		if (threadIdx.x == 0)
			__hip_atomic_store(&shared->rounds[blockIdx.x], rounds, __ATOMIC_RELAXED,
					   __HIP_MEMORY_SCOPE_SYSTEM);
	}
	results[n] = { rounds, value };
}

__global__ void twice(const Result *results, uint32_t *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = results[n].value * 2;
}

bool run(const Shared *shared)
{
	for (uint32_t group = 0; group < GROUPS; group++) {
		const volatile uint32_t *const rounds = &shared->rounds[group];
		const uint32_t before = *rounds;
		const unsigned long long end = now_ns() + timeout_ms() * 1000000ull;

		while (*rounds == before)
			if (now_ns() > end)
				return false;
	}
	return true;
}

} /* namespace */

int main(int argc, char **argv)
{
	std::vector<uint32_t> table(TABLE), doubled(COUNT);
	std::vector<Result> results(COUNT);
	uint32_t *device_table, *device_doubled;
	Result *device_results;
	Shared *shared;
	bool right = true, doubles = true;

	if (argc != 2)
		die("usage: hip_saved FILE");
	tap_start();
	for (uint32_t i = 0; i < TABLE; i++)
		table[i] = i * 2654435761u;
	MUST(hipMalloc(reinterpret_cast<void **>(&device_table), TABLE * 4));
	MUST(hipMalloc(reinterpret_cast<void **>(&device_results), COUNT * sizeof(Result)));
	MUST(hipMalloc(reinterpret_cast<void **>(&device_doubled), COUNT * 4));
	MUST(hipHostMalloc(reinterpret_cast<void **>(&shared), sizeof(*shared), 0));
	memset(shared, 0, sizeof(*shared));
	MUST(hipMemcpy(device_table, table.data(), TABLE * 4, hipMemcpyHostToDevice));
	chains<<<dim3(GROUPS), dim3(GROUP)>>>(shared, device_table, device_results);
	MUST(hipGetLastError());
	if (!run(shared))
		die("the kernel does not run");
	printf("# the kernel runs\n");
	fflush(stdout);
	while (access(argv[1], F_OK))
		usleep(NAP_US);
	tap_ok(run(shared), "the kernel goes on");
	*static_cast<volatile uint32_t *>(&shared->stop) = 1;
	MUST(hipDeviceSynchronize());
	MUST(hipMemcpy(results.data(), device_results, COUNT * sizeof(Result), hipMemcpyDeviceToHost));
	for (uint32_t n = 0; n < COUNT; n++) {
		uint32_t value = n;

		for (uint32_t round = 0; round < results[n].rounds; round++)
			value = next(value, table.data());
		right = right && results[n].rounds && value == results[n].value;
	}
	tap_ok(right, "its result is right");
	twice<<<dim3(GROUPS), dim3(GROUP)>>>(device_results, device_doubled);
	MUST(hipGetLastError());
	MUST(hipMemcpy(doubled.data(), device_doubled, COUNT * 4, hipMemcpyDeviceToHost));
	for (uint32_t n = 0; n < COUNT; n++)
		doubles = doubles && doubled[n] == results[n].value * 2;
	tap_ok(doubles, "another kernel runs, and copies");
	return tap_end();
}
