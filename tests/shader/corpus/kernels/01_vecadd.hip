// SPDX-License-Identifier: GPL-2.0
// Sums of two vectors: each type, each kind of index.
#include "device.hpp"

G void vadd_f32(const float *a, const float *b, float *c, int n)
{
	int i = GID;
	if (i < n)
		c[i] = a[i] + b[i];
}

G void vadd_f64(const double *a, const double *b, double *c, int n)
{
	int i = GID;
	if (i < n)
		c[i] = a[i] + b[i];
}

G void vadd_i32(const int *a, const int *b, int *c, int n)
{
	int i = GID;
	if (i < n)
		c[i] = a[i] + b[i];
}

G void vadd_i64(const i64 *a, const i64 *b, i64 *c, u64 n)
{
	u64 i = __ockl_get_global_id(0);
	if (i < n)
		c[i] = a[i] + b[i];
}

G void vadd_stride(const float *__restrict a, const float *__restrict b, float *__restrict c, u64 n)
{
	u64 st = (u64)GDX * BDX;
	for (u64 i = GID; i < n; i += st)
		c[i] = a[i] + b[i];
}
