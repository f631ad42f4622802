// SPDX-License-Identifier: GPL-2.0
// What all kernels need of HIP's and of the device libraries' declarations, so that no header
// of HIP is needed. The names are short: they are in each line of the kernels.
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
#define G extern "C" __attribute__((global))
#define D __attribute__((device))
#define SH __attribute__((shared))
extern "C" {
D u64 __ockl_get_global_id(u32);
D u64 __ockl_get_local_id(u32);
D u64 __ockl_get_group_id(u32);
D u64 __ockl_get_local_size(u32);
D u64 __ockl_get_num_groups(u32);
D u64 __ockl_get_global_size(u32);
D float __ocml_sqrt_f32(float);
D float __ocml_exp_f32(float);
D float __ocml_sin_f32(float);
D float __ocml_log_f32(float);
D float __ocml_pow_f32(float, float);
D float __ocml_native_exp_f32(float);
D double __ocml_sqrt_f64(double);
D double __ocml_exp_f64(double);
D double __ocml_sin_f64(double);
D float __ocml_fma_f32(float, float, float);
D float __ocml_floor_f32(float);
D float __ocml_rint_f32(float);
D float __ocml_tanh_f32(float);
D float __ocml_fmod_f32(float, float);
}
#define TX ((u32)__ockl_get_local_id(0))
#define TY ((u32)__ockl_get_local_id(1))
#define BX ((u32)__ockl_get_group_id(0))
#define BY ((u32)__ockl_get_group_id(1))
#define BDX ((u32)__ockl_get_local_size(0))
#define BDY ((u32)__ockl_get_local_size(1))
#define GDX ((u32)__ockl_get_num_groups(0))
#define GID (BX * BDX + TX)

static inline D void sync()
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define AG __HIP_MEMORY_SCOPE_AGENT
#define SYS __HIP_MEMORY_SCOPE_SYSTEM
#define WG __HIP_MEMORY_SCOPE_WORKGROUP
#define RLX __ATOMIC_RELAXED
