// SPDX-License-Identifier: GPL-2.0
/* Floating point of 16 bits: half, and bfloat16. */
#include <algorithm>
#include <cmath>
#include <cstring>

#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>

#include "samples.hpp"

namespace {

constexpr uint32_t GROUP = 256, ALL = 65536;

__global__ void widen_half(const uint16_t *in, float *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = __half2float(__ushort_as_half(in[n]));
}

__global__ void narrow_half(const float *in, uint16_t *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = __half_as_ushort(__float2half(in[n]));
}

__global__ void multiply_half(const uint16_t *a, uint16_t *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = __half_as_ushort(__hmul(__ushort_as_half(a[n]), __ushort_as_half(a[ALL - 1 - n])));
}

__global__ void add_half2(const __half2 *a, const __half2 *b, __half2 *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = __hadd2(a[n], b[n]);
}

__global__ void dot_bfloat(const uint16_t *a, const uint16_t *b, float *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;
	float sum = 0;

	for (uint32_t k = 0; k < 8; k++) {
		hip_bfloat16 x, y;

		x.data = a[8 * n + k];
		y.data = b[8 * n + k];
		sum += (float)x * (float)y;
	}
	out[n] = sum;
}

__global__ void narrow_bfloat(const float *in, uint16_t *out)
{
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;

	out[n] = hip_bfloat16(in[n]).data;
}

/* Without any of HIP's own conversions. */
float half_value(uint16_t bits)
{
	const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
	float value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent)
		value = std::ldexp(1 + fraction / 1024.0f, exponent - 15);
	else
		value = std::ldexp((float)fraction, -24);
	return bits >> 15 ? -value : value;
}

/* Rounds to nearest, ties to even. */
uint16_t half_bits(double value)
{
	const uint16_t sign = std::signbit(value) << 15;
	const double size = std::fabs(value);

	if (std::isnan(value))
		return sign | 0x7e00;
	if (size >= 65520)
		return sign | 0x7c00;

	const int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
	const uint32_t units = (uint32_t)std::nearbyint(std::ldexp(size, 10 - exponent));

	/*
	 * A carry out of the fraction goes into the exponent; without the leading one it is a
	 * denormal.
	 */
	return sign | (uint16_t)(units + ((exponent + 14) << 10));
}

uint16_t bfloat_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float bfloat_value(uint16_t bits)
{
	const uint32_t wide = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &wide, 4);
	return value;
}

bool same(float a, float b)
{
	return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

bool same_half(uint16_t a, uint16_t b)
{
	return a == b || (std::isnan(half_value(a)) && std::isnan(half_value(b)));
}

void halves()
{
	Buffer<uint16_t> bits(ALL), out(ALL);
	Buffer<float> wide(ALL);
	size_t bad = 0;

	for (uint32_t n = 0; n < ALL; n++)
		bits[n] = (uint16_t)n;
	bits.up();
	begin();
	widen_half<<<ALL / GROUP, GROUP>>>(bits.device, wide.device);
	finish("widen_half");
	wide.down();
	for (uint32_t n = 0; n < ALL; n++)
		bad += !same(wide[n], half_value((uint16_t)n));
	result(!bad, "every half as a float");

	begin();
	multiply_half<<<ALL / GROUP, GROUP>>>(bits.device, out.device);
	finish("multiply_half");
	out.down();
	bad = 0;
	for (uint32_t n = 0; n < ALL; n++)
		bad += !same_half(out[n], half_bits((double)half_value((uint16_t)n) *
						    half_value((uint16_t)(ALL - 1 - n))));
	result(!bad, "every half times another");

	for (uint32_t n = 0; n < ALL; n++)
		wide[n] = std::ldexp((float)(int)number(n), (int)(number(~n) % 48) - 56);
	wide.up();
	begin();
	narrow_half<<<ALL / GROUP, GROUP>>>(wide.device, out.device);
	finish("narrow_half");
	out.down();
	bad = 0;
	for (uint32_t n = 0; n < ALL; n++)
		bad += !same_half(out[n], half_bits(wide[n]));
	result(!bad, "floats as halves, denormal and too great ones");
}

void pairs()
{
	constexpr uint32_t count = 4 * GROUP;
	Buffer<uint32_t> a(count), b(count), out(count);
	size_t bad = 0;

	for (uint32_t n = 0; n < count; n++) {
		a[n] = number(n) & 0xbbffbbff;
		b[n] = number(~n) & 0xbbffbbff;
	}
	a.up();
	b.up();
	begin();
	add_half2<<<count / GROUP, GROUP>>>((const __half2 *)a.device, (const __half2 *)b.device,
					    (__half2 *)out.device);
	finish("add_half2");
	out.down();
	for (uint32_t n = 0; n < count; n++) {
		for (int shift = 0; shift < 32; shift += 16) {
			const double sum = (double)half_value((uint16_t)(a[n] >> shift)) +
				half_value((uint16_t)(b[n] >> shift));

			bad += !same_half((uint16_t)(out[n] >> shift), half_bits(sum));
		}
	}
	result(!bad, "sums of pairs of halves");
}

void bfloats()
{
	constexpr uint32_t count = 4 * GROUP;
	Buffer<uint16_t> a(8 * count), b(8 * count), narrow(count);
	Buffer<float> sums(count), wide(count);

	/* Whole numbers below 256 are exact. */
	for (uint32_t n = 0; n < a.size(); n++) {
		a[n] = bfloat_bits((float)(number(n) % 256));
		b[n] = bfloat_bits(-(float)(number(~n) % 256));
	}
	for (uint32_t n = 0; n < count; n++)
		wide[n] = std::ldexp((float)(int)number(n), (int)(n % 200) - 130);
	a.up();
	b.up();
	wide.up();
	begin();
	dot_bfloat<<<count / GROUP, GROUP>>>(a.device, b.device, sums.device);
	narrow_bfloat<<<count / GROUP, GROUP>>>(wide.device, narrow.device);
	finish("bfloat16");
	sums.down();
	narrow.down();
	result(differing(sums, [&](size_t n) {
		float sum = 0;

		for (uint32_t k = 0; k < 8; k++)
			sum += bfloat_value(a[8 * n + k]) * bfloat_value(b[8 * n + k]);
		return sum;
	}) == 0, "inner products of bfloat16");
	result(differing(narrow, [&](size_t n) { return bfloat_bits(wide[n]); }) == 0, "floats as bfloat16");
}

}

void small_floats()
{
	halves();
	pairs();
	bfloats();
}
