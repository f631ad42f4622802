// SPDX-License-Identifier: GPL-2.0
//! GPU virtual addresses: ranges, page-table levels, and the cutting of a mapping into table
//! entries.

use crate::pte::PteFragment;
use core::ops::Range;

/// Log2 of the small page.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of the small page.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// Log2 of the page that one PDB0 leaf maps.
pub const LARGE_PAGE_SHIFT: u32 = 21;
/// Bytes of the page that one PDB0 leaf maps.
pub const LARGE_PAGE_SIZE: u64 = 1 << LARGE_PAGE_SHIFT;
/// Log2 of the small pages in a large one.
pub const LARGE_PAGE_FRAGMENT: u32 = LARGE_PAGE_SHIFT - PAGE_SHIFT;
/// Entries in a table of any level.
pub const TABLE_ENTRIES: usize = 512;
/// Bytes of a table of any level.
pub const TABLE_BYTES: u64 = TABLE_ENTRIES as u64 * 8;
/// First address beyond the user's half of the 48-bit space (bit 47 sign-extends).
pub const USER_VA_END: u64 = 1 << 47;
/// First address beyond the 48-bit space.
pub const VA_END: u64 = 1 << 48;
/// Last page frame of the 48-bit space: `VM_CONTEXTn_PAGE_TABLE_END_ADDR` of user contexts.
pub const LAST_PFN: u64 = (1 << (48 - PAGE_SHIFT)) - 1;

/// Lowest address that KFD hands to users as GPUVM aperture base.
pub const GPUVM_BASE: u64 = 0x1_0000;
/// Last address of the GPUVM aperture.
pub const GPUVM_LIMIT: u64 = USER_VA_END - 1;
/// Base of the LDS aperture; hardware compares bits 63:48.
pub const LDS_BASE: u64 = 0x0001_0000_0000_0000;
/// Last address of the LDS aperture.
pub const LDS_LIMIT: u64 = LDS_BASE + 0xffff_ffff;
/// Base of the scratch aperture; hardware compares bits 63:48.
pub const SCRATCH_BASE: u64 = 0x0002_0000_0000_0000;
/// Last address of the scratch aperture.
pub const SCRATCH_LIMIT: u64 = SCRATCH_BASE + 0xffff_ffff;
/// `SH_MEM_BASES` that agrees with the two apertures: SHARED in 31:16, PRIVATE in 15:0.
pub const SH_MEM_BASES: u32 = ((LDS_BASE >> 48) as u32) << 16 | (SCRATCH_BASE >> 48) as u32;

/// The reason why two numbers are not a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaError {
    /// The size is zero.
    Empty,
    /// Start or size is not a multiple of the page size.
    Unaligned,
    /// The range passes the end of the user's half, or wraps.
    OutOfRange,
}

/// A range of GPU addresses, page aligned and not empty: of the user's half, below bit 47, or of
/// the upper half, where addresses are written without the bits above 47 (see [`canonical`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VaRange {
    start: u64,
    end: u64,
}

impl VaRange {
    /// The range of `size` bytes at `start`.
    #[inline]
    pub const fn new(start: u64, size: u64) -> Result<Self, VaError> {
        if size == 0 {
            return Err(VaError::Empty);
        }
        if start % PAGE_SIZE != 0 || size % PAGE_SIZE != 0 {
            return Err(VaError::Unaligned);
        }
        match start.checked_add(size) {
            Some(end) if end <= USER_VA_END => Ok(Self { start, end }),
            _ => Err(VaError::OutOfRange),
        }
    }

    /// The range of `size` bytes at `start` of the upper half, which user space cannot name.
    #[inline]
    pub const fn upper(start: u64, size: u64) -> Result<Self, VaError> {
        if size == 0 {
            return Err(VaError::Empty);
        }
        if start % PAGE_SIZE != 0 || size % PAGE_SIZE != 0 {
            return Err(VaError::Unaligned);
        }
        match start.checked_add(size) {
            Some(end) if start >= USER_VA_END && end <= VA_END => Ok(Self { start, end }),
            _ => Err(VaError::OutOfRange),
        }
    }

    /// The first address.
    #[inline]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The first address after the range.
    #[inline]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// The bytes.
    #[inline]
    pub const fn size(self) -> u64 {
        self.end - self.start
    }

    /// The small pages.
    #[inline]
    pub const fn pages(self) -> u64 {
        self.size() >> PAGE_SHIFT
    }

    /// Whether all of `other` is inside.
    #[inline]
    pub const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the two share an address.
    #[inline]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The user's half from page-aligned `start` up to `end`, if there is anything between them.
    #[inline]
    pub fn between(start: u64, end: u64) -> Option<Self> {
        Self::new(start, end.checked_sub(start)?).ok()
    }

    /// The part of a process's addresses in the user's half, if there is any: with tables of five
    /// levels a process may have memory beyond.
    #[inline]
    pub fn of_process(addresses: &Range<usize>) -> Option<Self> {
        let end = (addresses.end as u64).min(USER_VA_END);
        Self::between(addresses.start as u64, end)
    }

    /// The addresses that are in both ranges, of the user's half.
    #[inline]
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::between(self.start.max(other.start), self.end.min(other.end))
    }

    /// The range from the start of the first to the end of the last, with any gap between them.
    /// Both are of the same half.
    #[inline]
    pub fn hull(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// The part of `size` bytes at `offset` from the start; an error when it is not inside or not a
    /// range.
    #[inline]
    pub const fn slice(self, offset: u64, size: u64) -> Result<Self, VaError> {
        let Some(start) = self.start.checked_add(offset) else {
            return Err(VaError::OutOfRange);
        };
        let part = if self.start < USER_VA_END {
            Self::new(start, size)
        } else {
            Self::upper(start, size)
        };
        match part {
            Ok(part) if self.covers(part) => Ok(part),
            Ok(_) => Err(VaError::OutOfRange),
            error => error,
        }
    }

    /// The indices of the entries that map the range, which is in one table of `level`.
    #[inline]
    pub const fn entries(self, level: TableLevel) -> Range<usize> {
        level.index(self.start)..level.index(self.end - 1) + 1
    }

    /// The part of the range, which is in one table of `level`, that entry `index` maps; `None` if
    /// it maps nothing of it.
    #[inline]
    pub fn in_entry(self, level: TableLevel, index: usize) -> Option<Self> {
        let first = level.table_base(self.start) + index as u64 * level.entry_span();
        let start = self.start.max(first);
        let end = self.end.min(first + level.entry_span());
        (start < end).then_some(Self { start, end })
    }

    /// The entries that map the range to the contiguous memory at `address`, largest pages first
    /// where they fit. `None` when `address` is not page aligned or the memory would pass bit 47.
    #[inline]
    pub const fn leaves(self, address: u64) -> Option<LeafWalk> {
        let fits = match address.checked_add(self.size()) {
            Some(end) => end <= 1 << 48,
            None => false,
        };
        if !fits || address % PAGE_SIZE != 0 {
            return None;
        }
        Some(LeafWalk {
            va: self.start,
            end: self.end,
            address,
        })
    }
}

/// `va` of the 48-bit space as an engine takes it: bit 47 repeated in the bits above.
#[inline]
pub const fn canonical(va: u64) -> u64 {
    ((va << 16) as i64 >> 16) as u64
}

/// A level of the page tables, named by the table that holds the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TableLevel {
    /// The root: 512 GiB an entry.
    Pdb2,
    /// 1 GiB an entry.
    Pdb1,
    /// 2 MiB an entry.
    Pdb0,
    /// 4 KiB an entry.
    Ptb,
}

impl TableLevel {
    /// Log2 of the bytes that one entry covers.
    #[inline]
    pub const fn shift(self) -> u32 {
        match self {
            Self::Pdb2 => 39,
            Self::Pdb1 => 30,
            Self::Pdb0 => LARGE_PAGE_SHIFT,
            Self::Ptb => PAGE_SHIFT,
        }
    }

    /// The bytes that one entry covers.
    #[inline]
    pub const fn entry_span(self) -> u64 {
        1 << self.shift()
    }

    /// The bytes that one table covers.
    #[inline]
    pub const fn table_span(self) -> u64 {
        self.entry_span() * TABLE_ENTRIES as u64
    }

    /// The index of `va`'s entry in its table.
    #[inline]
    pub const fn index(self, va: u64) -> usize {
        (va >> self.shift()) as usize % TABLE_ENTRIES
    }

    /// The first address that `va`'s table covers.
    #[inline]
    pub const fn table_base(self, va: u64) -> u64 {
        va & !(self.table_span() - 1)
    }

    /// The level below, where there is one.
    #[inline]
    pub const fn child(self) -> Option<Self> {
        match self {
            Self::Pdb2 => Some(Self::Pdb1),
            Self::Pdb1 => Some(Self::Pdb0),
            Self::Pdb0 => Some(Self::Ptb),
            Self::Ptb => None,
        }
    }
}

/// A run of equal entries within one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRun {
    /// `Pdb0` (2 MiB pages) or `Ptb` (4 KiB pages).
    pub level: TableLevel,
    /// The address that the first entry maps.
    pub va: u64,
    /// The memory that the first entry maps to; the following entries map the memory behind it.
    pub address: u64,
    /// The entries, all in one table.
    pub count: usize,
    /// The fragment value of all of them.
    pub fragment: PteFragment,
}

impl LeafRun {
    /// Returns each entry of the run as a run of its own.
    #[inline]
    pub fn each(&self) -> impl Iterator<Item = Self> {
        let (run, span) = (*self, self.level.entry_span());
        (0..run.count as u64).map(move |entry| Self {
            va: run.va + entry * span,
            address: run.address + entry * span,
            count: 1,
            ..run
        })
    }

    /// Returns the same memory in entries of the level below: for a 2 MiB page, all pages of a
    /// table. `None` for a run of several entries, or of 4 KiB pages.
    #[inline]
    pub fn split(&self) -> Option<Self> {
        if self.count != 1 {
            return None;
        }
        let level = self.level.child()?;
        // The next entry of the table above need not go on with these pages.
        let most = PteFragment::new(LARGE_PAGE_SHIFT - PAGE_SHIFT);
        Some(Self {
            level,
            count: TABLE_ENTRIES,
            fragment: self.fragment.min(most),
            ..*self
        })
    }
}

/// See [`VaRange::leaves`].
#[derive(Clone, Debug)]
pub struct LeafWalk {
    va: u64,
    end: u64,
    address: u64,
}

/// The level and the size, as log2 of bytes, of the largest aligned block at the start of a
/// mapping. A block never leaves its table.
#[inline]
const fn block(va: u64, address: u64, remaining: u64) -> (TableLevel, u32) {
    let aligned = (va | address).trailing_zeros();
    let fits = remaining.ilog2();
    let order = if aligned < fits { aligned } else { fits };
    let table = TableLevel::Pdb0.table_span().ilog2();
    if order >= LARGE_PAGE_SHIFT {
        (TableLevel::Pdb0, if order < table { order } else { table })
    } else {
        (TableLevel::Ptb, order)
    }
}

impl Iterator for LeafWalk {
    type Item = LeafRun;

    fn next(&mut self) -> Option<LeafRun> {
        if self.va >= self.end {
            return None;
        }
        let (level, order) = block(self.va, self.address, self.end - self.va);
        let table_end = level.table_base(self.va) + level.table_span();
        let end = table_end.min(self.end);
        let mut bytes = 1 << order;
        // Blocks of the same size that follow in the same table carry the same entry bits.
        while self.va + bytes < end
            && block(
                self.va + bytes,
                self.address + bytes,
                self.end - self.va - bytes,
            ) == (level, order)
        {
            bytes += 1 << order;
        }
        let leaf = LeafRun {
            level,
            va: self.va,
            address: self.address,
            count: (bytes >> level.shift()) as usize,
            fragment: PteFragment::new(order - PAGE_SHIFT),
        };
        self.va += bytes;
        self.address += bytes;
        Some(leaf)
    }
}
