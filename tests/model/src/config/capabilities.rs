// SPDX-License-Identifier: GPL-2.0
//! The lists of capabilities. Their offsets are those of AMD's GPUs of these generations in public
//! listings of `lspci`.

use super::{Config, BAR_KINDS, DOORBELL_SIZE};
use crate::function::Function;

pub(super) const POWER: usize = 0x50;
pub(super) const PCIE: usize = 0x64;
const MSI: usize = 0xa0;
const MSIX: usize = 0xc0;
const VENDOR: usize = 0x100;
const REBAR: usize = 0x200;
const ATS: usize = 0x2b0;
const SRIOV: usize = 0x330;

/// Vectors of MSI-X. As the places of its table and its pending bits in BAR5, the number is that of
/// AMD's GPUs in such listings; there is none of an MI210.
pub const MSIX_VECTORS: u16 = 4;
/// Byte of BAR5 at which the table of MSI-X begins.
pub const MSIX_TABLE: u64 = 0x4_2000;
/// The same of its pending bits.
pub const MSIX_PENDING: u64 = 0x4_3000;
/// Bytes of an entry of the table, and of 64 pending bits.
const MSIX_ENTRY: u64 = 16;
const PENDING_BYTES: u64 = 8;
/// BAR5 in the registers of MSI-X.
const BIR: u32 = 5;

/// PMC: version 3; D1, D2; events from D1, D2, D3hot and D3cold.
const PMC_VERSION: u16 = 3;
const PMC_EVENTS: u16 = 0xf600;
/// PMCSR: No_Soft_Reset.
const NO_SOFT_RESET: u16 = 1 << 3;
/// DevCap: payload 256, extended tags, role based error reporting; function level reset.
const DEVCAP: u32 = 0x8021;
const DEVCAP_RESET: u32 = 1 << 28;

/// The smallest BAR0 that can be asked for, as a power of two.
const REBAR_LEAST: u32 = 28;

/// Returns whether byte `offset` of BAR5 belongs to the table of MSI-X or its pending bits.
pub fn is_msix(offset: u64) -> bool {
    let table = MSIX_TABLE..MSIX_TABLE + MSIX_ENTRY * u64::from(MSIX_VECTORS);
    let pending = MSIX_PENDING..MSIX_PENDING + PENDING_BYTES;
    table.contains(&offset) || pending.contains(&offset)
}

/// A capability: its offset, and what fills it in.
type Capability = (usize, fn(&mut Config));

impl Config {
    pub(super) fn capabilities(&mut self, function: &Function) {
        let all: [(bool, Capability); 4] = [
            (true, (POWER, Config::power)),
            (true, (PCIE, Config::pcie)),
            (function.msi, (MSI, Config::msi)),
            (function.msix, (MSIX, Config::msix)),
        ];
        let mut link = 0x34;
        for (at, fill) in present(all) {
            self.bytes[link] = at as u8;
            link = at + 1;
            fill(self);
        }
        if function.pme {
            self.put16(POWER + 2, PMC_VERSION | PMC_EVENTS, 0);
            // Event enable; the event itself never comes.
            self.writeable[POWER + 5] |= 1;
        }
        if function.flr {
            self.put32(PCIE + 4, DEVCAP | DEVCAP_RESET, 0);
        }
    }

    pub(super) fn extended(&mut self, function: &Function) {
        let all: [(bool, Capability); 4] = [
            (function.vendor, (VENDOR, Config::vendor)),
            (function.rebar, (REBAR, Config::rebar)),
            (function.ats, (ATS, Config::ats)),
            (function.sriov, (SRIOV, Config::sriov)),
        ];
        // The list begins at 0x100 in any case: an id of 0 there is no capability.
        let mut last = 0x100;
        for (at, fill) in present(all) {
            // The offset of the next one is in bits 31:20 of the last.
            let next = (at as u16) << 4;
            let [low, high] = next.to_le_bytes();
            if at != last {
                self.bytes[last + 2] |= low;
                self.bytes[last + 3] |= high;
            }
            fill(self);
            last = at;
        }
    }

    /// Power management: D0 and D3hot, from which it comes back with all of its state.
    fn power(&mut self) {
        self.bytes[POWER] = 0x01;
        self.put16(POWER + 2, PMC_VERSION, 0);
        self.put16(POWER + 4, NO_SOFT_RESET, super::POWER_STATE.into());
    }

    /// PCI Express capability: an endpoint, x16 at 16 GT/s, completer of 32 and 64-bit AtomicOps.
    fn pcie(&mut self) {
        let at = PCIE;
        self.bytes[at] = 0x10;
        self.put16(at + 2, 0x0002, 0);
        self.put32(at + 0x04, DEVCAP, 0);
        self.put16(at + 0x08, 0x2810, 0x7fff);
        self.put32(at + 0x0c, 0x0000_0d04, 0);
        self.put16(at + 0x10, 0, 0x01fb);
        self.put16(at + 0x12, 0x0104, 0);
        // DevCap2: AtomicOp completer, 32 and 64 bit. DevCtl2: AtomicOp requester enable and
        // others. It is enabled from the start: that is how a hypervisor tells a guest without a
        // visible root port that atomics reach memory.
        self.put32(at + 0x24, 0x0000_0180, 0);
        self.put16(at + 0x28, 0x0040, 0x745f);
        self.put32(at + 0x2c, 0x0000_001e, 0);
        self.put16(at + 0x30, 0x0004, 0x000f);
    }

    /// MSI: one vector, 64-bit address.
    fn msi(&mut self) {
        let at = MSI;
        self.bytes[at] = 0x05;
        self.put16(at + 2, 0x0080, 0x0071);
        self.put32(at + 4, 0, !3);
        self.put32(at + 8, 0, !0);
        self.put16(at + 0x0c, 0, !0);
    }

    fn msix(&mut self) {
        let at = MSIX;
        self.bytes[at] = 0x11;
        // Enable, and the mask of all vectors.
        self.put16(at + 2, MSIX_VECTORS - 1, 0xc000);
        self.put32(at + 4, MSIX_TABLE as u32 | BIR, 0);
        self.put32(at + 8, MSIX_PENDING as u32 | BIR, 0);
    }

    /// Vendor-specific: id 1, revision 1, 16 bytes. amdgpu takes it as the sign that extended
    /// configuration space can be read.
    fn vendor(&mut self) {
        self.put32(VENDOR, 0x0001_000b, 0);
        self.put32(VENDOR + 4, 0x0101_0001, 0);
    }

    /// Resizable BAR, for BAR0. The size stays as it is: the client has asked for it only once.
    fn rebar(&mut self) {
        let at = REBAR;
        self.put32(at, 0x0001_0015, 0);
        // Bit 4 of the sizes is 1 MiB.
        let order = self.bar0.trailing_zeros();
        let sizes = (REBAR_LEAST.min(order)..=order).filter(|order| *order >= 20);
        let bits = sizes.fold(0, |bits, order| bits | 1 << (order - 20 + 4));
        self.put32(at + 4, bits, 0);
        // BAR0, one BAR, and its size.
        self.put32(at + 8, order.saturating_sub(20) << 8 | 1 << 5, 0);
    }

    /// Address translation services: page aligned requests, 32 invalidations. No engine uses them.
    fn ats(&mut self) {
        self.put32(ATS, 0x0001_000f, 0);
        self.put16(ATS + 4, 1 << 5, 0);
        self.put16(ATS + 6, 0, 0x801f);
    }

    /// SR-IOV with one virtual function, whose BARs are as large as those of the function. It
    /// cannot be enabled: there is no model of it.
    fn sriov(&mut self) {
        let at = SRIOV;
        self.put32(at, 0x0001_0010, 0);
        // Initial and total number of virtual functions, the first one's distance, the stride.
        self.put16(at + 0x0c, 1, 0);
        self.put16(at + 0x0e, 1, 0);
        self.put16(at + 0x14, 1, 0);
        self.put16(at + 0x16, 1, 0);
        self.put32(at + 0x18, u32::from(self.asic.virtual_function) << 16, 0);
        // Page sizes: 4 KiB, and others that can be chosen.
        self.put32(at + 0x1c, 0x0000_0553, 0);
        self.put32(at + 0x20, 0x0000_0001, 0x0000_0553);
        for (index, size) in [
            (0, self.bar0),
            (2, DOORBELL_SIZE),
            (5, self.layout.register_size()),
        ] {
            self.bar(at + 0x24 + 4 * index, size, BAR_KINDS[index]);
        }
    }
}

/// Those that are there.
fn present<const N: usize>(all: [(bool, Capability); N]) -> impl Iterator<Item = Capability> {
    let present = |(is, capability)| Some(capability).filter(|_| is);
    all.into_iter().filter_map(present)
}
