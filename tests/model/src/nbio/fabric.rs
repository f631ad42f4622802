// SPDX-License-Identifier: GPL-2.0
//! Registers of NBIO 7.9 that lie in the fabric, behind BAR5: where doorbells go. Source: amdgpu,
//! nbio_v7_9.c.
//!
//! A range of doorbells is set up in two places: DOORBELL0_CTRL_ENTRY_n says which doorbells they
//! are, S2A_DOORBELL_ENTRY_m_CTRL to whom they go. Both have to be on, with the same size; others
//! are the command processor's.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Route;
use crate::discovery::{NBIF_BIFC, NBIF_GDC};
use crate::layout::XCCS;
use crate::regs::Field;

/// Dword offsets, from their segments' first.
const FENCE: u32 = 0x740c;
const S2A_ENTRY_1: u32 = 0x7a81;
const DOORBELL0_ENTRY_0: u32 = 0xcd00;
const ACCESS_EN_PF: u32 = 0xcf6e;
const INT_MONITOR_MASK: u32 = 0xe8ad;

const ENTRIES: usize = 21;
const PORTS: usize = 15;

/// DOORBELL0_CTRL_ENTRY_n: dwords of a page.
const OFFSET: Field = Field::new(9, 0);
const SIZE: Field = Field::new(14, 10);
/// S2A_DOORBELL_ENTRY_n_CTRL.
const ENABLE: Field = Field::new(0, 0);
const AWID: Field = Field::new(5, 1);
const PORT_SIZE: Field = Field::new(24, 17);

/// Engines of an AID, and AIDs.
const ENGINES: usize = 4;
const AIDS: usize = XCCS / 2;
/// Entry and port (from 1) of the interrupt handler, and its AWID.
const IH: (usize, usize, u32) = (0, 3, 0);
/// Port (from 1) and AWID of each engine of an AID, whose entries are in the engines' order.
const SDMA: [(usize, u32); ENGINES] = [(1, 0xe), (2, 0x8), (5, 0x9), (6, 0xa)];

/// A register.
enum Place {
    /// Of each AID.
    Fence(usize),
    Access,
    Monitor,
    Port(usize, usize),
    Entry(usize),
}

/// The AID whose fabric an address leads to, and the address there. Without a number it is the
/// first one's; with a number it is not.
fn die(address: u64) -> Option<(usize, u64)> {
    match (address >> 34 & 1, (address >> 32 & 3) as usize) {
        (0, _) => Some((0, address)),
        (_, 0) => None,
        (_, aid) => Some((aid, address & !(7 << 32))),
    }
}

impl Place {
    fn of(address: u64) -> Option<Place> {
        let (aid, address) = die(address)?;
        if address % 4 != 0 {
            return None;
        }
        let dword = u32::try_from(address / 4).ok()?;
        let nth = |base, count| {
            let n = dword.checked_sub(base)? as usize;
            (n < count).then_some(n)
        };
        match dword {
            _ if dword == NBIF_GDC + FENCE => Some(Place::Fence(aid)),
            _ if dword == NBIF_BIFC + ACCESS_EN_PF && aid == 0 => Some(Place::Access),
            _ if dword == NBIF_BIFC + INT_MONITOR_MASK && aid == 0 => Some(Place::Monitor),
            _ => nth(NBIF_GDC + S2A_ENTRY_1, PORTS)
                .map(|n| Place::Port(aid, n))
                .or_else(|| {
                    nth(NBIF_BIFC + DOORBELL0_ENTRY_0, ENTRIES)
                        .filter(|_| aid == 0)
                        .map(Place::Entry)
                }),
        }
    }
}

/// The registers, which only store.
#[derive(Default)]
pub struct Registers {
    access: AtomicU32,
    monitor: AtomicU32,
    entries: [AtomicU32; ENTRIES],
    fences: [AtomicU32; AIDS],
    ports: [[AtomicU32; PORTS]; AIDS],
}

impl Registers {
    /// Sets all to zero.
    pub fn reset(&self) {
        let single = [&self.access, &self.monitor];
        let rest = self.entries.iter().chain(&self.fences);
        let ports = self.ports.iter().flatten();
        for register in single.into_iter().chain(rest).chain(ports) {
            register.store(0, Ordering::Release);
        }
    }

    /// Returns whether an address of the fabric of so many AIDs is one of these registers.
    pub fn has(address: u64, aids: usize) -> bool {
        die(address).is_some_and(|(aid, _)| aid < aids) && Place::of(address).is_some()
    }

    /// The register at an address of the fabric.
    pub fn at(&self, address: u64) -> Option<&AtomicU32> {
        Some(match Place::of(address)? {
            Place::Fence(aid) => &self.fences[aid],
            Place::Access => &self.access,
            Place::Monitor => &self.monitor,
            Place::Port(aid, n) => &self.ports[aid][n],
            Place::Entry(n) => &self.entries[n],
        })
    }

    /// The destination of the doorbell at dword `dword` of a page.
    pub fn route(&self, dword: u32) -> Route {
        let leads = |aid: usize, (entry, port, awid): (usize, usize, u32)| {
            let range = self.entries[entry].load(Ordering::Acquire);
            let port = self.ports[aid][port - 1].load(Ordering::Acquire);
            let (first, size) = (OFFSET.get(range), SIZE.get(range));
            ENABLE.is_set(port)
                && AWID.get(port) == awid
                && PORT_SIZE.get(port) >= size
                && (first..first + size).contains(&dword)
        };
        let engine = (0..AIDS * ENGINES).find(|engine| {
            let (port, awid) = SDMA[engine % ENGINES];
            leads(engine / ENGINES, (1 + engine, port, awid))
        });
        match engine {
            Some(engine) => Route::Sdma(engine),
            None if leads(0, IH) => Route::Ih,
            None => Route::Cp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(registers: &Registers, address: u64, value: u32) {
        let register = registers.at(address).unwrap();
        register.store(value, Ordering::Release);
    }

    #[test]
    fn a_range_needs_both_of_its_registers() {
        let registers = Registers::default();
        assert_eq!(registers.route(0x214), Route::Cp);
        // Doorbells of the second engine.
        set(&registers, 0x1013_3408, 20 << 10 | 0x214);
        assert_eq!(registers.route(0x214), Route::Cp);
        set(
            &registers,
            0x141_ea08,
            2 << 28 | 20 << 17 | 8 << 7 | 8 << 1 | 1,
        );
        for (dword, route) in [
            (0x213, Route::Cp),
            (0x214, Route::Sdma(1)),
            (0x227, Route::Sdma(1)),
            (0x228, Route::Cp),
        ] {
            assert_eq!(registers.route(dword), route, "{dword:#x}");
        }
        // Those of interrupts.
        set(&registers, 0x1013_3400, 8 << 10 | 0x340);
        set(&registers, 0x141_ea0c, 8 << 17 | 1);
        assert_eq!(registers.route(0x347), Route::Ih);
        registers.reset();
        assert_eq!(registers.route(0x347), Route::Cp);
    }

    #[test]
    fn others_do_not_exist() {
        let registers = Registers::default();
        for address in [
            0,
            0x141_ea00,
            0x141_ea05,
            0x1013_3454,
            5 << 32 | 0x1013_3404,
        ] {
            assert!(registers.at(address).is_none(), "{address:#x}");
        }
        let second = 5 << 32 | 0x141_ea04;
        assert!(!Registers::has(second, 1) && Registers::has(second, 2));
        for address in [0x141_d030, 0x1013_3db8, 0x1013_a2b4, 0x1013_3450] {
            assert!(registers.at(address).is_some(), "{address:#x}");
        }
    }
}
