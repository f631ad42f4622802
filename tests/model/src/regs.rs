// SPDX-License-Identifier: GPL-2.0
//! Registers by name, from data/CHIP-regs.csv, and the plain storage behind BAR5.
//!
//! A register has the same number on each chip, wherever it lies in BAR5: its dword index on the
//! first chip that has it. All of the model knows registers by these numbers; only accesses come
//! with dwords of BAR5, and [`Store::at`] says which register that is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use crate::asic::{self, Asic};
use crate::error::{ModelError, Result};
use crate::layout::Layout;

/// A register: its number, which gfx90a has as dword index in BAR5.
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

/// A register of a chip: its dword index there, its number, its block and name.
pub type Row = (u32, u32, &'static str, &'static str);

#[allow(dead_code, unused_imports, missing_docs)]
mod generated {
    use super::{Field, Reg, Row};
    include!(concat!(env!("OUT_DIR"), "/registers.rs"));
}
pub use generated::*;

/// Numbers of registers. BAR5 has as many dwords (512 KiB) where there is one of each block.
pub const DWORDS: u32 = 0x2_0000;
/// SDMA engines that have register numbers of their own: the most that a chip's first AID has.
pub const SDMA_ENGINES: usize = 5;
/// SDMA engines of the chip that has most.
pub const MOST_SDMA_ENGINES: usize = 16;
/// Dwords from a register of an XCC to the same register of the next one.
const XCC_STRIDE: u32 = 0x1_0000;
/// Dwords from a register of an AID to the same register of the next one.
const AID_STRIDE: u32 = 0x2_0000;
/// The dwords that the first XCC's registers are among, which packets use for those of their own.
const XCC_RANGES: [std::ops::Range<u32>; 2] = [0x2000..0x3400, 0xa000..0x1_0000];
/// The number of each SDMA engine's first register.
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

/// Added to the dword of an access that is no register's: no register has such a number.
const NOTHING: u32 = 1 << 20;

/// The part of the chip that a register belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// There is one of it.
    One,
    /// An XCC has it: the graphics block.
    Xcc(usize),
    /// An AID has it: MMHUB, SDMA engines.
    Aid(usize),
}

/// How many of a register there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Xcc,
    Aid,
}

impl Kind {
    fn of(ip: &str) -> Kind {
        match ip {
            "GC" => Kind::Xcc,
            "MMHUB" | "SDMA0" => Kind::Aid,
            _ => Kind::One,
        }
    }
}

/// What all parts' registers have in common.
struct Tables {
    layout: Layout,
    names: Vec<Option<Box<str>>>,
    kinds: Vec<Kind>,
    /// The number of the register at each dword, and the dword of each register: the first part's.
    numbers: Vec<u32>,
    dwords: Vec<u32>,
}

/// BAR5's plain storage, as a part of the chip sees it: a value for each register, and which of
/// them the chip has. Of registers that each XCC or AID has, these are the part's own.
#[derive(Clone)]
pub struct Store {
    /// The chip.
    pub asic: &'static Asic,
    /// The XCC and the AID whose registers these are.
    pub xcc: usize,
    /// See above.
    pub aid: usize,
    tables: Arc<Tables>,
    values: Arc<Vec<AtomicU32>>,
}

impl Store {
    /// All registers of a chip with one XCC, zero.
    pub fn new(asic: &'static Asic) -> Store {
        Store::of_parts(asic, Layout::default())
    }

    /// All registers of a chip, zero; the view of its first XCC and AID.
    pub fn of_parts(asic: &'static Asic, layout: Layout) -> Store {
        let mut tables = Tables {
            layout,
            names: vec![None; DWORDS as usize],
            kinds: vec![Kind::One; DWORDS as usize],
            numbers: (0..DWORDS).collect(),
            dwords: (0..DWORDS).collect(),
        };
        // Registers of other chips that this one has elsewhere or not at all.
        for places in [asic::GFX90A.places(), asic.places()] {
            for (_, number, _, _) in places {
                tables.numbers[number as usize] = number + NOTHING;
                tables.dwords[number as usize] = NOTHING;
            }
        }
        for &(first, count, name) in FAMILIES {
            for n in 0..count {
                tables.add(first + n, first + n, Kind::Xcc, format!("{name}[{n}]"));
            }
        }
        for (dword, number, kind, name) in asic.places() {
            tables.add(dword, number, kind, name);
        }
        let parts = layout.xccs.max(layout.aids()) as u32;
        Store {
            asic,
            xcc: 0,
            aid: 0,
            tables: Arc::new(tables),
            values: Arc::new((0..DWORDS * parts).map(|_| AtomicU32::new(0)).collect()),
        }
    }

    /// The view of another XCC and AID.
    pub fn of(&self, xcc: usize, aid: usize) -> Store {
        Store {
            xcc,
            aid,
            ..self.clone()
        }
    }

    /// How many parts there are.
    pub fn layout(&self) -> Layout {
        self.tables.layout
    }

    fn kind(&self, reg: Reg) -> Kind {
        let kind = self.tables.kinds.get(reg.0 as usize);
        kind.copied().unwrap_or(Kind::One)
    }

    /// The part that the register at a dword of BAR5 belongs to, and the dword at which the first
    /// of these parts has it.
    pub fn part(&self, dword: u32) -> (Part, u32) {
        let layout = self.tables.layout;
        let has = |local: u32, kind: Kind| {
            let number = self.tables.numbers.get(local as usize);
            number.is_some_and(|&number| self.kind(Reg(number)) == kind)
        };
        for n in (0..layout.xccs).filter(|_| layout.xccs > 1) {
            let local = dword.wrapping_sub(n as u32 * XCC_STRIDE);
            let inside = XCC_RANGES.iter().any(|range| range.contains(&local));
            if inside && has(local, Kind::Xcc) {
                return (Part::Xcc(n), local);
            }
        }
        for m in (0..layout.aids()).filter(|_| layout.aids() > 1) {
            let local = dword.wrapping_sub(m as u32 * AID_STRIDE);
            if has(local, Kind::Aid) {
                return (Part::Aid(m), local);
            }
        }
        (Part::One, dword)
    }

    /// The dword of BAR5 for the number that a packet has: numbers of the first XCC's are those of
    /// the XCC that executes it.
    pub fn of_packet(&self, dword: u32) -> u32 {
        let own = XCC_RANGES.iter().any(|range| range.contains(&dword));
        match own && self.tables.layout.xccs > 1 {
            true => dword + self.xcc as u32 * XCC_STRIDE,
            false => dword,
        }
    }

    /// Returns whether BAR5 has the dword.
    pub fn is_inside(&self, dword: u32) -> bool {
        u64::from(dword) * 4 < self.tables.layout.register_size()
    }

    /// The register at a dword of the first of its parts. It may be one that does not exist, see
    /// [`Store::check`].
    pub fn at(&self, dword: u32) -> Reg {
        let number = self.tables.numbers.get(dword as usize);
        Reg(number.map_or(dword | NOTHING, |&number| number))
    }

    /// The dword of BAR5 at which this part has a register.
    pub fn dword(&self, reg: Reg) -> u32 {
        let dword = self.tables.dwords.get(reg.0 as usize);
        let first = dword.map_or(reg.0, |&dword| dword);
        match self.kind(reg) {
            Kind::One => first,
            Kind::Xcc => first + self.xcc as u32 * XCC_STRIDE,
            Kind::Aid => first + self.aid as u32 * AID_STRIDE,
        }
    }

    /// The register's name, for messages.
    pub fn name(&self, reg: Reg) -> String {
        let Some(Some(name)) = self.tables.names.get(reg.0 as usize) else {
            return format!("dword {:#07x}", reg.0 & !NOTHING);
        };
        match self.kind(reg) {
            Kind::Xcc if self.xcc != 0 => format!("XCC{} {name}", self.xcc),
            Kind::Aid if self.aid != 0 => format!("AID{} {name}", self.aid),
            _ => name.to_string(),
        }
    }

    /// Returns whether the table has the register.
    pub fn exists(&self, reg: Reg) -> bool {
        matches!(self.tables.names.get(reg.0 as usize), Some(Some(_)))
    }

    /// Returns whether the register is one of which this view's XCC or AID has its own.
    pub fn is_own(&self, reg: Reg) -> bool {
        match self.kind(reg) {
            Kind::One => self.xcc == 0 && self.aid == 0,
            Kind::Xcc => true,
            Kind::Aid => self.xcc == self.layout().first_xcc(self.aid),
        }
    }

    /// Fails unless the register exists.
    pub fn check(&self, access: &'static str, reg: Reg) -> Result<()> {
        match self.tables.names.get(reg.0 as usize) {
            Some(Some(_)) => Ok(()),
            _ => {
                let dword = reg.0 & !NOTHING;
                Err(ModelError::UnknownRegister {
                    access,
                    byte: u64::from(dword) * 4,
                    dword,
                })
            }
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

    /// The place of a register's value.
    fn value(&self, reg: Reg) -> &AtomicU32 {
        let part = match self.tables.kinds[reg.0 as usize] {
            Kind::One => 0,
            Kind::Xcc => self.xcc,
            Kind::Aid => self.aid,
        };
        &self.values[reg.0 as usize + part * DWORDS as usize]
    }

    /// The stored value.
    pub fn get(&self, reg: Reg) -> u32 {
        self.value(reg).load(Ordering::Acquire)
    }

    /// Replaces the stored value.
    pub fn set(&self, reg: Reg, value: u32) {
        self.value(reg).store(value, Ordering::Release);
    }

    /// Sets bits of the stored value.
    pub fn or(&self, reg: Reg, bits: u32) {
        self.value(reg).fetch_or(bits, Ordering::AcqRel);
    }

    /// Clears bits of the stored value.
    pub fn clear(&self, reg: Reg, bits: u32) {
        self.value(reg).fetch_and(!bits, Ordering::AcqRel);
    }

    /// A 64-bit value held in two registers, low dword first.
    pub fn get64(&self, lo: Reg) -> u64 {
        u64::from(self.get(lo)) | u64::from(self.get(Reg(lo.0 + 1))) << 32
    }

    /// Sets every register of all parts to zero.
    pub fn zero(&self) {
        for value in self.values.iter() {
            value.store(0, Ordering::Release);
        }
    }
}

impl Tables {
    fn add(&mut self, dword: u32, number: u32, kind: Kind, name: String) {
        self.numbers[dword as usize] = number;
        self.dwords[number as usize] = dword;
        self.kinds[number as usize] = kind;
        self.names[number as usize].get_or_insert(name.into());
    }
}

impl Asic {
    /// Dword, number, kind and name of each of its registers, with all copies that the table has
    /// once.
    fn places(&self) -> Vec<(u32, u32, Kind, String)> {
        let mut places = Vec::new();
        for &(dword, number, ip, name) in self.registers {
            if ip == "SDMA0" {
                let engines = self.sdma.iter().zip(SDMA_BASE).enumerate();
                for (engine, (&base, first)) in engines {
                    for (offset, plain) in sdma_queues(number - SDMA_BASE[0], name) {
                        // Registers of queues are at the same distances on all chips.
                        let own = offset + dword - number + SDMA_BASE[0] - self.sdma[0];
                        let name = format!("SDMA{engine}_{plain}");
                        places.push((base + own, first + offset, Kind::Aid, name));
                    }
                }
            } else {
                places.push((dword, number, Kind::of(ip), format!("{ip} {name}")));
            }
        }
        places
    }
}

/// The places, in dwords from an engine's first, at which SDMA0's register at `offset` repeats: for
/// GFX and RLC0 the other queues.
fn sdma_queues(offset: u32, name: &str) -> Vec<(u32, String)> {
    if offset >= SDMA_GFX + SDMA_QUEUE_STRIDE {
        return Vec::new();
    }
    let mut found = vec![(offset, name.to_owned())];
    if offset >= SDMA_GFX {
        let plain = name.trim_start_matches("GFX_");
        found.extend((0..SDMA_RLC_QUEUES).map(|queue| {
            let offset = offset - SDMA_GFX + SDMA_RLC0 + queue * SDMA_QUEUE_STRIDE;
            (offset, format!("RLC{queue}_{plain}"))
        }));
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
        let store = Store::new(&asic::GFX90A);
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
        for &(_, number, ip, name) in GFX90A {
            if ip != "GC" || !(name.starts_with("VM_") || name.starts_with("MC_VM_FB")) {
                continue;
            }
            let twin = GFX90A.iter().find(|row| row.2 == "MMHUB" && row.3 == name);
            assert_eq!(twin.map(|row| row.1), Some(number + MMHUB_DELTA), "{name}");
        }
    }

    #[test]
    fn each_chip_has_registers_in_places_of_its_own() {
        let (old, new) = (Store::new(&asic::GFX90A), Store::new(&asic::GFX942));
        for (store, dword) in [(&old, gc::VM_L2_CNTL.0), (&new, 0x2820)] {
            assert_eq!(store.at(dword), gc::VM_L2_CNTL);
            assert_eq!(store.dword(gc::VM_L2_CNTL), dword);
            assert!(store.exists(gc::VM_L2_CNTL));
        }
        // Behind a part of the hub that is shorter, and in an engine's registers that moved.
        assert_eq!(new.at(0x2820 + 0x127), gc::MC_VM_FB_OFFSET);
        assert_eq!(new.name(new.at(0x1_9802)), "SDMA3_F32_CNTL");
        assert_eq!(
            new.name(new.at(0x1_9400 + 0x130 + 0x58)),
            "SDMA2_RLC1_RB_CNTL"
        );
        // What it has no more, where another chip has a register, and what it has alone.
        for dword in [nbio::BIF_SDMA0_DOORBELL_RANGE.0, 0x1_e800 + 0x80] {
            let error = new.check("read", new.at(dword)).unwrap_err().to_string();
            assert!(error.contains(&format!("(dword {dword:#07x})")), "{error}");
        }
        assert!(new.exists(new.at(0xe84)) && !old.exists(old.at(0xe84)));
        // Beyond BAR5 there is nothing.
        assert!(new.check("read", new.at(DWORDS)).is_err());
    }
}
