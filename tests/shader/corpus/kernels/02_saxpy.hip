// SPDX-License-Identifier: GPL-2.0
// A multiple of a vector added to another: scalars, vectors of four, packed pairs.
#include "device.hpp"

G void saxpy(int n, float a, const float *__restrict x, float *__restrict y)
{
	int i = GID;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

G void daxpy(int n, double a, const double *__restrict x, double *__restrict y)
{
	int i = GID;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f2 __attribute__((ext_vector_type(2)));

G void saxpy4(int n, float a, const f4 *__restrict x, f4 *__restrict y)
{
	int i = GID;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

G void pk2(int n, f2 a, const f2 *__restrict x, f2 *__restrict y)
{
	int i = GID;
	if (i < n) {
		f2 t = x[i] * a;
		t = t + y[i];
		y[i] = t * t;
	}
}
