// SPDX-License-Identifier: GPL-2.0
/* Atomics in memory of the device and of the host, while many waves use them. */
#include <algorithm>

#include "samples.hpp"

namespace {

constexpr uint32_t GROUP = 256, GROUPS = 40, ITEMS = GROUP * GROUPS;

struct Cells {
	uint32_t add, min, max, conjunction, parity, cas, wrap;
	int sub;
	uint64_t wide;
	float real;
	double real_wide;
};

__global__ void update(Cells *cells, uint32_t *taken)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	taken[n] = atomicAdd(&cells->add, 1u);
	atomicSub(&cells->sub, (int)(n % 7));
	atomicMin(&cells->min, number(n));
	atomicMax(&cells->max, number(n));
	atomicAnd(&cells->conjunction, ~(1u << n % 31));
	atomicXor(&cells->parity, number(n));
	atomicInc(&cells->wrap, 999);
	atomicAdd((unsigned long long *)&cells->wide, (unsigned long long)n << 20);
	atomicAdd(&cells->real, 0.5f);
	atomicAdd(&cells->real_wide, 0.25);
	for (uint32_t seen = cells->cas;;) {
		const uint32_t was = atomicCAS(&cells->cas, seen, seen + 3);

		if (was == seen)
			break;
		seen = was;
	}
}

/* The last item finds all parts there. */
__global__ void last_one(uint32_t *parts, uint32_t *arrived, uint32_t *sum)
{
	__shared__ bool last;

	if (threadIdx.x == 0) {
		parts[blockIdx.x] = number(blockIdx.x);
		__threadfence();
		last = atomicAdd(arrived, 1u) == gridDim.x - 1;
	}
	__syncthreads();
	if (!last)
		return;
	__threadfence();
	for (uint32_t n = threadIdx.x; n < gridDim.x; n += blockDim.x)
		atomicAdd(sum, parts[n]);
}

bool right(const Cells &c)
{
	uint32_t least = ~0u, most = 0, parity = 0;
	uint64_t wide = 0;
	int sub = 0;

	for (uint32_t n = 0; n < ITEMS; n++) {
		least = std::min(least, number(n));
		most = std::max(most, number(n));
		parity ^= number(n);
		wide += (uint64_t)n << 20;
		sub -= (int)(n % 7);
	}
	return c.add == ITEMS && c.sub == sub && c.min == least && c.max == most &&
	       c.conjunction == 1u << 31 && c.parity == parity && c.wrap == ITEMS % 1000 &&
	       c.wide == wide && c.real == ITEMS * 0.5f && c.real_wide == ITEMS * 0.25 &&
	       c.cas == 3 * ITEMS;
}

}

void atomics()
{
	Cells empty = {};

	empty.min = empty.conjunction = ~0u;
	Buffer<Cells> cells(1, empty);
	Buffer<uint32_t> taken(ITEMS), parts(300), state(2);
	uint32_t sum = 0;

	begin();
	update<<<GROUPS, GROUP>>>(cells.device, taken.device);
	finish("update");
	cells.down();
	taken.down();
	result(right(cells[0]), "atomics");

	std::vector<bool> seen(ITEMS);
	for (uint32_t n : taken.host)
		seen.at(n) = true;
	result(std::count(seen.begin(), seen.end(), true) == ITEMS, "each number was taken once");

	begin();
	last_one<<<300, 64>>>(parts.device, state.device, state.device + 1);
	finish("last_one");
	state.down();
	for (uint32_t n = 0; n < 300; n++)
		sum += number(n);
	result(state[0] == 300 && state[1] == sum, "the last group sees what all others wrote");
}
