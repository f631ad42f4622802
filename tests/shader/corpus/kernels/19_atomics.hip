// SPDX-License-Identifier: GPL-2.0
// Atomics of each type and scope, and the orders that they promise.
#include "device.hpp"
#define A1(op, T) __hip_atomic_fetch_##op((T *)p + GID, (T)v, RLX, AG)

G void at_i32(int *p, const int *a, int *o)
{
	int v = a[GID];
	A1(add, int);
	A1(min, int);
	A1(max, int);
	A1(and, int);
	A1(or, int);
	A1(xor, int);
	A1(sub, int);
	A1(min, u32);
	A1(max, u32);
}

G void at_i32r(int *p, const int *a, int *o)
{
	int v = a[GID];
	int r = A1(add, int);
	r ^= A1(min, int);
	r ^= A1(max, int);
	r ^= A1(and, int);
	r ^= A1(or, int);
	r ^= A1(xor, int);
	r ^= A1(sub, int);
	r ^= __hip_atomic_exchange(p + GID, v, RLX, AG);
	int e = v;
	r ^= __hip_atomic_compare_exchange_strong(p + GID, &e, r, RLX, RLX, AG);
	o[GID] = r ^ e;
}

G void at_i64r(i64 *p, const i64 *a, i64 *o)
{
	i64 v = a[GID];
	i64 r = A1(add, i64);
	r ^= A1(min, i64);
	r ^= A1(max, i64);
	r ^= A1(and, i64);
	r ^= A1(or, i64);
	r ^= A1(xor, i64);
	r ^= A1(sub, i64);
	r ^= __hip_atomic_exchange(p + GID, v, RLX, AG);
	i64 e = v;
	r ^= __hip_atomic_compare_exchange_strong(p + GID, &e, r, RLX, RLX, AG);
	o[GID] = r ^ e;
}

G void at_i64(i64 *p, const i64 *a)
{
	i64 v = a[GID];
	A1(add, i64);
	A1(max, i64);
	A1(or, i64);
	A1(min, u64);
	A1(max, u64);
}

G void at_f(float *p, double *d, const float *a, float *o, double *q)
{
	float v = a[GID];
	__hip_atomic_fetch_add(p, v, RLX, AG);
	o[GID] = __hip_atomic_fetch_add(p + GID, v, RLX, AG);
	__hip_atomic_fetch_add(d, (double)v, RLX, AG);
	q[GID] = __hip_atomic_fetch_add(d + GID, (double)v, RLX, AG);
	__hip_atomic_fetch_max(p + 64, v, RLX, AG);
}

G void at_cas(float *p, const float *a)
{
	float v = a[GID];
	u32 *q = (u32 *)p;
	u32 o = __hip_atomic_load(q, RLX, AG);
	for (;;) {
		u32 w = __builtin_bit_cast(u32, __builtin_bit_cast(float, o) * v);
		if (__hip_atomic_compare_exchange_strong(q, &o, w, RLX, RLX, AG))
			break;
	}
}

G void at_ord(u32 *p, u32 *f, u32 *o)
{
	p[GID] = GID;
	__hip_atomic_store(f, 1u, __ATOMIC_RELEASE, AG);
	while (__hip_atomic_load(f, __ATOMIC_ACQUIRE, AG) == 0)
		__builtin_amdgcn_s_sleep(1);
	o[GID] = p[GID ^ 1];
	__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
	__hip_atomic_fetch_add(f, 1u, __ATOMIC_ACQ_REL, SYS);
}

G void at_sys(u64 *p, u32 *f, u64 v)
{
	*p = v;
	__hip_atomic_store(f, 1u, __ATOMIC_RELEASE, SYS);
	while (__hip_atomic_load(f, __ATOMIC_ACQUIRE, SYS) != 2) {
	}
	__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
	*p += 1;
}

G void at_grid(u32 *cnt, u32 *o)
{
	o[GID] = 1;
	__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
	SH u32 last;
	if (TX == 0)
		last = __hip_atomic_fetch_add(cnt, 1u, RLX, AG) == GDX - 1;
	sync();
	if (last)
		o[TX] = GDX;
}

G void at_wrap(u32 *p, u32 *o, u32 lim)
{
	o[GID] = __builtin_amdgcn_atomic_inc32(p, lim, __ATOMIC_RELAXED, "agent") +
		 __builtin_amdgcn_atomic_dec32(p + 1, lim, __ATOMIC_RELAXED, "agent");
}
