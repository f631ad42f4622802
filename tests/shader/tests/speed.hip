// SPDX-License-Identifier: GPL-2.0
// One instruction over and over, for the shader core's benchmark.
typedef unsigned u32;
typedef unsigned u2 __attribute__((ext_vector_type(2)));
typedef unsigned u4 __attribute__((ext_vector_type(4)));
#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define TIMES "64"

/* d is a result, and a and b are two sources of one, two and four registers each. */
#define MEASURE(name, instruction)									\
	GLOBAL void name(u32 *data, u32 rounds)								\
	{												\
		SHARED static u4 shared[256];								\
		u32 item = __builtin_amdgcn_workitem_id_x(), one = 0x3f800000 | item << 10, d = one;	\
		u32 same = item / 16 * 68, apart = item * 68 % 4096;					\
		u2 a = {one, one}, d2 = a, address;							\
		u4 d4 = {one, 1, 2, 3};									\
		u32 offset = item * 4, offset2 = item * 8, offset4 = item * 16, far = item * 37 % 64 * 260;			\
		shared[item] = d4;									\
		__builtin_memcpy(&address, &data, 8);							\
		/* Private memory's: swizzled, of 64 KiB, with the lane's number added. */			\
		u4 stack = {address.x, address.y & 0xffff | 1u << 31, 1 << 16, 1 << 23};			\
		address.x += offset;									\
		for (u32 n = 0; n < rounds; n++)							\
			asm volatile(".rept " TIMES "\n\t" instruction "\n\t.endr\n\t"			\
				     "s_waitcnt vmcnt(0) lgkmcnt(0)"					\
				     : [d] "+v"(d), [d2] "+v"(d2), [d4] "+v"(d4)			\
				     : [a] "v"(one), [a2] "v"(a), [at] "v"(offset), [at2] "v"(offset2), [at4] "v"(offset4),	\
				       [same] "v"(same), [apart] "v"(apart), [far] "v"(far),		\
				       [address] "v"(address), [item] "v"(item), [data] "s"(data), [n] "s"(n),		\
				       [stack] "s"(stack)							\
				     : "vcc", "s40", "s41", "memory", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15");					\
		data[8192 + item] = d + d2.x + d4.x + (u32)shared[item].x;				\
	}

/* The instructions of typical kernels, with all lanes and with every other one. */
#define MIXED							\
	"v_add_u32 %[d], %[d], %[a]\n\t"			\
	"v_fma_f32 %[d], %[d], %[a], %[a]\n\t"			\
	"v_mul_lo_u32 %[d], %[d], %[a]\n\t"			\
	"v_cmp_lt_u32 vcc, %[d], %[a]\n\t"			\
	"v_cndmask_b32 %[d], %[d], %[a], vcc\n\t"		\
	"v_xor_b32 %[d], %[d], %[a]\n\t"			\
	"v_add_f32 %[d], %[d], %[a]\n\t"			\
	"v_lshlrev_b32 %[d], 1, %[d]"
MEASURE(mixed, MIXED)
MEASURE(mixed_masked, "s_mov_b32 exec_lo, 0x55555555\n\ts_mov_b32 exec_hi, 0x55555555\n\t" MIXED "\n\ts_mov_b64 exec, -1")

MEASURE(s_add_u32, "s_add_u32 s40, s40, %[n]")
MEASURE(v_mov_b32, "v_mov_b32 %[d], %[a]")
MEASURE(v_add_f32, "v_add_f32 %[d], %[d], %[a]")
MEASURE(v_fma_f32, "v_fma_f32 %[d], %[d], %[a], %[a]")
MEASURE(v_fma_f64, "v_fma_f64 %[d2], %[d2], %[a2], %[a2]")
MEASURE(v_mul_lo_u32, "v_mul_lo_u32 %[d], %[d], %[a]")
MEASURE(v_mad_u64_u32, "v_mad_u64_u32 %[d2], vcc, %[d], %[a], %[d2]")
MEASURE(v_add_co_u32, "v_add_co_u32 %[d], vcc, %[d], %[a]")
MEASURE(v_addc_co_u32, "v_addc_co_u32 %[d], vcc, %[d], %[a], vcc")
MEASURE(v_lshlrev_b64, "v_lshlrev_b64 %[d2], 2, %[d2]")
MEASURE(v_cmp_lt_u32, "v_cmp_lt_u32 vcc, %[d], %[a]")
MEASURE(v_cndmask_b32, "v_cndmask_b32 %[d], %[d], %[a], vcc")
MEASURE(v_add_f64, "v_add_f64 %[d2], %[d2], %[a2]")
MEASURE(v_mul_hi_u32, "v_mul_hi_u32 %[d], %[d], %[a]")
MEASURE(v_add_f32_dpp, "v_add_f32_dpp %[d], %[d], %[a] row_shr:1 row_mask:0xf bank_mask:0xf")
MEASURE(v_add_u32_sdwa, "v_add_u32_sdwa %[d], %[d], %[a] dst_sel:DWORD src0_sel:WORD_1 src1_sel:DWORD")
MEASURE(v_add_f32_dpp_quads, "v_add_f32_dpp %[d], %[d], %[a] quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf")
MEASURE(v_add_f32_dpp_rows, "v_add_f32_dpp %[d], %[d], %[a] row_bcast:15 row_mask:0xa bank_mask:0xf")
MEASURE(v_add_u32_sdwa_byte, "v_add_u32_sdwa %[d], %[d], %[a] dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 src1_sel:WORD_1")
MEASURE(v_cmp_lt_f32, "v_cmp_lt_f32 vcc, %[d], %[a]")
MEASURE(v_mfma_f32_32x32x8f16, "v_mfma_f32_32x32x8f16 a[0:15], %[d2], %[a2], a[0:15]")
MEASURE(v_pk_fma_f32, "v_pk_fma_f32 %[d2], %[d2], %[a2], %[a2]")
MEASURE(v_pk_fma_f16, "v_pk_fma_f16 %[d], %[d], %[a], %[a]")
MEASURE(v_pk_fma_f16_parts, "v_pk_fma_f16 %[d], %[d], %[a], %[a] op_sel_hi:[1,0,1] neg_lo:[0,0,1] neg_hi:[0,0,1]")
MEASURE(v_pk_add_f16, "v_pk_add_f16 %[d], %[d], %[a]")
MEASURE(v_pk_max_f16, "v_pk_max_f16 %[d], %[d], %[a]")
MEASURE(v_pk_mad_i16, "v_pk_mad_i16 %[d], %[d], %[a], %[a]")
MEASURE(v_fma_f16, "v_fma_f16 %[d], %[d], %[a], %[a]")
MEASURE(v_cvt_f16_f32, "v_cvt_f16_f32 %[d], %[a]")
MEASURE(v_cvt_f32_u32, "v_cvt_f32_u32 %[d], %[a]")
MEASURE(v_rcp_f32, "v_rcp_f32 %[d], %[a]")
MEASURE(ds_read_b32, "ds_read_b32 %[d], %[at]")
MEASURE(ds_read_b32_same, "ds_read_b32 %[d], %[same]")
MEASURE(ds_read_b32_apart, "ds_read_b32 %[d], %[apart]")
MEASURE(ds_read2_b32, "ds_read2_b32 %[d2], %[at] offset1:17")
MEASURE(ds_read_b64, "ds_read_b64 %[d2], %[at2]")
MEASURE(ds_read_b128, "ds_read_b128 %[d4], %[at4]")
MEASURE(ds_write_b32, "ds_write_b32 %[at], %[a]")
MEASURE(ds_write2_b32, "ds_write2_b32 %[at], %[a], %[d] offset1:17")
MEASURE(ds_add_u32, "ds_add_u32 %[at], %[a]")
MEASURE(ds_add_u32_same, "ds_add_u32 %[same], %[a]")
MEASURE(ds_add_u32_apart, "ds_add_u32 %[apart], %[a]")
MEASURE(ds_add_rtn_u32, "ds_add_rtn_u32 %[d], %[at], %[a]")
MEASURE(ds_add_f32, "ds_add_f32 %[at], %[a]")
MEASURE(ds_bpermute_b32, "ds_bpermute_b32 %[d], %[at], %[a]")
MEASURE(ds_write_b128, "ds_write_b128 %[at4], %[d4]")
MEASURE(global_load_dword, "global_load_dword %[d], %[address], off")
MEASURE(global_load_dword_scalar, "global_load_dword %[d], %[at], %[data]")
MEASURE(global_load_dword_same, "global_load_dword %[d], %[same], %[data]")
MEASURE(global_load_dword_apart, "global_load_dword %[d], %[far], %[data]")
MEASURE(global_load_dwordx2, "global_load_dwordx2 %[d2], %[at2], %[data]")
MEASURE(global_load_dwordx2_apart, "global_load_dwordx2 %[d2], %[at4], %[data]")
MEASURE(global_load_dwordx4, "global_load_dwordx4 %[d4], %[at4], %[data]")
MEASURE(global_load_ubyte, "global_load_ubyte %[d], %[item], %[data]")
MEASURE(global_load_ushort_apart, "global_load_ushort %[d], %[at], %[data]")
MEASURE(global_load_sbyte_d16, "global_load_sbyte_d16 %[d], %[item], %[data]")
MEASURE(global_store_byte, "global_store_byte %[item], %[a], %[data]")
MEASURE(global_store_dword_apart, "global_store_dword %[far], %[a], %[data]")
MEASURE(global_atomic_add, "global_atomic_add %[at], %[a], %[data]")
MEASURE(flat_load_dword, "flat_load_dword %[d], %[address]")
MEASURE(buffer_load_dword_private, "buffer_load_dword %[d], off, %[stack], 0 offset:16")
MEASURE(buffer_store_dword_private, "buffer_store_dword %[d], off, %[stack], 0 offset:16")
MEASURE(global_store_dword, "global_store_dword %[at], %[a], %[data]")
MEASURE(global_store_dwordx4, "global_store_dwordx4 %[at4], %[d4], %[data]")
