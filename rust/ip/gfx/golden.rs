// SPDX-License-Identifier: GPL-2.0
//! What AMD wants in registers that no driver chooses ("golden settings": amdgpu's gfx_v9_4_2.c): how tiled memory is laid
//! out, and for each die which channel of L2 is which, without which the compute units' caches do not agree.

use crate::regs::gc as regs;
use crate::regs::{Reg, Window};

/// A register, which bits of it, and what is in them.
type Golden = (Reg, u32, u32);

/// Of every die.
const ALL: [Golden; 4] = [
    (regs::GB_ADDR_CONFIG, 0xffff_77ff, 0x2a11_4042),
    (regs::TA_CNTL_AUX, 0xffff_feef, 0x010b_0000),
    (regs::TCP_UTCL1_CNTL1, 0xffff_ffff, 0x3080_0400),
    (regs::TCI_CNTL_3, 0xff, 0x20),
];

/// Six channels in each, two in the last.
const SIX: u32 = 0x3fff_ffff;
const TWO: u32 = 0x3ff;

/// By die.
const DIES: [[Golden; 6]; 2] = [
    [
        (regs::TCP_CHAN_STEER_0, SIX, 0x141d_c920),
        (regs::TCP_CHAN_STEER_1, SIX, 0x3b45_8b93),
        (regs::TCP_CHAN_STEER_2, SIX, 0x1a4f_5583),
        (regs::TCP_CHAN_STEER_3, SIX, 0x3177_17f6),
        (regs::TCP_CHAN_STEER_4, SIX, 0x107c_c1e6),
        (regs::TCP_CHAN_STEER_5, TWO, 0x351),
    ],
    [
        (regs::TCP_CHAN_STEER_0, SIX, 0x2591_aa38),
        (regs::TCP_CHAN_STEER_1, SIX, 0x0ac9_e88b),
        (regs::TCP_CHAN_STEER_2, SIX, 0x2bc3_369b),
        (regs::TCP_CHAN_STEER_3, SIX, 0x00fb_74ee),
        (regs::TCP_CHAN_STEER_4, SIX, 0x21f0_a2fe),
        (regs::TCP_CHAN_STEER_5, TWO, 0x49),
    ],
];

/// Puts them into the registers of the die of this number.
pub(super) fn apply(gc: &Window, die: u32) {
    let own = DIES.get(die as usize).into_iter().flatten();
    for &(reg, mask, value) in ALL.iter().chain(own) {
        gc.merge(reg, mask, value);
    }
}
