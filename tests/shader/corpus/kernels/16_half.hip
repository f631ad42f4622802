// SPDX-License-Identifier: GPL-2.0
// Halves and numbers of BF16.
#include "device.hpp"
typedef _Float16 h;
typedef h h2 __attribute__((ext_vector_type(2)));

G void h_add(const h *a, const h *b, h *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = a[i] + b[i] * (h)1.5;
}

G void h2_fma(const h2 *a, const h2 *b, h2 *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = a[i] * b[i] + o[i];
}

G void h_cvt(const h *a, float *o, const float *b, h *p, int n)
{
	int i = GID;
	if (i < n) {
		o[i] = (float)a[i];
		p[i] = (h)b[i];
	}
}

D float bf2f(u16 v)
{
	return __builtin_bit_cast(float, (u32)v << 16);
}

D u16 f2bf(float f)
{
	u32 u = __builtin_bit_cast(u32, f);
	if (f != f)
		return (u16)((u >> 16) | 0x40);
	u += 0x7fff + ((u >> 16) & 1);
	return (u16)(u >> 16);
}

G void bf_cvt(const u16 *a, const u16 *b, u16 *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = f2bf(bf2f(a[i]) * bf2f(b[i]));
}

G void bf_nat(const __bf16 *a, const __bf16 *b, __bf16 *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = (__bf16)((float)a[i] + (float)b[i]);
}

G void h_relu(const h2 *a, h2 *o, int n)
{
	int i = GID;
	if (i < n) {
		h2 v = a[i];
		v.x = v.x > (h)0 ? v.x : (h)0;
		v.y = v.y > (h)0 ? v.y : (h)0;
		o[i] = v;
	}
}

G void pack(const float *a, u32 *o, int n)
{
	int i = GID;
	if (i < n) {
		auto p = __builtin_amdgcn_cvt_pkrtz(a[2 * i], a[2 * i + 1]);
		o[i] = __builtin_bit_cast(u32, p);
	}
}

G void h_acc(const h *a, float *o, int n)
{
	float s = 0;
	for (int i = GID; i < n; i += GDX * BDX)
		s += (float)a[i] * (float)a[i];
	o[GID] = s;
}
