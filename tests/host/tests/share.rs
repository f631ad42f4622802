// SPDX-License-Identifier: GPL-2.0
//! Each party of a share gets its minimum, whatever others take.

use hw::share::FairShare;
use proptest::prelude::*;

proptest! {
    /// Parties take any amounts up to their limits, in any order; then each can still have its
    /// minimum, all at once.
    #[test]
    fn each_gets_its_least(
        all in 1u64..1 << 40,
        kept in 0u64..1 << 41,
        parties in 1usize..40,
        asks in prop::collection::vec((0usize..40, any::<u64>(), 0u32..41), 0..400),
    ) {
        let share = FairShare::new(all, kept, parties as u64);
        let mut own = vec![0u64; parties];
        for (who, amount, shift) in asks {
            let who = who % parties;
            let taken: u64 = own.iter().sum();
            let most = share.most(taken, own[who]);
            prop_assert!(most <= all - taken);
            prop_assert!(share.allows(taken, own[who], most));
            prop_assert!(!share.allows(taken, own[who], most + 1));
            // All of it, or some.
            let more = if shift == 0 { most } else { (amount >> (64 - shift)).min(most) };
            own[who] += more;
        }
        for who in 0..parties {
            let taken: u64 = own.iter().sum();
            let missing = (kept.min(all) / parties as u64).saturating_sub(own[who]);
            prop_assert!(share.allows(taken, own[who], missing));
            own[who] += missing;
        }
        prop_assert!(own.iter().sum::<u64>() <= all);
    }

    /// A party that is alone gets all except the reserve.
    #[test]
    fn one_alone(all in 1u64..1 << 40, kept in 0u64..1 << 40, parties in 1u64..2000) {
        let share = FairShare::new(all, kept, parties);
        prop_assert!(share.most(0, 0) >= all.saturating_sub(kept));
        prop_assert_eq!(share.most(all, all), 0);
    }
}
