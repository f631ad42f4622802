// SPDX-License-Identifier: GPL-2.0
// Mathematics of the device libraries.
#include "device.hpp"

G void m_sqrt(const float *a, float *o, const double *d, double *p, int n)
{
	int i = GID;
	if (i < n) {
		o[i] = __ocml_sqrt_f32(a[i]);
		p[i] = __ocml_sqrt_f64(d[i]);
	}
}

G void m_exp(const float *a, float *o, const double *d, double *p, int n)
{
	int i = GID;
	if (i < n) {
		o[i] = __ocml_exp_f32(a[i]);
		p[i] = __ocml_exp_f64(d[i]);
	}
}

G void m_sin(const float *a, float *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = __ocml_sin_f32(a[i]);
}

G void m_sin64(const double *a, double *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = __ocml_sin_f64(a[i]);
}

G void m_log(const float *a, float *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = __ocml_log_f32(a[i]) + __ocml_pow_f32(a[i], 1.7f) + __ocml_tanh_f32(a[i]) +
		       __ocml_fmod_f32(a[i], 3.1f);
}

G void m_div(const float *a, const float *b, float *o, const double *d, const double *e, double *p,
	int n)
{
	int i = GID;
	if (i < n) {
		o[i] = a[i] / b[i];
		p[i] = d[i] / e[i];
	}
}

G void m_round(const float *a, float *o, int *q, const double *d, i64 *l, u64 *m, int n)
{
	int i = GID;
	if (i < n) {
		o[i] = __ocml_floor_f32(a[i]) + __ocml_rint_f32(a[i]) + __builtin_truncf(a[i]) +
		       __builtin_ceilf(a[i]) + __builtin_fabsf(a[i]) + __builtin_roundf(a[i]);
		q[i] = (int)a[i] + (int)(u32)a[i];
		l[i] = (i64)d[i] + (i64)a[i];
		m[i] = (u64)d[i];
	}
}

G void m_cvt(const int *a, const u32 *b, const i64 *c, const u64 *d, float *o, double *p, int n)
{
	int i = GID;
	if (i < n) {
		o[i] = (float)a[i] + (float)b[i] + (float)c[i] + (float)d[i];
		p[i] = (double)a[i] + (double)b[i] + (double)c[i] + (double)d[i] + (double)o[i];
	}
}

G void m_f64(const double *a, const double *b, double *o, int n)
{
	int i = GID;
	if (i < n) {
		double x = a[i], y = b[i];
		o[i] = __builtin_fma(x, y, x - y) * __builtin_fmin(x, y) + __builtin_floor(x) +
		       __builtin_fmax(-x, __builtin_fabs(y)) + __builtin_rint(y);
	}
}

G void m_cls(const float *a, const double *b, int *o, int n)
{
	int i = GID;
	if (i < n) {
		float x = a[i];
		double y = b[i];
		o[i] = (__builtin_isnan(x) ? 1 : 0) | (__builtin_isinf(x) ? 2 : 0) |
		       (x < 1.f ? 4 : 0) | (x >= 2.f ? 8 : 0) | (x != 3.f ? 16 : 0) |
		       (y < 1.0 ? 32 : 0) | (y >= 2.0 ? 64 : 0) | (y == 3.0 ? 128 : 0) |
		       (__builtin_signbit(y) ? 256 : 0);
		int e;
		float m = __builtin_frexpf(x, &e);
		o[i] += e + (int)(m * 8.f) + (int)__builtin_ldexpf(x, 3);
	}
}
