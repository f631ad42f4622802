// SPDX-License-Identifier: GPL-2.0
//! The IP discovery table that newer chips keep at the top of VRAM: which blocks there are, of
//! which versions, where their registers begin, which instances are fused off, and how large an XCC
//! is (amdgpu: amdgpu_discovery.c and discovery.h of Linux 7.3). Little-endian.
//!
//! The table comes from the card, so nothing in it is trusted: [`Discovery::new`] checks each
//! offset, size and sum before anything is used. Later reads of the same bytes cannot fail.

mod blocks;
mod error;
mod gc;

pub use blocks::DiscoveredIp;
pub use error::{DiscoveryError, DiscoveryPart};
pub use gc::GcFigures;

use crate::firmware::bytes_at;
use crate::ip::{IpBlock, IpInstance, IpVersion};
use blocks::{BlockList, HarvestList, NumberSets};

/// Bytes that hold the table: what a driver reads (amdgpu: DISCOVERY_TMR_SIZE).
pub const BYTES: usize = 10 << 10;
/// Where they begin, in bytes before the end of VRAM (amdgpu: DISCOVERY_TMR_OFFSET).
pub const FROM_END: u64 = 64 << 10;

/// Bytes from the start that [`length`] needs.
pub const HEADER_BYTES: usize = 12;

/// Blocks whose registers are at these places on every chip with a table, as it is read by them:
/// the memory port of NBIO, and words of the PSP. Their versions are not known before.
pub const FIXED: [IpInstance; 2] = [
    fixed(IpBlock::Nbio, &[0x0, 0x14, 0xd20]),
    fixed(IpBlock::Mp, &[0x1_6000]),
];

const fn fixed(block: IpBlock, bases: &[u32]) -> IpInstance {
    IpInstance::new(block, IpVersion::new(0, 0, 0), 0, bases)
}

/// The first word of the table.
const SIGNATURE: u32 = 0x2821_1407;

/// Offsets in the header.
mod at {
    pub(super) const MAJOR: usize = 4;
    pub(super) const MINOR: usize = 6;
    pub(super) const CHECKSUM: usize = 8;
    /// The number of bytes of everything; here the summed bytes begin.
    pub(super) const SIZE: usize = 10;
    /// The list of parts. From version 2 on their number is in front of it.
    pub(super) const PARTS: usize = 12;
    pub(super) const PART_COUNT: usize = 12;
    pub(super) const PARTS_V2: usize = 16;
}

/// Bytes of an entry of the list of parts: offset, sum, size, padding.
const PART_BYTES: usize = 8;
/// Places of parts in the list.
const BLOCKS: usize = 0;
const GC: usize = 1;
const HARVEST: usize = 2;

/// The little-endian half word at `at`.
fn half_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

/// The little-endian word at `at`.
fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

/// The sum by which the table and its parts are checked.
fn sum(bytes: &[u8]) -> u16 {
    let add = |sum: u16, &byte: &u8| sum.wrapping_add(byte.into());
    bytes.iter().fold(0, add)
}

/// Checks that `bytes` of `part` begin with `signature`.
fn check_signature(
    part: DiscoveryPart,
    bytes: &[u8],
    signature: u32,
) -> Result<(), DiscoveryError> {
    match word_at(bytes, 0).ok_or(DiscoveryError::Outside(part))? {
        found if found == signature => Ok(()),
        found => Err(DiscoveryError::Signature { part, found }),
    }
}

/// Checks that `bytes` of `part` have the sum `said`.
fn check_sum(part: DiscoveryPart, bytes: &[u8], said: u16) -> Result<(), DiscoveryError> {
    match sum(bytes) {
        sum if sum == said => Ok(()),
        sum => Err(DiscoveryError::Checksum { part, sum, said }),
    }
}

/// Returns the number of bytes of the table that begins with `head`, which has [`HEADER_BYTES`] or
/// more. At most [`BYTES`].
///
/// # Errors
///
/// [`DiscoveryError::Signature`]; [`DiscoveryError::Outside`].
pub fn length(head: &[u8]) -> Result<usize, DiscoveryError> {
    const PART: DiscoveryPart = DiscoveryPart::Whole;
    let outside = DiscoveryError::Outside(PART);
    check_signature(PART, head, SIGNATURE)?;
    let size = half_at(head, at::SIZE).ok_or(outside)?.into();
    if size > BYTES {
        return Err(outside);
    }
    Ok(size)
}

/// A table whose contents were checked.
#[derive(Clone, Copy, Debug)]
pub struct Discovery<'a> {
    blocks: BlockList<'a>,
    harvest: HarvestList<'a>,
    gc: GcFigures,
    present: NumberSets,
}

impl<'a> Discovery<'a> {
    /// The table at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The first defect that is found.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DiscoveryError> {
        let binary = Binary::new(bytes)?;
        let (place, said) = binary
            .part(BLOCKS)
            .ok_or(DiscoveryError::Missing(DiscoveryPart::Blocks))?;
        let blocks = BlockList::new(binary.bytes, place, said)?;
        let harvest = match binary.part(HARVEST) {
            Some((place, said)) => HarvestList::new(binary.bytes, place, said)?,
            None => HarvestList::EMPTY,
        };
        let (place, said) = binary
            .part(GC)
            .ok_or(DiscoveryError::Missing(DiscoveryPart::Gc))?;
        let gc = GcFigures::new(binary.bytes, place, said)?;
        let present = blocks.check(&harvest)?;
        Ok(Self {
            blocks,
            harvest,
            gc,
            present,
        })
    }

    /// All entries in the order of the table, also of fused-off instances and of blocks that the
    /// driver does not know.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = DiscoveredIp<'a>> + Clone {
        self.blocks.entries()
    }

    /// Whether the instance of `entry` is fused off.
    #[inline]
    pub fn is_harvested(&self, entry: &DiscoveredIp<'_>) -> bool {
        entry.is_harvested || self.harvest.has(entry.id, entry.number)
    }

    /// The working instances of the blocks that the driver knows, by block and in ascending order
    /// of their numbers, as [`crate::ip::IpTable`] wants them.
    pub fn instances(&self) -> impl Iterator<Item = IpInstance> + use<'a> {
        let (blocks, present) = (self.blocks, self.present);
        present.iter().filter_map(move |(block, number)| {
            let mut entries = blocks.entries();
            let found = entries.find(|ip| ip.block() == Some(block) && ip.number == number)?;
            Some(found.instance(block))
        })
    }

    /// The number of working instances of `block`.
    #[inline]
    pub fn count(&self, block: IpBlock) -> u32 {
        self.present.count(block)
    }

    /// Figures of an XCC.
    #[inline]
    pub fn gc(&self) -> &GcFigures {
        &self.gc
    }
}

/// Everything, of which only the header and the sum were checked.
struct Binary<'a> {
    bytes: &'a [u8],
    /// Offset of the list of parts.
    parts: usize,
    /// Entries of that list.
    count: usize,
}

impl<'a> Binary<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, DiscoveryError> {
        const PART: DiscoveryPart = DiscoveryPart::Whole;
        let outside = DiscoveryError::Outside(PART);
        let half = |at| half_at(bytes, at).ok_or(outside);
        let size = length(bytes)?;
        let version = (half(at::MAJOR)?, half(at::MINOR)?);
        let (parts, count) = match version.0 {
            1 => (at::PARTS, HARVEST + 1),
            2 => (at::PARTS_V2, half(at::PART_COUNT)?.into()),
            _ => return Err(DiscoveryError::Version(PART, version)),
        };
        let bytes = bytes.get(..size).ok_or(outside)?;
        let summed = bytes.get(at::SIZE..).ok_or(outside)?;
        check_sum(PART, summed, half(at::CHECKSUM)?)?;
        Ok(Self {
            bytes,
            parts,
            count,
        })
    }

    /// Offset and sum of part `index`; `None` if there is none.
    fn part(&self, index: usize) -> Option<(usize, u16)> {
        if index >= self.count {
            return None;
        }
        let entry = self.parts + index * PART_BYTES;
        let place = half_at(self.bytes, entry)?;
        let said = half_at(self.bytes, entry + 2)?;
        (place != 0).then_some((place.into(), said))
    }
}
