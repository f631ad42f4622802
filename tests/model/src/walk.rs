// SPDX-License-Identifier: GPL-2.0
//! Page-table entries and the walk, in plain and in translate-further form.
//!
//! Levels count up from the page table: 0 PTB (4 KiB a entry), 1 PDB0 (2 MiB), 2 PDB1 (1 GiB),
//! 3 PDB2 (512 GiB).

use crate::memory::{Access, Phys, Space};

const VALID: u64 = 1 << 0;
const SYSTEM: u64 = 1 << 1;
const SNOOPED: u64 = 1 << 2;
const EXECUTABLE: u64 = 1 << 4;
const READABLE: u64 = 1 << 5;
const WRITEABLE: u64 = 1 << 6;
const PRT: u64 = 1 << 51;
const PDE_IS_PTE: u64 = 1 << 54;
const TRANSLATE_FURTHER: u64 = 1 << 56;
/// A leaf of a PTB that ends the retries of an access, where tables are in translate-further form
/// (amdgpu: AMDGPU_VM_NORETRY_FLAGS_TF).
const NO_RETRY: u64 = VALID | SYSTEM | PRT;
const PAGE_ADDRESS: u64 = 0x0000_ffff_ffff_f000;
const TABLE_ADDRESS: u64 = 0x0000_ffff_ffff_ffc0;
/// Block fragment size that goes with translate-further tables of 2 MiB entries.
const BLOCK_2M: u8 = 9;

/// log2 of the bytes of the smallest page.
pub const PAGE_SHIFT: u32 = 12;
/// log2 of the entries of a table.
const LEVEL_SHIFT: u32 = 9;

/// A 64-bit entry of any level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    const fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    const fn space(self) -> Space {
        if self.has(SYSTEM) {
            Space::System
        } else {
            Space::Vram
        }
    }

    /// The table that a directory entry (or a context's base register) points to.
    const fn table(self) -> Phys {
        Phys {
            space: self.space(),
            addr: self.0 & TABLE_ADDRESS,
        }
    }

    const fn fragment(self) -> u32 {
        (self.0 >> 7 & 0x1f) as u32
    }

    const fn block_fragment(self) -> u8 {
        (self.0 >> 59) as u8
    }

    const fn mtype(self) -> Mtype {
        match self.0 >> 57 & 3 {
            0 => Mtype::Nc,
            1 => Mtype::Rw,
            2 => Mtype::Cc,
            _ => Mtype::Uc,
        }
    }

    /// The reason why a leaf with these attributes makes caches incoherent. Nothing else in the
    /// model depends on them, as it has no caches. Source: amdgpu, gmc_v9_0_get_coherence_flags,
    /// for a GPU without an XGMI link to the CPU.
    fn incoherence(self, context: &Context) -> Option<&'static str> {
        let (first, end) = context.own_vram;
        let is_own = (first..end).contains(&(self.0 & PAGE_ADDRESS));
        match (self.space(), self.has(SNOOPED), self.mtype()) {
            (Space::Vram, false, _) if !is_own => {
                Some("VRAM of another GPU of the hive, and is not probed there")
            }
            (Space::Vram, _, Mtype::Rw | Mtype::Cc) if !is_own => {
                Some("VRAM of another GPU of the hive, of type RW or CC, which is for the own VRAM")
            }
            (Space::Vram, true, _) if !is_own => None,
            (Space::System, false, _) if !context.write_combined => {
                Some("host memory, and does not snoop the CPU's caches")
            }
            (Space::System, _, Mtype::Rw | Mtype::Cc) => {
                Some("host memory of type RW or CC, which is for the GPU's own VRAM")
            }
            (Space::Vram, true, _) if !context.vram_snoops => {
                Some("VRAM, and snoops the CPU's caches")
            }
            _ => None,
        }
    }
}

/// Memory type of a page: how the GPU's caches treat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mtype {
    /// Not coherent.
    Nc,
    /// Read-write cached.
    Rw,
    /// Cache coherent.
    Cc,
    /// Uncached.
    Uc,
}

/// Contents of a VM_CONTEXTn's registers.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// PAGE_TABLE_DEPTH: directory levels above the table of leaves.
    pub depth: u8,
    /// PAGE_TABLE_BLOCK_SIZE: 9 selects translate-further tables.
    pub block: u8,
    /// PAGE_TABLE_BASE_ADDR.
    pub root: Entry,
    /// First and last page (address >> 12).
    pub pages: (u64, u64),
    /// Leaves of host memory need not snoop, as the driver maps such memory write-combined: the
    /// CPU's caches have nothing of it.
    pub write_combined: bool,
    /// Leaves of a directory may begin at any page: the offset is added to the address. Sources:
    /// UMR and gem5's walker of Vega, both AMD's, add it. Without it, such a leaf is refused.
    pub unaligned_leaves: bool,
    /// Leaves in VRAM may snoop the CPU's caches: it says nothing about the GPU's own.
    pub vram_snoops: bool,
    /// The first physical address of the GPU's own VRAM, and the one behind the last.
    pub own_vram: (u64, u64),
}

/// A translation: `1 << log2` bytes from `base`, naturally aligned in the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Where the first byte is.
    pub base: Phys,
    /// log2 of the size, bytes.
    pub log2: u8,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Its memory type.
    pub mtype: Mtype,
}

impl Leaf {
    /// Returns whether the page allows that access.
    pub const fn allows(&self, access: Access) -> bool {
        (self.read || !access.reads())
            && (self.write || !access.writes())
            && (self.execute || !matches!(access, Access::Execute))
    }
}

/// The reason for a missing translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// The address is not canonical.
    Hole,
    /// Outside START..=END of the context.
    Range,
    /// The context's base register or a directory entry is not valid; the level that it points to.
    Directory(u8),
    /// The leaf is not valid.
    Invalid,
    /// Valid, but does not allow the access.
    Permission,
    /// The leaf forbids retries.
    NoRetry,
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A valid leaf.
    Leaf(Leaf),
    /// A partially resident leaf: reads give zero, writes go nowhere, no fault.
    Prt,
    /// A fault.
    Miss(Miss),
}

/// Errors of a walk apart from faults: undefined tables, or those of `E`.
#[derive(Debug, PartialEq, Eq)]
pub enum WalkError<E> {
    /// Description of the table's error.
    Nonsense(String),
    /// The entry could not be read.
    Read(E),
}

/// Remembers directory entries between walks, as the hub's PDE caches do.
pub trait DirectoryCache {
    /// The entry of `level` (1..=3) for the table that covers page `prefix << 9 * level`.
    fn get(&self, level: u8, prefix: u64) -> Option<Entry>;
    /// Keeps a valid entry.
    fn put(&mut self, level: u8, prefix: u64, entry: Entry);
}

impl Context {
    /// Walks to `va` (48 bits). `read` fetches an entry.
    pub fn walk<E>(
        &self,
        va: u64,
        cache: &mut impl DirectoryCache,
        mut read: impl FnMut(Phys) -> Result<u64, E>,
    ) -> Result<Outcome, WalkError<E>> {
        let further = match self.block {
            0 => false,
            BLOCK_2M if self.depth > 0 => true,
            block => {
                let text = format!("PAGE_TABLE_BLOCK_SIZE {block} with depth {}", self.depth);
                return Err(WalkError::Nonsense(text));
            }
        };
        let page = va >> PAGE_SHIFT;
        if page < self.pages.0 || page > self.pages.1 {
            return Ok(Outcome::Miss(Miss::Range));
        }
        let page = page - self.pages.0;
        let top = self.depth + u8::from(further);
        if !self.root.has(VALID) {
            return Ok(Outcome::Miss(Miss::Directory(top)));
        }
        let mut level = top;
        let mut entry = self.root;
        for cached in 1..=top {
            if let Some(known) = cache.get(cached, prefix(page, cached)) {
                (level, entry) = (cached - 1, known);
                break;
            }
        }
        loop {
            let mut index = prefix(page, level);
            if level < top {
                index &= (1 << LEVEL_SHIFT) - 1;
            }
            entry = Entry(read(entry.table().plus(index * 8)).map_err(WalkError::Read)?);
            let leaf = level == 0
                || entry.has(PDE_IS_PTE)
                || further && level == 1 && !entry.has(TRANSLATE_FURTHER);
            if leaf {
                return leaf_of(self, entry, level, va).map_err(WalkError::Nonsense);
            }
            if !entry.has(VALID) {
                return Ok(Outcome::Miss(Miss::Directory(level - 1)));
            }
            if further && level == 2 && entry.block_fragment() != BLOCK_2M {
                return Err(WalkError::Nonsense(format!(
                    "PDB1 entry {:#018x} has block fragment size {}, translate-further needs 9",
                    entry.0,
                    entry.block_fragment()
                )));
            }
            cache.put(level, prefix(page, level), entry);
            level -= 1;
        }
    }
}

/// Number of the entry of `level` that covers `page`, counted from the start of the address space.
fn prefix(page: u64, level: u8) -> u64 {
    page >> (LEVEL_SHIFT * u32::from(level))
}

fn leaf_of(context: &Context, entry: Entry, level: u8, va: u64) -> Result<Outcome, String> {
    if !entry.has(VALID) {
        return Ok(if entry.has(PRT) {
            Outcome::Prt
        } else {
            Outcome::Miss(Miss::Invalid)
        });
    }
    if entry.has(PRT) {
        if level == 0 && entry.0 == NO_RETRY {
            return Ok(Outcome::Miss(Miss::NoRetry));
        }
        return Err(format!(
            "leaf {:#018x} is valid and PRT, \
             which in a PTB stands for no retry if it is nothing else",
            entry.0
        ));
    }
    if let Some(reason) = entry.incoherence(context) {
        return Err(format!("leaf {:#018x} is of {reason}", entry.0));
    }
    let span = PAGE_SHIFT + LEVEL_SHIFT * u32::from(level);
    let address = entry.0 & PAGE_ADDRESS;
    let low = |log2: u32| (1u64 << log2) - 1;
    if level > 2 || address & low(span) != 0 && !context.unaligned_leaves {
        return Err(format!(
            "leaf {:#018x} of {:#x} bytes is not aligned to its size, or too large",
            entry.0,
            1u64 << span
        ));
    }
    // A fragment never reaches past the table that its entry is in.
    let log2 = (PAGE_SHIFT + entry.fragment()).min(span + LEVEL_SHIFT);
    let here = address + (va & low(span));
    let Some(base) = here.checked_sub(va & low(log2)) else {
        return Err(format!(
            "fragment {} of entry {:#018x} would begin below address 0",
            entry.fragment(),
            entry.0
        ));
    };
    // `here` is exact to the byte, and so is the subtrahend.
    Ok(Outcome::Leaf(Leaf {
        base: Phys {
            space: entry.space(),
            addr: base,
        },
        log2: log2 as u8,
        read: entry.has(READABLE),
        write: entry.has(WRITEABLE),
        execute: entry.has(EXECUTABLE),
        mtype: entry.mtype(),
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct NoCache;

    impl DirectoryCache for NoCache {
        fn get(&self, _: u8, _: u64) -> Option<Entry> {
            None
        }
        fn put(&mut self, _: u8, _: u64, _: Entry) {}
    }

    type Tables = HashMap<u64, u64>;
    const RW: u64 = VALID | READABLE | WRITEABLE;

    fn walk(context: &Context, tables: &Tables, va: u64) -> Result<Outcome, WalkError<()>> {
        context.walk(va, &mut NoCache, |phys| {
            Ok(tables.get(&phys.addr).copied().unwrap_or(0))
        })
    }

    fn leaf(space: Space, addr: u64, log2: u8) -> Outcome {
        Outcome::Leaf(Leaf {
            base: Phys { space, addr },
            log2,
            read: true,
            write: true,
            execute: false,
            mtype: Mtype::Nc,
        })
    }

    fn context(depth: u8, block: u8) -> Context {
        Context {
            depth,
            block,
            root: Entry(0x10_0000 | VALID),
            pages: (0, (1 << 36) - 1),
            write_combined: false,
            unaligned_leaves: false,
            vram_snoops: false,
            own_vram: (0, u64::MAX),
        }
    }

    // va: PDB2 index 1, PDB1 index 2, PDB0 index 3, PTB index 4.
    const VA: u64 = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12;

    fn tables(pdb1_flags: u64, pdb0: u64) -> Tables {
        Tables::from([
            (0x10_0008, 0x20_0000 | VALID),
            (0x20_0010, 0x30_0000 | VALID | pdb1_flags),
            (0x30_0018, pdb0),
            (0x40_0020, 0x123_4000 | RW | SYSTEM | SNOOPED),
        ])
    }

    #[test]
    fn plain() {
        let four = tables(0, 0x40_0000 | VALID);
        assert_eq!(
            walk(&context(3, 0), &four, VA + 5),
            Ok(leaf(Space::System, 0x123_4000, 12))
        );
        let two = tables(0, 0x4000_0000 | RW | PDE_IS_PTE | 9 << 7);
        assert_eq!(
            walk(&context(3, 0), &two, VA),
            Ok(leaf(Space::Vram, 0x4000_0000, 21))
        );
        assert_eq!(
            walk(&context(3, 0), &four, VA + 0x1000),
            Ok(Outcome::Miss(Miss::Invalid))
        );
        assert_eq!(
            walk(&context(3, 0), &four, VA + (1 << 21)),
            Ok(Outcome::Miss(Miss::Directory(0)))
        );
        assert_eq!(
            walk(&context(3, 0), &four, 0),
            Ok(Outcome::Miss(Miss::Directory(2)))
        );
    }

    #[test]
    fn translate_further() {
        let bfs = 9 << 59;
        let context = context(2, 9);
        let two = tables(bfs, 0x4000_0000 | RW | 9 << 7);
        assert_eq!(
            walk(&context, &two, VA),
            Ok(leaf(Space::Vram, 0x4000_0000, 21))
        );
        let four = tables(bfs, 0x40_0000 | VALID | TRANSLATE_FURTHER);
        assert_eq!(
            walk(&context, &four, VA),
            Ok(leaf(Space::System, 0x123_4000, 12))
        );
        // Without the block fragment size the entries of PDB0 mean something else.
        assert!(matches!(
            walk(&context, &tables(0, 0), VA),
            Err(WalkError::Nonsense(_))
        ));
        // An invalid 2 MiB leaf.
        assert_eq!(
            walk(&context, &tables(bfs, 0x1010), VA),
            Ok(Outcome::Miss(Miss::Invalid))
        );
        // 1 GiB leaf in PDB1.
        let mut one = tables(bfs, 0);
        one.insert(0x20_0010, 0xc000_0000 | RW | PDE_IS_PTE | 18 << 7);
        assert_eq!(
            walk(&context, &one, VA),
            Ok(leaf(Space::Vram, 0xc000_0000, 30))
        );
    }

    #[test]
    fn fragments() {
        let bfs = 9 << 59;
        let mut tables = tables(bfs, 0x40_0000 | VALID | TRANSLATE_FURTHER);
        // 64 KiB fragment; page 4 of it, so the fragment begins four pages below.
        tables.insert(0x40_0020, 0x123_4000 | RW | 4 << 7);
        assert_eq!(
            walk(&context(2, 9), &tables, VA),
            Ok(leaf(Space::Vram, 0x123_0000, 16))
        );
        // A fragment is cut at the end of its table.
        tables.insert(0x40_0020, 0x123_4000 | RW | 20 << 7);
        assert_eq!(
            walk(&context(2, 9), &tables, VA),
            Ok(leaf(Space::Vram, 0x123_0000, 21))
        );
    }

    #[test]
    fn flat_table_starts_at_start() {
        let context = Context {
            depth: 0,
            block: 0,
            root: Entry(0x10_0000 | VALID),
            pages: (0x100, 0x1ff),
            write_combined: false,
            unaligned_leaves: false,
            vram_snoops: false,
            own_vram: (0, u64::MAX),
        };
        let tables = Tables::from([(0x10_0018, 0x5000 | RW | SYSTEM | SNOOPED)]);
        assert_eq!(
            walk(&context, &tables, 0x10_3000),
            Ok(leaf(Space::System, 0x5000, 12))
        );
        assert_eq!(
            walk(&context, &tables, 0x3000),
            Ok(Outcome::Miss(Miss::Range))
        );
        assert_eq!(
            walk(&context, &tables, 0x20_0000),
            Ok(Outcome::Miss(Miss::Range))
        );
    }

    #[test]
    fn attributes_that_make_caches_incoherent() {
        const MTYPES: [Mtype; 4] = [Mtype::Nc, Mtype::Rw, Mtype::Cc, Mtype::Uc];
        for (n, mtype) in (0..).zip(MTYPES) {
            for (flags, is_known) in [
                (0, true),
                (SNOOPED, false),
                (SYSTEM, false),
                (SYSTEM | SNOOPED, matches!(mtype, Mtype::Nc | Mtype::Uc)),
            ] {
                let entry = 0x123_4000 | RW | flags | n << 57;
                let mut tables = tables(0, 0x40_0000 | VALID);
                tables.insert(0x40_0020, entry);
                match walk(&context(3, 0), &tables, VA) {
                    Ok(Outcome::Leaf(leaf)) if is_known => assert_eq!(leaf.mtype, mtype),
                    Err(WalkError::Nonsense(_)) if !is_known => {}
                    other => panic!("{entry:#x}: {other:?}"),
                }
                // Unless the CPU's caches have nothing of it.
                let combined = Context {
                    write_combined: true,
                    ..context(3, 0)
                };
                let is_known =
                    is_known || flags == SYSTEM && matches!(mtype, Mtype::Nc | Mtype::Uc);
                assert_eq!(walk(&combined, &tables, VA).is_ok(), is_known);
                // Or the GPU's own do not care.
                let snooping = Context {
                    vram_snoops: true,
                    ..context(3, 0)
                };
                let is_known = if flags == SNOOPED {
                    true
                } else {
                    walk(&context(3, 0), &tables, VA).is_ok()
                };
                assert_eq!(walk(&snooping, &tables, VA).is_ok(), is_known);
                // What is not valid may say what it likes.
                tables.insert(0x40_0020, entry & !VALID);
                let missing = Outcome::Miss(Miss::Invalid);
                assert_eq!(walk(&context(3, 0), &tables, VA), Ok(missing));
            }
        }
    }

    #[test]
    fn unaligned_large_leaf_is_nonsense() {
        let two = tables(0, 0x4000_1000 | RW | PDE_IS_PTE);
        assert!(matches!(
            walk(&context(3, 0), &two, VA),
            Err(WalkError::Nonsense(_))
        ));
    }

    #[test]
    fn unaligned_large_leaf_adds_the_offset() {
        let mut two = tables(9 << 59, 0x4000_1000 | RW | 9 << 7);
        let context = Context {
            unaligned_leaves: true,
            ..context(2, 9)
        };
        for offset in [0, 0x1000, 0x1f_b008] {
            assert_eq!(
                walk(&context, &two, VA + offset),
                Ok(leaf(Space::Vram, 0x4000_1000, 21))
            );
        }
        // A fragment of several leaves begins where the first of them does.
        two.insert(0x30_0018, 0x4020_1000 | RW | 10 << 7);
        assert_eq!(
            walk(&context, &two, VA),
            Ok(leaf(Space::Vram, 0x4000_1000, 22))
        );
    }

    #[test]
    fn prt_leaf() {
        let mut prt = tables(0, 0x40_0000 | VALID);
        prt.insert(0x40_0020, PRT | SYSTEM);
        assert_eq!(walk(&context(3, 0), &prt, VA), Ok(Outcome::Prt));
    }

    #[test]
    fn no_retry_leaf() {
        let further = context(2, 9);
        let mut tables = tables(9 << 59, 0x40_0000 | VALID | TRANSLATE_FURTHER);
        tables.insert(0x40_0020, VALID | SYSTEM | PRT);
        assert_eq!(
            walk(&further, &tables, VA),
            Ok(Outcome::Miss(Miss::NoRetry))
        );
        // With an address it is neither that nor anything else, and of 2 MiB it would map
        // something.
        tables.insert(0x40_0020, 0x5000 | VALID | SYSTEM | PRT);
        assert!(walk(&further, &tables, VA).is_err());
        tables.insert(0x30_0018, VALID | SYSTEM | PRT);
        assert!(walk(&further, &tables, VA).is_err());
    }
}
