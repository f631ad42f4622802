// SPDX-License-Identifier: GPL-2.0
//! Registers by AMD's names: where they are in their block, and their fields. A block's place in
//! BAR5 comes from the GPU's table of blocks (SOC15 addressing), so that one list serves every chip
//! with that version of the block. Registers that another version has elsewhere are in a table for
//! each version, and never used but through it.
//!
//! Source: amdgpu's headers (drivers/gpu/drm/amd/include of Linux, under MIT). Made by: hand;
//! scripts/registers compares the files below this one with the headers.

pub(crate) mod athub;
pub(crate) mod df;
pub(crate) mod gc;
pub(crate) mod hdp;
pub(crate) mod hub;
pub(crate) mod mmhub;
pub(crate) mod mp;
pub(crate) mod nbio;
pub(crate) mod osssys;
pub(crate) mod sdma;
pub(crate) mod smuio;

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::bits::Field;
use hw::ip::{IpBlock, IpTable, IpVersion, SegmentBases};

use crate::kern::mmio::{Mmio, GONE};

/// A register: its segment of the block, and the dwords from the segment's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    segment: usize,
    offset: u32,
}

impl Register {
    /// The register at `offset` of `segment`.
    pub(crate) const fn new(segment: usize, offset: u32) -> Self {
        Self { segment, offset }
    }

    /// `self` in a group of registers that begins at `first`.
    pub(crate) const fn within(self, first: Self) -> Self {
        first.nth(self.offset, 1)
    }

    /// The place `dwords` before it.
    pub(crate) const fn before(self, dwords: u32) -> Self {
        Self {
            segment: self.segment,
            offset: self.offset.saturating_sub(dwords),
        }
    }

    /// The register `n` steps of `stride` dwords further on. For indices that the caller knows to
    /// be small.
    pub(crate) const fn nth(self, n: u32, stride: u32) -> Self {
        Self {
            segment: self.segment,
            offset: self.offset.saturating_add(n.saturating_mul(stride)),
        }
    }
}

/// `word` with `field` set to `value`.
pub(crate) const fn with(word: u32, field: Field, value: u32) -> u32 {
    word & !field.put(u32::MAX) | field.put(value)
}

/// The word with bit `n` set, for registers with one bit for each of several items; 0 from 32 on.
pub(crate) const fn bit(n: u32) -> u32 {
    match 1u32.checked_shl(n) {
        Some(word) => word,
        None => 0,
    }
}

/// The registers of one instance of a block.
#[derive(Clone)]
pub(crate) struct RegisterWindow {
    mmio: Arc<Mmio>,
    bases: SegmentBases,
    version: IpVersion,
}

impl RegisterWindow {
    /// Instance `instance` of `block`, of those in the table `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has no such instance.
    pub(crate) fn new(
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        block: IpBlock,
        instance: usize,
    ) -> Result<Self> {
        let ip = ips.find(block, instance).ok_or(ENODEV)?;
        Ok(Self {
            mmio: mmio.clone(),
            bases: ip.bases,
            version: ip.version,
        })
    }

    /// All instances of `block` in the table `ips`, in their order.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn each(mmio: &Arc<Mmio>, ips: IpTable<'_>, block: IpBlock) -> Result<KVec<Self>> {
        let mut all = KVec::with_capacity(ips.of(block).count(), GFP_KERNEL)?;
        for ip in ips.of(block) {
            let window = Self {
                mmio: mmio.clone(),
                bases: ip.bases,
                version: ip.version,
            };
            all.push(window, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// The version of the block. Registers whose place depends on it are in a table of the block's
    /// file, which is chosen by it once.
    pub(crate) fn version(&self) -> IpVersion {
        self.version
    }

    /// The dword of `reg` in BAR5; `None` in a segment that the block does not have.
    pub(crate) fn dword(&self, reg: Register) -> Option<u32> {
        self.bases.register(reg.segment, reg.offset)
    }

    /// Reads `reg`; all ones if the device is missing.
    pub(crate) fn read(&self, reg: Register) -> u32 {
        self.dword(reg).map_or(GONE, |dword| self.mmio.read(dword))
    }

    /// Writes `reg`.
    pub(crate) fn write(&self, reg: Register, value: u32) {
        if let Some(dword) = self.dword(reg) {
            self.mmio.write(dword, value);
        }
    }

    /// Replaces `fields` of `reg` by their values, and keeps its other fields.
    pub(crate) fn update(&self, reg: Register, fields: &[(Field, u32)]) {
        let value = fields.iter().fold(self.read(reg), |word, (field, value)| {
            with(word, *field, *value)
        });
        self.write(reg, value);
    }

    /// Writes the bits of `value` that are in `mask`; the register's other bits stay.
    pub(crate) fn merge(&self, reg: Register, mask: u32, value: u32) {
        self.write(reg, self.read(reg) & !mask | value & mask);
    }

    /// Whether reads reach the device.
    pub(crate) fn is_present(&self) -> bool {
        self.mmio.is_present()
    }
}

/// Declares registers: `NAME @ segment, offset;`, or with `{ FIELD[high:low] ... }`, whose fields
/// go to a module of the register's name in lower case, given after the `as`.
macro_rules! registers {
    ($(
        $(#[$doc:meta])*
        $name:ident @ $segment:literal, $offset:literal
        $(as $module:ident {
            $( $(#[$field_doc:meta])* $field:ident [$high:literal : $low:literal] )*
        })? ;
    )*) => {
        $(
            $(#[$doc])*
            pub(crate) const $name: $crate::regs::Register =
                $crate::regs::Register::new($segment, $offset);
            $(
                #[doc = concat!("Fields of [`", stringify!($name), "`].")]
                pub(crate) mod $module {
                    use hw::bits::Field;
                    $(
                        $(#[$field_doc])*
                        pub(crate) const $field: Field = Field::new($high, $low);
                    )*
                }
            )?
        )*
    };
}
pub(crate) use registers;
