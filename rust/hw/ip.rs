// SPDX-License-Identifier: GPL-2.0
//! Hardware blocks, their versions, and where their registers begin.
//!
//! A register's place in BAR5 is the base of one of its block's segments plus the offset that the
//! register headers give, in dwords (SOC15 addressing).

use core::fmt;

/// Version of a hardware block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IpVersion {
    /// Generation.
    pub major: u8,
    /// Variant of the generation.
    pub minor: u8,
    /// Revision.
    pub rev: u8,
}

impl IpVersion {
    /// The version `major.minor.rev`.
    #[inline]
    pub const fn new(major: u8, minor: u8, rev: u8) -> Self {
        Self { major, minor, rev }
    }

    /// It as a number, a byte each (amdgpu: IP_VERSION_MAJ_MIN_REV).
    #[inline]
    pub const fn packed(self) -> u32 {
        u32::from_be_bytes([0, self.major, self.minor, self.rev])
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.rev)
    }
}

/// A kind of hardware block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IpBlock {
    /// Bus interface: PCI, doorbells, HDP remap.
    Nbio,
    /// Graphics and compute: GRBM, CP, RLC, SPI and the GFXHUB.
    Gc,
    /// Memory hub of the SDMA engines.
    Mmhub,
    /// Address translation hub: VMID to PASID.
    Athub,
    /// System block: the interrupt handler.
    Osssys,
    /// Host data path.
    Hdp,
    /// System DMA engines.
    Sdma,
    /// Security and system-management processors.
    Mp,
    /// SMU's I/O block.
    Smuio,
    /// Data fabric.
    Df,
}

impl IpBlock {
    /// How many kinds there are.
    pub const COUNT: usize = Self::Df as usize + 1;
}

/// Most segments of a block that a table may list: NBIF of gfx 9.4.3 has nine.
pub(crate) const MAX_SEGMENTS: usize = 9;

/// The first dword in BAR5 of each register segment of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBases {
    bases: [u32; MAX_SEGMENTS],
    count: u8,
}

impl SegmentBases {
    /// The bases `bases`, of which the first `MAX_SEGMENTS` count: no register is in any later
    /// one.
    #[inline]
    pub const fn new(bases: &[u32]) -> Self {
        let mut own = [0; MAX_SEGMENTS];
        let mut count = 0;
        while count < bases.len() && count < MAX_SEGMENTS {
            own[count] = bases[count];
            count += 1;
        }
        Self {
            bases: own,
            count: count as u8,
        }
    }

    /// The dword in BAR5 of the register at `offset` of `segment`; `None` if there is no such
    /// segment.
    #[inline]
    pub fn register(&self, segment: usize, offset: u32) -> Option<u32> {
        let bases = self.bases.get(..self.count.into())?;
        bases.get(segment)?.checked_add(offset)
    }
}

/// An instance of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpInstance {
    /// Which block.
    pub block: IpBlock,
    /// Its version.
    pub version: IpVersion,
    /// Its number on the chip. Fused-off instances are not listed, so numbers may have gaps.
    pub number: u8,
    /// Where its registers are.
    pub bases: SegmentBases,
}

impl IpInstance {
    /// Instance `number` of `block`, whose segments begin at `bases`.
    #[inline]
    pub const fn new(block: IpBlock, version: IpVersion, number: u8, bases: &[u32]) -> Self {
        Self {
            block,
            version,
            number,
            bases: SegmentBases::new(bases),
        }
    }
}

/// The blocks of a GPU that work. The list belongs to the GPU's owner, and comes from the chip's
/// description or from a table that was read from the GPU's memory.
#[derive(Clone, Copy, Debug)]
pub struct IpTable<'a> {
    instances: &'a [IpInstance],
}

impl<'a> IpTable<'a> {
    /// The table with `instances`; the instances of a block are in ascending order of their
    /// numbers.
    #[inline]
    pub const fn new(instances: &'a [IpInstance]) -> Self {
        Self { instances }
    }

    /// The instances of `block`.
    #[inline]
    pub fn of(&self, block: IpBlock) -> impl Iterator<Item = &'a IpInstance> {
        self.instances.iter().filter(move |ip| ip.block == block)
    }

    /// The `n`-th working instance of `block`.
    #[inline]
    pub fn find(&self, block: IpBlock, n: usize) -> Option<&'a IpInstance> {
        self.of(block).nth(n)
    }

    /// The version of `block`; that of its first instance.
    #[inline]
    pub fn version(&self, block: IpBlock) -> Option<IpVersion> {
        self.find(block, 0).map(|ip| ip.version)
    }
}
