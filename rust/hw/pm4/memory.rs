// SPDX-License-Identifier: GPL-2.0
//! Packets that write: fences, and registers.

use super::{header, op};
use crate::bits::{hi, lo, Field};

const EVENT_TYPE: Field = Field::new(5, 0);
const CACHE_FLUSH_AND_INV_TS: u32 = 0x14;
const EVENT_INDEX: Field = Field::new(11, 8);
const END_OF_PIPE: u32 = 5;
const TC_WB_ACTION: Field = Field::bit(15);
const TCL1_ACTION: Field = Field::bit(16);
const TC_ACTION: Field = Field::bit(17);
const RELEASE_DST_SEL: Field = Field::new(17, 16);
const RELEASE_TO_MEMORY: u32 = 0;
const RELEASE_DATA_SEL: Field = Field::new(31, 29);
const DATA_64: u32 = 2;

const WRITE_DST_SEL: Field = Field::new(11, 8);
const WRITE_TO_REGISTER: u32 = 0;
const ONE_ADDRESS: Field = Field::bit(16);
const REGISTER: Field = Field::new(17, 0);

/// RELEASE_MEM: writes the 64-bit `value` to `address`, a multiple of 8, when all earlier work is
/// done and caches are written back. No interrupt.
#[inline]
pub const fn release(address: u64, value: u64) -> [u32; 8] {
    [
        header::<8>(op::RELEASE_MEM),
        EVENT_TYPE.put(CACHE_FLUSH_AND_INV_TS)
            | EVENT_INDEX.put(END_OF_PIPE)
            | TC_WB_ACTION.flag(true)
            | TCL1_ACTION.flag(true)
            | TC_ACTION.flag(true),
        RELEASE_DST_SEL.put(RELEASE_TO_MEMORY) | RELEASE_DATA_SEL.put(DATA_64),
        lo(address),
        hi(address),
        lo(value),
        hi(value),
        0,
    ]
}

/// WRITE_DATA: writes `value` to the register at `dword` of BAR5.
#[inline]
pub const fn write_register(dword: u32, value: u32) -> [u32; 5] {
    [
        header::<5>(op::WRITE_DATA),
        WRITE_DST_SEL.put(WRITE_TO_REGISTER) | ONE_ADDRESS.flag(true),
        REGISTER.put(dword),
        0,
        value,
    ]
}
