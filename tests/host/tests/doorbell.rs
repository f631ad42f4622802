// SPDX-License-Identifier: GPL-2.0
//! Doorbell slots, slices and offsets.

use hw::asic::gfx90a::MI210;
use hw::doorbell::{
    Doorbell, DoorbellLayout, DoorbellRange, DoorbellSlot, MmapKind, MmapOffset, SliceIndex,
    SLICE_BYTES,
};
use proptest::prelude::*;
use std::collections::HashSet;

const BAR: u64 = 2 << 20;

const LAYOUT: DoorbellLayout = MI210.doorbells;

proptest! {
    #[test]
    fn mmap_offsets_read_back(kind in 0usize..4, gpu_id: u16, low in 0u64..1 << 46) {
        let kind = [MmapKind::Mmio, MmapKind::Reserved, MmapKind::Events, MmapKind::Doorbell][kind];
        let offset = MmapOffset { kind, gpu_id };
        prop_assert_eq!(MmapOffset::decode(offset.encode()), offset);
        // Low bits are ignored.
        prop_assert_eq!(MmapOffset::decode(offset.encode() | low), offset);
        prop_assert_eq!(offset.encode(), (kind as u64) << 62 | u64::from(gpu_id) << 46);
    }

    #[test]
    fn any_offset_decodes(bytes: u64) {
        let offset = MmapOffset::decode(bytes);
        prop_assert_eq!(offset.encode(), bytes & !((1 << 46) - 1));
    }

    #[test]
    fn a_queue_s_offset_names_slice_and_slot(gpu_id: u16, index in 0u16..1024) {
        let slot = DoorbellSlot::new(index).unwrap();
        let offset = MmapOffset::doorbell(gpu_id, slot);
        // The client masks with the slice's size.
        prop_assert_eq!(offset & (SLICE_BYTES - 1), u64::from(index) * 8);
        let kind = MmapKind::Doorbell;
        prop_assert_eq!(MmapOffset::decode(offset), MmapOffset { kind, gpu_id });
    }

    #[test]
    fn a_doorbell_is_inside_its_slice(slice in 0u16..256, index in 0u16..1024) {
        let slice = SliceIndex::new(slice, BAR).unwrap();
        let doorbell = slice.doorbell(DoorbellSlot::new(index).unwrap());
        prop_assert_eq!(doorbell.byte(), slice.byte() + u64::from(index) * 8);
        prop_assert_eq!(u64::from(doorbell.dword()) * 4, doorbell.byte());
        prop_assert!(doorbell.byte() + 8 <= BAR);
    }
}

#[test]
fn slots_end_with_the_slice_and_slices_with_the_bar() {
    assert!(DoorbellSlot::new(1023).is_some());
    assert!(DoorbellSlot::new(1024).is_none());
    assert_eq!(SliceIndex::count(BAR), 256);
    assert!(SliceIndex::new(255, BAR).is_some());
    assert!(SliceIndex::new(256, BAR).is_none());
}

#[test]
fn sdma_slots_are_fixed() {
    let byte = |engine, queue| LAYOUT.sdma(engine, queue).unwrap().byte();
    assert_eq!(byte(0, 0), 0x800);
    assert_eq!(byte(0, 1), 0x1800);
    assert_eq!(byte(0, 2), 0x808);
    assert_eq!(byte(4, 7), 0x1940 + 3 * 8);
    assert!(LAYOUT.sdma(5, 0).is_none());
    assert!(LAYOUT.sdma(0, 8).is_none());
    let kernel: Vec<u64> = (0..5)
        .map(|e| LAYOUT.sdma_kernel(e).unwrap().byte())
        .collect();
    assert_eq!(kernel, [0x800, 0x850, 0x8a0, 0x8f0, 0x940]);
    let all: HashSet<u16> = (0..5)
        .flat_map(|engine| (0..8).map(move |queue| LAYOUT.sdma(engine, queue).unwrap().index()))
        .collect();
    assert_eq!(all.len(), 40);
    assert!(all
        .iter()
        .all(|&index| !LAYOUT.is_cp(DoorbellSlot::new(index).unwrap())));
}

#[test]
fn cp_slots_keep_out_of_the_ranges_of_others() {
    let cp: Vec<u16> = LAYOUT.cp_slots().map(DoorbellSlot::index).collect();
    assert_eq!(cp.len(), 512 - 0x90);
    assert!(cp
        .iter()
        .all(|&index| index < 0x100 || (0x190..0x200).contains(&index)));
    // The same ranges of the second page.
    assert!(!LAYOUT.is_cp(DoorbellSlot::new(0x300).unwrap()));
    assert!(!LAYOUT.is_cp(DoorbellSlot::new(0x38f).unwrap()));
    assert!(LAYOUT.is_cp(DoorbellSlot::new(0x390).unwrap()));
    assert!(LAYOUT.is_cp(DoorbellSlot::new(0x2ff).unwrap()));
}

#[test]
fn scheduled_queues_ring_in_the_second_page() {
    let slots: Vec<DoorbellSlot> = (0..512)
        .map(|n| DoorbellSlot::scheduled(n).unwrap())
        .collect();
    for (index, slot) in slots.iter().enumerate() {
        assert_eq!(slot.index(), 512 + index as u16);
    }
    assert!(DoorbellSlot::scheduled(512).is_none());
    assert!(LAYOUT.cp_slots().all(|slot| slot.index() < 512));
}

#[test]
fn nbio_ranges_are_those_of_the_recipe() {
    assert_eq!(
        LAYOUT.sdma_range(0).map(DoorbellRange::bif),
        Some(0x200 << 2 | 20 << 16)
    );
    assert_eq!(
        LAYOUT.sdma_range(4).map(DoorbellRange::bif),
        Some(0x250 << 2 | 20 << 16)
    );
    assert_eq!(LAYOUT.sdma_range(5), None);
    assert_eq!(LAYOUT.ih_range().bif(), 0x2f0 << 2 | 8 << 16);
    assert_eq!(
        SliceIndex::KERNEL.doorbell(LAYOUT.ih_retry_cam()).dword(),
        0x2f6
    );
    let ih: Doorbell = SliceIndex::KERNEL.doorbell(LAYOUT.ih_ring0());
    assert_eq!(ih.byte(), 0xbc0);
}

#[test]
fn a_layout_with_two_owners_of_a_slot_is_refused() {
    assert!(LAYOUT.is_consistent());
    let with = |change: fn(&mut DoorbellLayout)| {
        let mut layout = LAYOUT;
        change(&mut layout);
        layout.is_consistent()
    };
    // Twelve engines end right before the IH, thirteen do not.
    assert!(with(|layout| layout.sdma_engines = 12));
    assert!(!with(|layout| layout.sdma_engines = 13));
    assert!(!with(|layout| layout.sdma_engines = 16));
    assert!(with(|layout| layout.ih_slots = 0x18));
    assert!(!with(|layout| layout.ih_slots = 0x19));
    assert!(!with(|layout| layout.ih_retry_cam = 0x17c));
    assert!(!with(|layout| layout.ih_first = 0x131));
    assert!(!with(|layout| layout.sdma_slots = 3));
    assert!(!with(|layout| layout.sdma_first = 0xff));
    assert!(!with(|layout| layout.sdma_queues = 9));
    assert!(!with(|layout| layout.hiq = layout.kiq));
    assert!(!with(|layout| layout.kiq = 0x100));
    // XCCs whose queues share slots.
    assert!(!with(|layout| layout.xccs = 2));
    assert!(with(|layout| (layout.xccs, layout.xcc_slots) = (2, 0x20)));
}
