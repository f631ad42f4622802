// SPDX-License-Identifier: GPL-2.0
// Lanes that go different ways: loops, switches, searches, sorts.
#include "device.hpp"

G void collatz(const u32 *a, u32 *o, int n)
{
	int i = GID;
	if (i < n) {
		u64 v = a[i];
		u32 c = 0;
		while (v != 1) {
			v = (v & 1) ? 3 * v + 1 : v >> 1;
			c++;
		}
		o[i] = c;
	}
}

G void mandel(u32 *o, int w, int h, float x0, float y0, float sc, int it)
{
	int x = BX * BDX + TX, y = BY * BDY + TY;
	if (x >= w || y >= h)
		return;
	float cx = x0 + x * sc, cy = y0 + y * sc, zx = 0, zy = 0;
	int k = 0;
	for (; k < it && zx * zx + zy * zy < 4.f; k++) {
		float t = zx * zx - zy * zy + cx;
		zy = 2 * zx * zy + cy;
		zx = t;
	}
	o[y * w + x] = k;
}

G void nested(const int *a, int *o, int n)
{
	int i = GID;
	if (i < n) {
		int s = 0;
		for (int j = 0; j < a[i]; j++) {
			if (j & 1)
				continue;
			for (int k = j; k < a[(i + j) % n]; k++) {
				if (k == 77)
					break;
				if ((k ^ j) & 4)
					s += k * j;
				else
					s -= k;
			}
			if (s > 100000)
				break;
		}
		o[i] = s;
	}
}

G void sw(const int *a, int *o, int n)
{
	int i = GID;
	if (i < n) {
		int v = a[i];
		switch (v & 7) {
		case 0:
			v += 1;
			break;
		case 1:
			v *= 3;
			break;
		case 2:
			v ^= 0x55;
			break;
		case 3:
			v = -v;
		case 4:
			v <<= 2;
			break;
		case 5:
			v = o[v & 15];
			break;
		case 6:
			v = ~v;
			break;
		default:
			v = __builtin_popcount(v);
		}
		o[i] = v;
	}
}

G void uniform(const int *a, int *o, int m)
{
	int s = 0;
	for (int j = 0; j < m; j++) {
		if (a[j] > 5)
			s += a[j];
		else if (a[j] == -3)
			break;
		else
			s ^= a[j];
	}
	o[GID] = s;
}

G void bsearch(const int *a, const int *k, int *o, int n, int m)
{
	int i = GID;
	if (i < m) {
		int lo = 0, hi = n;
		while (lo < hi) {
			int md = (lo + hi) >> 1;
			if (a[md] < k[i])
				lo = md + 1;
			else
				hi = md;
		}
		o[i] = lo;
	}
}

G void sortsm(float *a, int n)
{
	int i = GID;
	if (i < n) {
		float v[8];
		for (int j = 0; j < 8; j++)
			v[j] = a[i * 8 + j];
		for (int x = 0; x < 7; x++)
			for (int y = 0; y < 7 - x; y++)
				if (v[y] > v[y + 1]) {
					float t = v[y];
					v[y] = v[y + 1];
					v[y + 1] = t;
				}
		for (int j = 0; j < 8; j++)
			a[i * 8 + j] = v[j];
	}
}
