// SPDX-License-Identifier: GPL-2.0
//! VOP1: one source.

use half::f16;

use super::float as fp;
use super::halves::{narrow, Widen};
use super::{alu, cross, fp8, seldom, Spec};
use crate::isa::Isa;

/// The instruction with that opcode.
pub fn vop1(isa: Isa, op: u32) -> Option<Spec> {
    Some(match op {
        0 => cross::nop(),
        1 => alu!("v_mov_b32" (a: u32) -> u32 { a }),
        2 => cross::readfirstlane(),
        3 => alu!("v_cvt_i32_f64" (a: f64) -> i32 { a as i32 }),
        4 => alu!("v_cvt_f64_i32" (a: i32) -> f64 { a.into() }),
        5 => alu!("v_cvt_f32_i32" (a: i32) -> f32 { a as f32 }),
        6 => alu!("v_cvt_f32_u32" (a: u32) -> f32 { a as f32 }),
        7 => alu!("v_cvt_u32_f32" (a: f32) -> u32 { a as u32 }),
        8 => alu!("v_cvt_i32_f32" (a: f32) -> i32 { a as i32 }),
        10 => alu!("v_cvt_f16_f32" (a: f32) -> f16 { narrow(a) }),
        11 => alu!("v_cvt_f32_f16" (a: f16) -> f32 { a.widen() }),
        12 => alu!("v_cvt_rpi_i32_f32" (a: f32) -> i32 { (f64::from(a) + 0.5).floor() as i32 }),
        13 => alu!("v_cvt_flr_i32_f32" (a: f32) -> i32 { a.floor() as i32 }),
        14 => alu!("v_cvt_off_f32_i4" (a: u32) -> f32 { ((a << 28) as i32 >> 28) as f32 / 16.0 }),
        15 => alu!("v_cvt_f32_f64" (a: f64) -> f32 { a as f32 }),
        16 => alu!("v_cvt_f64_f32" (a: f32) -> f64 { a.into() }),
        17 => alu!("v_cvt_f32_ubyte0" (a: u32) -> f32 { (a & 0xff) as f32 }),
        18 => alu!("v_cvt_f32_ubyte1" (a: u32) -> f32 { (a >> 8 & 0xff) as f32 }),
        19 => alu!("v_cvt_f32_ubyte2" (a: u32) -> f32 { (a >> 16 & 0xff) as f32 }),
        20 => alu!("v_cvt_f32_ubyte3" (a: u32) -> f32 { (a >> 24) as f32 }),
        21 => alu!("v_cvt_u32_f64" (a: f64) -> u32 { a as u32 }),
        22 => alu!("v_cvt_f64_u32" (a: u32) -> f64 { a.into() }),
        23 => alu!("v_trunc_f64" (a: f64) -> f64 { a.trunc() }),
        24 => alu!("v_ceil_f64" (a: f64) -> f64 { a.ceil() }),
        25 => alu!("v_rndne_f64" (a: f64) -> f64 { a.round_ties_even() }),
        26 => alu!("v_floor_f64" (a: f64) -> f64 { a.floor() }),
        27 => alu!("v_fract_f32" (a: f32) -> f32 { fp::fract32(a) }),
        28 => alu!("v_trunc_f32" (a: f32) -> f32 { a.trunc() }),
        29 => alu!("v_ceil_f32" (a: f32) -> f32 { a.ceil() }),
        30 => alu!("v_rndne_f32" (a: f32) -> f32 { a.round_ties_even() }),
        31 => alu!("v_floor_f32" (a: f32) -> f32 { a.floor() }),
        32 => alu!("v_exp_f32" (a: f32) -> f32 { f64::from(a).exp2() as f32 }),
        33 => alu!("v_log_f32" (a: f32) -> f32 { f64::from(a).log2() as f32 }),
        34 => alu!("v_rcp_f32" (a: f32) -> f32 { 1.0 / a }),
        35 => alu!("v_rcp_iflag_f32" (a: f32) -> f32 { 1.0 / a }),
        36 => alu!("v_rsq_f32" (a: f32) -> f32 { (1.0 / f64::from(a).sqrt()) as f32 }),
        37 => alu!("v_rcp_f64" (a: f64) -> f64 { 1.0 / a }),
        38 => alu!("v_rsq_f64" (a: f64) -> f64 { 1.0 / a.sqrt() }),
        39 => alu!("v_sqrt_f32" (a: f32) -> f32 { a.sqrt() }),
        40 => alu!("v_sqrt_f64" (a: f64) -> f64 { a.sqrt() }),
        41 => alu!("v_sin_f32" (a: f32) -> f32 { fp::sin_turns(a.into()) as f32 }),
        42 => alu!("v_cos_f32" (a: f32) -> f32 { fp::cos_turns(a.into()) as f32 }),
        43 => alu!("v_not_b32" (a: u32) -> u32 { !a }),
        44 => alu!("v_bfrev_b32" (a: u32) -> u32 { a.reverse_bits() }),
        45 => alu!("v_ffbh_u32" (a: u32) -> u32 { if a == 0 { !0 } else { a.leading_zeros() } }),
        46 => alu!("v_ffbl_b32" (a: u32) -> u32 { if a == 0 { !0 } else { a.trailing_zeros() } }),
        47 => alu!("v_ffbh_i32" (a: i32) -> u32 {
            let rest = (a ^ a >> 31) as u32;
            if rest == 0 { !0 } else { rest.leading_zeros() }
        }),
        48 => alu!("v_frexp_exp_i32_f64" (a: f64) -> i32 { fp::frexp_exponent(a) }),
        49 => alu!("v_frexp_mant_f64" (a: f64) -> f64 { fp::frexp_mantissa(a) }),
        50 => alu!("v_fract_f64" (a: f64) -> f64 { fp::fract64(a) }),
        51 => alu!("v_frexp_exp_i32_f32" (a: f32) -> i32 { fp::frexp_exponent(a.into()) }),
        52 => alu!("v_frexp_mant_f32" (a: f32) -> f32 { fp::frexp_mantissa(a.into()) as f32 }),
        // Exceptions are not modelled.
        53 => cross::clrexcp(),
        56 if isa.is_gfx942() => alu!("v_mov_b64" (a: u64) -> u64 { a }),
        57 => alu!("v_cvt_f16_u16" (a: u16) -> f16 { narrow(a.into()) }),
        58 => alu!("v_cvt_f16_i16" (a: i16) -> f16 { narrow(a.into()) }),
        59 => alu!("v_cvt_u16_f16" (a: f16) -> u16 { a.widen() as u16 }),
        60 => alu!("v_cvt_i16_f16" (a: f16) -> i16 { a.widen() as i16 }),
        61 => alu!("v_rcp_f16" (a: f16) -> f16 { f16::from_f64(1.0 / a.to_f64()) }),
        62 => alu!("v_sqrt_f16" (a: f16) -> f16 { f16::from_f64(a.to_f64().sqrt()) }),
        63 => alu!("v_rsq_f16" (a: f16) -> f16 { f16::from_f64(1.0 / a.to_f64().sqrt()) }),
        64 => alu!("v_log_f16" (a: f16) -> f16 { f16::from_f64(a.to_f64().log2()) }),
        65 => alu!("v_exp_f16" (a: f16) -> f16 { f16::from_f64(a.to_f64().exp2()) }),
        66 => {
            alu!("v_frexp_mant_f16" (a: f16) -> f16 {
                f16::from_f64(fp::frexp_mantissa(a.to_f64()))
            })
        }
        67 => alu!("v_frexp_exp_i16_f16" (a: f16) -> i16 { fp::frexp_exponent(a.to_f64()) as i16 }),
        68 => alu!("v_floor_f16" (a: f16) -> f16 { narrow(a.widen().floor()) }),
        69 => alu!("v_ceil_f16" (a: f16) -> f16 { narrow(a.widen().ceil()) }),
        70 => alu!("v_trunc_f16" (a: f16) -> f16 { narrow(a.widen().trunc()) }),
        71 => alu!("v_rndne_f16" (a: f16) -> f16 { narrow(a.widen().round_ties_even()) }),
        72 => alu!("v_fract_f16" (a: f16) -> f16 {
            let a = a.widen();
            narrow((a - a.floor()).min(f16::from_bits(0x3bff).widen()))
        }),
        73 => alu!("v_sin_f16" (a: f16) -> f16 { f16::from_f64(fp::sin_turns(a.to_f64())) }),
        74 => alu!("v_cos_f16" (a: f16) -> f16 { f16::from_f64(fp::cos_turns(a.to_f64())) }),
        75 => seldom!("v_exp_legacy_f32" (a: f32) -> f32 { f64::from(a).exp2() as f32 }),
        76 => seldom!("v_log_legacy_f32" (a: f32) -> f32 { f64::from(a).log2() as f32 }),
        77 => seldom!("v_cvt_norm_i16_f16" (a: f16) -> u16 { fp::signed_norm(a.widen()) }),
        78 => seldom!("v_cvt_norm_u16_f16" (a: f16) -> u16 { fp::unsigned_norm(a.widen()) }),
        79 => seldom!("v_sat_pk_u8_i16" (a: u32) -> u32 {
            let byte = |half: i16| half.clamp(0, 0xff) as u32;
            byte(a as i16) | byte((a >> 16) as i16) << 8
        }),
        81 => cross::swap(),
        84..=87 if isa.is_gfx942() => fp8::widening(op),
        _ => return None,
    })
}
