// SPDX-License-Identifier: GPL-2.0
/* Divergent lanes: branches and loops, recursion, barriers. */
#include <algorithm>

#include "samples.hpp"

/* It relies on HIP's other headers being included. */
#include <hip/hip_cooperative_groups.h>

namespace {

constexpr uint32_t GROUP = 256, COUNT = 40 * GROUP;

/* Steps until Collatz' sequence is at 1; the lanes leave the loop one by one. */
__host__ __device__ uint32_t steps(uint32_t n)
{
	uint32_t count = 0;

	for (uint64_t value = n + 1; value != 1; count++) {
		if (value % 2)
			value = 3 * value + 1;
		else
			value /= 2;
	}
	return count;
}

__host__ __device__ uint32_t branch(uint32_t n)
{
	switch (number(n) % 7) {
	case 0:
		return n;
	case 1:
		return n * n;
	case 2:
		return n % 3 ? n / 3 : ~n;
	case 3:
		for (uint32_t k = 0; k < n % 50; k++) {
			if (number(n + k) % 11 == 0)
				return k;
			n += k;
		}
		return n;
	case 4:
		return n << n % 32;
	default:
		return steps(n % 100);
	}
}

__global__ void diverge(uint32_t *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = n % 2 ? branch(n) : steps(n);
}

__host__ __device__ __attribute__((noinline)) uint32_t ackermann(uint32_t m, uint32_t n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

__host__ __device__ __attribute__((noinline)) uint64_t fibonacci(uint32_t n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__global__ void recurse(uint64_t *out)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;

	out[n] = n % 3 ? fibonacci(n % 11) : ackermann(2, n % 6);
}

__device__ uint32_t twice(uint32_t n)
{
	return 2 * n;
}

__device__ uint32_t thrice(uint32_t n)
{
	return 3 * n;
}

__global__ void call_by_address(uint32_t *out)
{
	uint32_t (*const functions[])(uint32_t) = { twice, thrice };
	const uint32_t n = threadIdx.x;

	out[n] = functions[number(n) % 2](n);
}

/* The largest group: each step, neighbours change places if they are in the wrong order. */
__global__ void sort(uint32_t *values)
{
	extern __shared__ uint32_t shared[];
	const cooperative_groups::thread_block group = cooperative_groups::this_thread_block();
	const uint32_t n = threadIdx.x, count = 2 * blockDim.x;

	values += blockIdx.x * count;
	shared[n] = values[n];
	shared[n + count / 2] = values[n + count / 2];
	for (uint32_t step = 0; step < count; step++) {
		const uint32_t at = 2 * n + step % 2;

		group.sync();
		if (at + 1 < count && shared[at] > shared[at + 1]) {
			const uint32_t lower = shared[at + 1];

			shared[at + 1] = shared[at];
			shared[at] = lower;
		}
	}
	group.sync();
	values[n] = shared[n];
	values[n + count / 2] = shared[n + count / 2];
}

void sorts(uint32_t items)
{
	constexpr uint32_t groups = 3;
	const uint32_t count = 2 * items;
	Buffer<uint32_t> values(groups * count);

	for (uint32_t n = 0; n < values.size(); n++)
		values[n] = number(n);
	values.up();
	std::vector<uint32_t> wanted = values.host;

	for (uint32_t g = 0; g < groups; g++)
		std::sort(wanted.begin() + g * count, wanted.begin() + (g + 1) * count);
	begin();
	sort<<<groups, items, count * sizeof(uint32_t)>>>(values.device);
	finish("sort");
	values.down();
	result(values.host == wanted, "groups of %u sort by barriers", items);
}

}

void control()
{
	Buffer<uint32_t> out(COUNT), called(64);
	Buffer<uint64_t> results(3 * 64);

	begin();
	diverge<<<COUNT / GROUP, GROUP>>>(out.device);
	finish("diverge");
	out.down();
	result(differing(out, [](size_t n) {
		return n % 2 ? branch((uint32_t)n) : steps((uint32_t)n);
	}) == 0, "branches and loops that part lanes");

	begin();
	recurse<<<3, 64>>>(results.device);
	finish("recurse");
	results.down();
	result(differing(results, [](size_t n) {
		return n % 3 ? fibonacci(n % 11) : ackermann(2, n % 6);
	}) == 0, "functions that call themselves");

	if (has_hostcalls("functions called by address")) {
		begin();
		call_by_address<<<1, 64>>>(called.device);
		finish("call_by_address");
		called.down();
		result(differing(called, [](size_t n) {
			return (uint32_t)(number((uint32_t)n) % 2 ? 3 * n : 2 * n);
		}) == 0, "functions called by address");
	}

	sorts(64);
	sorts(quick() ? 128 : 1024);
}
