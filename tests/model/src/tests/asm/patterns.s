// SPDX-License-Identifier: GPL-2.0
// Groups of 128 items of 8 arch and 8 accumulation VGPRs: values in all kinds of registers, which are
// combined when the dword at the start of the buffer is not 0. Meanwhile the first wave of a group
// waits for that, and the second one at a barrier.

	s_load_dwordx2 s[4:5], s[0:1], 0x0
	s_waitcnt lgkmcnt(0)
	v_readfirstlane_b32 s8, v0
	v_lshlrev_b32 v3, 2, v0
	s_lshl_b32 s9, s2, 7
	v_add_u32 v1, s9, v0
	ds_write_b32 v3, v1
	v_add_u32 v7, 0x7000, v1
	v_add_u32 v2, 0xa000, v1
	v_accvgpr_write_b32 a0, v7
	v_accvgpr_write_b32 a7, v2
	s_mov_b32 s20, 0x100000
	s_mov_b32 s101, 0x200000
	s_mov_b32 flat_scratch_hi, 0x400000
	s_mov_b32 vcc_hi, 0x800000
	s_mov_b32 m0, 0x1000000
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_xor_b32 v4, 0x100, v3
	v_mov_b32 v6, 0
	s_mov_b64 exec, 0x1234
	v_add_u32 v5, 0x5000, v1
	s_cmp_eq_u32 s8, 0
	s_cbranch_scc0 wait
spin:
	s_sleep 1
	s_load_dword s6, s[4:5], 0x0 glc
	s_waitcnt lgkmcnt(0)
	s_cmp_eq_u32 s6, 0
	s_cbranch_scc1 spin
wait:
	s_cmp_eq_u32 s8, s8
	s_barrier
	s_cselect_b32 s7, 0x2000000, 0
	v_add_u32 v6, v5, v6
	s_mov_b64 exec, -1
	ds_read_b32 v4, v4
	v_accvgpr_read_b32 v5, a0
	s_waitcnt lgkmcnt(0)
	v_add_u32 v6, v6, v4
	v_add_u32 v6, v6, v5
	v_accvgpr_read_b32 v5, a7
	s_nop 1
	v_add_u32 v6, v6, v5
	v_add_u32 v6, v6, v7
	v_add_u32 v6, s20, v6
	v_add_u32 v6, s101, v6
	v_add_u32 v6, flat_scratch_hi, v6
	v_add_u32 v6, vcc_hi, v6
	v_add_u32 v6, m0, v6
	v_add_u32 v6, s7, v6
	v_lshlrev_b32 v1, 2, v1
	global_store_dword v1, v6, s[4:5] offset:256
	s_endpgm
