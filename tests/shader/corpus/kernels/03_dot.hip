// SPDX-License-Identifier: GPL-2.0
// Products of vectors, summed in LDS and added by atomics.
#include "device.hpp"

G void dot_f32(const float *a, const float *b, float *out, int n)
{
	SH float s[256];
	int t = TX;
	float v = 0;
	for (int i = GID; i < n; i += GDX * BDX)
		v += a[i] * b[i];
	s[t] = v;
	sync();
	for (int k = 128; k > 0; k >>= 1) {
		if (t < k)
			s[t] += s[t + k];
		sync();
	}
	if (t == 0)
		__hip_atomic_fetch_add(out, s[0], RLX, AG);
}

G void dot_f64(const double *a, const double *b, double *out, int n)
{
	SH double s[256];
	int t = TX;
	double v = 0;
	for (int i = GID; i < n; i += GDX * BDX)
		v += a[i] * b[i];
	s[t] = v;
	sync();
	for (int k = 128; k > 0; k >>= 1) {
		if (t < k)
			s[t] += s[t + k];
		sync();
	}
	if (t == 0)
		out[BX] = s[0];
}
