// SPDX-License-Identifier: GPL-2.0
//! Registers by name, from data/gfx90a-regs.csv, and the plain storage behind BAR5.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{ModelError, Result};

/// A register: its dword index in BAR5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u32);

impl Reg {
    /// The register `n` steps of `stride` dwords further on.
    pub const fn nth(self, n: u32, stride: u32) -> Reg {
        Reg(self.0 + n * stride)
    }

    /// The copy of this register of SDMA0's that SDMA engine `n` has.
    pub const fn of_sdma(self, n: usize) -> Reg {
        Reg(self.0 - SDMA_BASE[0] + SDMA_BASE[n])
    }
}

/// A bit field of a 32-bit register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    shift: u32,
    mask: u32,
}

impl Field {
    /// Bits `hi..=lo`.
    pub const fn new(hi: u32, lo: u32) -> Field {
        Field {
            shift: lo,
            mask: u32::MAX >> (31 - (hi - lo)),
        }
    }

    /// The field's value in the register value `value`.
    pub const fn get(self, value: u32) -> u32 {
        value >> self.shift & self.mask
    }

    /// Returns whether any bit of the field is set.
    pub const fn is_set(self, value: u32) -> bool {
        self.get(value) != 0
    }

    /// `field` placed where it belongs.
    pub const fn of(self, field: u32) -> u32 {
        (field & self.mask) << self.shift
    }

    /// `value` with the field replaced.
    pub const fn put(self, value: u32, field: u32) -> u32 {
        value & !(self.mask << self.shift) | self.of(field)
    }
}

#[allow(dead_code, unused_imports, missing_docs)]
mod generated {
    use super::{Field, Reg};
    include!(concat!(env!("OUT_DIR"), "/registers.rs"));
}
pub use generated::*;

/// Dwords in BAR5 (512 KiB).
pub const DWORDS: u32 = 0x2_0000;
/// SDMA engines.
pub const SDMA_ENGINES: usize = 5;
/// First dword of each SDMA engine's registers.
pub const SDMA_BASE: [u32; SDMA_ENGINES] = [0x1260, 0x1860, 0x1_e000, 0x1_e400, 0x1_e800];
/// Dwords from an engine's base to its GFX ring's registers.
pub const SDMA_GFX: u32 = 0x80;
/// Dwords from an engine's base to its first RLC queue's registers.
pub const SDMA_RLC0: u32 = 0x130;
/// Dwords from one RLC queue's registers to the next.
pub const SDMA_QUEUE_STRIDE: u32 = 0x58;
/// RLC queues of an engine.
pub const SDMA_RLC_QUEUES: u32 = 8;
/// Dwords from a register of GFXHUB to the same register of MMHUB.
pub const MMHUB_DELTA: u32 = mmhub::VM_L2_CNTL.0 - gc::VM_L2_CNTL.0;

/// Registers that come in runs of which the table names only the ends.
const FAMILIES: &[(u32, u32, &str)] = &[
    // Behind CP_HQD_PQ_DOORBELL_CONTROL, where the MQD has a reserved dword that is loaded with the
    // others.
    (0x3255, 1, "CP_HQD_RESERVED"),
    (0x3300, 0x20, "GDS_VMID_BASE_SIZE"),
    (0x3320, 0x10, "GDS_GWS_VMID"),
    (0x3330, 0x10, "GDS_OA_VMID"),
];

/// BAR5's plain storage: a value for each dword, and which dwords exist.
pub struct Store {
    values: Vec<AtomicU32>,
    names: Vec<Option<Box<str>>>,
}

impl Store {
    /// All registers of the table, zero.
    pub fn new() -> Store {
        let mut names: Vec<Option<Box<str>>> = vec![None; DWORDS as usize];
        for &(first, count, name) in FAMILIES {
            for n in 0..count {
                names[(first + n) as usize] = Some(format!("{name}[{n}]").into());
            }
        }
        for &(dword, ip, name) in TABLE {
            if ip == "SDMA0" {
                for (base, offset, name) in sdma_instances(dword, name) {
                    names[(base + offset) as usize] = Some(name.into());
                }
            } else {
                names[dword as usize].get_or_insert_with(|| format!("{ip} {name}").into());
            }
        }
        Store {
            values: (0..DWORDS).map(|_| AtomicU32::new(0)).collect(),
            names,
        }
    }

    /// The register's name, for messages.
    pub fn name(&self, reg: Reg) -> String {
        match self.names.get(reg.0 as usize) {
            Some(Some(name)) => name.to_string(),
            _ => format!("dword {:#07x}", reg.0),
        }
    }

    /// Returns whether the table has the register.
    pub fn exists(&self, reg: Reg) -> bool {
        matches!(self.names.get(reg.0 as usize), Some(Some(_)))
    }

    /// Fails unless the register exists.
    pub fn check(&self, access: &'static str, reg: Reg) -> Result<()> {
        match self.names.get(reg.0 as usize) {
            Some(Some(_)) => Ok(()),
            _ => Err(ModelError::UnknownRegister {
                access,
                byte: u64::from(reg.0) * 4,
                dword: reg.0,
            }),
        }
    }

    /// The error for a value that cannot be written.
    pub fn refuse(&self, reg: Reg, value: u32, reason: impl Into<String>) -> ModelError {
        ModelError::Register {
            register: self.name(reg),
            value,
            reason: reason.into(),
        }
    }

    /// The stored value.
    pub fn get(&self, reg: Reg) -> u32 {
        self.values[reg.0 as usize].load(Ordering::Acquire)
    }

    /// Replaces the stored value.
    pub fn set(&self, reg: Reg, value: u32) {
        self.values[reg.0 as usize].store(value, Ordering::Release);
    }

    /// Sets bits of the stored value.
    pub fn or(&self, reg: Reg, bits: u32) {
        self.values[reg.0 as usize].fetch_or(bits, Ordering::AcqRel);
    }

    /// Clears bits of the stored value.
    pub fn clear(&self, reg: Reg, bits: u32) {
        self.values[reg.0 as usize].fetch_and(!bits, Ordering::AcqRel);
    }

    /// A 64-bit value held in two registers, low dword first.
    pub fn get64(&self, lo: Reg) -> u64 {
        u64::from(self.get(lo)) | u64::from(self.get(Reg(lo.0 + 1))) << 32
    }

    /// Sets every register to zero.
    pub fn zero(&self) {
        for value in &self.values {
            value.store(0, Ordering::Release);
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Store::new()
    }
}

/// The places at which SDMA0's register `dword` repeats: the other engines, and for GFX and RLC0
/// the other queues.
fn sdma_instances(dword: u32, name: &str) -> Vec<(u32, u32, String)> {
    let offset = dword - SDMA_BASE[0];
    let mut found = Vec::new();
    for (engine, base) in SDMA_BASE.into_iter().enumerate() {
        if (SDMA_GFX..SDMA_GFX + SDMA_QUEUE_STRIDE).contains(&offset) {
            found.push((base, offset, format!("SDMA{engine}_{name}")));
            let plain = name.trim_start_matches("GFX_");
            for queue in 0..SDMA_RLC_QUEUES {
                let offset = offset - SDMA_GFX + SDMA_RLC0 + queue * SDMA_QUEUE_STRIDE;
                found.push((base, offset, format!("SDMA{engine}_RLC{queue}_{plain}")));
            }
        } else if offset < SDMA_GFX {
            found.push((base, offset, format!("SDMA{engine}_{name}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let field = Field::new(7, 4);
        assert_eq!(field.get(0xabcd), 0xc);
        assert_eq!(field.put(0xffff, 0), 0xff0f);
        assert_eq!(Field::new(31, 0).get(0xdead_beef), 0xdead_beef);
    }

    #[test]
    fn sdma_registers_repeat() {
        let store = Store::new();
        assert_eq!(
            store.name(Reg(0x1_e800 + 0x130 + 7 * 0x58)),
            "SDMA4_RLC7_RB_CNTL"
        );
        assert_eq!(store.name(Reg(0x1860 + 0x80)), "SDMA1_GFX_RB_CNTL");
        assert_eq!(store.name(Reg(0x1390)), "SDMA0_RLC0_RB_CNTL");
        assert_eq!(
            store.name(sdma::RLC0_MINOR_PTR_UPDATE),
            "SDMA0_RLC0_MINOR_PTR_UPDATE"
        );
        // The engine has no page ring.
        assert!(store.check("read", Reg(0x1260 + 0xd8)).is_err());
    }

    #[test]
    fn the_hubs_are_the_same_distance_apart() {
        for &(dword, ip, name) in TABLE {
            if ip != "GC" || !(name.starts_with("VM_") || name.starts_with("MC_VM_FB")) {
                continue;
            }
            let twin = TABLE.iter().find(|row| row.1 == "MMHUB" && row.2 == name);
            assert_eq!(twin.map(|row| row.0), Some(dword + MMHUB_DELTA), "{name}");
        }
    }
}
