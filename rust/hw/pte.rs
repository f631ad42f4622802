// SPDX-License-Identifier: GPL-2.0
//! GPUVM page-table entries of gfx9, in the translate-further form of gfx 9.4.2 and 9.4.3. Memory
//! types differ from chip to chip: [`PteFormat`].
//!
//! Four levels of 512 entries. In this form an entry of PDB1 that points to a PDB0 carries block
//! fragment size 9; an entry of PDB0 is a 2 MiB leaf unless its TF bit says that it points to a PTB
//! of 4 KiB pages.

use crate::bits::{hi, lo, Field64};
use crate::va::{LeafRun, TableLevel, LARGE_PAGE_FRAGMENT};

const VALID: Field64 = Field64::bit(0);
const SYSTEM: Field64 = Field64::bit(1);
const SNOOPED: Field64 = Field64::bit(2);
const EXECUTABLE: Field64 = Field64::bit(4);
const READABLE: Field64 = Field64::bit(5);
const WRITEABLE: Field64 = Field64::bit(6);
const FRAGMENT: Field64 = Field64::new(11, 7);
const PAGE: Field64 = Field64::new(47, 12);
const TABLE: Field64 = Field64::new(47, 6);
const PRT: Field64 = Field64::bit(51);
const P: Field64 = Field64::bit(54);
const TF: Field64 = Field64::bit(56);
const MTYPE: Field64 = Field64::new(58, 57);
const BFS: Field64 = Field64::new(63, 59);

/// `PAGE_TABLE_DEPTH` of `VM_CONTEXTn_CNTL` for user contexts: levels above the block that BFS
/// folds.
pub const CONTEXT_DEPTH: u32 = 2;

/// `PAGE_TABLE_BLOCK_SIZE` of `VM_CONTEXTn_CNTL` for user contexts: log2 of the 4 KiB pages in a 2
/// MiB block.
pub const CONTEXT_BLOCK_SIZE: u32 = 9;

/// Memory type of a mapping: how the GPU's caches treat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mtype {
    /// Not coherent: cached, written back at the end of a kernel.
    #[default]
    Nc = 0,
    /// Read-write cached in L2: memory that only this GPU reaches.
    Rw = 1,
    /// Cache coherent with other clients.
    Cc = 2,
    /// Uncached.
    Uc = 3,
}

/// Where the memory behind a mapping is, seen from the GPU that maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryResidence {
    /// This GPU's own VRAM.
    LocalVram,
    /// VRAM of another GPU of the hive, reached by XGMI.
    Hive,
    /// Host memory, reached by DMA address.
    Host,
}

/// What the owner of a buffer asked of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coherence {
    /// Writes become visible to others without a flush at kernel end.
    pub coherent: bool,
    /// The same for atomic operations of the whole system (EXT_COHERENT); wins over `coherent`.
    pub extended: bool,
    /// Never cached; wins over both.
    pub uncached: bool,
}

/// How a chip's caches treat memory of one residence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PteRule {
    /// Memory type of a buffer without any wish.
    pub plain: Mtype,
    /// Memory type of a coherent buffer.
    pub coherent: Mtype,
    /// Memory type of one that is so for atomic operations of the whole system, too.
    pub extended: Mtype,
    /// Memory type of a buffer that is never cached.
    pub uncached: Mtype,
    /// Accesses snoop the CPU's caches.
    pub snooped: bool,
}

/// Attributes of a chip's page-table entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PteFormat {
    /// The GPU's own VRAM.
    pub local_vram: PteRule,
    /// VRAM of another GPU of the hive, whose L2 is not written to beside it.
    pub hive: PteRule,
    /// Host memory.
    pub host: PteRule,
}

impl PteFormat {
    const fn rule(&self, residence: MemoryResidence) -> &PteRule {
        match residence {
            MemoryResidence::LocalVram => &self.local_vram,
            MemoryResidence::Hive => &self.hive,
            MemoryResidence::Host => &self.host,
        }
    }

    /// The memory type of `residence` under `coherence`.
    #[inline]
    pub const fn mtype(&self, residence: MemoryResidence, coherence: Coherence) -> Mtype {
        let rule = self.rule(residence);
        match coherence {
            Coherence { uncached: true, .. } => rule.uncached,
            Coherence { extended: true, .. } => rule.extended,
            Coherence { coherent: true, .. } => rule.coherent,
            _ => rule.plain,
        }
    }

    /// The attributes of a mapping of memory of `residence`.
    #[inline]
    pub const fn flags(
        &self,
        residence: MemoryResidence,
        access: PageAccess,
        coherence: Coherence,
    ) -> PteFlags {
        PteFlags {
            readable: access.read,
            writeable: access.write,
            executable: access.execute,
            snooped: self.rule(residence).snooped,
            system: matches!(residence, MemoryResidence::Host),
            mtype: self.mtype(residence, coherence),
        }
    }
}

/// What an accessor may do to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageAccess {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetch.
    pub execute: bool,
}

impl PageAccess {
    /// Loads and stores.
    pub const READ_WRITE: Self = Self {
        read: true,
        write: true,
        execute: false,
    };

    /// Loads only.
    pub const READ: Self = Self {
        read: true,
        write: false,
        execute: false,
    };

    /// The same with instruction fetch.
    #[inline]
    pub const fn executable(self) -> Self {
        Self {
            execute: true,
            ..self
        }
    }
}

/// The attributes of a leaf entry, apart from its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PteFlags {
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed.
    pub writeable: bool,
    /// Instruction fetch is allowed.
    pub executable: bool,
    /// Accesses snoop the caches of the memory's owner. gfx 9.4.2 does so for `system`, and in
    /// the VRAM of others.
    pub snooped: bool,
    /// The address is a DMA address of host memory; otherwise an address of VRAM.
    pub system: bool,
    /// The memory type.
    pub mtype: Mtype,
}

impl PteFlags {
    /// The attributes of GART entries: host memory, uncached, snooped, everything allowed.
    pub const GART: Self = Self {
        readable: true,
        writeable: true,
        executable: true,
        snooped: true,
        system: true,
        mtype: Mtype::Uc,
    };

    /// The flag bits of an entry; VALID is not among them.
    #[inline]
    pub const fn bits(self) -> u64 {
        READABLE.flag(self.readable)
            | WRITEABLE.flag(self.writeable)
            | EXECUTABLE.flag(self.executable)
            | SNOOPED.flag(self.snooped)
            | SYSTEM.flag(self.system)
            | MTYPE.put(self.mtype as u64)
    }
}

/// Log2 of the number of 4 KiB pages that are contiguous, aligned, and mapped with equal flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PteFragment(u8);

impl PteFragment {
    /// One 4 KiB page.
    pub const PAGE: Self = Self(0);

    /// The fragment of `1 << order` pages; orders above the field's 31 are cut to it.
    #[inline]
    pub const fn new(order: u32) -> Self {
        Self(if order > 31 { 31 } else { order as u8 })
    }
}

/// An entry of a PTB: one 4 KiB page. Also the entry of the flat GART table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Pte(u64);

impl Pte {
    /// An entry that maps nothing. gfx9 reports the access as an invalid page rather than as a
    /// permission fault because EXECUTABLE is set without VALID.
    pub const INVALID: Self = Self(EXECUTABLE.in_place());

    /// An entry that ends a retried access: the access faults, and is not tried again (amdgpu:
    /// AMDGPU_VM_NORETRY_FLAGS_TF). Only for a PTB, and only in translate-further form.
    pub const NO_RETRY: Self = Self(VALID.in_place() | SYSTEM.in_place() | PRT.in_place());

    /// The entry that maps the page at `address`: a VRAM offset, or a DMA address with
    /// `flags.system`. Bits outside 47:12 are dropped.
    #[inline]
    pub const fn page(address: u64, flags: PteFlags, fragment: PteFragment) -> Self {
        Self(leaf_bits(address, flags, fragment))
    }

    /// The GART entry for the host page at DMA address `address`.
    #[inline]
    pub const fn gart(address: u64, mtype: Mtype) -> Self {
        let flags = PteFlags {
            mtype,
            ..PteFlags::GART
        };
        Self::page(address, flags, PteFragment::PAGE)
    }

    /// The value that goes into the table.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// An entry of a page directory (PDB2, PDB1 or PDB0): a pointer to the next table, or a 2 MiB leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Pde(u64);

impl Pde {
    /// An entry of PDB2 or PDB1 that maps nothing: a leaf that is not valid.
    pub const EMPTY: Self = Self(P.in_place());

    /// An entry of PDB0 that maps nothing. It is a leaf because TF is clear; the fault is an
    /// invalid page because address bit 12 is set.
    const EMPTY_LEAF: Self = Self(PAGE.put(1));

    /// The entry with which a new table of `level` is filled (PTBs too, as raw entries).
    #[inline]
    pub const fn invalid(level: TableLevel) -> u64 {
        match level {
            TableLevel::Pdb2 | TableLevel::Pdb1 => Self::EMPTY.0,
            TableLevel::Pdb0 => Self::EMPTY_LEAF.0,
            TableLevel::Ptb => Pte::INVALID.0,
        }
    }

    /// The entry in a directory of `level` that points to the next table at VRAM offset `table`.
    /// Bits of `table` outside 47:6 are dropped. A PTB has no such entry: `None`.
    #[inline]
    pub const fn table(level: TableLevel, table: u64) -> Option<Self> {
        let kind = match level {
            TableLevel::Pdb2 => 0,
            TableLevel::Pdb1 => BFS.put(LARGE_PAGE_FRAGMENT as u64),
            TableLevel::Pdb0 => TF.in_place(),
            TableLevel::Ptb => return None,
        };
        Some(Self(table & TABLE.in_place() | VALID.in_place() | kind))
    }

    /// The value that goes into the table.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl LeafRun {
    /// The first entry of the run.
    #[inline]
    pub const fn entry(&self, flags: PteFlags) -> u64 {
        leaf_bits(self.address, flags, self.fragment)
    }

    /// The entries of the run, in their order.
    #[inline]
    pub fn entries(&self, flags: PteFlags) -> impl ExactSizeIterator<Item = u64> {
        let first = self.entry(flags);
        let step = self.level.entry_span();
        // `VaRange::leaves` has checked that the addresses stay in their field, so adding is
        // enough.
        (0..self.count as u32).map(move |entry| first + u64::from(entry) * step)
    }
}

#[inline]
const fn leaf_bits(address: u64, flags: PteFlags, fragment: PteFragment) -> u64 {
    address & PAGE.in_place() | flags.bits() | FRAGMENT.put(fragment.0 as u64) | VALID.in_place()
}

/// Value of `VM_CONTEXTn_PAGE_TABLE_BASE_ADDR_LO/HI32` (and of MAP_PROCESS's page table base): the
/// root directory's VRAM offset with VALID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBase(u64);

impl ContextBase {
    /// No table: every access of the VMID faults.
    pub const NONE: Self = Self(0);

    /// The value for a root table (a PDB2; for context 0 the GART table) at VRAM offset `root`.
    #[inline]
    pub const fn new(root: u64) -> Self {
        Self(root & TABLE.in_place() | VALID.in_place())
    }

    /// The 64-bit value.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The value of the LO32 register.
    #[inline]
    pub const fn lo(self) -> u32 {
        lo(self.0)
    }

    /// The value of the HI32 register.
    #[inline]
    pub const fn hi(self) -> u32 {
        hi(self.0)
    }
}
