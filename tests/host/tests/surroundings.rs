// SPDX-License-Identifier: GPL-2.0
//! What a report of a fault says about an address.

use hw::pte::PageAccess;
use hw::surroundings::{FreedBuffer, FreedBuffers, MemoryKind, PlacedBuffer, Surroundings};
use hw::va::VaRange;
use proptest::prelude::*;

const PLACES: usize = 8;

fn buffer(kind: MemoryKind, start: u64, size: u64) -> PlacedBuffer {
    let range = VaRange::new(start, size).unwrap();
    PlacedBuffer { kind, range }
}

fn nothing(address: u64) -> Surroundings {
    Surroundings {
        address,
        at_ns: 5_000_000,
        holder: None,
        below: None,
        above: None,
        freed: None,
    }
}

#[test]
fn texts() {
    let vram = buffer(MemoryKind::Vram, 0x20_0000, 0x1_0000);
    let gtt = buffer(MemoryKind::Gtt, 0x40_0000, 0x1000);
    assert_eq!(nothing(0x30_0000).to_string(), "no buffer is there");
    let between = Surroundings {
        below: Some(vram),
        above: Some(gtt),
        ..nothing(0x21_0000)
    };
    assert_eq!(
        between.to_string(),
        "no buffer is there; 0 bytes above the end of 64 KiB of VRAM at 0x200000; 1984 KiB below \
         4 KiB of GTT at 0x400000"
    );
    let freed = Surroundings {
        freed: Some(FreedBuffer::new(gtt, 2_500_000)),
        ..nothing(0x40_0000)
    };
    assert_eq!(
        freed.to_string(),
        "no buffer is there; 4 KiB of GTT at 0x400000 was, and was freed 2 ms before"
    );
    let held = Surroundings {
        holder: Some((vram, PageAccess::READ)),
        ..nothing(0x20_0000)
    };
    assert_eq!(
        held.to_string(),
        "it is in 64 KiB of VRAM at 0x200000, read-only, no code"
    );
}

proptest! {
    /// The list knows the last buffers, and no others.
    #[test]
    fn the_last_ones_are_known(
        freed in prop::collection::vec((1u64..64, 1u64..8), 0..40),
        page in 0u64..80,
    ) {
        let mut list = FreedBuffers::new(vec![FreedBuffer::NONE; PLACES]);
        let all: Vec<FreedBuffer> = (1..)
            .zip(freed)
            .map(|(at, (start, pages))| {
                FreedBuffer::new(buffer(MemoryKind::Gtt, start << 12, pages << 12), at)
            })
            .collect();
        all.iter().for_each(|&freed| list.add(freed));
        let address = page << 12 | 0x123;
        let known = &all[all.len().saturating_sub(PLACES)..];
        let expected = known.iter().rev().find(|freed| {
            let mut one = FreedBuffers::new(vec![FreedBuffer::NONE; 1]);
            one.add(**freed);
            one.last_at(address).is_some()
        });
        prop_assert_eq!(list.last_at(address), expected.copied());
    }

    /// Any addresses give a text.
    #[test]
    fn any_address_has_a_text(address: u64, at_ns: u64, start in 0u64..1 << 34, pages in 1u64..99) {
        let near = buffer(MemoryKind::Svm, start << 12, pages << 12);
        let text = Surroundings {
            address,
            at_ns,
            holder: None,
            below: Some(near),
            above: Some(near),
            freed: Some(FreedBuffer::new(near, u64::MAX)),
        };
        prop_assert!(!text.to_string().contains('\n'));
    }
}
