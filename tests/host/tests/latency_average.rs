// SPDX-License-Identifier: GPL-2.0
//! Properties of the estimate of a time.

use hw::latency_average::LatencyAverage;
use proptest::prelude::*;

fn after(times: &[i64]) -> LatencyAverage {
    let mut usual = LatencyAverage::new();
    times.iter().for_each(|&us| usual.has_taken(us));
    usual
}

proptest! {
    /// The estimate approaches a time that is always the same.
    #[test]
    fn it_is_found(us in 0i64..1_000_000) {
        let found = after(&[us; 256]).times_ms(1000);
        prop_assert!((us - 4..=us).contains(&found), "{found} of {us}");
    }

    /// No single time makes it more than a quarter longer, once it is known at all.
    #[test]
    fn one_tells_little(us in 1000i64..1_000_000, other in any::<i64>()) {
        let mut usual = after(&[us; 256]);
        let before = usual.times_ms(1000);
        usual.has_taken(other);
        prop_assert!(usual.times_ms(1000) <= before + before / 4 + 1);
    }

    /// Nothing overflows.
    #[test]
    fn anything_goes(times in prop::collection::vec(any::<i64>(), 0..100), factor in any::<i64>()) {
        let _ = after(&times).times_ms(factor);
    }
}
