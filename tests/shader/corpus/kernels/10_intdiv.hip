// SPDX-License-Identifier: GPL-2.0
// Division of integers, which compilers make of many instructions.
#include "device.hpp"

G void div_i32(const int *a, const int *b, int *q, int *r, int n)
{
	int i = GID;
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

G void div_u32(const u32 *a, const u32 *b, u32 *q, u32 *r, int n)
{
	int i = GID;
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

G void div_i64(const i64 *a, const i64 *b, i64 *q, i64 *r, int n)
{
	int i = GID;
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

G void div_u64(const u64 *a, const u64 *b, u64 *q, u64 *r, int n)
{
	int i = GID;
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

G void div_const(const u32 *a, const int *b, u32 *q, int *r, int n)
{
	int i = GID;
	if (i < n) {
		q[i] = a[i] / 10u + a[i] % 7u;
		r[i] = b[i] / 1000 - b[i] % 13;
	}
}

G void div_uniform(u32 *o, u32 a, u32 b, i64 c, i64 d)
{
	o[GID] = a / b + a % b + (u32)(c / d);
}

G void idx3(const float *a, float *o, u32 nx, u32 ny, u32 n)
{
	u32 i = GID;
	if (i < n) {
		u32 z = i / (nx * ny), y = (i / nx) % ny, x = i % nx;
		o[(x * ny + y) * 7u + z] = a[i];
	}
}
