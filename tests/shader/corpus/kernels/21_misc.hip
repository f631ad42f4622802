// SPDX-License-Identifier: GPL-2.0
// Clocks, traps, hardware registers, sizes of the grid, generators of numbers, sorts.
#include "device.hpp"

G void clk(u64 *o)
{
	o[GID] = __builtin_readcyclecounter() + __builtin_amdgcn_s_memtime() +
		 __builtin_amdgcn_s_memrealtime();
}

G void trapk(const int *a)
{
	if (a[GID] < 0)
		__builtin_trap();
}

G void dbgtrap(const int *a)
{
	if (a[GID] < 0)
		__builtin_debugtrap();
}

G void hwregs(u32 *o)
{
	o[GID] = __builtin_amdgcn_s_getreg((31 << 11) | 4) +
		 __builtin_amdgcn_s_getreg((31 << 11) | 1);
}

G void dims(u64 *o)
{
	u64 i = __ockl_get_global_id(0);
	o[i] = __ockl_get_global_size(0) + __ockl_get_global_size(1) * 3 +
	       __ockl_get_num_groups(2) * 5 + __ockl_get_local_size(1) * 7 +
	       __ockl_get_local_id(2) + __ockl_get_group_id(2);
}

G void xorshift(u32 *o, int it)
{
	u32 i = GID, s = i * 2654435761u + 1;
	for (int k = 0; k < it; k++) {
		s ^= s << 13;
		s ^= s >> 17;
		s ^= s << 5;
	}
	o[i] = s;
}

G void lcg(u64 *o, int it)
{
	u64 i = __ockl_get_global_id(0), s = i;
	for (int k = 0; k < it; k++)
		s = s * 6364136223846793005ul + 1442695040888963407ul;
	o[i] = s;
}

typedef float f4 __attribute__((ext_vector_type(4)));

G void nbody(const f4 *p, f4 *a, int n)
{
	SH f4 s[256];
	int i = GID;
	f4 me = p[i], acc = 0;
	for (int b = 0; b < n; b += 256) {
		s[TX] = p[b + TX];
		sync();
		for (int j = 0; j < 256; j++) {
			f4 d = s[j] - me;
			float r2 = d.x * d.x + d.y * d.y + d.z * d.z + 1e-6f;
			float q = __builtin_amdgcn_rsqf(r2);
			float w = s[j].w * q * q * q;
			acc += d * w;
		}
		sync();
	}
	a[i] = acc;
}

G void crc(const u8 *a, u32 *o, int len)
{
	u32 c = ~0u;
	const u8 *p = a + (u64)GID * len;
	for (int i = 0; i < len; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = (c >> 1) ^ (0xEDB88320u & -(c & 1));
	}
	o[GID] = ~c;
}

G void bitonic(int *a, int j, int k)
{
	u32 i = GID, x = i ^ j;
	if (x > i) {
		int p = a[i], q = a[x];
		bool up = (i & k) == 0;
		if ((p > q) == up) {
			a[i] = q;
			a[x] = p;
		}
	}
}
