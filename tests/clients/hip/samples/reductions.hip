// SPDX-License-Identifier: GPL-2.0
/* Cooperation of items: sums by LDS and by shuffles, prefix sums, a histogram. */
#include <numeric>

#include "samples.hpp"

namespace {

constexpr uint32_t GROUP = 256;

__global__ void reduce(const uint32_t *in, uint32_t *out, uint32_t count)
{
	__shared__ uint32_t part[GROUP];
	uint32_t sum = 0;

	for (uint32_t n = blockIdx.x * GROUP + threadIdx.x; n < count; n += gridDim.x * GROUP)
		sum += in[n];
	part[threadIdx.x] = sum;
	__syncthreads();
	for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		out[blockIdx.x] = part[0];
}

__global__ void shuffle_sum(const int *in, int *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;
	int sum = in[n];

	for (int half = warpSize / 2; half > 0; half /= 2)
		sum += __shfl_down(sum, half);
	if (threadIdx.x % warpSize == 0)
		out[n / warpSize] = sum;
}

/* Of one group, in LDS whose size is given at the launch: up the tree and down again. */
__global__ void scan(const uint32_t *in, uint32_t *out, uint32_t count)
{
	extern __shared__ uint32_t tree[];
	uint32_t step = 1;

	tree[2 * threadIdx.x] = in[2 * threadIdx.x];
	tree[2 * threadIdx.x + 1] = in[2 * threadIdx.x + 1];
	for (uint32_t left = count / 2; left > 0; left /= 2, step *= 2) {
		__syncthreads();
		if (threadIdx.x < left)
			tree[step * (2 * threadIdx.x + 2) - 1] += tree[step * (2 * threadIdx.x + 1) - 1];
	}
	if (threadIdx.x == 0)
		tree[count - 1] = 0;
	for (uint32_t left = 1; left < count; left *= 2) {
		step /= 2;
		__syncthreads();
		if (threadIdx.x < left) {
			const uint32_t a = step * (2 * threadIdx.x + 1) - 1, b = a + step, was = tree[a];

			tree[a] = tree[b];
			tree[b] += was;
		}
	}
	__syncthreads();
	out[2 * threadIdx.x] = tree[2 * threadIdx.x];
	out[2 * threadIdx.x + 1] = tree[2 * threadIdx.x + 1];
}

__global__ void histogram(const uint8_t *in, uint32_t *bins, uint32_t count)
{
	__shared__ uint32_t part[256];

	part[threadIdx.x] = 0;
	__syncthreads();
	for (uint32_t n = blockIdx.x * GROUP + threadIdx.x; n < count; n += gridDim.x * GROUP)
		atomicAdd(&part[in[n]], 1u);
	__syncthreads();
	atomicAdd(&bins[threadIdx.x], part[threadIdx.x]);
}

}

void reductions()
{
	constexpr uint32_t count = 100003, groups = 12, leaves = 1024;
	Buffer<uint32_t> in(count), sums(groups), bins(256), prefix(leaves);
	Buffer<int> whole(4 * GROUP), halves(4 * GROUP / 64);
	Buffer<uint8_t> bytes(count);
	std::vector<uint32_t> wanted(256), before(leaves);

	for (uint32_t n = 0; n < count; n++) {
		in[n] = number(n);
		bytes[n] = (uint8_t)(number(n) % 97);
		wanted[bytes[n]]++;
	}
	for (uint32_t n = 0; n < whole.size(); n++)
		whole[n] = (int)number(n);
	in.up();
	bytes.up();
	whole.up();

	begin();
	reduce<<<groups, GROUP>>>(in.device, sums.device, count);
	finish("reduce");
	sums.down();
	result(std::accumulate(sums.host.begin(), sums.host.end(), 0u) ==
	       std::accumulate(in.host.begin(), in.host.end(), 0u), "sum in LDS");

	begin();
	shuffle_sum<<<4, GROUP>>>(whole.device, halves.device);
	finish("shuffle_sum");
	halves.down();
	result(differing(halves, [&](size_t n) {
		return (int)std::accumulate(&whole[64 * n], &whole[64 * n] + 64, 0u);
	}) == 0, "sum by shuffles");

	begin();
	scan<<<1, leaves / 2, leaves * sizeof(uint32_t)>>>(in.device, prefix.device, leaves);
	finish("scan");
	prefix.down();
	std::exclusive_scan(in.host.begin(), in.host.begin() + leaves, before.begin(), 0u);
	result(prefix.host == before, "prefix sums, LDS sized at the launch");

	begin();
	histogram<<<groups, GROUP>>>(bytes.device, bins.device, count);
	finish("histogram");
	bins.down();
	result(bins.host == wanted, "histogram");
}
