// SPDX-License-Identifier: GPL-2.0
// Sums of neighbours in one, two and three dimensions.
#include "device.hpp"

G void stencil1(const float *a, float *o, int n)
{
	SH float s[258];
	int i = GID, t = TX + 1;
	s[t] = i < n ? a[i] : 0;
	if (TX == 0)
		s[0] = i > 0 ? a[i - 1] : 0;
	if (TX == BDX - 1)
		s[t + 1] = i + 1 < n ? a[i + 1] : 0;
	sync();
	if (i < n)
		o[i] = 0.25f * s[t - 1] + 0.5f * s[t] + 0.25f * s[t + 1];
}

G void stencil5(const float *a, float *o, int w, int h)
{
	int x = BX * BDX + TX, y = BY * BDY + TY;
	if (x > 0 && y > 0 && x < w - 1 && y < h - 1) {
		int p = y * w + x;
		o[p] = a[p] * 0.5f + (a[p - 1] + a[p + 1] + a[p - w] + a[p + w]) * 0.125f;
	}
}

G void stencil7(const double *a, double *o, int nx, int ny, int nz)
{
	int x = BX * BDX + TX + 1, y = BY * BDY + TY + 1;
	if (x < nx - 1 && y < ny - 1)
		for (int z = 1; z < nz - 1; z++) {
			i64 p = ((i64)z * ny + y) * nx + x;
			o[p] = (a[p - 1] + a[p + 1] + a[p - nx] + a[p + nx] + a[p - (i64)nx * ny] +
				       a[p + (i64)nx * ny] - 6.0 * a[p]) *
			       0.1666;
		}
}
