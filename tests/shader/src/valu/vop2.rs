// SPDX-License-Identifier: GPL-2.0
//! VOP2: two sources; some instructions add to their result.

use half::f16;

use super::float as fp;
use super::halves::{self, narrow, Widen};
use super::packed::{dot_halves, dot_whole_halves};
use super::saturate::{dot_i16, dot_i4};
use super::types::Low;
use super::{alu, carry, seldom, Spec};
use crate::isa::Isa;

/// The low 24 bits.
#[inline(always)]
pub fn low24(a: u32) -> u32 {
    a & 0xff_ffff
}

/// The low 24 bits, sign-extended.
#[inline(always)]
pub fn signed24(a: u32) -> i32 {
    (a << 8) as i32 >> 8
}

/// The sum of the products of the signed bytes.
#[inline(always)]
pub fn dot_i8(a: u32, b: u32) -> i32 {
    (0..4).fold(0, |sum, n| {
        sum + i32::from((a >> (8 * n)) as i8) * i32::from((b >> (8 * n)) as i8)
    })
}

/// The instruction with that opcode.
pub fn vop2(isa: Isa, op: u32) -> Option<Spec> {
    Some(match op {
        0 => carry::cndmask(),
        1 => alu!("v_add_f32" (a: f32, b: f32) -> f32 { a + b }),
        2 => alu!("v_sub_f32" (a: f32, b: f32) -> f32 { a - b }),
        3 => alu!("v_subrev_f32" (a: f32, b: f32) -> f32 { b - a }),
        4 => alu!("v_fmac_f64", Accumulate (a: f64, b: f64, c: f64) -> f64 { a.mul_add(b, c) }),
        5 => alu!("v_mul_f32" (a: f32, b: f32) -> f32 { a * b }),
        6 => {
            alu!("v_mul_i32_i24" (a: u32, b: u32) -> i32 { signed24(a).wrapping_mul(signed24(b)) })
        }
        7 => alu!("v_mul_hi_i32_i24" (a: u32, b: u32) -> i32 {
            (i64::from(signed24(a)) * i64::from(signed24(b)) >> 32) as i32
        }),
        8 => alu!("v_mul_u32_u24" (a: u32, b: u32) -> u32 { low24(a).wrapping_mul(low24(b)) }),
        9 => alu!("v_mul_hi_u32_u24" (a: u32, b: u32) -> u32 {
            (u64::from(low24(a)) * u64::from(low24(b)) >> 32) as u32
        }),
        10 => alu!("v_min_f32" (a: f32, b: f32) -> f32 { fp::min32(a, b) }),
        11 => alu!("v_max_f32" (a: f32, b: f32) -> f32 { fp::max32(a, b) }),
        12 => alu!("v_min_i32" (a: i32, b: i32) -> i32 { a.min(b) }),
        13 => alu!("v_max_i32" (a: i32, b: i32) -> i32 { a.max(b) }),
        14 => alu!("v_min_u32" (a: u32, b: u32) -> u32 { a.min(b) }),
        15 => alu!("v_max_u32" (a: u32, b: u32) -> u32 { a.max(b) }),
        16 => alu!("v_lshrrev_b32" (a: u32, b: u32) -> u32 { b >> (a & 31) }),
        17 => alu!("v_ashrrev_i32" (a: u32, b: i32) -> i32 { b >> (a & 31) }),
        18 => alu!("v_lshlrev_b32" (a: u32, b: u32) -> u32 { b << (a & 31) }),
        19 => alu!("v_and_b32" (a: u32, b: u32) -> u32 { a & b }),
        20 => alu!("v_or_b32" (a: u32, b: u32) -> u32 { a | b }),
        21 => alu!("v_xor_b32" (a: u32, b: u32) -> u32 { a ^ b }),
        22 if isa.is_gfx942() => return None,
        22 => alu!("v_mac_f32", Accumulate (a: f32, b: f32, c: f32) -> f32 { fp::mad32(a, b, c) }),
        23 if isa.is_gfx942() => {
            alu!("v_fmamk_f32", MiddleLiteral (a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) })
        }
        24 if isa.is_gfx942() => {
            alu!("v_fmaak_f32", LastLiteral (a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) })
        }
        23 => {
            alu!("v_madmk_f32", MiddleLiteral (a: f32, b: f32, c: f32) -> f32 {
                fp::mad32(a, b, c)
            })
        }
        24 => {
            alu!("v_madak_f32", LastLiteral (a: f32, b: f32, c: f32) -> f32 { fp::mad32(a, b, c) })
        }
        25 => carry::add(),
        26 => carry::sub(),
        27 => carry::subrev(),
        28 => carry::addc(),
        29 => carry::subb(),
        30 => carry::subbrev(),
        31 => alu!("v_add_f16" (a: f16, b: f16) -> f16 { narrow(a.widen() + b.widen()) }),
        32 => alu!("v_sub_f16" (a: f16, b: f16) -> f16 { narrow(a.widen() - b.widen()) }),
        33 => {
            alu!("v_subrev_f16" (a: f16, b: f16) -> f16 { narrow(b.widen() - a.widen()) })
        }
        34 => alu!("v_mul_f16" (a: f16, b: f16) -> f16 { narrow(a.widen() * b.widen()) }),
        35 => seldom!("v_mac_f16", Accumulate (a: f16, b: f16, c: f16) -> Low<f16> {
            Low(fp::mad16(a, b, c))
        }),
        36 => seldom!("v_madmk_f16", MiddleLiteral (a: f16, b: f16, c: f16) -> Low<f16> {
            Low(fp::mad16(a, b, c))
        }),
        37 => seldom!("v_madak_f16", LastLiteral (a: f16, b: f16, c: f16) -> Low<f16> {
            Low(fp::mad16(a, b, c))
        }),
        38 => alu!("v_add_u16" (a: u16, b: u16) -> u16 { a.wrapping_add(b) }),
        39 => alu!("v_sub_u16" (a: u16, b: u16) -> u16 { a.wrapping_sub(b) }),
        40 => alu!("v_subrev_u16" (a: u16, b: u16) -> u16 { b.wrapping_sub(a) }),
        41 => alu!("v_mul_lo_u16" (a: u16, b: u16) -> u16 { a.wrapping_mul(b) }),
        42 => alu!("v_lshlrev_b16" (a: u16, b: u16) -> u16 { b << (a & 15) }),
        43 => alu!("v_lshrrev_b16" (a: u16, b: u16) -> u16 { b >> (a & 15) }),
        44 => alu!("v_ashrrev_i16" (a: u16, b: i16) -> i16 { b >> (a & 15) }),
        45 => alu!("v_max_f16" (a: f16, b: f16) -> f16 { fp::max16(a, b) }),
        46 => alu!("v_min_f16" (a: f16, b: f16) -> f16 { fp::min16(a, b) }),
        47 => alu!("v_max_u16" (a: u16, b: u16) -> u16 { a.max(b) }),
        48 => alu!("v_max_i16" (a: i16, b: i16) -> i16 { a.max(b) }),
        49 => alu!("v_min_u16" (a: u16, b: u16) -> u16 { a.min(b) }),
        50 => alu!("v_min_i16" (a: i16, b: i16) -> i16 { a.min(b) }),
        51 => alu!("v_ldexp_f16" (a: f16, b: i16) -> f16 {
            f16::from_f64(fp::ldexp64(a.to_f64(), b.into()))
        }),
        52 => alu!("v_add_u32" (a: u32, b: u32) -> u32 { a.wrapping_add(b) }),
        53 => alu!("v_sub_u32" (a: u32, b: u32) -> u32 { a.wrapping_sub(b) }),
        54 => alu!("v_subrev_u32" (a: u32, b: u32) -> u32 { b.wrapping_sub(a) }),
        55 if isa.is_gfx942() => {
            seldom!("v_dot2c_f32_f16", Accumulate (a: u32, b: u32, c: f32) -> f32 {
                dot_whole_halves(a, b, c)
            })
        }
        55 => seldom!("v_dot2c_f32_f16", Accumulate (a: u32, b: u32, c: f32) -> f32 {
            dot_halves(a, b, c)
        }),
        56 => seldom!("v_dot2c_i32_i16", Accumulate (a: u32, b: u32, c: i32) -> i32 {
            c.wrapping_add(dot_i16(a, b) as i32)
        }),
        57 => alu!("v_dot4c_i32_i8", Accumulate (a: u32, b: u32, c: i32) -> i32 {
            c.wrapping_add(dot_i8(a, b))
        }),
        58 => seldom!("v_dot8c_i32_i4", Accumulate (a: u32, b: u32, c: i32) -> i32 {
            c.wrapping_add(dot_i4(a, b) as i32)
        }),
        59 => alu!("v_fmac_f32", Accumulate (a: f32, b: f32, c: f32) -> f32 { a.mul_add(b, c) }),
        60 => seldom!("v_pk_fmac_f16", Accumulate (a: u32, b: u32, c: u32) -> u32 {
            let half = |shift: u32| {
                let [a, b, c] = [a, b, c].map(|word| f16::from_bits((word >> shift) as u16));
                u32::from(halves::fma(a, b, c).to_bits()) << shift
            };
            half(0) | half(16)
        }),
        61 => alu!("v_xnor_b32" (a: u32, b: u32) -> u32 { !(a ^ b) }),
        _ => return None,
    })
}
