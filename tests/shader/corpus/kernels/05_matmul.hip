// SPDX-License-Identifier: GPL-2.0
// Products of matrices, in tiles in LDS and without.
#include "device.hpp"

template <class T> static D void mm(const T *A, const T *B, T *C, int n, T (*as)[16], T (*bs)[16])
{
	int tx = TX, ty = TY, r = BY * 16 + ty, c = BX * 16 + tx;
	T acc = 0;
	for (int k = 0; k < n; k += 16) {
		as[ty][tx] = A[r * n + k + tx];
		bs[ty][tx] = B[(k + ty) * n + c];
		sync();
		for (int j = 0; j < 16; j++)
			acc += as[ty][j] * bs[j][tx];
		sync();
	}
	C[r * n + c] = acc;
}

G __attribute__((amdgpu_flat_work_group_size(256, 256))) void matmul_f32(
	const float *A, const float *B, float *C, int n)
{
	SH float a[16][16], b[16][16];
	mm(A, B, C, n, a, b);
}

G __attribute__((amdgpu_flat_work_group_size(256, 256))) void matmul_f64(
	const double *A, const double *B, double *C, int n)
{
	SH double a[16][16], b[16][16];
	mm(A, B, C, n, a, b);
}

G void matmul_naive(const float *A, const float *B, float *C, int n)
{
	int r = BY * BDY + TY, c = BX * BDX + TX;
	if (r < n && c < n) {
		float s = 0;
		for (int k = 0; k < n; k++)
			s += A[r * n + k] * B[k * n + c];
		C[r * n + c] = s;
	}
}

G void matmul_i32(const int *A, const int *B, int *C, int n)
{
	int r = BY * BDY + TY, c = BX * BDX + TX;
	if (r < n && c < n) {
		int s = 0;
		for (int k = 0; k < n; k++)
			s += A[r * n + k] * B[k * n + c];
		C[r * n + c] = s;
	}
}
