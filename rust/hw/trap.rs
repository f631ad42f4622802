// SPDX-License-Identifier: GPL-2.0
//! The trap handler of a process's shaders: the page with its code and, behind that, the memory
//! that it reads (TMA).
//!
//! The handler is the driver's own. It saves waves that have to leave the hardware, restores them,
//! and passes everything else to the *second level*, the handler that the process has set.

pub mod gfx9_4_2;
pub mod gfx9_4_3;

use crate::bits::{hi, lo};
use crate::va::VA_END;

/// The place of the page in a process's address space, before sign extension: the one that amdkfd
/// uses, far above all user addresses and away from the driver's other mappings.
pub const PAGE: u64 = VA_END - (4 << 20) - (64 << 10);
/// Bytes of the page. The GPU may read and execute it.
pub const BYTES: usize = 4096;
/// Offset of the TMA block in the page; the code is before it.
pub const MEMORY: usize = 0xf00;
/// Offset in the TMA block, behind the words of [`SecondLevelTrap::block`], of a word that is 1
/// while there is a debugger. The handler tells the second level by bit 23 of TTMP11 (gfx90a) or
/// TTMP13 (gfx942).
pub const DEBUGGER: usize = 16;

/// Bytes before the TMA block: the most that a handler's code takes.
pub const CODE_BYTES: usize = MEMORY;

const _: () = assert!(MEMORY + DEBUGGER + 8 <= BYTES);

/// The trap handler of a VMID's shaders: GPU addresses that are multiples of 256, or 0 for none.
/// Bits 47:8 go to SQ_SHADER_TBA and SQ_SHADER_TMA, and are sign-extended from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrapHandler {
    /// Its code, SQ_SHADER_TBA.
    pub code: u64,
    /// Its memory, SQ_SHADER_TMA.
    pub memory: u64,
}

impl TrapHandler {
    /// The handler in a page at GPU address `page`.
    #[inline]
    pub const fn in_page(page: u64) -> Self {
        Self {
            code: page,
            memory: page + MEMORY as u64,
        }
    }

    /// SQ_SHADER_TBA_LO, _HI, SQ_SHADER_TMA_LO, _HI.
    #[inline]
    pub const fn registers(self) -> [u32; 4] {
        let (code, memory) = (self.code >> 8, self.memory >> 8);
        [lo(code), hi(code) & 0xff, lo(memory), hi(memory) & 0xff]
    }
}

/// The handler that a process has set: any addresses of its own. No code means that there is none:
/// s_trap does nothing then, and a wave that cannot go on halts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondLevelTrap {
    /// Its code, which the first level jumps to.
    pub code: u64,
    /// Its memory, whose address it finds in TTMP14:15.
    pub memory: u64,
}

impl SecondLevelTrap {
    /// Its words of the TMA block.
    #[inline]
    pub const fn block(self) -> [u64; 2] {
        [self.code, self.memory]
    }
}
