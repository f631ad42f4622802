// SPDX-License-Identifier: GPL-2.0
//! An indirect buffer that an SDMA engine or the command processor executes.

/// Its place and the progress in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ib {
    /// Its address.
    pub base: u64,
    /// Its address space.
    pub vmid: u8,
    /// Its length and the position in it, dwords.
    pub dwords: u64,
    /// See above.
    pub at: u64,
}
