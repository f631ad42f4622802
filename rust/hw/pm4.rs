// SPDX-License-Identifier: GPL-2.0
//! PM4: encoders of the type-3 packets that the driver puts into its own queues, KIQ and HIQ. Each
//! returns the packet's dwords.

pub mod memory;
pub mod schedule;

use crate::bits::Field;

/// Opcodes, in bits 15:8 of a packet's first dword.
pub mod op {
    /// Writes dwords out of the packet.
    pub const WRITE_DATA: u32 = 0x37;
    /// Writes memory after all that came before.
    pub const RELEASE_MEM: u32 = 0x49;
    /// Says what the scheduler may use.
    pub const SET_RESOURCES: u32 = 0xa0;
    /// A process of a runlist.
    pub const MAP_PROCESS: u32 = 0xa1;
    /// A queue of a process, or of the driver.
    pub const MAP_QUEUES: u32 = 0xa2;
    /// Takes queues off the hardware.
    pub const UNMAP_QUEUES: u32 = 0xa3;
    /// Writes a fence after all that came before.
    pub const QUERY_STATUS: u32 = 0xa4;
    /// Runs a list of processes and queues.
    pub const RUN_LIST: u32 = 0xa5;
}

const TYPE: Field = Field::new(31, 30);
const TYPE_3: u32 = 3;
const COUNT: Field = Field::new(29, 16);
const OPCODE: Field = Field::new(15, 8);

/// The first dword of a packet of `N` dwords, which is at least two.
#[inline]
const fn header<const N: usize>(opcode: u32) -> u32 {
    const { assert!(2 <= N && N < 0x4000) };
    TYPE.put(TYPE_3) | COUNT.put(N as u32 - 2) | OPCODE.put(opcode)
}
