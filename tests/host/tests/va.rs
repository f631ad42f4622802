// SPDX-License-Identifier: GPL-2.0
//! Ranges of GPU addresses, and the split of a mapping into table entries.

use hw::pte::{Coherence, MemoryResidence, PageAccess};
use hw::va::{
    LeafRun, TableLevel, VaError, VaRange, LARGE_PAGE_SIZE, PAGE_SIZE, TABLE_ENTRIES, USER_VA_END,
};
use proptest::prelude::*;
use rkfd_host_tests::{entry, leaf_bytes, order};

/// A page-aligned start and size below bit 47, biased to be near 2 MiB and 1 GiB boundaries.
fn ranges() -> impl Strategy<Value = VaRange> {
    let anchor = prop_oneof![
        (0u64..1 << 26).prop_map(|large| large * LARGE_PAGE_SIZE),
        (0u64..1 << 17).prop_map(|giga| giga << 30),
        (0u64..1 << 35).prop_map(|page| page * PAGE_SIZE),
    ];
    let size = prop_oneof![
        1u64..8,
        500u64..1030,
        1u64..600_000,
        (1u64..1200).prop_map(|m| m * 512)
    ];
    (anchor, -3i64..4, size).prop_filter_map("inside", |(anchor, shift, pages)| {
        let start = anchor.checked_add_signed(shift * PAGE_SIZE as i64)?;
        VaRange::new(start, pages * PAGE_SIZE).ok()
    })
}

/// Physical addresses that share 2 MiB alignment with `va`, or a smaller one, or none.
fn physical(va: u64) -> impl Strategy<Value = u64> {
    let base = (0u64..1 << 25).prop_map(|large| large * LARGE_PAGE_SIZE);
    (base, prop_oneof![Just(0u64), Just(1), Just(16), 0u64..512])
        .prop_map(move |(base, pages)| base + va % LARGE_PAGE_SIZE + pages * PAGE_SIZE)
}

fn mappings() -> impl Strategy<Value = (VaRange, u64)> {
    ranges().prop_flat_map(|range| (Just(range), physical(range.start())))
}

/// The fragment that the first page of a block of the mapping must have, found by trying all
/// orders.
fn naive_fragment(va: u64, address: u64, remaining: u64, most: u32) -> u32 {
    (0..=most)
        .rev()
        .find(|order| {
            let bytes = PAGE_SIZE << order;
            va % bytes == 0 && address % bytes == 0 && remaining >= bytes
        })
        .expect("one page always fits")
}

proptest! {
    #[test]
    fn leaves_cover_the_mapping_once_and_in_order((range, address) in mappings()) {
        let mut va = range.start();
        for leaf in range.leaves(address).unwrap() {
            prop_assert_eq!(leaf.va, va);
            prop_assert_eq!(leaf.address, address + (va - range.start()));
            prop_assert!(leaf.count > 0);
            va += leaf_bytes(&leaf);
        }
        prop_assert_eq!(va, range.end());
    }

    #[test]
    fn a_run_stays_in_its_table((range, address) in mappings()) {
        for leaf in range.leaves(address).unwrap() {
            prop_assert!(leaf.level.index(leaf.va) + leaf.count <= TABLE_ENTRIES);
        }
    }

    #[test]
    fn a_large_page_splits_into_the_pages_of_a_table((range, address) in mappings()) {
        for leaf in range.leaves(address).unwrap() {
            let entries: Vec<LeafRun> = leaf.each().collect();
            prop_assert_eq!(entries.len(), leaf.count);
            prop_assert!(leaf.count == 1 || leaf.split().is_none());
            let mut va = leaf.va;
            for one in entries {
                prop_assert_eq!((one.va, one.count, one.level), (va, 1, leaf.level));
                prop_assert_eq!(one.address - leaf.address, va - leaf.va);
                prop_assert_eq!(one.fragment, leaf.fragment);
                let Some(pages) = one.split() else {
                    prop_assert_eq!(leaf.level, TableLevel::Ptb);
                    va += PAGE_SIZE;
                    continue;
                };
                prop_assert_eq!((pages.va, pages.address), (va, one.address));
                prop_assert_eq!((pages.level, pages.count), (TableLevel::Ptb, TABLE_ENTRIES));
                prop_assert_eq!(order(pages.fragment), order(leaf.fragment).min(9));
                va += LARGE_PAGE_SIZE;
            }
            prop_assert_eq!(va, leaf.va + leaf_bytes(&leaf));
        }
    }

    #[test]
    fn large_pages_are_used_exactly_where_they_fit((range, address) in mappings()) {
        let mut large = 0;
        for leaf in range.leaves(address).unwrap() {
            match leaf.level {
                TableLevel::Pdb0 => {
                    prop_assert_eq!(leaf.va % LARGE_PAGE_SIZE, 0);
                    prop_assert_eq!(leaf.address % LARGE_PAGE_SIZE, 0);
                    large += leaf.count as u64;
                }
                TableLevel::Ptb => prop_assert!(order(leaf.fragment) < 9),
                other => prop_assert!(false, "leaf in {:?}", other),
            }
        }
        let first = range.start().next_multiple_of(LARGE_PAGE_SIZE);
        let fits = if range.start() % LARGE_PAGE_SIZE == address % LARGE_PAGE_SIZE {
            (range.end().max(first) - first) / LARGE_PAGE_SIZE
        } else {
            0
        };
        prop_assert_eq!(large, fits);
    }

    #[test]
    fn every_fragment_is_the_largest_that_is_true((range, address) in mappings()) {
        for leaf in range.leaves(address).unwrap() {
            let most = if leaf.level == TableLevel::Pdb0 { 18 } else { 8 };
            let bytes = PAGE_SIZE << order(leaf.fragment);
            prop_assert_eq!(leaf_bytes(&leaf) % bytes, 0);
            for block in 0..leaf_bytes(&leaf) / bytes {
                let offset = block * bytes;
                let most = naive_fragment(
                    leaf.va + offset,
                    leaf.address + offset,
                    range.end() - leaf.va - offset,
                    most,
                );
                prop_assert_eq!(most, order(leaf.fragment));
            }
        }
    }

    #[test]
    fn entries_of_a_run_map_its_pages((range, address) in mappings()) {
        let flags = hw::asic::gfx90a::MI210.pte.flags(
            MemoryResidence::LocalVram,
            PageAccess::READ_WRITE,
            Coherence::default(),
        );
        for leaf in range.leaves(address).unwrap() {
            let entries: Vec<u64> = leaf.entries(flags).collect();
            prop_assert_eq!(entries.len(), leaf.count);
            for (index, &raw) in entries.iter().enumerate() {
                prop_assert!(entry::is_valid(raw));
                prop_assert_eq!(entry::flags(raw), flags);
                prop_assert_eq!(entry::order(raw), order(leaf.fragment));
                let offset = index as u64 * leaf.level.entry_span();
                prop_assert_eq!(entry::address(raw), leaf.address + offset);
                prop_assert!(entry::is_leaf(raw, leaf.level));
            }
        }
    }

    #[test]
    fn entries_cut_a_range_at_their_boundaries(range in ranges(), level in 0usize..4) {
        let level = [TableLevel::Pdb2, TableLevel::Pdb1, TableLevel::Pdb0, TableLevel::Ptb][level];
        let end = range.end().min(level.table_base(range.start()) + level.table_span());
        // What of it is in the first table.
        let range = range.slice(0, end - range.start()).unwrap();
        let entries = range.entries(level);
        prop_assert!(entries.end <= TABLE_ENTRIES);
        let entry = |address: u64| address / level.entry_span();
        let mut va = range.start();
        for index in 0..TABLE_ENTRIES {
            let part = range.in_entry(level, index);
            prop_assert_eq!(part.is_some(), entries.contains(&index));
            if let Some(part) = part {
                prop_assert_eq!((part.start(), level.index(va)), (va, index));
                prop_assert_eq!(entry(part.end() - 1), entry(va));
                va = part.end();
            }
        }
        prop_assert_eq!(va, range.end());
    }

    #[test]
    fn a_range_is_what_its_numbers_allow(start: u64, size: u64, aligned: bool) {
        let mask = if aligned { !(PAGE_SIZE - 1) } else { u64::MAX };
        let (start, size) = (start & mask, size & mask);
        let end = u128::from(start) + u128::from(size);
        let expected = if size == 0 {
            Err(VaError::Empty)
        } else if start % PAGE_SIZE != 0 || size % PAGE_SIZE != 0 {
            Err(VaError::Unaligned)
        } else if end > u128::from(USER_VA_END) {
            Err(VaError::OutOfRange)
        } else {
            Ok((start, end as u64))
        };
        prop_assert_eq!(VaRange::new(start, size).map(|r| (r.start(), r.end())), expected);
    }

    #[test]
    fn slices_stay_inside(range in ranges(), offset: u64, size: u64) {
        let (offset, size) = (offset % (2 * range.size()), size % (2 * range.size()));
        let (offset, size) = (offset & !(PAGE_SIZE - 1), size & !(PAGE_SIZE - 1));
        match range.slice(offset, size) {
            Ok(part) => {
                prop_assert!(range.covers(part));
                prop_assert!(range.overlaps(part));
                prop_assert_eq!((part.start(), part.size()), (range.start() + offset, size));
            }
            Err(_) => prop_assert!(size == 0 || offset + size > range.size()),
        }
    }

    #[test]
    fn overlap_is_sharing_a_page(a in ranges(), b in ranges(), near in -3i64..4) {
        // Two random ranges hardly ever touch: bring the second near an end of the first.
        let b = a.end().checked_add_signed(near * PAGE_SIZE as i64)
            .and_then(|start| VaRange::new(start, b.size()).ok())
            .unwrap_or(b);
        let shared = a.end().min(b.end()) > a.start().max(b.start());
        prop_assert_eq!(a.overlaps(b), shared);
        prop_assert_eq!(b.overlaps(a), shared);
    }
}

#[test]
fn a_gigabyte_of_contiguous_vram_takes_few_entries() {
    let range = VaRange::new(0x7f00_0000_0000, 1 << 30).unwrap();
    let entries: usize = range.leaves(0).unwrap().map(|leaf| leaf.count).sum();
    assert_eq!(entries, 512);
    // Off by a page on both sides: the ends in small pages.
    let range = VaRange::new(0x7f00_0000_1000, 1 << 30).unwrap();
    let entries: usize = range.leaves(0x1000).unwrap().map(|leaf| leaf.count).sum();
    assert_eq!(entries, 511 + 511 + 1);
}

#[test]
fn a_gigabyte_leaf_run_has_the_fragment_of_its_table() {
    let range = VaRange::new(1 << 32, 2 << 30).unwrap();
    let leaves: Vec<LeafRun> = range.leaves(1 << 33).unwrap().collect();
    assert_eq!(leaves.len(), 2);
    for leaf in leaves {
        assert_eq!(
            (leaf.level, leaf.count, order(leaf.fragment)),
            (TableLevel::Pdb0, 512, 18)
        );
    }
}

#[test]
fn a_range_may_end_with_the_user_s_half() {
    assert!(VaRange::new(USER_VA_END - PAGE_SIZE, PAGE_SIZE).is_ok());
    assert_eq!(
        VaRange::new(USER_VA_END - PAGE_SIZE, 2 * PAGE_SIZE),
        Err(VaError::OutOfRange)
    );
}

#[test]
fn what_a_process_has_beyond_the_user_s_half_is_left_out() {
    let (end, page) = (USER_VA_END as usize, PAGE_SIZE as usize);
    let last = VaRange::new(USER_VA_END - PAGE_SIZE, PAGE_SIZE).ok();
    assert_eq!(last, VaRange::of_process(&(end - page..end)));
    assert_eq!(last, VaRange::of_process(&(end - page..end + 3 * page)));
    assert_eq!(last, VaRange::of_process(&(end - page..usize::MAX)));
    assert_eq!(None, VaRange::of_process(&(end..end + page)));
    assert_eq!(None, VaRange::of_process(&(end + page..end + 3 * page)));
    assert_eq!(None, VaRange::of_process(&(page..page)));
}

#[test]
fn memory_that_cannot_be_named_has_no_leaves() {
    let range = VaRange::new(0x1000, 0x2000).unwrap();
    assert!(range.leaves(0x800).is_none());
    assert!(range.leaves((1 << 48) - 0x1000).is_none());
    assert!(range.leaves(!0xfff).is_none());
    assert!(range.leaves((1 << 48) - 0x2000).is_some());
}

#[test]
fn levels_index_the_bits_of_the_address() {
    let va = 0x123 << 39 | 0x0ab << 30 | 0x1cd << 21 | 0x0ef << 12 | 0x777;
    assert_eq!(TableLevel::Pdb2.index(va), 0x123);
    assert_eq!(TableLevel::Pdb1.index(va), 0x0ab);
    assert_eq!(TableLevel::Pdb0.index(va), 0x1cd);
    assert_eq!(TableLevel::Ptb.index(va), 0x0ef);
    let mut level = TableLevel::Pdb2;
    while let Some(child) = level.child() {
        assert_eq!(child.table_span(), level.entry_span());
        level = child;
    }
    assert_eq!(level, TableLevel::Ptb);
    assert_eq!(level.entry_span(), PAGE_SIZE);
}

#[test]
fn apertures_agree_with_sh_mem_bases() {
    assert_eq!(hw::va::SH_MEM_BASES, 0x0001_0002);
    assert_eq!(hw::va::GPUVM_LIMIT, 0x7fff_ffff_ffff);
    assert_eq!(hw::va::LAST_PFN, 0xf_ffff_ffff);
}

#[test]
fn the_upper_half_has_ranges_of_its_own() {
    let range = VaRange::upper(USER_VA_END, PAGE_SIZE).unwrap();
    assert_eq!(hw::va::canonical(range.start()), 0xffff_8000_0000_0000);
    assert_eq!(hw::va::canonical(USER_VA_END - 1), USER_VA_END - 1);
    assert_eq!(TableLevel::Pdb2.index(range.start()), 256);
    let last = hw::va::VA_END - PAGE_SIZE;
    assert!(VaRange::upper(last, PAGE_SIZE).is_ok());
    for (start, size, error) in [
        (USER_VA_END, 0, VaError::Empty),
        (USER_VA_END + 8, PAGE_SIZE, VaError::Unaligned),
        (USER_VA_END - PAGE_SIZE, PAGE_SIZE, VaError::OutOfRange),
        (last, 2 * PAGE_SIZE, VaError::OutOfRange),
        (u64::MAX - 0xfff, PAGE_SIZE, VaError::OutOfRange),
    ] {
        assert_eq!(VaRange::upper(start, size), Err(error));
    }
}
