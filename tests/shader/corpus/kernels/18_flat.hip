// SPDX-License-Identifier: GPL-2.0
// Generic addresses of global, shared and private memory.
#include "device.hpp"

D __attribute__((noinline)) int ld(const int *p, int i)
{
	return p[i];
}

D __attribute__((noinline)) void st(int *p, int v)
{
	*p = v;
}

D __attribute__((noinline)) int at(int *p, int v)
{
	return __hip_atomic_fetch_add(p, v, RLX, AG);
}

G void generic_ptr(const int *a, int *o, int sel)
{
	SH int s[256];
	int pr[4];
	s[TX] = a[GID];
	pr[0] = 1;
	pr[1] = 2;
	pr[2] = sel;
	pr[3] = 4;
	sync();
	const int *p = sel == 0 ? a : sel == 1 ? (const int *)s : (const int *)pr;
	o[GID] = ld(p, TX & 3);
	st(sel > 2 ? (int *)&s[TX] : &o[GID], 5);
	sync();
	o[GID] += s[TX] + at(sel == 1 ? (int *)&s[0] : o, 1);
}

G void is_shared(void *p, int *o)
{
	SH int s[4];
	s[TX & 3] = 1;
	o[GID] = __builtin_amdgcn_is_shared(p) + 2 * __builtin_amdgcn_is_private(p) + s[TX & 1];
}
