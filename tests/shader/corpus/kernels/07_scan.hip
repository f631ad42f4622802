// SPDX-License-Identifier: GPL-2.0
// Prefix sums, in a group and in a wave.
#include "device.hpp"

G void scan_hs(const int *a, int *o, int *sums, int n)
{
	SH int s[2][256];
	int t = TX, i = GID;
	int p = 0;
	s[0][t] = i < n ? a[i] : 0;
	sync();
	for (u32 k = 1; k < BDX; k <<= 1) {
		s[1 - p][t] = t >= (int)k ? s[p][t] + s[p][t - k] : s[p][t];
		p = 1 - p;
		sync();
	}
	if (i < n)
		o[i] = s[p][t];
	if (t == (int)BDX - 1)
		sums[BX] = s[p][t];
}

G void scan_blelloch(int *a, int *sums)
{
	SH int s[512];
	int t = TX;
	int b = BX * 512;
	s[2 * t] = a[b + 2 * t];
	s[2 * t + 1] = a[b + 2 * t + 1];
	int off = 1;
	for (int d = 256; d > 0; d >>= 1) {
		sync();
		if (t < d) {
			int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1;
			s[bi] += s[ai];
		}
		off <<= 1;
	}
	if (t == 0) {
		sums[BX] = s[511];
		s[511] = 0;
	}
	for (int d = 1; d < 512; d <<= 1) {
		off >>= 1;
		sync();
		if (t < d) {
			int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1;
			int v = s[ai];
			s[ai] = s[bi];
			s[bi] += v;
		}
	}
	sync();
	a[b + 2 * t] = s[2 * t];
	a[b + 2 * t + 1] = s[2 * t + 1];
}

G void scan_add(int *o, const int *sums, int n)
{
	int i = GID;
	if (i < n && BX > 0)
		o[i] += sums[BX - 1];
}

G void scan_wave(const int *a, int *o, int n)
{
	int i = GID;
	int v = i < n ? a[i] : 0;
	int l = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
	for (int k = 1; k < 64; k <<= 1) {
		int u = __builtin_amdgcn_ds_bpermute((l - k) << 2, v);
		if (l >= k)
			v += u;
	}
	if (i < n)
		o[i] = v;
}
