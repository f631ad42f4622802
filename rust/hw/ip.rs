// SPDX-License-Identifier: GPL-2.0
//! Hardware blocks, their versions, and where their registers begin on an ASIC without a discovery table.
//!
//! A register's place in BAR5 is the base of one of its block's segments plus the offset that the register
//! headers give, in dwords (SOC15 addressing).

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

/// A block of an ASIC: its version and the first dword of each register segment of each instance.
#[derive(Clone, Copy, Debug)]
pub struct IpInfo {
    /// Which block.
    pub block: IpBlock,
    /// Its version.
    pub version: IpVersion,
    /// Segment bases by instance, dwords in BAR5.
    pub instances: &'static [&'static [u32]],
}

impl IpInfo {
    /// The dword in BAR5 of the register at `offset` of `segment` of `instance`; `None` if there is no such
    /// instance or segment.
    #[inline]
    pub fn register(&self, instance: usize, segment: usize, offset: u32) -> Option<u32> {
        self.instances
            .get(instance)?
            .get(segment)?
            .checked_add(offset)
    }
}

/// Instances of SDMA on gfx90a.
pub const GFX90A_SDMA_ENGINES: usize = 5;

/// First dword of each SDMA engine's registers on gfx90a.
pub const GFX90A_SDMA_BASE: [u32; GFX90A_SDMA_ENGINES] =
    [0x1260, 0x1860, 0x1_e000, 0x1_e400, 0x1_e800];

/// The blocks of gfx90a (Aldebaran), fixed since the part needs no discovery table.
pub const GFX90A: [IpInfo; 10] = [
    IpInfo {
        block: IpBlock::Nbio,
        version: IpVersion::new(7, 4, 4),
        instances: &[&[0x0, 0x14, 0xd20, 0x1_0400]],
    },
    IpInfo {
        block: IpBlock::Gc,
        version: IpVersion::new(9, 4, 2),
        instances: &[&[0x2000, 0xa000]],
    },
    IpInfo {
        block: IpBlock::Mmhub,
        version: IpVersion::new(9, 4, 2),
        instances: &[&[0x1_a000]],
    },
    IpInfo {
        block: IpBlock::Athub,
        version: IpVersion::new(9, 4, 2),
        instances: &[&[0xc20]],
    },
    IpInfo {
        block: IpBlock::Osssys,
        version: IpVersion::new(4, 4, 0),
        instances: &[&[0x10a0]],
    },
    IpInfo {
        block: IpBlock::Hdp,
        version: IpVersion::new(4, 4, 0),
        instances: &[&[0xf20]],
    },
    IpInfo {
        block: IpBlock::Sdma,
        version: IpVersion::new(4, 4, 0),
        instances: &[
            &[GFX90A_SDMA_BASE[0]],
            &[GFX90A_SDMA_BASE[1]],
            &[GFX90A_SDMA_BASE[2]],
            &[GFX90A_SDMA_BASE[3]],
            &[GFX90A_SDMA_BASE[4]],
        ],
    },
    IpInfo {
        block: IpBlock::Mp,
        version: IpVersion::new(13, 0, 2),
        instances: &[&[0x1_6000]],
    },
    IpInfo {
        block: IpBlock::Smuio,
        version: IpVersion::new(13, 0, 2),
        instances: &[&[0x1_6800]],
    },
    IpInfo {
        block: IpBlock::Df,
        version: IpVersion::new(3, 6, 0),
        instances: &[&[0x7000]],
    },
];

/// The entry of `block` in an ASIC's table.
#[inline]
pub fn find(table: &'static [IpInfo], block: IpBlock) -> Option<&'static IpInfo> {
    table.iter().find(|ip| ip.block == block)
}
