// SPDX-License-Identifier: GPL-2.0
// Histograms in LDS, in global memory, of 64 bits and packed.
#include "device.hpp"

G void hist_lds(const u32 *a, u32 *h, int n)
{
	SH u32 s[256];
	for (u32 i = TX; i < 256; i += BDX)
		s[i] = 0;
	sync();
	for (int i = GID; i < n; i += GDX * BDX)
		__hip_atomic_fetch_add(&s[a[i] & 255], 1u, RLX, WG);
	sync();
	for (u32 i = TX; i < 256; i += BDX)
		__hip_atomic_fetch_add(&h[i], s[i], RLX, AG);
}

G void hist_global(const u8 *a, u32 *h, int n)
{
	int i = GID;
	if (i < n)
		__hip_atomic_fetch_add(&h[a[i]], 1u, RLX, AG);
}

G void hist_u64(const u32 *a, u64 *h, int n)
{
	int i = GID;
	if (i < n)
		__hip_atomic_fetch_add(&h[a[i] >> 24], (u64)a[i], RLX, AG);
}

G void hist_packed(const u32 *a, u32 *h, int n)
{
	SH u8 s[256 * 4];
	((u32 *)s)[TX] = 0;
	sync();
	int i = GID;
	if (i < n)
		s[TX * 4 + (a[i] & 3)]++;
	sync();
	h[GID] = ((u32 *)s)[TX];
}
