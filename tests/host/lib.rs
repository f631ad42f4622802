// SPDX-License-Identifier: GPL-2.0
//! Tests of the pure crate `hw` on the host: see `tests/`. Here are readers of values that the
//! driver only writes, so that a test does not read them by the code that it tests; an explorer of
//! state machines; and a part that two of its models share.

pub mod doorbell_page;
pub mod explore;

/// Page-table entries, bit by bit as the specification has them.
pub mod entry {
    use hw::pte::{Mtype, PteFlags};
    use hw::va::TableLevel;

    fn bit(raw: u64, bit: u32) -> bool {
        raw >> bit & 1 != 0
    }

    /// Whether the entry maps a page or points to a table.
    pub fn is_valid(raw: u64) -> bool {
        bit(raw, 0)
    }

    /// Whether the entry of a directory of `level` is a leaf, be it valid or not: P is bit 54, TF
    /// 56.
    pub fn is_leaf(raw: u64, level: TableLevel) -> bool {
        match level {
            TableLevel::Pdb2 => false,
            TableLevel::Pdb1 => bit(raw, 54),
            TableLevel::Pdb0 => bit(raw, 54) || !bit(raw, 56),
            TableLevel::Ptb => true,
        }
    }

    /// The address of the page.
    pub fn address(raw: u64) -> u64 {
        raw & 0x0000_ffff_ffff_f000
    }

    /// Log2 of the pages of the fragment.
    pub fn order(raw: u64) -> u32 {
        (raw >> 7 & 31) as u32
    }

    /// The attributes.
    pub fn flags(raw: u64) -> PteFlags {
        PteFlags {
            system: bit(raw, 1),
            snooped: bit(raw, 2),
            executable: bit(raw, 4),
            readable: bit(raw, 5),
            writeable: bit(raw, 6),
            mtype: [Mtype::Nc, Mtype::Rw, Mtype::Cc, Mtype::Uc][(raw >> 57 & 3) as usize],
        }
    }
}

/// Log2 of the pages of `fragment`.
pub fn order(fragment: hw::pte::PteFragment) -> u32 {
    entry::order(hw::pte::Pte::page(0, Default::default(), fragment).raw())
}

/// The bytes that `leaf` maps.
pub fn leaf_bytes(leaf: &hw::va::LeafRun) -> u64 {
    leaf.count as u64 * leaf.level.entry_span()
}

/// The places of `split` in the ring.
pub fn places(split: &hw::sdma::ring::RingSplit) -> impl Iterator<Item = usize> {
    let all = [split.first, split.second];
    all.into_iter()
        .flat_map(|run| run.start..run.start + run.dwords)
}
