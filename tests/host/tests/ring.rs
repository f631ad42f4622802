// SPDX-License-Identifier: GPL-2.0
//! Ring arithmetic against a model that goes dword by dword.

use hw::sdma::packet;
use hw::sdma::ring::{phase, RingSize, RingSizeError, RingSpace, MAX_BYTES, MIN_BYTES};
use proptest::prelude::*;
use rkfd_host_tests::places;

fn sizes() -> impl Strategy<Value = RingSize> {
    (10u32..16).prop_map(|order| RingSize::new(1 << order).unwrap())
}

/// Byte counts of whole dwords, near zero and near their limit.
fn positions() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..1 << 20, (1u64 << 60)..(1 << 60) + (1 << 20)].prop_map(|n| n * 4)
}

proptest! {
    /// Jobs that a scheduler gives a ring by its credits fit there, in dwords and in number; and an
    /// empty ring takes any job that ever fits.
    #[test]
    fn jobs_fit_by_their_credits(
        dwords in 1u32..1 << 20,
        most in 1u32..200,
        jobs in prop::collection::vec(
            prop_oneof![0usize..64, 0usize..2_000, 0usize..1 << 21],
            1..400,
        ),
    ) {
        let room = RingSpace::new(dwords, most);
        let (mut credits, mut count, mut written) = (0, 0, 0);
        for job in jobs {
            let Some(of) = room.credits_of(job) else {
                prop_assert!(job > dwords as usize);
                continue;
            };
            prop_assert!(of <= room.credits());
            if credits + of <= room.credits() {
                (credits, count, written) = (credits + of, count + 1, written + job);
            }
        }
        prop_assert!(written <= dwords as usize);
        prop_assert!(count <= most);
    }

    #[test]
    fn a_split_has_the_places_of_the_dwords(
        size in sizes(),
        at in positions(),
        dwords in 0u64..20_000,
    ) {
        let bytes = dwords * 4;
        let Some(split) = size.split(at, bytes) else {
            prop_assert!(bytes > size.bytes());
            return Ok(());
        };
        let places: Vec<usize> = places(&split).collect();
        let expected: Vec<usize> =
            (0..dwords).map(|n| ((at / 4 + n) % u64::from(size.dwords())) as usize).collect();
        prop_assert_eq!(places, expected);
    }

    #[test]
    fn used_is_what_was_written(size in sizes(), read in positions(), ahead in 0u64..10_000) {
        let write = read + ahead * 4;
        match size.used(read, write) {
            Some(used) => {
                prop_assert_eq!(used, ahead * 4);
                // A writer can never make the pointers meet.
                let free = size.capacity().saturating_sub(used);
                if free > 0 {
                    prop_assert_ne!(size.dword_at(write + free), size.dword_at(read));
                }
            }
            None => prop_assert!(ahead * 4 > size.bytes()),
        }
    }

    #[test]
    fn wild_pointers_are_refused(size in sizes(), read: u64, write: u64) {
        let fits = read % 4 == 0 && write % 4 == 0 && write >= read && write - read <= size.bytes();
        prop_assert_eq!(size.used(read, write).is_some(), fits);
        if read % 4 != 0 {
            prop_assert!(size.split(read, 4).is_none());
        }
    }

    #[test]
    fn padding_reaches_the_phase(size in sizes(), at in positions(), want in 0u64..8) {
        let pad = size.pad_to_phase(at, want);
        prop_assert!(pad < 8);
        prop_assert_eq!(phase(at + pad * 4), want);
    }

    #[test]
    fn a_size_is_a_power_of_two_in_bounds(
        bytes in prop_oneof![any::<u64>(), (0u32..64).prop_map(|o| 1 << o)],
    ) {
        let expected = if bytes.count_ones() != 1 {
            Err(RingSizeError::NotPowerOfTwo)
        } else if bytes < MIN_BYTES {
            Err(RingSizeError::TooSmall)
        } else if bytes > MAX_BYTES {
            Err(RingSizeError::TooLarge)
        } else {
            Ok(bytes)
        };
        prop_assert_eq!(RingSize::new(bytes).map(RingSize::bytes), expected);
    }

    #[test]
    fn a_writer_and_a_reader_see_the_same_stream(
        chunks in prop::collection::vec(1u64..90, 1..60),
        start in positions(),
    ) {
        let size = RingSize::new(1024).unwrap();
        let mut ring = vec![0u32; size.dwords() as usize];
        let (mut read, mut write) = (start, start);
        let (mut sent, mut received) = (0u32, 0u32);
        for chunk in chunks {
            // Drain until the chunk fits, as a writer waits for the engine.
            while size.capacity() - size.used(read, write).unwrap() < chunk * 4 {
                let split = size.split(read, 4).unwrap();
                prop_assert_eq!(ring[split.first.start], received);
                received += 1;
                read += 4;
            }
            let split = size.split(write, chunk * 4).unwrap();
            for place in places(&split) {
                ring[place] = sent;
                sent += 1;
            }
            write += chunk * 4;
        }
        prop_assert_eq!(size.used(read, write).unwrap(), u64::from(sent - received) * 4);
    }

    #[test]
    fn padding_is_all_nops(dwords in 0usize..40_000) {
        let mut ring = vec![0xdead_beefu32; dwords];
        packet::pad(&mut ring);
        let mut at = 0;
        while at < dwords {
            prop_assert_eq!(ring[at] & 0xffff, packet::NOP);
            at += 1 + (ring[at] >> 16 & 0x3fff) as usize;
        }
        prop_assert_eq!(at, dwords);
    }
}

#[test]
fn order_is_the_rb_size_field() {
    assert_eq!(RingSize::new(1 << 20).unwrap().order(), 18);
    assert_eq!(RingSize::new(1024).unwrap().order(), 8);
    assert_eq!(RingSize::new(1 << 20).unwrap().dwords(), 1 << 18);
}

#[test]
fn a_ring_may_be_full_but_not_fuller() {
    let size = RingSize::new(1024).unwrap();
    assert_eq!(size.used(4096, 4096 + 1024), Some(1024));
    assert_eq!(size.used(4096, 4096 + 1028), None);
    assert_eq!(size.used(4096, 4092), None);
    assert!(size.split(4, 1024).is_some());
    assert!(size.split(4, 1028).is_none());
}
