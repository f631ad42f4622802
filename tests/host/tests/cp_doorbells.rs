// SPDX-License-Identifier: GPL-2.0
//! Allocation of the CP's doorbells.

use hw::asic::gfx90a::MI210;
use hw::cp_doorbells::CpDoorbellSlots;
use hw::doorbell::DoorbellSlot;

#[test]
fn a_doorbell_is_reused_as_late_as_possible() {
    let layout = &MI210.doorbells;
    let mut slots = CpDoorbellSlots::new();
    let all: Vec<DoorbellSlot> = layout.cp_slots().collect();
    assert_eq!(slots.alloc(layout), Some(all[0]));
    slots.free(all[0]);
    for &slot in &all[1..] {
        assert_eq!(slots.alloc(layout), Some(slot));
    }
    assert_eq!(slots.alloc(layout), Some(all[0]));
    assert_eq!(slots.alloc(layout), None);
    slots.free(all[7]);
    assert_eq!(slots.alloc(layout), Some(all[7]));
}
