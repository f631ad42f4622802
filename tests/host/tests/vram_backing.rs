// SPDX-License-Identifier: GPL-2.0
//! Requests beyond the available memory are for buffers that can move out, and those that have are
//! paid for.

use hw::vram_backing::VramBacking;
use proptest::prelude::*;

proptest! {
    /// Buffers come, move out and back, and go, in any order, as far as system memory allows.
    #[test]
    fn what_is_away_is_paid_for(
        usable in 0u64..1000,
        limit in 0u64..3000,
        acts in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, 1u64..400), 0..200),
    ) {
        let mut cover = VramBacking::new();
        cover.set_usable(usable);
        // Bytes, and whether they are in system memory.
        let mut buffers: Vec<(u64, bool)> = Vec::new();
        let mut taken = 0;
        for (index, act, bytes) in acts {
            let at = (!buffers.is_empty()).then(|| index.index(buffers.len()));
            match (act, at) {
                (0, _) if taken + cover.missing(bytes, 0) <= limit => {
                    taken += cover.missing(bytes, 0);
                    cover.add(bytes, 0);
                    buffers.push((bytes, false));
                }
                (1, Some(at)) if !buffers[at].1 => {
                    let missing = cover.missing(0, buffers[at].0);
                    // If the requests exceed the memory, all of them can move.
                    prop_assert!(missing == 0 || cover.asked() <= usable);
                    if taken + missing <= limit {
                        taken += missing;
                        cover.add(0, buffers[at].0);
                        buffers[at].1 = true;
                    }
                }
                (2, Some(at)) if buffers[at].1 => {
                    taken -= cover.remove(0, buffers[at].0);
                    buffers[at].1 = false;
                }
                (3, Some(at)) => {
                    let (bytes, away) = buffers.swap_remove(at);
                    if away {
                        taken -= cover.remove(0, bytes);
                    }
                    taken -= cover.remove(bytes, 0);
                }
                _ => (),
            }
            let asked: u64 = buffers.iter().map(|buffer| buffer.0).sum();
            let away: u64 = buffers.iter().filter(|buffer| buffer.1).map(|buffer| buffer.0).sum();
            prop_assert_eq!((cover.asked(), cover.taken()), (asked, taken));
            prop_assert_eq!(taken, if asked > usable { asked } else { away });
        }
    }
}
