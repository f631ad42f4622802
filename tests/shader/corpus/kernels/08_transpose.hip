// SPDX-License-Identifier: GPL-2.0
// Transposed matrices, by way of LDS and directly.
#include "device.hpp"

G void transpose_lds(const float *a, float *o, int w, int h)
{
	SH float s[32][33];
	int x = BX * 32 + TX, y = BY * 32 + TY;
	for (int j = 0; j < 32; j += 8)
		if (x < w && y + j < h)
			s[TY + j][TX] = a[(y + j) * w + x];
	sync();
	x = BY * 32 + TX;
	y = BX * 32 + TY;
	for (int j = 0; j < 32; j += 8)
		if (x < h && y + j < w)
			o[(y + j) * h + x] = s[TX][TY + j];
}

G void transpose_naive(const u64 *a, u64 *o, int w, int h)
{
	int x = BX * BDX + TX, y = BY * BDY + TY;
	if (x < w && y < h)
		o[(u64)x * h + y] = a[(u64)y * w + x];
}
