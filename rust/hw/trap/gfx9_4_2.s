// SPDX-License-Identifier: GPL-2.0
//
// The trap handler of gfx 9.4.2 (gfx90a) and gfx 9.4.3 (gfx942): what a wave of a process runs when it traps, and when it
// leaves the hardware or comes back (CWSR). scripts/shader-code assembles it for each; its words are in gfx9_4_2.rs and
// gfx9_4_3.rs.
//
// The hardware comes here with PRIV set, and so nobody interrupts it:
//   at +0 with what the wave trapped at in TTMP0:1: PC in 47:0, trap id in 55:48, host trap in 56;
//   at +4 with a wave that has nothing but a place (GPR_ALLOC, LDS_ALLOC) and, in EXEC, where it was saved.
//
// Code at +0 of its page, the process's TMA block at +0xf00 (rust/hw/trap.rs says what is in it).
//
// A saved wave is a record at B, with V bytes of vector registers, S of scalar ones, L of the group's LDS:
//   B            arch VGPRs from 0, 256 bytes each, then accumulation VGPRs
//   B+V          SGPRs from 0; FLAT_SCRATCH, XNACK_MASK and VCC are at the top of them
//   B+V+S        M0, PC, EXEC, STATUS, TRAPSTS, XNACK_MASK, MODE
//   B+V+S+0x50   TTMP4 to 11, and 13 at 0x74
//   B+V+S+0x80   LDS, in the record of the wave that came as the group's first only
// rocm-dbgapi and GET_QUEUE_WAVE_STATE's readers know this layout.
//
// TTMP4 to 11 and 13 hold what the hardware and debuggers put there, and stay. The others are free between traps.

// STATUS
.set SCC_BIT, 0
.set SPI_PRIO_BIT, 1
.set SPI_PRIO_BITS, 2
.set SPI_PRIO, 3 << SPI_PRIO_BIT
.set HALT_BIT, 13
.set ECC_ERR, 1 << 17
.set ALLOW_REPLAY_BIT, 22
// TRAPSTS
.set ARITHMETIC, 0x7f
.set WATCH_0_BIT, 7
.set WATCHES, 1 << 7 | 7 << 12
.set MEM_VIOL, 1 << 8
.set SAVECTX_BIT, 10
.set ILLEGAL_INST, 1 << 11
.set XNACK_ERROR_BIT, 28
// MODE
.set DEBUG_EN_BIT, 11
.set EXCP_EN_BIT, 12
// TTMP1 at entry
.set PC_HI, 0xffff
.set TRAP_ID, 0xff << 16
.set HOST_TRAP_BIT, 24
// The TTMP with these bits: on gfx942, TTMP11 has the number of the packet there.
.if .amdgcn.gfx_generation_minor >= 4
.set KEPT, 13
.else
.set KEPT, 11
.endif
.set DEBUG_ENABLED_BIT, 23
.set REPLAY_BIT, 26
// IB_STS: FIRST_REPLAY, RCNT
.set IB_REPLAY_BIT, 15
.set IB_REPLAY_BITS, 6
// EXEC_HI when a wave is told where its record is
.set FIRST_WAVE_BIT, 26
.set BASE_HI, 0xffff
// Words 1 to 3 of a buffer descriptor that adds 4 bytes for each lane: stride, size, ADD_TID_ENABLE
.set V_STRIDE, 4 << 16
.set V_SIZE, 0x1000000
.set V_FORMAT, 0x00807fac
// TMA block
.set TMA_SECOND_CODE, 0
.set TMA_SECOND_MEMORY, 8
.set TMA_DEBUG, 16

// Bytes of a vector register
.set ROW, 256

// Scalar stores under way beside others may go wrong on silicon: each is waited for.
.macro store words, data, at, offset
	s_store_\words \data, \at, \offset glc
	s_waitcnt lgkmcnt(0)
.endm

// A vector access that is to leave no data in caches.
.macro streaming access:vararg
.if .amdgcn.gfx_generation_minor >= 4
	\access sc0 nt
.else
	\access glc slc
.endif
.endm

// TTMP[KEPT][31:26] = what of IB_STS says that an instruction is to be repeated, which is then cleared: scalar loads here are not.
.macro keep_replay tmp
	s_getreg_b32 \tmp, hwreg(HW_REG_IB_STS, IB_REPLAY_BIT, IB_REPLAY_BITS)
	s_lshl_b32 \tmp, \tmp, REPLAY_BIT
	s_and_b32 ttmp[KEPT], ttmp[KEPT], (1 << REPLAY_BIT) - 1
	s_or_b32 ttmp[KEPT], ttmp[KEPT], \tmp
	s_setreg_imm32_b32 hwreg(HW_REG_IB_STS), 0
.endm

.macro put_replay tmp
	s_lshr_b32 \tmp, ttmp[KEPT], REPLAY_BIT
	s_lshl_b32 \tmp, \tmp, IB_REPLAY_BIT
	s_setreg_b32 hwreg(HW_REG_IB_STS), \tmp
.endm

// STATUS = TTMP12, but for SPI_PRIO, which is the scheduler's; EXECZ and VCCZ, which cannot be written, by what they follow.
// The last thing that may touch SCC.
.macro put_status tmp
	s_and_b64 exec, exec, exec
	s_and_b64 vcc, vcc, vcc
	s_lshr_b32 \tmp, ttmp12, SPI_PRIO_BIT + SPI_PRIO_BITS
	s_setreg_b32 hwreg(HW_REG_STATUS, SPI_PRIO_BIT + SPI_PRIO_BITS, 32 - SPI_PRIO_BIT - SPI_PRIO_BITS), \tmp
	s_nop 2
	s_setreg_b32 hwreg(HW_REG_STATUS, SCC_BIT, 1), ttmp12
.endm

// V and S.
.macro sizes v, s
	s_getreg_b32 \v, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32 \v, \v, 1
	s_lshl_b32 \v, \v, 3 + 8
	s_getreg_b32 \s, hwreg(HW_REG_GPR_ALLOC, 24, 3)
	s_add_u32 \s, \s, 1
	s_lshl_b32 \s, \s, 4 + 2
.endm

// How many arch VGPRs there are, and how many accumulation VGPRs.
.macro vgprs arch, acc
	s_getreg_b32 \arch, hwreg(HW_REG_GPR_ALLOC, 12, 6)
	s_add_u32 \arch, \arch, 1
	s_lshl_b32 \arch, \arch, 2
	s_getreg_b32 \acc, hwreg(HW_REG_GPR_ALLOC, 6, 6)
	s_add_u32 \acc, \acc, 1
	s_lshl_b32 \acc, \acc, 3
	s_sub_u32 \acc, \acc, \arch
.endm

// L
.macro lds_size to
	s_getreg_b32 \to, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32 \to, \to, 8
.endm

// v0 = 4 * lane
.macro lane_bytes
	v_mbcnt_lo_u32_b32 v0, -1, 0
	v_mbcnt_hi_u32_b32 v0, -1, v0
	v_lshlrev_b32 v0, 2, v0
.endm

// TTMP8:11 = the descriptor of the record whose base is in EXEC.
.macro describe
	s_mov_b32 ttmp8, exec_lo
	s_and_b32 ttmp9, exec_hi, BASE_HI
	s_or_b32 ttmp9, ttmp9, V_STRIDE
	s_mov_b32 ttmp10, V_SIZE
	s_mov_b32 ttmp11, V_FORMAT
.endm

// TTMP14:15 = B+V+S; TTMP6:7 = B+V; TTMP5 = S. B is in EXEC.
.macro places
	sizes ttmp4, ttmp5
	s_and_b32 ttmp7, exec_hi, BASE_HI
	s_add_u32 ttmp6, exec_lo, ttmp4
	s_addc_u32 ttmp7, ttmp7, 0
	s_add_u32 ttmp14, ttmp6, ttmp5
	s_addc_u32 ttmp15, ttmp7, 0
.endm

	.text
	s_branch trapped
	s_branch restore

// ---- A trap, an exception, or SAVECTX ----

trapped:
	// Before anything changes SCC.
	s_getreg_b32 ttmp12, hwreg(HW_REG_STATUS)
	// A saved wave comes back with the priority that it is given then. ECC_ERR is fatal when it is written.
	s_andn2_b32 ttmp12, ttmp12, SPI_PRIO | ECC_ERR
	s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
	s_bitcmp1_b32 ttmp12, HALT_BIT
	s_cbranch_scc0 running

	// A halted wave is here to be saved; or its code cannot be fetched, which would only happen again: it waits.
	s_and_b32 ttmp2, ttmp1, TRAP_ID
	s_cbranch_scc1 second_level
halted:
	s_bitcmp1_b32 ttmp15, SAVECTX_BIT
	s_cbranch_scc1 save
	s_sleep 16
	s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
	s_branch halted

	// What else there is comes before SAVECTX, which stays set: the wave is here again as soon as it has returned.
running:
	s_and_b32 ttmp2, ttmp15, MEM_VIOL | ILLEGAL_INST
	s_cbranch_scc1 second_level
	s_and_b32 ttmp2, ttmp15, ARITHMETIC
	s_and_b32 ttmp3, ttmp15, WATCHES
	s_cbranch_scc0 no_watch
	s_bitset1_b32 ttmp2, WATCH_0_BIT
no_watch:
	s_getreg_b32 ttmp3, hwreg(HW_REG_MODE, EXCP_EN_BIT, WATCH_0_BIT + 1)
	s_and_b32 ttmp2, ttmp2, ttmp3
	s_cbranch_scc1 second_level
	s_and_b32 ttmp2, ttmp1, TRAP_ID
	s_cbranch_scc1 second_level
.if .amdgcn.gfx_generation_minor < 4
	// Single steps are lost when a wave is saved first.
	s_getreg_b32 ttmp2, hwreg(HW_REG_MODE, DEBUG_EN_BIT, 1)
	s_cmp_lg_u32 ttmp2, 0
	s_cbranch_scc1 second_level
.endif
	s_bitcmp1_b32 ttmp15, SAVECTX_BIT
	s_cbranch_scc1 save

	// To the process's own handler, if it has one: TTMP12 = STATUS, TTMP14:15 = its memory, TTMP2:3 free.
second_level:
	keep_replay ttmp14
	s_getreg_b32 ttmp14, hwreg(HW_REG_TMA_LO)
	s_getreg_b32 ttmp15, hwreg(HW_REG_TMA_HI)
	s_lshl_b64 ttmp[14:15], ttmp[14:15], 8
	// From bit 47 on.
	s_sext_i32_i16 ttmp15, ttmp15
	s_load_dword ttmp2, ttmp[14:15], TMA_DEBUG glc
	s_waitcnt lgkmcnt(0)
	s_bitset0_b32 ttmp[KEPT], DEBUG_ENABLED_BIT
	s_cmp_eq_u32 ttmp2, 0
	s_cbranch_scc1 no_debugger
	s_bitset1_b32 ttmp[KEPT], DEBUG_ENABLED_BIT
no_debugger:
	s_load_dwordx2 ttmp[2:3], ttmp[14:15], TMA_SECOND_CODE glc
	s_waitcnt lgkmcnt(0)
	s_load_dwordx2 ttmp[14:15], ttmp[14:15], TMA_SECOND_MEMORY glc
	s_waitcnt lgkmcnt(0)
	s_cmp_eq_u64 ttmp[2:3], 0
	s_cbranch_scc1 alone
	s_setpc_b64 ttmp[2:3]

alone:
	s_bitcmp1_b32 ttmp1, HOST_TRAP_BIT
	s_cbranch_scc1 back
	s_and_b32 ttmp2, ttmp1, TRAP_ID
	s_cbranch_scc0 exception
	// Behind the s_trap.
	s_add_u32 ttmp0, ttmp0, 4
	s_addc_u32 ttmp1, ttmp1, 0
	s_branch back
exception:
	// Not again. Not at an s_endpgm, either: a wave that halts there cannot be saved.
	s_bitset1_b32 ttmp12, HALT_BIT
	s_sub_u32 ttmp0, ttmp0, 8
	s_subb_u32 ttmp1, ttmp1, 0
back:
	s_and_b32 ttmp1, ttmp1, PC_HI
	put_replay ttmp2
	put_status ttmp2
	s_rfe_b64 ttmp[0:1]

// ---- Save ----

save:
	s_and_b32 ttmp1, ttmp1, PC_HI
	s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, SAVECTX_BIT, 1), 0
	keep_replay ttmp14
	// Whoever places the record says where it is by setting EXEC.
	s_mov_b64 ttmp[2:3], exec
	s_mov_b64 exec, 0
	s_sendmsg sendmsg(MSG_SAVEWAVE)
	// Those that are waited for are to get ahead.
	s_setreg_imm32_b32 hwreg(HW_REG_STATUS, SPI_PRIO_BIT, SPI_PRIO_BITS), 2
no_place:
	// With less, eight waves of a SIMD that wait here keep each other from it.
	s_sleep 2
	s_cbranch_execz no_place

	// TTMP4 to 11 and 13, which are then free, as far as they are not the address.
	sizes ttmp14, ttmp15
	s_add_u32 ttmp14, ttmp14, ttmp15
	s_and_b32 ttmp15, exec_hi, BASE_HI
	s_add_u32 ttmp14, ttmp14, exec_lo
	s_addc_u32 ttmp15, ttmp15, 0
	store dwordx4, ttmp[4:7], ttmp[14:15], 0x50
	store dwordx4, ttmp[8:11], ttmp[14:15], 0x60
	store dword, ttmp13, ttmp[14:15], 0x74
	s_and_b32 ttmp13, exec_hi, 1 << FIRST_WAVE_BIT

	// M0, PC, EXEC, STATUS, TRAPSTS, XNACK_MASK, MODE. Exceptions may have come in the meantime.
	s_mov_b32 ttmp4, m0
	s_mov_b32 ttmp5, ttmp0
	s_mov_b32 ttmp6, ttmp1
	s_mov_b32 ttmp7, ttmp2
	store dwordx4, ttmp[4:7], ttmp[14:15], 0
	s_mov_b32 ttmp4, ttmp3
	s_mov_b32 ttmp5, ttmp12
	s_getreg_b32 ttmp6, hwreg(HW_REG_TRAPSTS)
	s_mov_b32 ttmp7, xnack_mask_lo
	store dwordx4, ttmp[4:7], ttmp[14:15], 0x10
	s_mov_b32 ttmp4, xnack_mask_hi
	s_getreg_b32 ttmp5, hwreg(HW_REG_MODE)
	store dwordx2, ttmp[4:5], ttmp[14:15], 0x20
	// TTMP2 = vector stores are refused: of an access that failed and may not be repeated, the error stays.
	s_mov_b32 ttmp2, 0
	s_bitcmp1_b32 ttmp12, ALLOW_REPLAY_BIT
	s_cbranch_scc1 stores_work
	s_bfe_u32 ttmp2, ttmp6, XNACK_ERROR_BIT | 1 << 16
stores_work:
	// Nothing of the wave's modes changes what follows.
	s_setvskip 0, 0
	s_set_gpr_idx_off
	describe
	places

	// SGPRs, 16 at a time, by way of s0 to s15.
	s_lshr_b32 ttmp5, ttmp5, 2
	s_mov_b32 m0, 0
save_sgprs:
	s_nop 0
	.irp n, 0, 2, 4, 6, 8, 10, 12, 14
	s_movrels_b64 s[\n:\n+1], s[\n:\n+1]
	.endr
	.irp n, 0, 4, 8, 12
	store dwordx4, s[\n:\n+3], ttmp[6:7], 4*\n
	.endr
	s_add_u32 ttmp6, ttmp6, 64
	s_addc_u32 ttmp7, ttmp7, 0
	s_add_u32 m0, m0, 16
	s_cmp_lt_u32 m0, ttmp5
	s_cbranch_scc1 save_sgprs

	// Every wave has s0 to s9: s0 to s3 for lanes, s4 and s5 to count, s6 and s7 for how many, s8:9 for where.
	s_mov_b64 exec, -1
	s_mov_b64 xnack_mask, 0
	s_mov_b32 s8, ttmp8
	s_and_b32 s9, ttmp9, BASE_HI
	vgprs s6, s7
	s_cmp_lg_u32 ttmp2, 0
	s_cbranch_scc1 save_by_lanes

// Rows to where TTMP8:11 begin, and so many bytes on.
.macro store_rows to, from:vararg
	.set row, 0
	.irp v, \from
	streaming buffer_store_dword \v, off, ttmp[8:11], \to offset:row*ROW
	.set row, row + 1
	.endr
.endm

	s_mov_b32 ttmp4, 0
	store_rows ttmp4, v0, v1, v2, v3

	// LDS, when none of the group's waves can change it any more.
	lds_size s5
	s_cmp_eq_u32 s5, 0
	s_cbranch_scc1 save_vgprs
	s_barrier
	s_cmp_eq_u32 ttmp13, 0
	s_cbranch_scc1 save_vgprs
	sizes ttmp4, ttmp5
	s_add_u32 ttmp4, ttmp4, ttmp5
	s_add_u32 ttmp4, ttmp4, 0x80
	lane_bytes
save_lds:
	ds_read2st64_b32 v[2:3], v0 offset1:1
	s_waitcnt lgkmcnt(0)
	store_rows ttmp4, v2, v3
	v_add_u32 v0, 2*ROW, v0
	s_add_u32 ttmp4, ttmp4, 2*ROW
	s_sub_u32 s5, s5, 2*ROW
	s_cmp_lg_u32 s5, 0
	s_cbranch_scc1 save_lds

save_vgprs:
	s_mov_b32 ttmp4, 4*ROW
	s_mov_b32 s4, 4
	s_cmp_lt_u32 s4, s6
	s_cbranch_scc0 save_acc
save_arch_rows:
	s_set_gpr_idx_on s4, gpr_idx(SRC0)
	.irp n, 0, 1, 2, 3
	v_mov_b32 v\n, v\n
	.endr
	s_set_gpr_idx_off
	store_rows ttmp4, v0, v1, v2, v3
	s_add_u32 ttmp4, ttmp4, 4*ROW
	s_add_u32 s4, s4, 4
	s_cmp_lt_u32 s4, s6
	s_cbranch_scc1 save_arch_rows
save_acc:
	s_mov_b32 s4, 0
	s_cmp_lt_u32 s4, s7
	s_cbranch_scc0 saved
save_acc_rows:
	s_set_gpr_idx_on s4, gpr_idx(SRC0)
	.irp n, 0, 1, 2, 3
	v_accvgpr_read_b32 v\n, a\n
	.endr
	s_set_gpr_idx_off
	store_rows ttmp4, v0, v1, v2, v3
	s_add_u32 ttmp4, ttmp4, 4*ROW
	s_add_u32 s4, s4, 4
	s_cmp_lt_u32 s4, s7
	s_cbranch_scc1 save_acc_rows
saved:
	s_waitcnt vmcnt(0)
	s_endpgm_saved

// ---- The rest of a save without vector stores, which may take longer ----

// Row v to s8:9, which goes on to the next.
.macro store_lanes v
	s_mov_b32 s4, 0
1:
	.irp n, 0, 1, 2, 3
	v_readlane_b32 s\n, \v, s4
	s_add_u32 s4, s4, 1
	s_nop 2
	.endr
	store dwordx4, s[0:3], s[8:9], 0
	s_add_u32 s8, s8, 16
	s_addc_u32 s9, s9, 0
	s_cmp_lt_u32 s4, 64
	s_cbranch_scc1 1b
.endm

save_by_lanes:
	.irp n, 0, 1, 2, 3
	store_lanes v\n
	.endr
	s_mov_b32 s5, 4
	s_cmp_lt_u32 s5, s6
	s_cbranch_scc0 lanes_acc
lanes_arch_rows:
	s_set_gpr_idx_on s5, gpr_idx(SRC0)
	v_mov_b32 v0, v0
	s_set_gpr_idx_off
	store_lanes v0
	s_add_u32 s5, s5, 1
	s_cmp_lt_u32 s5, s6
	s_cbranch_scc1 lanes_arch_rows
lanes_acc:
	s_mov_b32 s5, 0
	s_cmp_lt_u32 s5, s7
	s_cbranch_scc0 lanes_lds
lanes_acc_rows:
	s_set_gpr_idx_on s5, gpr_idx(SRC0)
	v_accvgpr_read_b32 v0, a0
	s_set_gpr_idx_off
	store_lanes v0
	s_add_u32 s5, s5, 1
	s_cmp_lt_u32 s5, s7
	s_cbranch_scc1 lanes_acc_rows
lanes_lds:
	lds_size s5
	s_cmp_eq_u32 s5, 0
	s_cbranch_scc1 saved
	s_barrier
	s_cmp_eq_u32 ttmp13, 0
	s_cbranch_scc1 saved
	// Behind the SGPRs, TTMP14:15.
	s_add_u32 s8, ttmp14, 0x80
	s_addc_u32 s9, ttmp15, 0
	lane_bytes
lanes_lds_rows:
	ds_read_b32 v1, v0
	s_waitcnt lgkmcnt(0)
	store_lanes v1
	v_add_u32 v0, ROW, v0
	s_sub_u32 s5, s5, ROW
	s_cmp_lg_u32 s5, 0
	s_cbranch_scc1 lanes_lds_rows
	s_branch saved

// ---- Restore ----

.macro load_rows from, to:vararg
	.set row, 0
	.irp v, \to
	streaming buffer_load_dword \v, off, ttmp[8:11], \from offset:row*ROW
	.set row, row + 1
	.endr
	s_waitcnt vmcnt(0)
.endm

restore:
	s_setvskip 0, 0
	s_set_gpr_idx_off
	describe
	places
	s_and_b32 ttmp13, exec_hi, 1 << FIRST_WAVE_BIT
	s_mov_b64 exec, -1
	s_mov_b64 xnack_mask, 0

	// LDS: nobody goes on before it is there, see the barrier at the end.
	s_cmp_eq_u32 ttmp13, 0
	s_cbranch_scc1 restore_vgprs
	lds_size s5
	s_cmp_eq_u32 s5, 0
	s_cbranch_scc1 restore_vgprs
	s_add_u32 s4, ttmp4, ttmp5
	s_add_u32 s4, s4, 0x80
	lane_bytes
restore_lds:
	load_rows s4, v2, v3
	ds_write2st64_b32 v0, v2, v3 offset1:1
	v_add_u32 v0, 2*ROW, v0
	s_add_u32 s4, s4, 2*ROW
	s_sub_u32 s5, s5, 2*ROW
	s_cmp_lg_u32 s5, 0
	s_cbranch_scc1 restore_lds
	s_waitcnt lgkmcnt(0)

	// Vector registers, v0 to v3 last: the others come by way of them.
restore_vgprs:
	vgprs s6, s7
	s_mov_b32 s5, 4*ROW
	s_mov_b32 s4, 4
	s_cmp_lt_u32 s4, s6
	s_cbranch_scc0 restore_acc
restore_arch_rows:
	load_rows s5, v0, v1, v2, v3
	s_set_gpr_idx_on s4, gpr_idx(DST)
	.irp n, 0, 1, 2, 3
	v_mov_b32 v\n, v\n
	.endr
	s_set_gpr_idx_off
	s_add_u32 s5, s5, 4*ROW
	s_add_u32 s4, s4, 4
	s_cmp_lt_u32 s4, s6
	s_cbranch_scc1 restore_arch_rows
restore_acc:
	s_mov_b32 s4, 0
	s_cmp_lt_u32 s4, s7
	s_cbranch_scc0 restore_first_rows
restore_acc_rows:
	load_rows s5, v0, v1, v2, v3
	s_set_gpr_idx_on s4, gpr_idx(DST)
	.irp n, 0, 1, 2, 3
	v_accvgpr_write_b32 a\n, v\n
	.endr
	s_set_gpr_idx_off
	s_add_u32 s5, s5, 4*ROW
	s_add_u32 s4, s4, 4
	s_cmp_lt_u32 s4, s7
	s_cbranch_scc1 restore_acc_rows
restore_first_rows:
	s_mov_b32 s4, 0
	load_rows s4, v0, v1, v2, v3

	// SGPRs, the last 16 first, by way of s0 to s15. TTMP0 to 3 hold nothing yet: of the last 16 four may be taken for them.
	s_lshr_b32 ttmp5, ttmp5, 2
	s_mov_b32 m0, ttmp5
	s_mov_b32 ttmp6, ttmp14
	s_mov_b32 ttmp7, ttmp15
restore_sgprs:
	s_sub_u32 ttmp6, ttmp6, 64
	s_subb_u32 ttmp7, ttmp7, 0
	s_load_dwordx16 s[0:15], ttmp[6:7], 0 glc
	s_waitcnt lgkmcnt(0)
	s_sub_u32 m0, m0, 16
	s_nop 0
	.irp n, 0, 2, 4, 6, 8, 10, 12, 14
	s_movreld_b64 s[\n:\n+1], s[\n:\n+1]
	.endr
	s_cmp_lg_u32 m0, 0
	s_cbranch_scc1 restore_sgprs

	// M0, PC, EXEC, STATUS, TRAPSTS, XNACK_MASK, MODE
	s_load_dwordx8 ttmp[0:7], ttmp[14:15], 0 glc
	s_load_dwordx2 ttmp[12:13], ttmp[14:15], 0x20 glc
	s_waitcnt lgkmcnt(0)
	s_mov_b32 m0, ttmp0
	s_mov_b32 ttmp0, ttmp1
	s_and_b32 ttmp1, ttmp2, PC_HI
	s_mov_b32 exec_lo, ttmp3
	s_mov_b32 exec_hi, ttmp4
	s_mov_b32 xnack_mask_lo, ttmp7
	s_mov_b32 xnack_mask_hi, ttmp12
	s_mov_b32 ttmp12, ttmp5
	// All but SAVECTX, which somebody may have set meanwhile.
	s_setreg_b32 hwreg(HW_REG_TRAPSTS, 0, SAVECTX_BIT), ttmp6
	s_lshr_b32 ttmp6, ttmp6, SAVECTX_BIT + 1
	s_nop 2
	s_setreg_b32 hwreg(HW_REG_TRAPSTS, SAVECTX_BIT + 1, 31 - SAVECTX_BIT), ttmp6
	s_setreg_b32 hwreg(HW_REG_MODE), ttmp13
	s_load_dwordx4 ttmp[4:7], ttmp[14:15], 0x50 glc
	s_load_dwordx4 ttmp[8:11], ttmp[14:15], 0x60 glc
	s_load_dword ttmp13, ttmp[14:15], 0x74 glc
	s_waitcnt lgkmcnt(0)
	put_replay ttmp2
	put_status ttmp2
	s_barrier
	s_rfe_b64 ttmp[0:1]
end:
