// SPDX-License-Identifier: GPL-2.0
// Products of matrices by the instructions for them.
#include "device.hpp"
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef double d4 __attribute__((ext_vector_type(4)));

G void mfma_f32(const float *a, const float *b, f4 *c, f16v *c2, int k)
{
	int t = TX;
	f4 x = c[t];
	f16v y = c2[t];
	for (int i = 0; i < k; i++) {
		x = __builtin_amdgcn_mfma_f32_16x16x4f32(a[i * 64 + t], b[i * 64 + t], x, 0, 0, 0);
		y = __builtin_amdgcn_mfma_f32_32x32x2f32(a[i * 64 + t], b[i * 64 + t], y, 0, 0, 0);
	}
	c[t] = x;
	c2[t] = y;
}

G void mfma_f16(const h4 *a, const h4 *b, f4 *c)
{
	int t = TX;
	c[t] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[t], b[t], c[t], 0, 0, 0);
}

G void mfma_f64(const double *a, const double *b, d4 *c)
{
	int t = TX;
	c[t] = __builtin_amdgcn_mfma_f64_16x16x4f64(a[t], b[t], c[t], 0, 0, 0);
}
