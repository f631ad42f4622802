// SPDX-License-Identifier: GPL-2.0
// Addresses: gathers, scatters, strides, lists, offsets beyond 32 bits.
#include "device.hpp"

G void gather(const float *a, const i64 *idx, float *o, i64 n)
{
	i64 i = (i64)__ockl_get_global_id(0);
	if (i < n)
		o[i] = a[idx[i]];
}

G void scatter(const float *a, const u32 *idx, float *o, u32 n)
{
	u32 i = GID;
	if (i < n)
		o[idx[i]] = a[i];
}

G void strided(const float *a, float *o, i64 st, i64 off, i64 n)
{
	i64 i = (i64)__ockl_get_global_id(0);
	if (i < n)
		o[i * st + off] = a[i * st * 3 - off];
}

struct N {
	N *next;
	i64 v;
};

G void chase(N **h, i64 *o, int n)
{
	int i = GID;
	if (i < n) {
		i64 s = 0;
		for (N *p = h[i]; p; p = p->next)
			s += p->v;
		o[i] = s;
	}
}

struct S3 {
	float x, y, z;
};

G void aos(const S3 *a, S3 *o, int n)
{
	int i = GID;
	if (i < n) {
		S3 v = a[i];
		float t = v.x;
		v.x = v.y;
		v.y = v.z;
		v.z = t;
		o[i] = v;
	}
}

struct Big {
	u64 p[12];
	float f[9];
	int k;
	u8 b[7];
};

G void byval(Big b, float *o)
{
	int i = GID;
	o[i] = b.f[i % 9] + (float)b.p[i % 12] + b.b[i % 7] + b.k;
}

G void mul64(const u64 *a, const u64 *b, u64 *lo, u64 *hi, int n)
{
	int i = GID;
	if (i < n) {
		unsigned __int128 p = (unsigned __int128)a[i] * b[i];
		lo[i] = (u64)p;
		hi[i] = (u64)(p >> 64);
	}
}

G void shifts(const i64 *a, const u32 *b, i64 *o, int n)
{
	int i = GID;
	if (i < n) {
		i64 x = a[i];
		u32 s = b[i];
		o[i] = (x << (s & 63)) ^ (x >> (s & 31)) ^ (i64)((u64)x >> 3) ^
		       ((i64)(int)x >> (s & 15));
	}
}
