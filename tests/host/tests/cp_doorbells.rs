// SPDX-License-Identifier: GPL-2.0
//! Allocation of the CP's doorbells.

use hw::cp_doorbells::CpDoorbellSlots;
use hw::doorbell::DoorbellSlot;

#[test]
fn a_doorbell_is_reused_as_late_as_possible() {
    let mut slots = CpDoorbellSlots::new();
    let all: Vec<DoorbellSlot> = DoorbellSlot::cp_slots().collect();
    assert_eq!(slots.alloc(), Some(all[0]));
    slots.free(all[0]);
    for &slot in &all[1..] {
        assert_eq!(slots.alloc(), Some(slot));
    }
    assert_eq!(slots.alloc(), Some(all[0]));
    assert_eq!(slots.alloc(), None);
    slots.free(all[7]);
    assert_eq!(slots.alloc(), Some(all[7]));
}
