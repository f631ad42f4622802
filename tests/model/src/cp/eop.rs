// SPDX-License-Identifier: GPL-2.0
//! The EOP buffer: a ring in the queue's address space through which end-of-pipe events go.

use crate::error::Result;
use crate::vm::Vm;

/// Dwords of an event.
const EVENT: u32 = 8;

/// The ring's place, and the position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eop {
    /// GPU virtual address.
    pub base: u64,
    /// Dwords, a power of two.
    pub size: u32,
    /// Dwords from the base.
    pub wptr: u32,
    /// An event could not be written.
    pub is_broken: bool,
}

impl Eop {
    /// Puts an event into the ring. Nothing delays its effects here, so it leaves at once.
    pub fn push(&mut self, vm: &Vm<'_>, event: [u32; EVENT as usize]) -> Result<()> {
        let bytes: Vec<u8> = event.iter().flat_map(|word| word.to_le_bytes()).collect();
        let before = vm.faults();
        vm.write(self.base.wrapping_add(u64::from(self.wptr) * 4), &bytes)?;
        self.is_broken = vm.faults() != before;
        self.wptr = (self.wptr + EVENT) & (self.size.max(EVENT) - 1);
        Ok(())
    }
}
