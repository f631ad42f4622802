// SPDX-License-Identifier: GPL-2.0
// Copies, fills and waits, which use memory as a runtime's kernels do.
#include "device.hpp"
typedef u64 q2 __attribute__((ext_vector_type(2)));

G void own_fill16(q2 *d, q2 v, u64 n)
{
	u64 st = (u64)GDX * BDX;
	for (u64 i = GID; i < n; i += st)
		d[i] = v;
}

G void own_fill_pat(u8 *d, const u8 *pat, u32 psz, u64 n)
{
	for (u64 i = GID; i < n; i += (u64)GDX * BDX)
		for (u32 k = 0; k < psz; k++)
			d[i * psz + k] = pat[k];
}

G void own_copy16(const q2 *s, q2 *d, u64 n)
{
	for (u64 i = GID; i < n; i += (u64)GDX * BDX)
		d[i] = s[i];
}

G void own_copy4(const u32 *s, u32 *d, u64 n, u64 rem)
{
	for (u64 i = GID; i < n; i += (u64)GDX * BDX)
		d[i] = s[i];
	if (GID == 0)
		for (u64 k = 0; k < rem; k++)
			((u8 *)(d + n))[k] = ((const u8 *)(s + n))[k];
}

G void own_copy1(const u8 *s, u8 *d, u64 n)
{
	for (u64 i = GID; i < n; i += (u64)GDX * BDX)
		d[i] = s[i];
}

G void own_rect(const u8 *s, u8 *d, u64 sp, u64 ss, u64 dp, u64 ds, u64 w, u64 h)
{
	u64 x = __ockl_get_global_id(0), y = __ockl_get_global_id(1), z = __ockl_get_global_id(2);
	if (x < w && y < h)
		d[z * ds + y * dp + x] = s[z * ss + y * sp + x];
}

G void own_wait(u64 *p, u64 v, u64 m, int how)
{
	for (;;) {
		u64 x = __hip_atomic_load(p, RLX, SYS) & m;
		if (how == 0	   ? (i64)x >= (i64)v
			: how == 1 ? x == v
			: how == 2 ? (x & v) != 0
				   : x != v)
			break;
		__builtin_amdgcn_s_sleep(1);
	}
}

G void own_write(u32 *p, u64 *q, u64 v)
{
	if (p)
		__hip_atomic_store(p, (u32)v, __ATOMIC_RELEASE, SYS);
	else
		__hip_atomic_store(q, v, __ATOMIC_RELEASE, SYS);
}
