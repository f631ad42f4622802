// SPDX-License-Identifier: GPL-2.0
//
// The cleaner of gfx 9.4.2 (gfx90a) and 9.4.3 (gfx942): what the MEC's firmware runs on all compute units between two
// processes, so that the second one finds nothing of the first one in registers and LDS. scripts/shader-code assembles
// it for both, which have the same words: those in gfx9_4_2.rs.
//
// The firmware launches it twice on each compute unit, which has no other waves then; what follows is its part, as
// amdgpu's gfx_v9_4_2_cleaner_shader.asm tells it, and gfx_v9_4_3_cleaner_shader.asm the same.
//   s0 = 1: one group of 16 waves, of 128 VGPRs and 96 SGPRs each. So four waves have all 512 VGPRs of a SIMD, which
//           are both arch and accumulation VGPRs of other waves, and its SGPRs 0 to 383. The group has all of the LDS.
//           Bit 31 of s1 tells its first wave.
//   s0 = 0: one group of 24 waves of 96 SGPRs, which have SGPRs 224 to 799 of their SIMD. A group of more than 16 waves
//           has no barrier: each wave halts itself, and the firmware lets all go on once all are there.
// A wave that ended before the last one of its group is there would make room for that, and leave other registers to
// nobody.

.set FIRST_WAVE_BIT, 31
.set VGPRS, 128
.set SGPRS, 96
.set LDS_BYTES, 64 << 10
// Of one ds_write_b128 of all lanes.
.set WRITE_BYTES, 64 * 16

.text
cleaner:
	s_mov_b64 exec, -1
	s_cmp_eq_u32 s0, 1
	s_cbranch_scc1 vectors_and_lds
	s_sethalt 1
	// What the launch itself has put there.
	v_mov_b32 v0, 0
	s_branch scalars

vectors_and_lds:
	s_barrier
	s_bitcmp1_b32 s1, FIRST_WAVE_BIT
	s_cbranch_scc0 vectors
	v_mbcnt_lo_u32_b32 v1, -1, 0
	v_mbcnt_hi_u32_b32 v1, -1, v1
	v_lshlrev_b32 v1, 4, v1
	v_mov_b32 v4, 0
	v_mov_b32 v5, 0
	v_mov_b32 v6, 0
	v_mov_b32 v7, 0
	s_movk_i32 s2, LDS_BYTES / (4 * WRITE_BYTES)
lds:
	ds_write_b128 v1, v[4:7]
	ds_write_b128 v1, v[4:7] offset:WRITE_BYTES
	ds_write_b128 v1, v[4:7] offset:2 * WRITE_BYTES
	ds_write_b128 v1, v[4:7] offset:3 * WRITE_BYTES
	v_add_u32 v1, 4 * WRITE_BYTES, v1
	s_sub_u32 s2, s2, 1
	s_cmp_lg_u32 s2, 0
	s_cbranch_scc1 lds
	s_waitcnt lgkmcnt(0)

vectors:
	// Eight at a time, from the last ones to v0: s2 is added to the number of the destination.
	s_movk_i32 s2, VGPRS - 8
	s_set_gpr_idx_on s2, gpr_idx(DST)
next_vectors:
	v_mov_b32 v0, 0
	v_mov_b32 v1, 0
	v_mov_b32 v2, 0
	v_mov_b32 v3, 0
	v_mov_b32 v4, 0
	v_mov_b32 v5, 0
	v_mov_b32 v6, 0
	v_mov_b32 v7, 0
	s_sub_u32 s2, s2, 8
	s_set_gpr_idx_idx s2
	// A borrow: v0 to v7 were the last.
	s_cbranch_scc0 next_vectors
	s_set_gpr_idx_off

	s_mov_b64 ttmp[0:1], 0
	s_mov_b64 ttmp[2:3], 0
	s_mov_b64 ttmp[4:5], 0
	s_mov_b64 ttmp[6:7], 0
	s_mov_b64 ttmp[8:9], 0
	s_mov_b64 ttmp[10:11], 0
	s_mov_b64 ttmp[12:13], 0
	s_mov_b64 ttmp[14:15], 0

scalars:
	s_movk_i32 m0, SGPRS - 8
	// An SGPR number from M0 takes one wait state.
	s_nop 0
next_scalars:
	s_movreld_b64 s[0:1], 0
	s_movreld_b64 s[2:3], 0
	s_movreld_b64 s[4:5], 0
	s_movreld_b64 s[6:7], 0
	s_sub_u32 m0, m0, 8
	s_cbranch_scc0 next_scalars
	s_mov_b64 flat_scratch, 0
	s_mov_b64 xnack_mask, 0
	s_mov_b64 vcc, 0
	s_endpgm
