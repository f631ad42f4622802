// SPDX-License-Identifier: GPL-2.0
// Bytes, halfwords and bits.
#include "device.hpp"

G void b_copy(const u8 *a, u8 *o, u64 n)
{
	u64 i = __ockl_get_global_id(0);
	if (i < n)
		o[i] = a[i];
}

G void b_rgb(const u32 *a, u32 *o, int n)
{
	int i = GID;
	if (i < n) {
		u32 p = a[i];
		float r = (float)(p & 255), g = (float)((p >> 8) & 255),
		      b = (float)((p >> 16) & 255);
		u32 y = (u32)(0.299f * r + 0.587f * g + 0.114f * b);
		o[i] = y | (y << 8) | (y << 16) | (p & 0xff000000u);
	}
}

G void b_i16(const i16 *a, const i8 *b, i16 *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = (i16)(a[i] * b[i] + (a[i] >> 3));
}

G void b_bits(const u32 *a, u32 *o, const u64 *b, u64 *p, int n)
{
	int i = GID;
	if (i < n) {
		u32 v = a[i];
		o[i] = __builtin_popcount(v) + __builtin_clz(v | 1) + __builtin_ctz(v | 256) +
		       __builtin_bitreverse32(v) + __builtin_bswap32(v) + ((v << 7) | (v >> 25));
		u64 w = b[i];
		p[i] = __builtin_popcountll(w) + __builtin_clzll(w | 1) +
		       __builtin_bitreverse64(w) + __builtin_bswap64(w);
	}
}

G void b_ballot(const int *a, u64 *o, u32 *q)
{
	int i = GID;
	u64 m = __builtin_amdgcn_ballot_w64(a[i] > 0);
	if ((TX & 63) == 0)
		o[i >> 6] = m;
	q[i] = __builtin_popcountll(m) + (int)__builtin_ffsll(m) +
	       (a[i] > 0 ? __builtin_amdgcn_mbcnt_hi(
				   (u32)(m >> 32), __builtin_amdgcn_mbcnt_lo((u32)m, 0))
			 : 0);
}

G void b_minmax(const int *a, const u32 *b, int *o, u32 *q, int n)
{
	int i = GID;
	if (i < n) {
		int x = a[i];
		x = x < -100 ? -100 : x > 100 ? 100 : x;
		o[i] = x < 0 ? -x : x;
		u32 y = b[i];
		y = y > 255 ? 255 : y;
		q[i] = y > b[i + 1] ? y - b[i + 1] : b[i + 1] - y;
	}
}

G void b_sad(const u32 *a, const u32 *b, u32 *o, int n)
{
	u32 s = 0;
	for (int i = GID; i < n; i += GDX * BDX)
		for (int k = 0; k < 4; k++) {
			int x = (a[i] >> (8 * k)) & 255, y = (b[i] >> (8 * k)) & 255;
			s += x > y ? x - y : y - x;
		}
	o[GID] = s;
}

G void b_dot8(const u32 *a, const u32 *b, int *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = __builtin_amdgcn_sdot4(a[i], b[i], o[i], false) +
		       __builtin_amdgcn_udot4(a[i], b[i], 0, false);
}
