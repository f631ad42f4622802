// SPDX-License-Identifier: GPL-2.0
//! The list of blocks of a discovery table, and the list of those that are fused off.

use super::{check_signature, check_sum, half_at, word_at, DiscoveryError, DiscoveryPart};
use core::ffi::CStr;

use crate::bits::Field;
use crate::ip::{IpBlock, IpInstance, IpVersion, SegmentBases, MAX_SEGMENTS};

/// The first word of the list of blocks, "IPDS".
const BLOCKS_SIGNATURE: u32 = 0x5344_5049;
/// The first word of the list of fused-off instances, "HARV".
const HARVEST_SIGNATURE: u32 = 0x5652_4148;

/// Offsets in the header of the list of blocks.
mod at {
    pub(super) const VERSION: usize = 4;
    pub(super) const SIZE: usize = 6;
    pub(super) const DIES: usize = 12;
    /// Number and offset of each die.
    pub(super) const DIE: usize = 14;
    pub(super) const FLAGS: usize = 78;
}

/// Bytes of the header.
const HEADER_BYTES: usize = 80;
/// Bytes of an entry of its list of dies.
const DIE_ENTRY_BYTES: usize = 4;
/// Most dies.
const MAX_DIES: u16 = 16;
/// Bytes before the first entry of a die: its number, and how many entries follow.
const DIE_BYTES: usize = 4;
/// Bytes of an entry before its bases.
const ENTRY_BYTES: usize = 8;
/// The last version whose entries say themselves that they are fused off.
const LAST_WITH_HARVEST: u16 = 2;
/// The first version that may have bases of 64 bits.
const FIRST_WIDE: u16 = 4;
/// The last version that is known.
const LAST_VERSION: u16 = 4;

/// In the header's flags: bases have 64 bits.
const WIDE: Field = Field::bit(0);
/// In an entry's last byte, up to [`LAST_WITH_HARVEST`]: not 0 if it is fused off.
const HARVEST: Field = Field::new(3, 0);
/// The bits of a base of 64 bits that count dwords. Those above are a die's (amdgpu:
/// amdgpu_discovery_reg_base_init).
const WIDE_BASE: Field = Field::new(29, 0);

/// Entries of the list of fused-off instances, and where they begin.
const HARVEST_ENTRIES: usize = 32;
const HARVEST_FIRST: usize = 8;
const HARVEST_ENTRY_BYTES: usize = 4;
const HARVEST_BYTES: usize = HARVEST_FIRST + HARVEST_ENTRIES * HARVEST_ENTRY_BYTES;

/// The blocks that the driver knows, by their hardware ids (soc15_hw_ip.h).
const KNOWN: [(u16, IpBlock); IpBlock::COUNT] = [
    (108, IpBlock::Nbio),
    (11, IpBlock::Gc),
    (34, IpBlock::Mmhub),
    (35, IpBlock::Athub),
    (40, IpBlock::Osssys),
    (41, IpBlock::Hdp),
    (42, IpBlock::Sdma),
    (255, IpBlock::Mp),
    (4, IpBlock::Smuio),
    (46, IpBlock::Df),
];

/// Names of blocks by their hardware ids: those of which chips with a table have some (amdgpu:
/// hw_id_names).
const NAMES: [(u16, &CStr); 21] = [
    (1, c"MP1"),
    (2, c"MP2"),
    (3, c"THM"),
    (4, c"SMUIO"),
    (5, c"FUSE"),
    (6, c"CLKA"),
    (11, c"GC"),
    (12, c"UVD"),
    (24, c"IOHC"),
    (28, c"L2IMU"),
    (34, c"MMHUB"),
    (35, c"ATHUB"),
    (40, c"OSSSYS"),
    (41, c"HDP"),
    (42, c"SDMA0"),
    (46, c"DF"),
    (70, c"PCIE"),
    (108, c"NBIF"),
    (150, c"UMC"),
    (200, c"XGMI"),
    (255, c"MP0"),
];

/// An entry of the table: an instance of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveredIp<'a> {
    /// Number of the die in the table.
    pub die: u16,
    /// The block's hardware id.
    pub id: u16,
    /// The number of the instance on the chip.
    pub number: u8,
    /// The block's version.
    pub version: IpVersion,
    /// Whether the entry itself says that it is fused off, as in old tables.
    pub is_harvested: bool,
    bases: &'a [u8],
    is_wide: bool,
}

impl<'a> DiscoveredIp<'a> {
    /// The block, if the driver knows it.
    #[inline]
    pub fn block(&self) -> Option<IpBlock> {
        let known = KNOWN.iter().find(|(id, _)| *id == self.id);
        known.map(|(_, block)| *block)
    }

    /// The name under which amdgpu shows it.
    #[inline]
    pub fn name(&self) -> Option<&'static CStr> {
        let named = NAMES.iter().find(|(id, _)| *id == self.id);
        named.map(|(_, name)| *name)
    }

    /// The first dword of each segment of its registers.
    #[inline]
    pub fn bases(&self) -> impl Iterator<Item = u32> + use<'a> {
        let is_wide = self.is_wide;
        let bases = self.bases.chunks_exact(base_bytes(is_wide));
        bases.filter_map(move |base| {
            let low = word_at(base, 0)?;
            Some(if is_wide { WIDE_BASE.get(low) } else { low })
        })
    }

    /// It as an instance of `block`.
    pub(super) fn instance(&self, block: IpBlock) -> IpInstance {
        let mut bases = [0; MAX_SEGMENTS];
        let mut count = 0;
        for (own, base) in bases.iter_mut().zip(self.bases()) {
            *own = base;
            count += 1;
        }
        IpInstance {
            block,
            version: self.version,
            number: self.number,
            bases: SegmentBases::new(bases.get(..count).unwrap_or(&[])),
        }
    }
}

/// Bytes of a base.
const fn base_bytes(is_wide: bool) -> usize {
    if is_wide {
        8
    } else {
        4
    }
}

/// The list of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockList<'a> {
    /// The whole table, from whose start the offsets of dies count.
    binary: &'a [u8],
    header: &'a [u8],
    version: u16,
    dies: u16,
    is_wide: bool,
}

impl<'a> BlockList<'a> {
    /// The list at `place` of `binary`, whose sum is `said`. Its entries are not checked yet.
    pub(super) fn new(binary: &'a [u8], place: usize, said: u16) -> Result<Self, DiscoveryError> {
        const PART: DiscoveryPart = DiscoveryPart::Blocks;
        let outside = DiscoveryError::Outside(PART);
        let list = binary.get(place..).ok_or(outside)?;
        check_signature(PART, list, BLOCKS_SIGNATURE)?;
        let half = |at| half_at(list, at).ok_or(outside);
        let size = usize::from(half(at::SIZE)?);
        let list = list.get(..size).ok_or(outside)?;
        let header = list.get(..HEADER_BYTES).ok_or(outside)?;
        check_sum(PART, list, said)?;
        let version = half(at::VERSION)?;
        if !(1..=LAST_VERSION).contains(&version) {
            return Err(DiscoveryError::Version(PART, (version, 0)));
        }
        let dies = half(at::DIES)?;
        if !(1..=MAX_DIES).contains(&dies) {
            return Err(DiscoveryError::Dies(dies));
        }
        let flags = half(at::FLAGS)?;
        Ok(Self {
            // A die lies in the list, which ends here.
            binary: binary.get(..place + size).ok_or(outside)?,
            header,
            version,
            dies,
            is_wide: version >= FIRST_WIDE && WIDE.is_set(flags.into()),
        })
    }

    /// Offset and number of entries of die `index`.
    fn die(&self, index: u16) -> Result<(usize, u16), DiscoveryError> {
        let outside = DiscoveryError::Outside(DiscoveryPart::Blocks);
        let entry = at::DIE + usize::from(index) * DIE_ENTRY_BYTES;
        let place = usize::from(half_at(self.header, entry + 2).ok_or(outside)?);
        let id = half_at(self.binary, place).ok_or(outside)?;
        if id != index {
            return Err(DiscoveryError::Die { index, id });
        }
        let count = half_at(self.binary, place + 2).ok_or(outside)?;
        Ok((place + DIE_BYTES, count))
    }

    /// The entry of die `die` at `place`, and where the next one begins.
    fn entry(&self, die: u16, place: usize) -> Option<(DiscoveredIp<'a>, usize)> {
        let entry = self.binary.get(place..)?;
        let &[low, high, number, bases, major, minor, rev, last] = entry.first_chunk()?;
        let end = ENTRY_BYTES + usize::from(bases) * base_bytes(self.is_wide);
        let ip = DiscoveredIp {
            die,
            id: u16::from_le_bytes([low, high]),
            number,
            version: IpVersion::new(major, minor, rev),
            is_harvested: self.version <= LAST_WITH_HARVEST && HARVEST.get(last.into()) != 0,
            bases: entry.get(ENTRY_BYTES..end)?,
            is_wide: self.is_wide,
        };
        Some((ip, place + end))
    }

    /// The entries of all dies.
    pub(super) fn entries(&self) -> Entries<'a> {
        Entries {
            list: *self,
            die: 0,
            next: 0,
            left: 0,
        }
    }

    /// Checks all entries. Returns the instances of known blocks that are neither fused off nor in
    /// `harvest`.
    pub(super) fn check(&self, harvest: &HarvestList<'_>) -> Result<NumberSets, DiscoveryError> {
        let outside = DiscoveryError::Outside(DiscoveryPart::Blocks);
        let mut listed = NumberSets::EMPTY;
        let mut working = NumberSets::EMPTY;
        for die in 0..self.dies {
            let (mut place, count) = self.die(die)?;
            for _ in 0..count {
                let (ip, next) = self.entry(die, place).ok_or(outside)?;
                place = next;
                let Some(block) = ip.block() else {
                    continue;
                };
                if !listed.insert(block, ip.number) {
                    let (id, number) = (ip.id, ip.number);
                    return Err(DiscoveryError::Instance { id, number });
                }
                if !ip.is_harvested && !harvest.has(ip.id, ip.number) {
                    working.insert(block, ip.number);
                }
            }
        }
        Ok(working)
    }
}

/// Iterator over the entries of a list. It ends at a defect, of which a checked list has none.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    list: BlockList<'a>,
    /// The die behind the present one.
    die: u16,
    /// Offset of the next entry, and how many are left on the present die.
    next: usize,
    left: u16,
}

impl<'a> Iterator for Entries<'a> {
    type Item = DiscoveredIp<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left == 0 {
            if self.die >= self.list.dies {
                return None;
            }
            (self.next, self.left) = self.list.die(self.die).ok()?;
            self.die += 1;
        }
        let (ip, next) = self.list.entry(self.die - 1, self.next)?;
        self.left -= 1;
        self.next = next;
        Some(ip)
    }
}

/// The list of fused-off instances.
#[derive(Clone, Copy, Debug)]
pub(super) struct HarvestList<'a>(&'a [u8]);

impl<'a> HarvestList<'a> {
    /// No instance is fused off.
    pub(super) const EMPTY: Self = Self(&[]);

    /// The list at `place` of `binary`, whose sum is `said`.
    pub(super) fn new(binary: &'a [u8], place: usize, said: u16) -> Result<Self, DiscoveryError> {
        const PART: DiscoveryPart = DiscoveryPart::Harvest;
        let outside = DiscoveryError::Outside(PART);
        let list = binary.get(place..).ok_or(outside)?;
        check_signature(PART, list, HARVEST_SIGNATURE)?;
        let list = list.get(..HARVEST_BYTES).ok_or(outside)?;
        check_sum(PART, list, said)?;
        Ok(Self(list.get(HARVEST_FIRST..).unwrap_or(&[])))
    }

    /// Whether instance `number` of block `id` is in it.
    pub(super) fn has(&self, id: u16, number: u8) -> bool {
        let entries = self.0.chunks_exact(HARVEST_ENTRY_BYTES);
        let mut entries = entries.filter_map(|entry| Some((half_at(entry, 0)?, *entry.get(2)?)));
        // An id of 0 ends the list.
        let found = entries.find(|&(own, instance)| own == 0 || (own, instance) == (id, number));
        found.is_some_and(|(own, _)| own != 0)
    }
}

/// Instances of the blocks that the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberSets([u64; IpBlock::COUNT]);

impl NumberSets {
    const EMPTY: Self = Self([0; IpBlock::COUNT]);

    /// Adds instance `number` of `block`. `false` if it is already there or if there is no room for
    /// such a number.
    fn insert(&mut self, block: IpBlock, number: u8) -> bool {
        let Some(bit) = 1u64.checked_shl(number.into()) else {
            return false;
        };
        let place = KNOWN.iter().position(|(_, known)| *known == block);
        let Some(set) = place.and_then(|place| self.0.get_mut(place)) else {
            return false;
        };
        let is_new = *set & bit == 0;
        *set |= bit;
        is_new
    }

    fn sets(self) -> impl Iterator<Item = (IpBlock, u64)> {
        KNOWN.iter().map(|(_, block)| *block).zip(self.0)
    }

    /// The instances, by block and number.
    pub(super) fn iter(self) -> impl Iterator<Item = (IpBlock, u8)> {
        self.sets().flat_map(|(block, set)| {
            let numbers = (0..u64::BITS as u8).filter(move |&number| set >> number & 1 != 0);
            numbers.map(move |number| (block, number))
        })
    }

    /// How many instances of `block` there are.
    pub(super) fn count(self, block: IpBlock) -> u32 {
        let mut sets = self.sets();
        let set = sets.find(|(own, _)| *own == block);
        set.map_or(0, |(_, set)| set.count_ones())
    }
}
