// SPDX-License-Identifier: GPL-2.0
//! The rig's page tables, in translate-further form.

use super::rig::{vram, Rig, SNOOPED, SYSTEM, VALID};
use crate::memory::{Phys, Space};

const LEAF: u64 = 1 << 54;
const FURTHER: u64 = 1 << 56;
const BLOCK_9: u64 = 9 << 59;

impl Rig {
    /// The entry of `table` for `va` at `shift`; makes the next table if it is not there.
    fn descend(&mut self, table: u64, va: u64, shift: u32, flags: u64) -> u64 {
        let at = vram(table + (va >> shift & 0x1ff) * 8);
        let entry = self.peek64(at);
        if entry & VALID != 0 {
            return entry & 0xffff_ffff_f000;
        }
        let next = self.alloc(4096);
        self.poke64(at, next | VALID | flags);
        next
    }

    fn directory(&mut self, vmid: u8, va: u64) -> u64 {
        let root = self.roots[usize::from(vmid)];
        let pdb1 = self.descend(root, va, 39, 0);
        self.descend(pdb1, va, 30, BLOCK_9)
    }

    /// Address of the 4 KiB entry for `va`.
    pub fn entry(&mut self, vmid: u8, va: u64) -> Phys {
        let pdb0 = self.directory(vmid, va);
        let table = self.descend(pdb0, va, 21, FURTHER);
        vram(table + (va >> 12 & 0x1ff) * 8)
    }

    /// Maps `len` bytes in 4 KiB pages, contiguous from `to`, without flushing anything.
    pub fn map(&mut self, vmid: u8, va: u64, to: Phys, len: u64, flags: u64) {
        let space = match to.space {
            Space::System => SYSTEM | SNOOPED,
            Space::Vram | Space::Hive => 0,
        };
        for page in 0..len.div_ceil(4096) {
            let entry = self.entry(vmid, va + (page << 12));
            self.poke64(entry, (to.addr + (page << 12)) | VALID | space | flags);
        }
    }

    /// Address of the PDB0 entry for `va`.
    pub fn entry_large(&mut self, vmid: u8, va: u64) -> Phys {
        let pdb0 = self.directory(vmid, va);
        vram(pdb0 + (va >> 21 & 0x1ff) * 8)
    }

    /// Maps one 2 MiB leaf.
    pub fn map_large(&mut self, vmid: u8, va: u64, to: u64, flags: u64) {
        let entry = self.entry_large(vmid, va);
        self.poke64(entry, to | VALID | flags | 9 << 7);
    }

    /// Maps one 1 GiB leaf of VRAM.
    pub fn map_huge(&mut self, vmid: u8, va: u64, to: u64, flags: u64) {
        let root = self.roots[usize::from(vmid)];
        let pdb1 = self.descend(root, va, 39, 0);
        self.poke64(
            vram(pdb1 + (va >> 30 & 0x1ff) * 8),
            to | VALID | LEAF | flags,
        );
    }
}
