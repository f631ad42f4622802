// SPDX-License-Identifier: GPL-2.0
//! The core knows the instructions that LLVM knows for gfx90a and gfx942: every opcode of every
//! encoding, with plain operands and each modifier, of which LLVM's disassembler and assembler
//! decide what there is.

#[path = "common/forms.rs"]
mod forms;
#[path = "common/llvm.rs"]
mod llvm;

use std::collections::{BTreeMap, BTreeSet};

use forms::Form;
use rkfd_shader::decode::{decode, Decoded, Inst, Lack, Words};
use rkfd_shader::isa::Isa;

/// What is not supported: what the core says, why, and the instructions, of which the last letters
/// may be any. The list may only shrink.
type Gap = (&'static str, &'static str, &'static [&'static str]);

/// Those of both parts.
const GAPS: &[Gap] = &[
    (
        "a typed buffer",
        "only graphics has formats",
        &["tbuffer_*"],
    ),
    (
        "a buffer access with a format",
        "only graphics has formats",
        &["buffer_load_format_*", "buffer_store_format_*"],
    ),
    (
        "buffer_store_lds_dword",
        "no compiler emits it",
        &["buffer_store_lds_dword"],
    ),
    (
        "global wave sync",
        "the driver gives no process a part of it",
        &["ds_gws_*"],
    ),
    (
        "s_cbranch_g_fork",
        "no compiler emits it",
        &["s_cbranch_g_fork"],
    ),
    (
        "s_cbranch_i_fork",
        "no compiler emits it",
        &["s_cbranch_i_fork"],
    ),
    (
        "s_cbranch_join",
        "no compiler emits it",
        &["s_cbranch_join"],
    ),
    (
        "s_rfe_restore_b64",
        "no handler has it",
        &["s_rfe_restore_b64"],
    ),
    ("s_setkill", "only pixel shaders have it", &["s_setkill"]),
    (
        "s_endpgm_ordered_ps_done",
        "only pixel shaders have it",
        &["s_endpgm_ordered_ps_done"],
    ),
    (
        "s_scratch_load",
        "no compiler emits it",
        &["s_scratch_load_*"],
    ),
    (
        "s_scratch_store",
        "no compiler emits it",
        &["s_scratch_store_*"],
    ),
    (
        "v_screen_partition_4se_b32",
        "only graphics has it",
        &["v_screen_partition_4se_b32"],
    ),
    (
        "the sign of a source that is no float",
        "the encoding has it, and it means nothing",
        &[
            "v_cvt_pk_u8_f32",
            "v_cvt_pkaccum_u8_f32",
            "v_dot2_i32_i16",
            "v_dot2_u32_u16",
            "v_dot2c_f32_f16",
            "v_dot4_*",
            "v_dot8_*",
            "v_ldexp_*",
            "v_pk_add_*",
            "v_pk_ashrrev_i16",
            "v_pk_lshlrev_b16",
            "v_pk_lshrrev_b16",
            "v_pk_mad_*",
            "v_pk_max_*",
            "v_pk_min_*",
            "v_pk_mov_b32",
            "v_pk_mul_lo_u16",
            "v_pk_sub_*",
            "v_trig_preop_f64",
        ],
    ),
    (
        "the half of an operand that is a dword",
        "the encoding has it, and it means nothing",
        &[
            "v_cvt_pknorm_i16_f16",
            "v_cvt_pknorm_u16_f16",
            "v_mad_i32_i16",
            "v_mad_u32_u16",
            "v_pack_b32_f16",
        ],
    ),
    (
        "clamp or omod of two halves",
        "no compiler emits it",
        &["v_cndmask_b32", "v_cvt_pkrtz_f16_f32", "v_pack_b32_f16"],
    ),
    (
        "this CBSZ and ABID of MFMA",
        "there are not so many blocks",
        &["v_mfma_*"],
    ),
];

/// Those of gfx90a alone.
const GAPS90A: &[Gap] = &[
    (
        "an image",
        "the device has none: gfx90a's texture unit only loads and stores",
        &["image_*"],
    ),
    (
        "a load to LDS but that of a dword",
        "nothing says what LDS gets of it",
        &[
            "global_load_sbyte",
            "global_load_sshort",
            "global_load_ubyte",
            "global_load_ushort",
            "scratch_load_sbyte",
            "scratch_load_sshort",
            "scratch_load_ubyte",
            "scratch_load_ushort",
        ],
    ),
    (
        "this CBSZ or BLGP of MFMA",
        "the matrix instruction calculator has none for these shapes",
        &[
            "v_mfma_f32_16x16x16bf16_1k",
            "v_mfma_f32_16x16x16f16",
            "v_mfma_f32_16x16x8bf16",
            "v_mfma_f32_32x32x4bf16",
            "v_mfma_f32_32x32x8bf16_1k",
            "v_mfma_f32_32x32x8f16",
            "v_mfma_f64_*",
            "v_mfma_i32_16x16x16i8",
            "v_mfma_i32_32x32x8i8",
        ],
    ),
];

/// Those of gfx942 alone.
const GAPS942: &[Gap] = &[
    (
        "clamp or omod of two floats",
        "no compiler emits it",
        &["v_cvt_pk_f32_bf8", "v_cvt_pk_f32_fp8"],
    ),
    (
        "this CBSZ or BLGP of MFMA",
        "the matrix instruction calculator has none for these shapes",
        &[
            "v_mfma_f32_16x16x16_*",
            "v_mfma_f32_16x16x32_*",
            "v_mfma_f32_16x16x8_xf32",
            "v_mfma_f32_32x32x16_*",
            "v_mfma_f32_32x32x4_xf32",
            "v_mfma_f32_32x32x8_*",
            "v_mfma_f64_*",
            "v_mfma_i32_16x16x32_i8",
            "v_mfma_i32_32x32x16_i8",
        ],
    ),
];

fn decoded(isa: Isa, form: &Form) -> Decoded<Inst> {
    let mut words = [0; 3];
    words[..form.code.len()].copy_from_slice(&form.code);
    decode(isa, Words(words))
}

/// All forms, and their texts if they are instructions of a part.
fn forms(part: &str) -> Vec<(Form, Option<String>)> {
    let forms = forms::all();
    let codes: Vec<Vec<u32>> = forms.iter().map(|form| form.code.clone()).collect();
    forms
        .into_iter()
        .zip(llvm::instructions(part, &codes))
        .collect()
}

/// The mnemonic without the encoding.
fn name(text: &str) -> &str {
    let name = text.split_whitespace().next().unwrap();
    let endings = ["_e32", "_e64", "_sdwa", "_dpp"];
    endings
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name)
}

fn matches(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(first) => name.starts_with(first),
        None => name == pattern,
    }
}

fn llvms_instructions_are_known(isa: Isa, part: &str, own_gaps: &[Gap]) {
    let mut gaps: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for (form, text) in &forms(part) {
        let Some(text) = text else { continue };
        count += 1;
        let at = format!("{} {} {}: {text}", form.format, form.op, form.with);
        match decoded(isa, form) {
            Ok(inst) => assert_eq!(usize::from(inst.len), 4 * form.code.len(), "{at}"),
            Err(Lack::Unknown) => panic!("{at}"),
            Err(Lack::Unsupported(what)) => {
                gaps.entry(what).or_default().insert(name(text).to_owned());
            }
        }
    }
    // LLVM 19 knows 1,300 opcodes, in all encodings.
    assert!(count > 10_000, "{count}");
    for &(what, _, patterns) in GAPS.iter().chain(own_gaps) {
        let names = gaps.remove(what).unwrap_or_default();
        for name in &names {
            assert!(
                patterns.iter().any(|pattern| matches(name, pattern)),
                "{what}: {name}"
            );
        }
        for pattern in patterns {
            let some = names.iter().any(|name| matches(name, pattern));
            assert!(some, "{what}: there is none of {pattern}");
        }
    }
    assert_eq!(gaps, BTreeMap::new());
}

/// Opcodes that LLVM knows in another encoding only, and the ISA's table in both.
const TWICE: [(&str, u32); 3] = [
    // v_nop, v_readfirstlane_b32, v_clrexcp.
    ("VOP3", 0x140),
    ("VOP3", 0x142),
    ("VOP3", 0x175),
];

/// An opcode of which LLVM knows no form is the program's error, and no other instruction.
fn others_are_not(isa: Isa, part: &str) {
    let forms = forms(part);
    let known: BTreeSet<(&str, u32)> = forms
        .iter()
        .filter(|(_, text)| text.is_some())
        .map(|(form, _)| (form.format, form.op))
        .chain(TWICE)
        .collect();
    let made_up: BTreeSet<(&str, u32)> = forms
        .iter()
        .map(|(form, _)| form)
        .filter(|form| !known.contains(&(form.format, form.op)))
        .filter(|form| decoded(isa, form).err() != Some(Lack::Unknown))
        .map(|form| (form.format, form.op))
        .collect();
    assert_eq!(made_up, BTreeSet::new());
}

#[test]
fn gfx90a_is_known() {
    llvms_instructions_are_known(Isa::Gfx90a, "gfx90a", GAPS90A);
}

#[test]
fn gfx90a_has_no_others() {
    others_are_not(Isa::Gfx90a, "gfx90a");
}

#[test]
fn gfx942_is_known() {
    llvms_instructions_are_known(Isa::Gfx942, "gfx942", GAPS942);
}

#[test]
fn gfx942_has_no_others() {
    others_are_not(Isa::Gfx942, "gfx942");
}
