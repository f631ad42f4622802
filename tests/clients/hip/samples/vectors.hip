// SPDX-License-Identifier: GPL-2.0
/* An item for each element: vector add, saxpy, a stencil. */
#include "samples.hpp"

namespace {

constexpr uint32_t GROUP = 256, HALO = 3;

__global__ void add(const int *a, const int *b, int *out, uint32_t count)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;

	if (n < count)
		out[n] = a[n] + b[n];
}

/* Each item takes several elements, a grid apart. */
__global__ void saxpy(float factor, const float *x, float *y, uint32_t count)
{
	for (uint32_t n = blockIdx.x * blockDim.x + threadIdx.x; n < count; n += gridDim.x * blockDim.x)
		y[n] = factor * x[n] + y[n];
}

__global__ void stencil(const int *in, int *out, uint32_t count)
{
	__shared__ int part[GROUP + 2 * HALO];
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x, at = threadIdx.x + HALO;

	part[at] = n < count ? in[n] : 0;
	if (threadIdx.x < HALO) {
		part[threadIdx.x] = n >= HALO && n - HALO < count ? in[n - HALO] : 0;
		part[at + GROUP] = n + GROUP < count ? in[n + GROUP] : 0;
	}
	__syncthreads();
	if (n >= count)
		return;

	int sum = 0;

	for (int k = -(int)HALO; k <= (int)HALO; k++)
		sum += (k + 4) * part[(int)at + k];
	out[n] = sum;
}

void adds(uint32_t count)
{
	Buffer<int> a(count), b(count), out(count, -1);

	for (uint32_t n = 0; n < count; n++) {
		a[n] = (int)(number(n) >> 2);
		b[n] = (int)(number(~n) >> 2);
	}
	a.up();
	b.up();
	begin();
	add<<<(count + GROUP - 1) / GROUP, GROUP>>>(a.device, b.device, out.device, count);
	finish("add");
	out.down();
	result(differing(out, [&](size_t n) { return a[n] + b[n]; }) == 0, "vector add of %u", count);
}

}

void vectors()
{
	constexpr uint32_t count = 50001;
	Buffer<float> x(count), y(count);
	Buffer<int> in(count), out(count);

	adds(1);
	adds(64);
	adds(65536 + 17);

	/* Whole numbers, so that rounding does not matter. */
	for (uint32_t n = 0; n < count; n++) {
		x[n] = (float)(number(n) % 1000);
		y[n] = (float)(number(~n) % 1000);
		in[n] = (int)(number(n) % 1000) - 500;
	}
	x.up();
	y.up();
	in.up();
	const std::vector<float> before = y.host;

	begin();
	saxpy<<<20, GROUP>>>(3, x.device, y.device, count);
	finish("saxpy");
	y.down();
	result(differing(y, [&](size_t n) { return 3 * x[n] + before[n]; }) == 0, "saxpy");

	begin();
	stencil<<<(count + GROUP - 1) / GROUP, GROUP>>>(in.device, out.device, count);
	finish("stencil");
	out.down();
	result(differing(out, [&](size_t n) {
		int sum = 0;

		for (int k = -(int)HALO; k <= (int)HALO; k++) {
			const long at = (long)n + k;

			sum += at >= 0 && at < (long)count ? (k + 4) * in[at] : 0;
		}
		return sum;
	}) == 0, "stencil");
}
