// SPDX-License-Identifier: GPL-2.0
// Sums, counts and greatest values: by DPP, ds_bpermute, ds_swizzle, LDS and atomics.
#include "device.hpp"

D int shfl_xor(int v, int m)
{
	int l = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
	return __builtin_amdgcn_ds_bpermute((l ^ m) << 2, v);
}

G void reduce_i32(const int *a, int *out, int n)
{
	SH int s[4];
	int i = GID;
	int v = i < n ? a[i] : 0;
	for (int m = 32; m; m >>= 1)
		v += shfl_xor(v, m);
	if ((TX & 63) == 0)
		s[TX >> 6] = v;
	sync();
	if (TX == 0)
		out[BX] = s[0] + s[1] + s[2] + s[3];
}

G void reduce_dpp(const int *a, int *out, int n)
{
	int i = GID;
	int v = i < n ? a[i] : 0;
	v += __builtin_amdgcn_update_dpp(0, v, 0x111, 0xf, 0xf, true);
	v += __builtin_amdgcn_update_dpp(0, v, 0x112, 0xf, 0xf, true);
	v += __builtin_amdgcn_update_dpp(0, v, 0x114, 0xf, 0xe, false);
	v += __builtin_amdgcn_update_dpp(0, v, 0x118, 0xf, 0xc, false);
	v += __builtin_amdgcn_update_dpp(0, v, 0x142, 0xa, 0xf, false);
	v += __builtin_amdgcn_update_dpp(0, v, 0x143, 0xc, 0xf, false);
	if ((TX & 63) == 63)
		out[i >> 6] = v;
}

G void count_if(const float *a, u32 *cnt, float th, int n)
{
	int i = GID;
	if (i < n && a[i] > th)
		__hip_atomic_fetch_add(cnt, 1u, RLX, AG);
}

G void sum_atomic(const int *a, int *sum, int n)
{
	int i = GID;
	if (i < n)
		__hip_atomic_fetch_add(sum, a[i], RLX, AG);
}

G void max_f32(const float *a, float *out, int n)
{
	SH float s[256];
	int t = TX;
	float v = -__builtin_inff();
	for (int i = GID; i < n; i += GDX * BDX)
		v = __builtin_fmaxf(v, a[i]);
	s[t] = v;
	sync();
	for (int k = BDX >> 1; k > 0; k >>= 1) {
		if (t < k)
			s[t] = __builtin_fmaxf(s[t], s[t + k]);
		sync();
	}
	if (t == 0)
		out[BX] = s[0];
}

G void swizzle(const int *a, int *o)
{
	int v = a[GID];
	v += __builtin_amdgcn_ds_swizzle(v, 0x041f);
	v ^= __builtin_amdgcn_readfirstlane(v);
	v += __builtin_amdgcn_readlane(v, 5);
	v += __builtin_amdgcn_mov_dpp(v, 0xB1, 0xf, 0xf, true);
	o[GID] = v;
}
