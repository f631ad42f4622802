// SPDX-License-Identifier: GPL-2.0
//! The instructions that are not supported.

use crate::decode::bits;
use crate::isa::Isa;

/// The name of the instruction whose first word this is, if it is one of them.
pub fn name(isa: Isa, word: u32) -> Option<&'static str> {
    // Most words are those of vector instructions.
    if word >> 31 == 0 {
        return vector(word);
    }
    if word >> 30 == 2 {
        return scalar(word);
    }
    match word >> 26 {
        0b110000 => scalar_memory(bits(word, 25, 18)),
        0b110100 if bits(word, 25, 16) == 0x140 + SCREEN_PARTITION => {
            Some("v_screen_partition_4se_b32")
        }
        0b110110 if (152..=157).contains(&bits(word, 24, 17)) => Some("global wave sync"),
        0b111000 => buffer(bits(word, 24, 18)),
        0b111010 => Some("a typed buffer"),
        0b111100 if !isa.is_gfx942() => image(bits(word, 24, 18)),
        _ => None,
    }
}

const SCREEN_PARTITION: u32 = 55;

/// What only graphics needs.
fn vector(word: u32) -> Option<&'static str> {
    let found = word >> 25 == 0x3f && bits(word, 16, 9) == SCREEN_PARTITION;
    found.then_some("v_screen_partition_4se_b32")
}

/// A stack of branches, of which the compiler knows nothing, and pixel shaders' ends.
fn scalar(word: u32) -> Option<&'static str> {
    match word >> 23 {
        0x17d if bits(word, 15, 8) == 46 => Some("s_cbranch_join"),
        0x17f => match bits(word, 22, 16) {
            11 => Some("s_setkill"),
            30 => Some("s_endpgm_ordered_ps_done"),
            _ => None,
        },
        _ if word >> 28 == 0xb && bits(word, 27, 23) == 16 => Some("s_cbranch_i_fork"),
        _ if bits(word, 29, 23) == 41 => Some("s_cbranch_g_fork"),
        _ if bits(word, 29, 23) == 43 => Some("s_rfe_restore_b64"),
        _ => None,
    }
}

/// Private memory of a whole wave: nothing says where that is.
fn scalar_memory(op: u32) -> Option<&'static str> {
    match op {
        5..=7 => Some("s_scratch_load"),
        21..=23 => Some("s_scratch_store"),
        _ => None,
    }
}

/// Accesses with conversions.
fn buffer(op: u32) -> Option<&'static str> {
    match op {
        0..=15 | 38 | 39 => Some("a buffer access with a format"),
        61 => Some("buffer_store_lds_dword"),
        _ => None,
    }
}

fn image(op: u32) -> Option<&'static str> {
    match op {
        0..=5 | 8..=11 | 14 | 16..=28 | 32 => Some("an image"),
        _ => None,
    }
}
