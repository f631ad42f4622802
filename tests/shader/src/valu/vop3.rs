// SPDX-License-Identifier: GPL-2.0
//! Opcodes that only VOP3 has.

use half::f16;

use super::float as fp;
use super::halves::{self, narrow, Widen};
use super::sad::{self, masked_bytes_apart};
use super::types::Low;
use super::vop2::{low24, signed24};
use super::{alu, cross, divide, fp8, seldom, Spec};
use crate::isa::Isa;

/// Bits of the field at `b` with `c` bits.
#[inline(always)]
fn field(a: u32, b: u32, c: u32) -> u32 {
    a >> (b & 31) & ((1u32 << (c & 31)) - 1)
}

#[inline(always)]
fn signed_field(a: i32, b: u32, c: u32) -> i32 {
    let (offset, width) = (b & 31, c & 31);
    if width == 0 {
        0
    } else if offset + width >= 32 {
        a >> offset
    } else {
        a << (32 - width - offset) >> (32 - width)
    }
}

/// A byte of the result of v_perm_b32: bytes 0 to 3 are of `b`, 4 to 7 of `a`.
#[inline(always)]
fn chosen_byte(a: u32, b: u32, selector: u32) -> u32 {
    let all = u64::from(a) << 32 | u64::from(b);
    match selector & 0xff {
        n @ 0..=7 => (all >> (8 * n)) as u32 & 0xff,
        n @ 8..=11 => {
            let sign = all >> (16 * (n - 8) + 15) & 1;
            sign as u32 * 0xff
        }
        12 => 0,
        _ => 0xff,
    }
}

/// `word` with byte `n` from `value`.
#[inline(always)]
fn with_byte(word: u32, n: u32, value: f32) -> u32 {
    let shift = 8 * (n & 3);
    let byte = u32::from(value.round_ties_even() as u8);
    word & !(0xff << shift) | byte << shift
}

/// The sum of the bytes' differences.
pub fn bytes_apart(a: u32, b: u32) -> u32 {
    (0..4).fold(0, |sum, n| {
        sum + (a >> (8 * n) & 0xff).abs_diff(b >> (8 * n) & 0xff)
    })
}

#[inline(always)]
fn med<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

fn pair16(lo: u16, hi: u16) -> u32 {
    u32::from(lo) | u32::from(hi) << 16
}

/// The instruction with that opcode.
pub fn vop3(isa: Isa, op: u32) -> Option<Spec> {
    Some(match op {
        448 | 449 if isa.is_gfx942() => return None,
        448 => seldom!("v_mad_legacy_f32" (a: f32, b: f32, c: f32) -> f32 {
            fp::mad_legacy32(a, b, c)
        }),
        449 => alu!("v_mad_f32" (a: f32, b: f32, c: f32) -> f32 { fp::mad32(a, b, c) }),
        450 => alu!("v_mad_i32_i24" (a: u32, b: u32, c: i32) -> i32 {
            signed24(a).wrapping_mul(signed24(b)).wrapping_add(c)
        }),
        451 => alu!("v_mad_u32_u24" (a: u32, b: u32, c: u32) -> u32 {
            low24(a).wrapping_mul(low24(b)).wrapping_add(c)
        }),
        452 => seldom!("v_cubeid_f32" (x: f32, y: f32, z: f32) -> f32 { fp::cube_face(x, y, z) }),
        453 => seldom!("v_cubesc_f32" (x: f32, y: f32, z: f32) -> f32 { fp::cube_s(x, y, z) }),
        454 => seldom!("v_cubetc_f32" (x: f32, y: f32, z: f32) -> f32 { fp::cube_t(x, y, z) }),
        455 => seldom!("v_cubema_f32" (x: f32, y: f32, z: f32) -> f32 { fp::cube_major(x, y, z) }),
        456 => alu!("v_bfe_u32" (a: u32, b: u32, c: u32) -> u32 { field(a, b, c) }),
        457 => alu!("v_bfe_i32" (a: i32, b: u32, c: u32) -> i32 { signed_field(a, b, c) }),
        458 => alu!("v_bfi_b32" (a: u32, b: u32, c: u32) -> u32 { a & b | !a & c }),
        459 => alu!("v_fma_f32" (a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }),
        460 => alu!("v_fma_f64" (a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }),
        461 => alu!("v_lerp_u8" (a: u32, b: u32, c: u32) -> u32 {
            (0..4).fold(0, |all, n| {
                let byte = |word: u32| word >> (8 * n) & 0xff;
                all | (byte(a) + byte(b) + (byte(c) & 1) >> 1) << (8 * n)
            })
        }),
        462 => alu!("v_alignbit_b32" (a: u32, b: u32, c: u32) -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
        }),
        463 => alu!("v_alignbyte_b32" (a: u32, b: u32, c: u32) -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
        }),
        464 => alu!("v_min3_f32" (a: f32, b: f32, c: f32) -> f32 { fp::min32(fp::min32(a, b), c) }),
        465 => alu!("v_min3_i32" (a: i32, b: i32, c: i32) -> i32 { a.min(b).min(c) }),
        466 => alu!("v_min3_u32" (a: u32, b: u32, c: u32) -> u32 { a.min(b).min(c) }),
        467 => alu!("v_max3_f32" (a: f32, b: f32, c: f32) -> f32 { fp::max32(fp::max32(a, b), c) }),
        468 => alu!("v_max3_i32" (a: i32, b: i32, c: i32) -> i32 { a.max(b).max(c) }),
        469 => alu!("v_max3_u32" (a: u32, b: u32, c: u32) -> u32 { a.max(b).max(c) }),
        470 => alu!("v_med3_f32" (a: f32, b: f32, c: f32) -> f32 { fp::med32(a, b, c) }),
        471 => alu!("v_med3_i32" (a: i32, b: i32, c: i32) -> i32 { med(a, b, c) }),
        472 => alu!("v_med3_u32" (a: u32, b: u32, c: u32) -> u32 { med(a, b, c) }),
        473 => {
            alu!("v_sad_u8" (a: u32, b: u32, c: u32) -> u32 { c.wrapping_add(bytes_apart(a, b)) })
        }
        474 => alu!("v_sad_hi_u8" (a: u32, b: u32, c: u32) -> u32 {
            c.wrapping_add(bytes_apart(a, b) << 16)
        }),
        475 => alu!("v_sad_u16" (a: u32, b: u32, c: u32) -> u32 {
            let lo = (a & 0xffff).abs_diff(b & 0xffff);
            c.wrapping_add(lo).wrapping_add((a >> 16).abs_diff(b >> 16))
        }),
        476 => alu!("v_sad_u32" (a: u32, b: u32, c: u32) -> u32 { c.wrapping_add(a.abs_diff(b)) }),
        477 => alu!("v_cvt_pk_u8_f32" (a: f32, b: u32, c: u32) -> u32 {
            with_byte(c, b, a)
        }),
        478 => alu!("v_div_fixup_f32" (a: f32, b: f32, c: f32) -> f32 { divide::fixup32(a, b, c) }),
        479 => alu!("v_div_fixup_f64" (a: f64, b: f64, c: f64) -> f64 { divide::fixup64(a, b, c) }),
        480 => divide::scale32(),
        481 => divide::scale64(),
        482 => divide::fmas32(),
        483 => divide::fmas64(),
        484 => seldom!("v_msad_u8" (a: u32, b: u32, c: u32) -> u32 {
            c.wrapping_add(masked_bytes_apart(a, b))
        }),
        485 => sad::qsad_pk_u16_u8(),
        486 => sad::mqsad_pk_u16_u8(),
        487 => sad::mqsad_u32_u8(),
        488 => divide::mad_u64_u32(),
        489 => divide::mad_i64_i32(),
        490 => seldom!("v_mad_legacy_f16" (a: f16, b: f16, c: f16) -> f16 { fp::mad16(a, b, c) }),
        491 => alu!("v_mad_legacy_u16" (a: u16, b: u16, c: u16) -> u16 {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        492 => alu!("v_mad_legacy_i16" (a: i16, b: i16, c: i16) -> i16 {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        493 => alu!("v_perm_b32" (a: u32, b: u32, c: u32) -> u32 {
            (0..4).fold(0, |all, n| all | chosen_byte(a, b, c >> (8 * n)) << (8 * n))
        }),
        494 => {
            seldom!("v_fma_legacy_f16" (a: f16, b: f16, c: f16) -> f16 { halves::fma(a, b, c) })
        }
        495 => seldom!("v_div_fixup_legacy_f16" (a: f16, b: f16, c: f16) -> f16 {
            narrow(divide::fixup32(a.widen(), b.widen(), c.widen()))
        }),
        496 => seldom!("v_cvt_pkaccum_u8_f32", Accumulate (a: f32, b: u32, c: u32) -> u32 {
            with_byte(c, b, a)
        }),
        497 => alu!("v_mad_u32_u16" (a: u16, b: u16, c: u32) -> u32 {
            c.wrapping_add(u32::from(a) * u32::from(b))
        }),
        498 => alu!("v_mad_i32_i16" (a: i16, b: i16, c: i32) -> i32 {
            c.wrapping_add(i32::from(a) * i32::from(b))
        }),
        499 => alu!("v_xad_u32" (a: u32, b: u32, c: u32) -> u32 { (a ^ b).wrapping_add(c) }),
        500 => alu!("v_min3_f16" (a: f16, b: f16, c: f16) -> f16 { fp::min16(fp::min16(a, b), c) }),
        501 => alu!("v_min3_i16" (a: i16, b: i16, c: i16) -> i16 { a.min(b).min(c) }),
        502 => alu!("v_min3_u16" (a: u16, b: u16, c: u16) -> u16 { a.min(b).min(c) }),
        503 => alu!("v_max3_f16" (a: f16, b: f16, c: f16) -> f16 { fp::max16(fp::max16(a, b), c) }),
        504 => alu!("v_max3_i16" (a: i16, b: i16, c: i16) -> i16 { a.max(b).max(c) }),
        505 => alu!("v_max3_u16" (a: u16, b: u16, c: u16) -> u16 { a.max(b).max(c) }),
        506 => alu!("v_med3_f16" (a: f16, b: f16, c: f16) -> f16 {
            narrow(fp::med32(a.widen(), b.widen(), c.widen()))
        }),
        507 => alu!("v_med3_i16" (a: i16, b: i16, c: i16) -> i16 { med(a, b, c) }),
        508 => alu!("v_med3_u16" (a: u16, b: u16, c: u16) -> u16 { med(a, b, c) }),
        509 => {
            alu!("v_lshl_add_u32" (a: u32, b: u32, c: u32) -> u32 {
                (a << (b & 31)).wrapping_add(c)
            })
        }
        510 => {
            alu!("v_add_lshl_u32" (a: u32, b: u32, c: u32) -> u32 { a.wrapping_add(b) << (c & 31) })
        }
        511 => {
            alu!("v_add3_u32" (a: u32, b: u32, c: u32) -> u32 { a.wrapping_add(b).wrapping_add(c) })
        }
        512 => alu!("v_lshl_or_b32" (a: u32, b: u32, c: u32) -> u32 { a << (b & 31) | c }),
        513 => alu!("v_and_or_b32" (a: u32, b: u32, c: u32) -> u32 { a & b | c }),
        514 => alu!("v_or3_b32" (a: u32, b: u32, c: u32) -> u32 { a | b | c }),
        515 => seldom!("v_mad_f16" (a: f16, b: f16, c: f16) -> Low<f16> {
            Low(fp::mad16(a, b, c))
        }),
        516 => alu!("v_mad_u16" (a: u16, b: u16, c: u16) -> Low<u16> {
            Low(a.wrapping_mul(b).wrapping_add(c))
        }),
        517 => alu!("v_mad_i16" (a: i16, b: i16, c: i16) -> Low<i16> {
            Low(a.wrapping_mul(b).wrapping_add(c))
        }),
        518 => {
            alu!("v_fma_f16" (a: f16, b: f16, c: f16) -> Low<f16> { Low(halves::fma(a, b, c)) })
        }
        519 => alu!("v_div_fixup_f16" (a: f16, b: f16, c: f16) -> Low<f16> {
            Low(narrow(divide::fixup32(a.widen(), b.widen(), c.widen())))
        }),
        520 if isa.is_gfx942() => {
            alu!("v_lshl_add_u64" (a: u64, b: u32, c: u64) -> u64 { (a << (b & 7)).wrapping_add(c) })
        }
        640 => alu!("v_add_f64" (a: f64, b: f64) -> f64 { a + b }),
        641 => alu!("v_mul_f64" (a: f64, b: f64) -> f64 { a * b }),
        642 => alu!("v_min_f64" (a: f64, b: f64) -> f64 { fp::min64(a, b) }),
        643 => alu!("v_max_f64" (a: f64, b: f64) -> f64 { fp::max64(a, b) }),
        644 => alu!("v_ldexp_f64" (a: f64, b: i32) -> f64 { fp::ldexp64(a, b) }),
        645 => alu!("v_mul_lo_u32" (a: u32, b: u32) -> u32 { a.wrapping_mul(b) }),
        646 => {
            alu!("v_mul_hi_u32" (a: u32, b: u32) -> u32 {
                (u64::from(a) * u64::from(b) >> 32) as u32
            })
        }
        647 => {
            alu!("v_mul_hi_i32" (a: i32, b: i32) -> i32 {
                (i64::from(a) * i64::from(b) >> 32) as i32
            })
        }
        648 => alu!("v_ldexp_f32" (a: f32, b: i32) -> f32 { fp::ldexp32(a, b) }),
        649 => cross::readlane(),
        650 => cross::writelane(),
        651 => alu!("v_bcnt_u32_b32" (a: u32, b: u32) -> u32 { a.count_ones().wrapping_add(b) }),
        652 => cross::mbcnt_lo(),
        653 => cross::mbcnt_hi(),
        655 => alu!("v_lshlrev_b64" (a: u32, b: u64) -> u64 { b << (a & 63) }),
        656 => alu!("v_lshrrev_b64" (a: u32, b: u64) -> u64 { b >> (a & 63) }),
        657 => alu!("v_ashrrev_i64" (a: u32, b: i64) -> i64 { b >> (a & 63) }),
        658 => alu!("v_trig_preop_f64" (a: f64, b: u32) -> f64 { fp::trig_preop(a, b) }),
        659 => alu!("v_bfm_b32" (a: u32, b: u32) -> u32 { ((1u32 << (a & 31)) - 1) << (b & 31) }),
        660 => seldom!("v_cvt_pknorm_i16_f32" (a: f32, b: f32) -> u32 {
            pair16(fp::signed_norm(a), fp::signed_norm(b))
        }),
        661 => seldom!("v_cvt_pknorm_u16_f32" (a: f32, b: f32) -> u32 {
            pair16(fp::unsigned_norm(a), fp::unsigned_norm(b))
        }),
        662 => alu!("v_cvt_pkrtz_f16_f32" (a: f32, b: f32) -> u32 {
            pair16(fp::f16_toward_zero(a), fp::f16_toward_zero(b))
        }),
        663 => alu!("v_cvt_pk_u16_u32" (a: u32, b: u32) -> u32 {
            pair16(a.min(0xffff) as u16, b.min(0xffff) as u16)
        }),
        664 => alu!("v_cvt_pk_i16_i32" (a: i32, b: i32) -> u32 {
            pair16(
                a.clamp(-0x8000, 0x7fff) as u16,
                b.clamp(-0x8000, 0x7fff) as u16,
            )
        }),
        665 => seldom!("v_cvt_pknorm_i16_f16" (a: f16, b: f16) -> u32 {
            pair16(fp::signed_norm(a.widen()), fp::signed_norm(b.widen()))
        }),
        666 => seldom!("v_cvt_pknorm_u16_f16" (a: f16, b: f16) -> u32 {
            pair16(fp::unsigned_norm(a.widen()), fp::unsigned_norm(b.widen()))
        }),
        668 => alu!("v_add_i32" (a: u32, b: u32) -> u32 { a.wrapping_add(b) }),
        669 => alu!("v_sub_i32" (a: u32, b: u32) -> u32 { a.wrapping_sub(b) }),
        670 => alu!("v_add_i16" (a: u16, b: u16) -> u16 { a.wrapping_add(b) }),
        671 => alu!("v_sub_i16" (a: u16, b: u16) -> u16 { a.wrapping_sub(b) }),
        672 => alu!("v_pack_b32_f16" (a: f16, b: f16) -> u32 { pair16(a.to_bits(), b.to_bits()) }),
        673 => seldom!("v_mul_legacy_f32" (a: f32, b: f32) -> f32 { fp::mul_legacy32(a, b) }),
        674..=677 if isa.is_gfx942() => fp8::narrowing(op),
        _ => return None,
    })
}
