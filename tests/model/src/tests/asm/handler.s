// SPDX-License-Identifier: GPL-2.0
// A trap handler for the tests of saving and restoring waves: one level, without scratch of its
// own.
//
// s_trap n adds 1 to the dword at TMA + 4 * n and goes on behind itself; an exception halts the
// wave.

	s_branch entry
	s_branch restore

entry:
	s_getreg_b32 ttmp12, hwreg(HW_REG_STATUS)
	s_andn2_b32 ttmp12, ttmp12, 0x20006
	s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
	s_bitcmp1_b32 ttmp12, 13
	s_cbranch_scc1 halted
	s_and_b32 ttmp2, ttmp15, 0x900
	s_cbranch_scc1 exception
	s_bfe_u32 ttmp2, ttmp1, 0x80010
	s_cbranch_scc1 trap
	s_bitcmp1_b32 ttmp15, 10
	s_cbranch_scc1 save
	s_branch leave

halted:
	s_bitcmp1_b32 ttmp15, 10
	s_cbranch_scc1 save
	s_sleep 2
	s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
	s_branch halted

exception:
	s_bitset1_b32 ttmp12, 13
	s_branch leave

trap:
	s_getreg_b32 ttmp14, hwreg(18)
	s_getreg_b32 ttmp15, hwreg(19)
	s_lshl_b64 ttmp[14:15], ttmp[14:15], 8
	s_lshl_b32 ttmp2, ttmp2, 2
	s_add_u32 ttmp14, ttmp14, ttmp2
	s_addc_u32 ttmp15, ttmp15, 0
	s_mov_b32 ttmp2, 1
	s_atomic_add ttmp2, ttmp[14:15], 0x0
	s_and_b32 ttmp1, ttmp1, 0xffff
	s_add_u32 ttmp0, ttmp0, 4
	s_addc_u32 ttmp1, ttmp1, 0

leave:
	s_and_b64 exec, exec, exec
	s_and_b64 vcc, vcc, vcc
	s_lshr_b32 ttmp2, ttmp12, 3
	s_setreg_b32 hwreg(HW_REG_STATUS, 3, 29), ttmp2
	s_setreg_b32 hwreg(HW_REG_STATUS, 0, 1), ttmp12
	s_rfe_b64 ttmp[0:1]

save:
	s_and_b32 ttmp1, ttmp1, 0xffff
	s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 10, 1), 0
	s_mov_b64 ttmp[2:3], exec
	s_mov_b64 exec, 0
	s_sendmsg sendmsg(MSG_SAVEWAVE)
save_wait:
	s_sleep 2
	s_cbranch_execz save_wait
	s_getreg_b32 ttmp14, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32 ttmp14, ttmp14, 1
	s_lshl_b32 ttmp14, ttmp14, 11
	s_and_b32 ttmp15, exec_hi, 0xffff
	s_add_u32 ttmp14, ttmp14, exec_lo
	s_addc_u32 ttmp15, ttmp15, 0
	s_store_dwordx4 ttmp[4:7], ttmp[14:15], 0x210
	s_store_dwordx4 ttmp[8:11], ttmp[14:15], 0x220
	s_store_dword ttmp13, ttmp[14:15], 0x234
	s_waitcnt lgkmcnt(0)
	s_mov_b32 ttmp4, m0
	s_mov_b32 ttmp5, ttmp0
	s_mov_b32 ttmp6, ttmp1
	s_mov_b32 ttmp7, ttmp2
	s_store_dwordx4 ttmp[4:7], ttmp[14:15], 0x1c0
	s_waitcnt lgkmcnt(0)
	s_mov_b32 ttmp4, ttmp3
	s_mov_b32 ttmp5, ttmp12
	s_getreg_b32 ttmp6, hwreg(HW_REG_TRAPSTS)
	s_mov_b32 ttmp7, xnack_mask_lo
	s_store_dwordx4 ttmp[4:7], ttmp[14:15], 0x1d0
	s_waitcnt lgkmcnt(0)
	s_mov_b32 ttmp4, xnack_mask_hi
	s_getreg_b32 ttmp5, hwreg(HW_REG_MODE)
	s_store_dwordx2 ttmp[4:5], ttmp[14:15], 0x1e0
	s_setvskip 0, 0
	// By M0, sixteen at a time, also those without a name.
	s_mov_b32 m0, 0
save_sgprs:
	.set n, 0
	.rept 8
	s_movrels_b64 s[n:n+1], s[n:n+1]
	.set n, n + 2
	.endr
	.set n, 0
	.rept 4
	s_store_dwordx4 s[n:n+3], ttmp[14:15], n * 4
	.set n, n + 4
	.endr
	s_waitcnt lgkmcnt(0)
	s_add_u32 ttmp14, ttmp14, 64
	s_addc_u32 ttmp15, ttmp15, 0
	s_add_u32 m0, m0, 16
	s_cmp_lt_u32 m0, 112
	s_cbranch_scc1 save_sgprs

	s_mov_b32 s0, exec_lo
	s_and_b32 s1, exec_hi, 0xffff
	s_or_b32 s1, s1, 0x40000
	s_mov_b32 s2, 0x1000000
	s_mov_b32 s3, 0x00807fac
	s_mov_b32 s4, exec_hi
	s_mov_b64 exec, -1
	buffer_store_dword v0, off, s[0:3], 0
	buffer_store_dword v1, off, s[0:3], 0 offset:256
	buffer_store_dword v2, off, s[0:3], 0 offset:512
	buffer_store_dword v3, off, s[0:3], 0 offset:768
	s_getreg_b32 s7, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32 s7, s7, 1
	s_lshl_b32 s7, s7, 11
	s_getreg_b32 s5, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32 s5, s5, 8
	s_cmp_eq_u32 s5, 0
	s_cbranch_scc1 save_vgprs
	s_barrier
	s_bitcmp1_b32 s4, 26
	s_cbranch_scc0 save_vgprs
	s_add_u32 s6, s7, 0x240
	s_add_u32 s5, s5, s6
	v_mbcnt_lo_u32_b32 v0, -1, 0
	v_mbcnt_hi_u32_b32 v0, -1, v0
	v_lshlrev_b32 v0, 2, v0
save_lds:
	ds_read_b32 v1, v0
	s_waitcnt lgkmcnt(0)
	buffer_store_dword v1, off, s[0:3], s6
	v_add_u32 v0, 256, v0
	s_add_u32 s6, s6, 256
	s_cmp_lt_u32 s6, s5
	s_cbranch_scc1 save_lds

save_vgprs:
	s_getreg_b32 s8, hwreg(HW_REG_GPR_ALLOC, 12, 6)
	s_add_u32 s8, s8, 1
	s_lshl_b32 s8, s8, 2
	s_mov_b32 s9, 1024
	s_cmp_le_u32 s8, 4
	s_cbranch_scc1 save_acc
	s_add_u32 s10, s8, 0x1000
	s_mov_b32 m0, 4
	s_set_gpr_idx_on m0, 1
save_arch:
	v_mov_b32 v0, v0
	buffer_store_dword v0, off, s[0:3], s9
	s_add_u32 s9, s9, 256
	s_add_u32 m0, m0, 1
	s_cmp_lt_u32 m0, s10
	s_cbranch_scc1 save_arch
	s_set_gpr_idx_off
save_acc:
	s_cmp_ge_u32 s9, s7
	s_cbranch_scc1 saved
	s_mov_b32 m0, 0
	s_set_gpr_idx_on m0, 1
save_accs:
	v_accvgpr_read_b32 v0, a0
	buffer_store_dword v0, off, s[0:3], s9
	s_add_u32 s9, s9, 256
	s_add_u32 m0, m0, 1
	s_cmp_lt_u32 s9, s7
	s_cbranch_scc1 save_accs
	s_set_gpr_idx_off
saved:
	s_endpgm_saved

restore:
	s_mov_b32 s0, exec_lo
	s_and_b32 s1, exec_hi, 0xffff
	s_getreg_b32 s7, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32 s7, s7, 1
	s_lshl_b32 s7, s7, 11
	s_add_u32 ttmp14, s0, s7
	s_addc_u32 ttmp15, s1, 0
	s_or_b32 s1, s1, 0x40000
	s_mov_b32 s2, 0x1000000
	s_mov_b32 s3, 0x00807fac
	s_mov_b32 s4, exec_hi
	s_mov_b64 exec, -1
	s_bitcmp1_b32 s4, 26
	s_cbranch_scc0 restore_vgprs
	s_getreg_b32 s5, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32 s5, s5, 8
	s_cmp_eq_u32 s5, 0
	s_cbranch_scc1 restore_vgprs
	s_add_u32 s6, s7, 0x240
	s_mov_b32 m0, 0
restore_lds:
	buffer_load_dword off, s[0:3], s6 lds
	s_add_u32 s6, s6, 256
	s_add_u32 m0, m0, 256
	s_cmp_lt_u32 m0, s5
	s_cbranch_scc1 restore_lds
	s_waitcnt vmcnt(0)

restore_vgprs:
	s_getreg_b32 s8, hwreg(HW_REG_GPR_ALLOC, 12, 6)
	s_add_u32 s8, s8, 1
	s_lshl_b32 s8, s8, 2
	s_mov_b32 s9, 1024
	s_cmp_le_u32 s8, 4
	s_cbranch_scc1 restore_acc
	s_add_u32 s10, s8, 0x8000
	s_mov_b32 m0, 4
	s_set_gpr_idx_on m0, 8
restore_arch:
	buffer_load_dword v0, off, s[0:3], s9
	s_waitcnt vmcnt(0)
	v_mov_b32 v0, v0
	s_add_u32 s9, s9, 256
	s_add_u32 m0, m0, 1
	s_cmp_lt_u32 m0, s10
	s_cbranch_scc1 restore_arch
	s_set_gpr_idx_off
restore_acc:
	s_cmp_ge_u32 s9, s7
	s_cbranch_scc1 restore_scalars
	s_mov_b32 m0, 0
	s_set_gpr_idx_on m0, 8
restore_accs:
	buffer_load_dword v0, off, s[0:3], s9
	s_waitcnt vmcnt(0)
	v_accvgpr_write_b32 a0, v0
	s_add_u32 s9, s9, 256
	s_add_u32 m0, m0, 1
	s_cmp_lt_u32 s9, s7
	s_cbranch_scc1 restore_accs
	s_set_gpr_idx_off
restore_scalars:
	buffer_load_dword v0, off, s[0:3], 0
	buffer_load_dword v1, off, s[0:3], 0 offset:256
	buffer_load_dword v2, off, s[0:3], 0 offset:512
	buffer_load_dword v3, off, s[0:3], 0 offset:768
	s_waitcnt vmcnt(0)
	s_add_u32 ttmp2, ttmp14, 0x1c0
	s_addc_u32 ttmp3, ttmp15, 0
	s_mov_b32 m0, 112
restore_sgprs:
	s_sub_u32 m0, m0, 16
	s_sub_u32 ttmp2, ttmp2, 64
	s_subb_u32 ttmp3, ttmp3, 0
	.set n, 0
	.rept 4
	s_load_dwordx4 s[n:n+3], ttmp[2:3], n * 4
	.set n, n + 4
	.endr
	s_waitcnt lgkmcnt(0)
	.set n, 0
	.rept 8
	s_movreld_b64 s[n:n+1], s[n:n+1]
	.set n, n + 2
	.endr
	s_cmp_eq_u32 m0, 0
	s_cbranch_scc0 restore_sgprs
	s_load_dwordx4 ttmp[4:7], ttmp[14:15], 0x1c0
	s_load_dwordx4 ttmp[8:11], ttmp[14:15], 0x1d0
	s_load_dwordx2 ttmp[2:3], ttmp[14:15], 0x1e0
	s_waitcnt lgkmcnt(0)
	s_mov_b32 m0, ttmp4
	s_mov_b32 ttmp0, ttmp5
	s_mov_b32 ttmp1, ttmp6
	s_mov_b32 exec_lo, ttmp7
	s_mov_b32 exec_hi, ttmp8
	s_mov_b32 ttmp12, ttmp9
	s_setreg_b32 hwreg(HW_REG_TRAPSTS, 0, 10), ttmp10
	s_lshr_b32 ttmp4, ttmp10, 11
	s_setreg_b32 hwreg(HW_REG_TRAPSTS, 11, 21), ttmp4
	s_mov_b32 xnack_mask_lo, ttmp11
	s_mov_b32 xnack_mask_hi, ttmp2
	s_setreg_b32 hwreg(HW_REG_MODE), ttmp3
	s_load_dwordx4 ttmp[4:7], ttmp[14:15], 0x210
	s_load_dwordx4 ttmp[8:11], ttmp[14:15], 0x220
	s_load_dword ttmp13, ttmp[14:15], 0x234
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_branch leave
