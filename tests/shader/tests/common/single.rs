// SPDX-License-Identifier: GPL-2.0
//! One instruction, of a wave with random registers.
#![allow(dead_code)]

pub mod memory;

use memory::{Memory, CODE, DATA};
use proptest::prelude::*;
use rkfd_shader::code::{Code, Turn};
use rkfd_shader::env::{Env, Host};
use rkfd_shader::isa::Isa;
use rkfd_shader::lds::Lds;
use rkfd_shader::wave::Wave;

/// Registers of the wave.
pub const VGPRS: u16 = 16;
const END: u32 = 0xbf81_0000;

pub fn exec() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(!0),
        Just(0),
        any::<u64>(),
        (0..64u32).prop_map(|n| 1 << n)
    ]
}

/// A wave with random registers, often near the ends of the range.
pub fn wave(seed: u64, exec: u64) -> Wave {
    let mut wave = Wave::new(VGPRS, 0, CODE);
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = (state >> 20) as u32;
        match state >> 60 {
            0 => 0,
            1 => !0,
            2 => 1 << 31,
            3 => word & 0x3f,
            _ => word,
        }
    };
    for n in 0..VGPRS.into() {
        wave.v_mut(n).iter_mut().for_each(|word| *word = next());
    }
    wave.sgpr[..106].iter_mut().for_each(|word| *word = next());
    wave.set_exec(exec);
    // Denormals are kept.
    wave.mode = 0xf0;
    wave
}

/// A wave with so many random VGPRS, all of whose lanes are there.
pub fn random(vgprs: u16, seed: u64) -> Wave {
    let mut wave = Wave::new(vgprs, 0, CODE);
    let mut state = seed | 1;
    for word in wave.vgprs_mut().iter_mut().flat_map(|row| &mut row.0) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = (state >> 20) as u32;
    }
    wave.mode = 0xf0;
    wave.set_exec(!0);
    wave
}

/// Makes the wave execute an instruction.
pub fn run(wave: &mut Wave, words: [u32; 2]) {
    run_with(wave, words, &mut [], &mut Lds::new(0));
}

/// The same, of gfx942.
pub fn run942(wave: &mut Wave, words: [u32; 2]) {
    run_of(Isa::Gfx942, wave, words, &mut [], &mut Lds::new(0));
}

/// The same, with memory that has `data` from DATA on, and LDS.
pub fn run_with(wave: &mut Wave, words: [u32; 2], data: &mut [u8], lds: &mut Lds) {
    run_of(Isa::Gfx90a, wave, words, data, lds);
}

/// The same, of a generation.
pub fn run_of(isa: Isa, wave: &mut Wave, words: [u32; 2], data: &mut [u8], lds: &mut Lds) {
    let mut code: Vec<u8> = [words[0], words[1], END]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    code.resize(4096, 0);
    let memory = Memory::new(code, data.len(), 0);
    if !data.is_empty() {
        memory.store(DATA, data).unwrap();
    }
    let mut env = Env { host: &memory, lds };
    wave.pc = CODE;
    let turn = Code::new(isa).run(wave, &mut env, 10);
    assert!(matches!(turn, Turn::Ended), "{turn:?}");
    if !data.is_empty() {
        memory.load(DATA, data).unwrap();
    }
}
