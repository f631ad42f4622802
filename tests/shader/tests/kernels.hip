// SPDX-License-Identifier: GPL-2.0
// Kernels for the shader core's tests. No headers: ids come from the compiler's own functions.
typedef unsigned u32;
typedef unsigned long u64;
typedef unsigned char u8;
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

static inline DEVICE u32 item() { return __builtin_amdgcn_workitem_id_x(); }
static inline DEVICE u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
static inline DEVICE u32 width() { return __builtin_amdgcn_workgroup_size_x(); }
static inline DEVICE u32 here() { return group() * width() + item(); }

static inline DEVICE void barrier()
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

GLOBAL void add(const u32 *a, const u32 *b, u32 *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = a[i] + b[i];
}

GLOBAL void fma_f32(const float *a, const float *b, float *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = __builtin_fmaf(a[i], b[i], -c[i]);
}

GLOBAL void fma_f64(const double *a, const double *b, double *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = __builtin_fma(a[i], -b[i], c[i]) * __builtin_fabs(a[i]);
}

GLOBAL void divide_f32(const float *a, const float *b, float *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = a[i] / b[i];
}

GLOBAL void divide_f64(const double *a, const double *b, double *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = a[i] / b[i];
}

GLOBAL void root_f32(const float *a, float *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = __builtin_sqrtf(a[i]);
}

GLOBAL void divide_i32(const int *a, const int *b, int *q, int *r, u32 n)
{
	u32 i = here();
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

GLOBAL void divide_u64(const u64 *a, const u64 *b, u64 *q, u64 *r, u32 n)
{
	u32 i = here();
	if (i < n) {
		q[i] = a[i] / b[i];
		r[i] = a[i] % b[i];
	}
}

GLOBAL void sum(const u32 *a, u32 *out, u32 n)
{
	SHARED static u32 part[256];
	u32 i = here(), t = item();
	part[t] = i < n ? a[i] : 0;
	barrier();
	for (u32 s = 128; s > 0; s >>= 1) {
		if (t < s)
			part[t] += part[t + s];
		barrier();
	}
	if (t == 0)
		out[group()] = part[0];
}

GLOBAL void histogram(const u8 *a, u32 *out, u32 n)
{
	SHARED static u32 bins[256];
	bins[item()] = 0;
	barrier();
	for (u32 i = here(); i < n; i += __builtin_amdgcn_grid_size_x())
		__hip_atomic_fetch_add(&bins[a[i]], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
	barrier();
	__hip_atomic_fetch_add(&out[item()], bins[item()], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

GLOBAL void atomics(u32 *words, u64 *wide)
{
	u32 i = here();
	__hip_atomic_fetch_add(&words[0], i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
	__hip_atomic_fetch_max(&words[1], i * 7, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
	__hip_atomic_fetch_xor(&words[2], i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
	__hip_atomic_fetch_min((int *)&words[3], -(int)i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
	__hip_atomic_fetch_add(&wide[0], (u64)i << 30, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
	u64 old = __hip_atomic_load(&wide[1], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
	while (!__hip_atomic_compare_exchange_weak(&wide[1], &old, old * 3 + 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
						   __HIP_MEMORY_SCOPE_SYSTEM))
		;
}

GLOBAL void multiply(const float *a, const float *b, float *c, u32 n)
{
	SHARED static float as[16][17], bs[16][17];
	u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
	u32 col = group() * 16 + x, row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
	float sum = 0;
	for (u32 k = 0; k < n; k += 16) {
		as[y][x] = a[row * n + k + x];
		bs[y][x] = b[(k + y) * n + col];
		barrier();
		for (u32 i = 0; i < 16; i++)
			sum += as[y][i] * bs[i][x];
		barrier();
	}
	c[row * n + col] = sum;
}

GLOBAL void collatz(const u32 *a, u32 *out, u32 n)
{
	u32 i = here();
	if (i >= n)
		return;
	u32 x = a[i], steps = 0;
	while (x != 1) {
		x = x & 1 ? 3 * x + 1 : x >> 1;
		steps++;
	}
	out[i] = steps;
}

static __attribute__((noinline)) DEVICE u32 fibonacci(u32 n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

GLOBAL void recurse(const u32 *a, u32 *out)
{
	out[here()] = fibonacci(a[here()] & 7);
}

GLOBAL void private_array(const u32 *a, u32 *out)
{
	u32 mine[32];
	for (u32 i = 0; i < 32; i++)
		mine[i] = a[i] ^ here();
	u32 sum = 0;
	for (u32 i = 0; i < 32; i++)
		sum = sum * 31 + mine[a[i + here()] & 31];
	out[here()] = sum;
}

typedef u32 (*choice)(u32);
static __attribute__((noinline)) DEVICE u32 twice(u32 a) { return 2 * a; }
static __attribute__((noinline)) DEVICE u32 more(u32 a) { return a + 100; }
static __attribute__((noinline)) DEVICE u32 less(u32 a) { return a - 5; }

GLOBAL void indirect(const u32 *a, u32 *out)
{
	choice f = a[here()] % 3 == 0 ? twice : a[here()] % 3 == 1 ? more : less;
	out[here()] = f(a[here()]);
}

static __attribute__((noinline)) DEVICE void put(u32 *p, u32 v) { *p += v; }

GLOBAL void generic(u32 *out)
{
	SHARED static u32 shared[64];
	u32 mine = 3;
	u32 t = item();
	shared[t] = 5;
	out[t] = 7;
	put(t % 3 == 0 ? &shared[t] : t % 3 == 1 ? &mine : &out[t], t);
	out[t] = out[t] * 10000 + shared[t] * 100 + mine;
}

GLOBAL void halves(const __fp16 *a, const __fp16 *b, __fp16 *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = (__fp16)((_Float16)a[i] * (_Float16)b[i] + (_Float16)c[i]);
}

GLOBAL void bytes(const u8 *a, u8 *c, u32 n)
{
	u32 i = here();
	if (i < n)
		c[i] = (u8)((a[i] << 3) ^ (signed char)a[n - 1 - i] >> 2);
}

GLOBAL void lanes(u32 *out)
{
	u32 t = item();
	u32 v = t * t;
	out[t] = __builtin_amdgcn_ds_bpermute(4 * (63 - t), v);
	out[64 + t] = __builtin_amdgcn_update_dpp(9, v, 0x111, 0xf, 0xf, false);
	out[128 + t] = __builtin_amdgcn_ds_swizzle(v, 0x041f);
	out[192 + t] = __builtin_amdgcn_readlane(v, 17);
	out[256 + t] = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
	u64 odd = __builtin_amdgcn_uicmp(t & 1, 1, 32);
	out[320 + t] = t < 32 ? (u32)odd : (u32)(odd >> 32);
}

typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16 __attribute__((ext_vector_type(16)));
typedef double d4 __attribute__((ext_vector_type(4)));

GLOBAL void matrix_16(const float *a, const float *b, float *c)
{
	u32 t = item();
	f4 sum = {0, 0, 0, 0};
	sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[t % 16 * 4 + t / 16], b[t / 16 * 16 + t % 16], sum, 0, 0, 0);
	for (u32 n = 0; n < 4; n++)
		c[(n + 4 * (t / 16)) * 16 + t % 16] = sum[n];
}

GLOBAL void matrix_32(const float *a, const float *b, float *c)
{
	u32 t = item();
	f16 sum = {};
	sum = __builtin_amdgcn_mfma_f32_32x32x2f32(a[t % 32 * 2 + t / 32], b[t / 32 * 32 + t % 32], sum, 0, 0, 0);
	for (u32 n = 0; n < 16; n++)
		c[(n % 4 + 8 * (n / 4) + 4 * (t / 32)) * 32 + t % 32] = sum[n];
}

GLOBAL void matrix_f64(const double *a, const double *b, double *c)
{
	u32 t = item();
	d4 sum = {0, 0, 0, 0};
	sum = __builtin_amdgcn_mfma_f64_16x16x4f64(a[t % 16 * 4 + t / 16], b[t / 16 * 16 + t % 16], sum, 0, 0, 0);
	for (u32 n = 0; n < 4; n++)
		c[(4 * n + t / 16) * 16 + t % 16] = sum[n];
}

typedef u32 u2 __attribute__((ext_vector_type(2)));

/* A buffer resource in s40 to s43: at -O0 the compiler has none of its own in scalar registers. */
#define BUFFER(instruction, result, operand, base, stride, records)				\
	asm volatile("v_readfirstlane_b32 s40, %2\n\tv_readfirstlane_b32 s41, %3\n\t"		\
		     "v_readfirstlane_b32 s42, %4\n\ts_mov_b32 s43, 0x27000\n\ts_nop 4\n\t"	\
		     instruction "\n\ts_waitcnt vmcnt(0)"					\
		     : "+v"(result)								\
		     : "v"(operand), "v"((u32)(u64)(base)),					\
		       "v"((u32)((u64)(base) >> 32) & 0xffff | (stride) << 16), "v"(records)	\
		     : "memory", "s40", "s41", "s42", "s43")

/* The modifier by which an atomic returns the old value. */
#ifdef __gfx942__
#define OLD "sc0"
#else
#define OLD "glc"
#endif

/* Buffers of 100 bytes, and of 50 indices: loads outside give 0, stores are not done. */
GLOBAL void buffers(const u32 *a, u32 *b, u32 *out)
{
	u32 t = item(), index = 1, old = 7, value = 1000 + t;
	u2 pair = {1, 1};
	BUFFER("buffer_load_dwordx2 %0, %1, s[40:43], 4 offen offset:4", pair, 8 * t, a, 0, 100);
	BUFFER("buffer_load_dword %0, %1, s[40:43], 0 idxen", index, t, a, 4, 50);
	BUFFER("buffer_store_dword %0, %1, s[40:43], 0 offen", value, 4 * t + (t & 1) * 0x80000000, b, 0, 104);
	BUFFER("buffer_atomic_add %0, %1, s[40:43], 0 offen " OLD, old, 8 * t, b, 0, 104);
	out[t] = pair[0];
	out[64 + t] = pair[1];
	out[128 + t] = index;
	out[192 + t] = old;
}
