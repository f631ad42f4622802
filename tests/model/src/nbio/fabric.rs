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

/// Entry, port (from 1) and AWID of each destination.
const ROUTES: [(usize, usize, u32, Route); 5] = [
    (1, 1, 0xe, Route::Sdma(0)),
    (2, 2, 0x8, Route::Sdma(1)),
    (3, 5, 0x9, Route::Sdma(2)),
    (4, 6, 0xa, Route::Sdma(3)),
    (0, 3, 0x0, Route::Ih),
];

/// A register.
enum Place {
    Fence,
    Access,
    Monitor,
    Port(usize),
    Entry(usize),
}

impl Place {
    fn of(address: u64) -> Option<Place> {
        if address % 4 != 0 {
            return None;
        }
        let dword = u32::try_from(address / 4).ok()?;
        let nth = |base, count| {
            let n = dword.checked_sub(base)? as usize;
            (n < count).then_some(n)
        };
        match dword {
            _ if dword == NBIF_GDC + FENCE => Some(Place::Fence),
            _ if dword == NBIF_BIFC + ACCESS_EN_PF => Some(Place::Access),
            _ if dword == NBIF_BIFC + INT_MONITOR_MASK => Some(Place::Monitor),
            _ => nth(NBIF_GDC + S2A_ENTRY_1, PORTS)
                .map(Place::Port)
                .or_else(|| nth(NBIF_BIFC + DOORBELL0_ENTRY_0, ENTRIES).map(Place::Entry)),
        }
    }
}

/// The registers, which only store.
#[derive(Default)]
pub struct Registers {
    fence: AtomicU32,
    access: AtomicU32,
    monitor: AtomicU32,
    entries: [AtomicU32; ENTRIES],
    ports: [AtomicU32; PORTS],
}

impl Registers {
    /// Sets all to zero.
    pub fn reset(&self) {
        let single = [&self.fence, &self.access, &self.monitor];
        for register in single.into_iter().chain(&self.entries).chain(&self.ports) {
            register.store(0, Ordering::Release);
        }
    }

    /// Returns whether an address of the fabric is one of these registers.
    pub fn has(address: u64) -> bool {
        Place::of(address).is_some()
    }

    /// The register at an address of the fabric.
    pub fn at(&self, address: u64) -> Option<&AtomicU32> {
        Some(match Place::of(address)? {
            Place::Fence => &self.fence,
            Place::Access => &self.access,
            Place::Monitor => &self.monitor,
            Place::Port(n) => &self.ports[n],
            Place::Entry(n) => &self.entries[n],
        })
    }

    /// The destination of the doorbell at dword `dword` of a page.
    pub fn route(&self, dword: u32) -> Route {
        let leads = |&&(entry, port, awid, _): &&(usize, usize, u32, Route)| {
            let range = self.entries[entry].load(Ordering::Acquire);
            let port = self.ports[port - 1].load(Ordering::Acquire);
            let (first, size) = (OFFSET.get(range), SIZE.get(range));
            ENABLE.is_set(port)
                && AWID.get(port) == awid
                && PORT_SIZE.get(port) >= size
                && (first..first + size).contains(&dword)
        };
        ROUTES.iter().find(leads).map_or(Route::Cp, |route| route.3)
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
        for address in [0, 0x141_ea00, 0x141_ea05, 0x1013_3454, 1 << 34 | 0x141_ea04] {
            assert!(registers.at(address).is_none(), "{address:#x}");
        }
        for address in [0x141_d030, 0x1013_3db8, 0x1013_a2b4, 0x1013_3450] {
            assert!(registers.at(address).is_some(), "{address:#x}");
        }
    }
}
