// SPDX-License-Identifier: GPL-2.0
//! Watch points of the vector memory path: TCP_WATCHn.
//!
//! An access hits a point of its address space if its address, under the mask, is that of the
//! point. The mask has bits from the lowest one that the chip compares on, and those above it are
//! compared always. Scalar accesses take another path.

use crate::cp::process::{WATCHES, WATCH_STRIDE};
use crate::gpu::Gpu;
use crate::regs::gc::{self, tcp_watch0_cntl as control};

/// Bits of MASK.
const MASK_BITS: u32 = 24;
/// Bits of TRAPSTS of the points.
const TRAPSTS: [u32; WATCHES as usize] = [1 << 7, 1 << 12, 1 << 13, 1 << 14];

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedAccess {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// Both.
    Atomic,
}

/// MODE: the accesses that hit.
fn is_meant(mode: u32, access: WatchedAccess) -> bool {
    match mode {
        0 => access == WatchedAccess::Load,
        1 => access != WatchedAccess::Load,
        2 => access == WatchedAccess::Atomic,
        _ => true,
    }
}

/// A watch point.
#[derive(Debug, Clone, Copy)]
struct Watch {
    address: u64,
    mask: u64,
    mode: u32,
    bit: u32,
}

/// The points of an address space.
#[derive(Debug, Default)]
pub struct Watches {
    points: Vec<Watch>,
    /// The lowest bit that is compared.
    lowest: u32,
}

impl Watches {
    /// Those of `vmid`.
    pub fn of(gpu: &Gpu, vmid: u8) -> Watches {
        let mut watches = Watches {
            points: Vec::new(),
            lowest: if gpu.regs.asic.has_nodes { 7 } else { 6 },
        };
        for (n, bit) in (0..WATCHES).zip(TRAPSTS) {
            let reg = |first: crate::regs::Reg| gpu.regs.get(first.nth(n, WATCH_STRIDE));
            let value = reg(gc::TCP_WATCH0_CNTL);
            if !control::VALID.is_set(value) || control::VMID.get(value) != u32::from(vmid) {
                continue;
            }
            let always = !0 << (watches.lowest + MASK_BITS);
            watches.points.push(Watch {
                address: u64::from(reg(gc::TCP_WATCH0_ADDR_L))
                    | u64::from(reg(gc::TCP_WATCH0_ADDR_H)) << 32,
                mask: u64::from(control::MASK.get(value)) << watches.lowest | always,
                mode: control::MODE.get(value),
                bit,
            });
        }
        watches
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The bits of TRAPSTS of those that an access of `len` bytes hits.
    pub fn hits(&self, address: u64, len: u64, access: WatchedAccess) -> u32 {
        const SPACE: u64 = (1 << 48) - 1;
        let unit = 1 << self.lowest;
        let (first, last) = (address & SPACE, (address & SPACE) + len.saturating_sub(1));
        let mut hits = 0;
        let mut at = first & !(unit - 1);
        while at <= last {
            for watch in &self.points {
                let mask = watch.mask & SPACE;
                if at & mask == watch.address & mask && is_meant(watch.mode, access) {
                    hits |= watch.bit;
                }
            }
            at += unit;
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watches(address: u64, mask: u64, mode: u32) -> Watches {
        let (bit, lowest) = (1 << 7, 6);
        let points = vec![Watch {
            address,
            mask,
            mode,
            bit,
        }];
        Watches { points, lowest }
    }

    #[test]
    fn lines_of_64_bytes() {
        let watches = watches(0x7f00_0000_1040, !63, 3);
        let hits = |address, len| watches.hits(address, len, WatchedAccess::Load) != 0;
        assert!(hits(0x7f00_0000_1040, 4));
        assert!(hits(0x7f00_0000_107c, 4));
        assert!(!hits(0x7f00_0000_1080, 4));
        assert!(!hits(0x7f00_0000_103c, 4));
        // An access that only ends there.
        assert!(hits(0x7f00_0000_103c, 8));
        // Sign-extended.
        assert!(hits(0xffff_7f00_0000_1040, 4));
    }

    #[test]
    fn masks_and_modes() {
        let all = [
            WatchedAccess::Load,
            WatchedAccess::Store,
            WatchedAccess::Atomic,
        ];
        for (mode, meant) in [
            (0, [true, false, false]),
            (1, [false, true, true]),
            (2, [false, false, true]),
            (3, [true, true, true]),
        ] {
            let watches = watches(0x1000, !0xfff, mode);
            for (access, meant) in all.into_iter().zip(meant) {
                assert_eq!(watches.hits(0x1ffc, 4, access) != 0, meant);
                assert_eq!(watches.hits(0x2000, 4, access), 0);
            }
        }
    }
}
