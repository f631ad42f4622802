// SPDX-License-Identifier: GPL-2.0
//
// Waves that fill all their registers, count until they are told to stop, and then check that
// everything is unchanged.
//
// s0:1 is the address of:
//   +0   stop, dword: not 0 when they are to end
//   +64  64 bytes a wave: dword 0 counts its rounds, dword 1 is the result, 0x600d0000 plus the
//        number of mismatches; dwords 2 and 3 say how much differed, dword 4 is the HW_ID of a
//        wave that reports it
// For the program that touches pages it is the address of these instead. Those that leave SECRET in
// registers and LDS, or look for it there before they write anything, have more in the first line:
//   +4   waves that are through, and stay until they are told to end
//   +8   how often SECRET was found in arch VGPRs of any lane; +12 in accumulation VGPRs; +16 in
//        LDS; +20 in SGPRs
// s2 is the number of the group, v0 that of the item in it. The words at the beginning are the
// programs' places.

.set STOP, 0
.set RECORDS, 64
.set RECORD_SHIFT, 6
.set STEP, 0x01000193		// between a vector register and the next, in all lanes
.set SSTEP, 0x01234567		// between an SGPR and the next
.set FIRST_SGPR, 40		// the first one that holds a pattern
.set LAST_SGPR, 101
.set M0_WORD, 0x12345678
.set VCC_LO_WORD, 0x0f1e2d3c
.set VCC_HI_WORD, 0x89abcdef
.set EXEC_LO_WORD, 0x5555aaa1	// with holes
.set EXEC_HI_WORD, 0xf0f00ff1
.set SECRET, 0x5ec7e75e
.set ARRIVED, 4
.set FOUND_ARCH, 8
.set FOUND_ACC, 12
.set FOUND_LDS, 16
.set FOUND_SCALARS, 20
.set ABORT, 1			// codes of exceptions
.set TRAP, 2
.set ILLEGAL_INSTRUCTION, 4

// s4:5 = this wave's record; s6 = its number, s3 = waves a group, s7 = the wave in its group
.macro begin waves
	v_readfirstlane_b32 s7, v0
	s_lshr_b32 s7, s7, 6
	s_mul_i32 s6, s2, \waves
	s_add_u32 s6, s6, s7
	s_lshl_b32 s8, s6, RECORD_SHIFT
	s_add_u32 s4, s0, s8
	s_addc_u32 s5, s1, 0
	s_add_u32 s4, s4, RECORDS
	s_addc_u32 s5, s5, 0
.endm

// \v = base of all other patterns of the wave: its number and the lane's
.macro base v
	v_mbcnt_lo_u32_b32 \v, -1, 0
	v_mbcnt_hi_u32_b32 \v, -1, \v
	s_lshl_b32 s8, s6, 6
	v_or_b32 \v, s8, \v
	s_mov_b32 s9, 0x9e3779b1
	v_mul_lo_u32 \v, \v, s9
.endm

.macro fill_vectors arch, acc
	base v0
	s_mov_b32 s9, STEP
	.set n, \arch
	.rept \acc
	s_mul_i32 s10, s9, n
	v_add_u32 v1, s10, v0
	s_nop 1
	.set a, n - \arch
	v_accvgpr_write_b32 a[a], v1
	.set n, n + 1
	.endr
	.set n, 1
	.rept \arch - 1
	v_add_u32 v[n], s9, v[n-1]
	.set n, n + 1
	.endr
.endm

// s20:21 = lanes that differ; the compared registers are lost
.macro check_vectors arch, acc
	s_mov_b64 exec, -1
	s_mov_b64 s[20:21], 0
	s_mov_b32 s9, 0
	.set n, 1
	.rept \arch - 1
	v_sub_u32 v[n], v[n], v0
	s_add_u32 s9, s9, STEP
	v_cmp_ne_u32 vcc, s9, v[n]
	s_or_b64 s[20:21], s[20:21], vcc
	.set n, n + 1
	.endr
	.set n, 0
	.rept \acc
	v_accvgpr_read_b32 v1, a[n]
	s_add_u32 s9, s9, STEP
	v_sub_u32 v1, v1, v0
	v_cmp_ne_u32 vcc, s9, v1
	s_or_b64 s[20:21], s[20:21], vcc
	.set n, n + 1
	.endr
	base v1
	v_cmp_ne_u32 vcc, v0, v1
	s_or_b64 s[20:21], s[20:21], vcc
.endm

.macro fill_scalars
	s_mul_i32 s[FIRST_SGPR], s6, 0x85ebca6b
	.set n, FIRST_SGPR + 1
	.rept LAST_SGPR - FIRST_SGPR
	s_add_u32 s[n], s[n-1], SSTEP
	.set n, n + 1
	.endr
	s_mov_b32 vcc_lo, VCC_LO_WORD
	s_mov_b32 vcc_hi, VCC_HI_WORD
	s_mov_b32 m0, M0_WORD
	s_getreg_b32 s30, hwreg(HW_REG_MODE)
	s_mov_b32 exec_lo, EXEC_LO_WORD
	s_mov_b32 exec_hi, EXEC_HI_WORD
.endm

.macro differs a, b
	s_cmp_lg_u32 \a, \b
	s_addc_u32 s22, s22, 0
.endm

// s22 = the number that differ. Must be the first action after the rounds.
.macro check_scalars
	s_mov_b32 s22, 0
	differs vcc_lo, VCC_LO_WORD
	differs vcc_hi, VCC_HI_WORD
	differs m0, M0_WORD
	differs exec_lo, EXEC_LO_WORD
	differs exec_hi, EXEC_HI_WORD
	s_getreg_b32 s9, hwreg(HW_REG_MODE)
	differs s9, s30
	s_mul_i32 s9, s6, 0x85ebca6b
	.set n, FIRST_SGPR
	.rept LAST_SGPR - FIRST_SGPR + 1
	differs s9, s[n]
	s_add_u32 s9, s9, SSTEP
	.set n, n + 1
	.endr
.endm

.macro count
	s_add_u32 s11, s11, 1
	s_store_dword s11, s[4:5], 0 glc
	s_waitcnt lgkmcnt(0)
	s_dcache_wb
.endm

// s9 = 0 unless the waves are to stop
.macro ask
	s_load_dword s9, s[0:1], STOP glc
	s_waitcnt lgkmcnt(0)
.endm

.macro tell
	s_bcnt1_i32_b64 s9, s[20:21]
	s_store_dword s9, s[4:5], 8 glc
	s_waitcnt lgkmcnt(0)
	s_store_dword s22, s[4:5], 12 glc
	s_waitcnt lgkmcnt(0)
	s_add_u32 s9, s9, s22
	s_or_b32 s9, s9, 0x600d0000
	s_store_dword s9, s[4:5], 4 glc
	s_waitcnt lgkmcnt(0)
	s_dcache_wb
	s_endpgm
.endm

.macro program arch, acc
	begin 1
	fill_vectors \arch, \acc
	fill_scalars
	s_mov_b32 s11, 0
1:
	count
	s_sleep 4
	ask
	s_cmp_eq_u32 s9, 0
	s_cbranch_scc1 1b
	check_scalars
	check_vectors \arch, \acc
	tell
.endm

// Four waves with 64 KiB of LDS and barriers: each has a quarter, and wave 0 reads the stop word for
// all. The first dword of LDS passes it on.
.set WAVES, 4
.set PART, 0x10000 / WAVES
.macro lds_at v
	v_mbcnt_lo_u32_b32 \v, -1, 0
	v_mbcnt_hi_u32_b32 \v, -1, \v
	v_lshlrev_b32 \v, 2, \v
	s_mul_i32 s8, s7, PART
	v_add_u32 \v, s8, \v
.endm

.macro lds_program
	begin WAVES
	lds_at v1
	base v2
	s_mov_b32 s8, PART / 256
2:
	ds_write_b32 v1, v2
	v_add_u32 v1, 0x100, v1
	v_add_u32 v2, STEP, v2
	s_sub_u32 s8, s8, 1
	s_cmp_lg_u32 s8, 0
	s_cbranch_scc1 2b
	// The stop word is no part of a pattern.
	v_mov_b32 v1, 0
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_mov_b64 exec, 1
	ds_write_b32 v1, v1
	s_waitcnt lgkmcnt(0)
	s_mov_b64 exec, -1
	s_barrier
	fill_vectors 8, 0
	fill_scalars
	s_mov_b32 s11, 0
1:
	count
	s_barrier
	s_cmp_lg_u32 s7, 0
	s_cbranch_scc1 3f
	ask
	s_cmp_eq_u32 s9, 0
	s_cbranch_scc1 3f
	s_mov_b32 s31, 1
	s_branch 4f
3:
	s_mov_b32 s31, 0
4:
	// Through v6 and v7, whose pattern is put back.
	s_mov_b64 s[32:33], exec
	s_mov_b64 exec, 1
	v_mov_b32 v6, 0
	s_cmp_eq_u32 s31, 0
	s_cbranch_scc1 5f
	v_mov_b32 v7, 1
	ds_write_b32 v6, v7
	s_waitcnt lgkmcnt(0)
5:
	s_barrier
	ds_read_b32 v7, v6
	s_waitcnt lgkmcnt(0)
	v_readfirstlane_b32 s34, v7
	s_mov_b64 exec, 1
	s_mov_b32 s9, 6*STEP & 0xffffffff
	v_add_u32 v6, s9, v0
	s_mov_b32 s9, 7*STEP & 0xffffffff
	v_add_u32 v7, s9, v0
	s_mov_b64 exec, s[32:33]
	s_cmp_eq_u32 s34, 0
	s_cbranch_scc1 1b
	check_scalars
	check_vectors 8, 0
	// LDS, except lane 0 of wave 0's first row
	lds_at v1
	base v2
	s_mov_b32 s8, PART / 256
	s_mov_b64 exec, -1
	s_cmp_lg_u32 s7, 0
	s_cbranch_scc1 6f
	s_mov_b64 exec, -2
6:
	ds_read_b32 v3, v1
	s_waitcnt lgkmcnt(0)
	v_cmp_ne_u32 vcc, v2, v3
	s_or_b64 s[20:21], s[20:21], vcc
	s_mov_b64 exec, -1
	v_add_u32 v1, 0x100, v1
	v_add_u32 v2, STEP, v2
	s_sub_u32 s8, s8, 1
	s_cmp_lg_u32 s8, 0
	s_cbranch_scc1 6b
	tell
.endm

// Reports HW_ID and ends.
.macro where_program
	begin 1
	s_getreg_b32 s9, hwreg(HW_REG_HW_ID)
	s_store_dword s9, s[4:5], 16 glc
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[20:21], 0
	s_mov_b32 s22, 0
	tell
.endm

// Each item adds its number to the first dword of the page of that number, from s0:1 on, and 1 to the
// second one. Then it ends.
.macro touch_program
	s_lshl_b32 s8, s2, 6
	v_or_b32 v1, s8, v0
	v_lshlrev_b32 v2, 12, v1
	v_mov_b32 v3, 1
	global_load_dword v4, v2, s[0:1]
	s_waitcnt vmcnt(0)
	v_add_u32 v4, v4, v1
	global_store_dword v2, v4, s[0:1]
	global_atomic_add v2, v3, s[0:1] offset:4
	s_waitcnt vmcnt(0)
	s_endpgm
.endm

// Adds \v of each lane, or of the first, to a dword. v0 is lost.
.macro add v, to
	v_mov_b32 v0, 0
	global_atomic_add v0, \v, s[0:1] offset:\to
	s_waitcnt vmcnt(0)
.endm

// v0, v1, s9 and EXEC are lost.
.macro stay
	s_mov_b64 exec, 1
	v_mov_b32 v1, 1
	add v1, ARRIVED
1:
	s_sleep 4
	ask
	s_cmp_eq_u32 s9, 0
	s_cbranch_scc1 1b
	s_endpgm
.endm

// Of these no program here uses any before.
.macro each_scalar do
	.set n, 10
	.rept 86
	\do s[n]
	.set n, n + 1
	.endr
	\do flat_scratch_lo
	\do flat_scratch_hi
	\do vcc_lo
	\do vcc_hi
.endm

.macro leave_in s
	s_mov_b32 \s, SECRET
.endm

.macro find_in s
	s_cmp_eq_u32 \s, SECRET
	s_addc_u32 s4, s4, 0
.endm

.macro leave_scalars
	each_scalar leave_in
	stay
.endm

.macro find_scalars
	s_mov_b32 s4, 0
	each_scalar find_in
	s_mov_b64 exec, 1
	v_mov_b32 v1, s4
	add v1, FOUND_SCALARS
	stay
.endm

// In 512 VGPRs, and in LDS as lds_program has it.
.macro leave_vectors
	v_readfirstlane_b32 s7, v0
	s_lshr_b32 s7, s7, 6
	lds_at v1
	v_mov_b32 v2, SECRET
	s_movk_i32 s8, PART / 256
2:
	ds_write_b32 v1, v2
	v_add_u32 v1, 0x100, v1
	s_sub_u32 s8, s8, 1
	s_cmp_lg_u32 s8, 0
	s_cbranch_scc1 2b
	.set n, 3
	.rept 253
	v_mov_b32 v[n], v2
	.set n, n + 1
	.endr
	.set n, 0
	.rept 256
	v_accvgpr_write_b32 a[n], v2
	.set n, n + 1
	.endr
	s_waitcnt lgkmcnt(0)
	stay
.endm

.macro find_vectors
	v_readfirstlane_b32 s7, v0
	s_lshr_b32 s7, s7, 6
	s_mov_b32 s9, SECRET
	v_mov_b32 v1, 0
	v_mov_b32 v2, 0
	.set n, 4
	.rept 252
	v_cmp_eq_u32 vcc, s9, v[n]
	v_addc_co_u32 v1, vcc, 0, v1, vcc
	.set n, n + 1
	.endr
	.set n, 0
	.rept 256
	v_accvgpr_read_b32 v3, a[n]
	v_cmp_eq_u32 vcc, s9, v3
	v_addc_co_u32 v2, vcc, 0, v2, vcc
	.set n, n + 1
	.endr
	lds_at v3
	v_mov_b32 v5, 0
	s_movk_i32 s10, PART / 256
2:
	ds_read_b32 v4, v3
	s_waitcnt lgkmcnt(0)
	v_cmp_eq_u32 vcc, s9, v4
	v_addc_co_u32 v5, vcc, 0, v5, vcc
	v_add_u32 v3, 0x100, v3
	s_sub_u32 s10, s10, 1
	s_cmp_lg_u32 s10, 0
	s_cbranch_scc1 2b
	add v1, FOUND_ARCH
	add v2, FOUND_ACC
	add v5, FOUND_LDS
	stay
.endm

// Goes wrong as the dword behind STOP says: 0 aborts, 1 traps, 2 is no instruction.
.macro exception_program
	s_load_dword s4, s[0:1], 4 glc
	s_waitcnt lgkmcnt(0)
	s_cmp_eq_u32 s4, 1
	s_cbranch_scc1 1f
	s_cmp_eq_u32 s4, 2
	s_cbranch_scc1 2f
	s_trap 2
1:
	s_trap 1
2:
	.long 0xbfff0000
	s_endpgm
.endm

// A process's trap handler that reports an exception to its runtime and ends the wave: the codes in
// the dword at TTMP14:15, as bits, or the one that fits what has happened.
.macro exception_handler
	s_bitset1_b32 exec_lo, 31
	s_sendmsg sendmsg(MSG_GET_DOORBELL)
1:
	s_nop 7
	s_bitcmp0_b32 exec_lo, 31
	s_cbranch_scc0 1b
	s_and_b32 ttmp3, exec_lo, 0x3ff
	s_load_dword ttmp2, ttmp[14:15], 0 glc
	s_waitcnt lgkmcnt(0)
	s_cmp_lg_u32 ttmp2, 0
	s_cbranch_scc1 2f
	s_getreg_b32 ttmp12, hwreg(HW_REG_TRAPSTS)
	s_mov_b32 ttmp2, 1 << (ILLEGAL_INSTRUCTION - 1)
	s_bitcmp1_b32 ttmp12, 11
	s_cbranch_scc1 2f
	s_mov_b32 ttmp2, 1 << (ABORT - 1)
	s_bfe_u32 ttmp12, ttmp1, 16 | 8 << 16
	s_cmp_eq_u32 ttmp12, 2
	s_cbranch_scc1 2f
	s_mov_b32 ttmp2, 1 << (TRAP - 1)
2:
	s_lshl_b32 ttmp2, ttmp2, 10
	s_or_b32 m0, ttmp2, ttmp3
	s_nop 0
	s_sendmsg sendmsg(MSG_INTERRUPT)
	s_endpgm
.endm

	.text
	.long small - start, middle - start, large - start, huge - start, shared - start, where - start
	.long touch - start, leaver - start, finder - start, leaver_scalars - start
	.long finder_scalars - start, exception - start, handler - start
	.p2align 8
start = . - 256
small:
	program 8, 0
	.p2align 8
middle:
	program 40, 0
	.p2align 8
large:
	program 64, 64
	.p2align 8
huge:
	program 256, 256
	.p2align 8
shared:
	lds_program
	.p2align 8
where:
	where_program
	.p2align 8
touch:
	touch_program
	.p2align 8
leaver:
	leave_vectors
	.p2align 8
finder:
	find_vectors
	.p2align 8
leaver_scalars:
	leave_scalars
	.p2align 8
finder_scalars:
	find_scalars
	.p2align 8
exception:
	exception_program
	.p2align 8
handler:
	exception_handler
	.p2align 8
