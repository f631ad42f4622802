// SPDX-License-Identifier: GPL-2.0
//! Decodes VOP1, VOP2, VOPC and VOP3, with SDWA and DPP.

use super::compare::vopc as compares;
use super::dpp::Dpp;
use super::fp8;
use super::modify::{Changes, Sdwa};
use super::vop1::vop1 as unary;
use super::vop2::vop2 as binary;
use super::vop3::vop3 as ternary;
use super::{Form, Spec};
use crate::decode::{bits, Decoded, Inst, Kind, Src, Unknown, Words};
use crate::isa::Isa;
use crate::matrix;
use crate::wave::sgpr;

/// Source codes that announce a second dword.
const SDWA: u32 = 249;
const DPP: u32 = 250;
const VCC: u8 = sgpr::VCC as u8;
/// v_accvgpr_mov_b32.
const ACC_MOVE: u32 = 82;
/// v_pk_fmac_f16, which is a VOP2 only.
const PK_FMAC: u32 = 60;
/// v_mqsad_u32_u8, whose sum and result have four registers.
const FOUR_SUMS: u32 = 487;

/// Names the vector or scalar result.
fn result(inst: &mut Inst, spec: &Spec, number: u32) {
    inst.dst = match spec.form {
        Form::Scalar => inst.scalar(number & 127).into(),
        Form::Compare => 0,
        _ => inst.vgpr(number, if spec.kinds[3].is_wide() { 2 } else { 1 }),
    };
    inst.indexed = true;
}

/// The first source and the modifiers of a VOP1, VOP2 or VOPC.
fn first_source(inst: &mut Inst, spec: &Spec, words: Words) -> Decoded<Changes> {
    let code = bits(words.0[0], 8, 0);
    let second = words.0[1];
    let mut changes = Changes::default();
    let code = match code {
        SDWA => {
            inst.len = 8;
            changes.sdwa(second, Sdwa::of(second));
            bits(second, 7, 0) + if bits(second, 23, 23) == 1 { 0 } else { 256 }
        }
        DPP => {
            inst.len = 8;
            changes.dpp(second, Dpp::of(second).ok_or(Unknown)?);
            bits(second, 7, 0) + 256
        }
        code => code,
    };
    let (literal, len) = words.literal(inst.len, &[code]);
    inst.len = len;
    inst.src[0] = inst.source(code, spec.kinds[0], literal)?;
    Ok(changes)
}

/// The second source of a VOP2 or VOPC: a VGPR, or with SDWA perhaps scalar.
fn second_source(inst: &mut Inst, kind: Kind, words: Words) -> Decoded<Src> {
    let number = bits(words.0[0], 16, 9);
    let sdwa = bits(words.0[0], 8, 0) == SDWA;
    if sdwa && bits(words.0[1], 31, 31) == 1 {
        return inst.source(number, kind, None);
    }
    inst.source(number + 256, kind, None)
}

/// Adds the form's implied operands in the encodings of 32 bits: VCC is the mask.
fn implied(inst: &mut Inst, spec: &Spec) {
    match spec.form {
        Form::Accumulate => inst.src[2] = Src::V(inst.dst),
        Form::Compare | Form::CarryOut => inst.sdst = VCC,
        Form::CarryInOut => {
            inst.sdst = VCC;
            inst.src[2] = Src::S(VCC);
        }
        Form::MaskIn => inst.src[2] = Src::S(VCC),
        _ => {}
    }
}

/// VOP1.
pub fn vop1(isa: Isa, words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 16, 9);
    if op == ACC_MOVE {
        return matrix::decode_move(word);
    }
    let spec = unary(isa, op).ok_or(Unknown)?;
    let mut inst = Inst::new(spec.handler, op, 4);
    result(&mut inst, &spec, bits(word, 24, 17));
    let mut changes = if spec.sources > 0 {
        first_source(&mut inst, &spec, words)?
    } else {
        Changes::default()
    };
    if fp8::is_widening(op) {
        fp8::selected(op, &mut changes);
    }
    changes.apply(inst, &spec)
}

/// VOP2.
pub fn vop2(isa: Isa, words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 30, 25);
    let spec = binary(isa, op).ok_or(Unknown)?;
    let mut inst = Inst::new(spec.handler, op, 4);
    result(&mut inst, &spec, bits(word, 24, 17));
    let changes = first_source(&mut inst, &spec, words)?;
    let last = usize::from(spec.form == Form::MiddleLiteral) + 1;
    inst.src[last] = second_source(&mut inst, spec.kinds[1], words)?;
    if matches!(spec.form, Form::MiddleLiteral | Form::LastLiteral) {
        // The first source may be the same constant.
        if !changes.is_empty() {
            return Err(Unknown);
        }
        inst.len = 8;
        inst.src[3 - last] = Src::K(words.0[1].into());
    }
    implied(&mut inst, &spec);
    changes.apply(inst, &spec)
}

/// VOPC.
pub fn vopc(words: Words) -> Decoded<Inst> {
    let word = words.0[0];
    let op = bits(word, 24, 17);
    let spec = compares(op).ok_or(Unknown)?;
    let mut inst = Inst::new(spec.handler, op, 4);
    let mut changes = first_source(&mut inst, &spec, words)?;
    inst.src[1] = second_source(&mut inst, spec.kinds[1], words)?;
    implied(&mut inst, &spec);
    match bits(word, 8, 0) {
        SDWA => {
            changes.has_no_result();
            if bits(words.0[1], 15, 15) == 1 {
                inst.sdst = inst.scalar(bits(words.0[1], 14, 8));
            }
        }
        DPP => return Err(Unknown),
        _ => {}
    }
    changes.apply(inst, &spec)
}

/// The instruction of a VOP3 opcode.
pub fn vop3_spec(isa: Isa, op: u32) -> Option<Spec> {
    match op {
        0..0x100 => compares(op),
        0x100..0x140 => {
            let literals = [Form::MiddleLiteral, Form::LastLiteral];
            let has_two = op - 0x100 == PK_FMAC;
            binary(isa, op - 0x100).filter(|spec| !has_two && !literals.contains(&spec.form))
        }
        0x140..0x1c0 => unary(isa, op - 0x140).filter(|_| op - 0x140 != 81),
        _ => ternary(isa, op),
    }
}

/// VOP3.
pub fn vop3(isa: Isa, words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 25, 16);
    let spec = vop3_spec(isa, op).ok_or(Unknown)?;
    let mut inst = Inst::new(spec.handler, op, 8);
    result(&mut inst, &spec, bits(word, 7, 0));
    let codes = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    for n in 0..spec.sources {
        if spec.form == Form::Accumulate && n == 2 {
            break;
        }
        inst.src[n] = inst.source(codes[n], spec.kinds[n], None)?;
    }
    if op == FOUR_SUMS {
        inst.vgpr(bits(word, 7, 0), 4);
        if let Some(sum) = codes[2].checked_sub(256) {
            inst.vgpr(sum, 4);
        }
    }
    implied(&mut inst, &spec);
    let has_scalar = matches!(spec.form, Form::CarryOut | Form::CarryInOut);
    if has_scalar {
        inst.sdst = inst.scalar(bits(word, 14, 8));
    }
    if spec.form == Form::Compare {
        inst.sdst = inst.scalar(bits(word, 7, 0) & 127);
    }
    if matches!(spec.form, Form::CarryInOut | Form::MaskIn) {
        inst.src[2] = inst.source(codes[2], Kind::Int64, None)?;
    }
    let word = if fp8::is_narrowing(op) {
        fp8::placed(op, word, &mut inst)
    } else {
        word
    };
    let mut changes = Changes::default();
    changes.vop3(word, second, has_scalar);
    changes.apply(inst, &spec)
}
