// SPDX-License-Identifier: GPL-2.0
// LDS whose size the dispatch says, and its vectors.
#include "device.hpp"
extern SH int dyn[];
extern SH double dynd[];

G void dyn_rev(const int *a, int *o)
{
	dyn[TX] = a[GID];
	sync();
	o[GID] = dyn[BDX - 1 - TX];
}

G void dyn_two(const double *a, double *o, int k)
{
	double *p = dynd;
	double *q = dynd + BDX;
	p[TX] = a[GID];
	q[TX] = a[GID] * 2;
	sync();
	o[GID] = p[(TX + k) % BDX] + q[(TX * k) % BDX];
}

typedef float f4 __attribute__((ext_vector_type(4)));

G void lds_vec(const f4 *a, f4 *o)
{
	SH f4 s[256];
	s[TX] = a[GID];
	sync();
	f4 v = s[255 - TX];
	sync();
	SH u8 b[256];
	SH u16 h[256];
	b[TX] = (u8)v.x;
	h[TX] = (u16)v.y;
	sync();
	v.z += b[TX ^ 1];
	v.w += (i16)h[TX ^ 3] + (i8)b[TX ^ 5];
	o[GID] = v;
}

G void lds_atom(const int *a, int *o, u64 *p, float *f)
{
	SH int s[8];
	SH u64 q[4];
	SH float g;
	if (TX < 8)
		s[TX] = 0;
	if (TX < 4)
		q[TX] = 0;
	if (TX == 0)
		g = 0;
	sync();
	int v = a[GID];
	int r = __hip_atomic_fetch_add(&s[0], v, RLX, WG);
	__hip_atomic_fetch_max(&s[1], v, RLX, WG);
	__hip_atomic_fetch_min(&s[2], v, RLX, WG);
	__hip_atomic_fetch_or(&s[3], v, RLX, WG);
	__hip_atomic_fetch_and(&s[4], v, RLX, WG);
	r += __hip_atomic_exchange(&s[5], v, RLX, WG);
	int e = 0;
	r += __hip_atomic_compare_exchange_strong(&s[6], &e, v, RLX, RLX, WG);
	__hip_atomic_fetch_xor(&s[7], v, RLX, WG);
	__hip_atomic_fetch_add(&q[TX & 3], (u64)v, RLX, WG);
	__hip_atomic_fetch_add(&g, 1.5f, RLX, WG);
	sync();
	o[GID] = r + s[TX & 7];
	p[GID] = q[TX & 3];
	f[GID] = g;
}
