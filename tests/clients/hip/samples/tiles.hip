// SPDX-License-Identifier: GPL-2.0
/* Two dimensions and tiles in LDS: transpose, matrix products. */
#include "samples.hpp"

namespace {

constexpr uint32_t TILE = 16;

__global__ void transpose(const uint32_t *in, uint32_t *out, uint32_t rows, uint32_t columns)
{
	__shared__ uint32_t tile[TILE][TILE + 1];
	uint32_t x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

	if (x < columns && y < rows)
		tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
	__syncthreads();
	x = blockIdx.y * TILE + threadIdx.x;
	y = blockIdx.x * TILE + threadIdx.y;
	if (x < rows && y < columns)
		out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
}

template <typename T> __global__ void multiply(const T *a, const T *b, T *out, uint32_t size)
{
	__shared__ T left[TILE][TILE], right[TILE][TILE];
	const uint32_t x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
	T sum = 0;

	for (uint32_t t = 0; t < size; t += TILE) {
		left[threadIdx.y][threadIdx.x] = a[y * size + t + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * size + x];
		__syncthreads();
		for (uint32_t k = 0; k < TILE; k++)
			sum += left[threadIdx.y][k] * right[k][threadIdx.x];
		__syncthreads();
	}
	out[y * size + x] = sum;
}

template <typename T> void product(const char *type)
{
	constexpr uint32_t size = 96;
	Buffer<T> a(size * size), b(size * size), out(size * size);

	for (uint32_t n = 0; n < size * size; n++) {
		a[n] = (T)(number(n) % 64);
		b[n] = (T)(number(~n) % 64);
	}
	a.up();
	b.up();
	begin();
	multiply<T><<<dim3(size / TILE, size / TILE), dim3(TILE, TILE)>>>(a.device, b.device, out.device, size);
	finish("multiply");
	out.down();
	result(differing(out, [&](size_t n) {
		T sum = 0;

		for (uint32_t k = 0; k < size; k++)
			sum += a[n / size * size + k] * b[k * size + n % size];
		return sum;
	}) == 0, "matrix product of %s", type);
}

}

void tiles()
{
	constexpr uint32_t rows = 150, columns = 333;
	Buffer<uint32_t> in(rows * columns), out(rows * columns);

	for (uint32_t n = 0; n < in.size(); n++)
		in[n] = number(n);
	in.up();
	begin();
	transpose<<<dim3((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE), dim3(TILE, TILE)>>>(
		in.device, out.device, rows, columns);
	finish("transpose");
	out.down();
	result(differing(out, [&](size_t n) { return in[n % rows * columns + n / rows]; }) == 0, "transpose");
	product<int>("int");
	product<float>("float");
	product<double>("double");
}
