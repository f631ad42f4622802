// SPDX-License-Identifier: GPL-2.0
//! An evicted process comes back, and a request for room is served, whatever others do.

use hw::vram_fairness::{turn_ms, VramWait, TURN_MS};
use proptest::prelude::*;

fn waits() -> impl Strategy<Value = VramWait> {
    let ms = prop_oneof![0i64..2_000, 0..i64::MAX];
    prop_oneof![
        (ms.clone(), ms.clone()).prop_map(|(away, took)| VramWait::Home { away, took }),
        ms.prop_map(|asked| VramWait::Room { asked }),
    ]
}

/// A process that is served for `serve` ms, comes again after `pause`, and since when it waits, if
/// it does.
#[derive(Clone, Debug)]
struct Party {
    took: Option<i64>,
    serve: i64,
    pause: i64,
    since: i64,
}

impl Party {
    fn wait(&self, now: i64) -> Option<VramWait> {
        let ms = now - self.since;
        (ms >= 0).then_some(match self.took {
            Some(took) => VramWait::Home { away: ms, took },
            None => VramWait::Room { asked: ms },
        })
    }
}

fn parties() -> impl Strategy<Value = Vec<Party>> {
    let took = prop::option::of(0i64..400);
    let party = (took, 1i64..600, 0i64..300, 0i64..300);
    let party = party.prop_map(|(took, serve, pause, since)| Party {
        took,
        serve,
        pause,
        since,
    });
    prop::collection::vec(party, 2..8)
}

proptest! {
    /// One of two kinds has priority, and as time goes on that does not change.
    #[test]
    fn one_goes_first(one in waits(), other in waits(), later in 0i64..1_000_000) {
        let after = |wait| match wait {
            VramWait::Home { away, took } => VramWait::Home {
                away: away.saturating_add(later),
                took,
            },
            VramWait::Room { asked } => VramWait::Room { asked: asked.saturating_add(later) },
        };
        let is_home = |wait| matches!(wait, VramWait::Home { .. });
        prop_assume!(is_home(one) != is_home(other));
        prop_assert_ne!(one.precedes(other), other.precedes(one));
        let far = |wait| match wait {
            VramWait::Home { away, took: _ } | VramWait::Room { asked: away } => {
                away > i64::MAX / 2
            }
        };
        if !far(one) && !far(other) {
            prop_assert_eq!(one.precedes(other), after(one).precedes(after(other)));
        }
    }

    /// Parties that are served one at a time, and come again and again: none waits for longer than
    /// its own time slice and once for each of the others.
    #[test]
    fn nobody_waits_for_ever(mut parties in parties()) {
        let once: i64 = parties.iter().map(|party| party.serve).sum();
        let mut now = 0;
        for _ in 0..200 {
            let parties_of = parties.iter().enumerate();
            let waiting = parties_of.filter_map(|(n, party)| Some((n, party.wait(now)?)));
            let key = |(_, wait): &(usize, VramWait)| {
                (wait.due(), matches!(wait, VramWait::Room { .. }))
            };
            let Some((first, _)) = waiting.max_by_key(key) else {
                now += 1;
                continue;
            };
            let party = &mut parties[first];
            let most = party.took.map_or(0, turn_ms) + once;
            prop_assert!(now - party.since <= most, "{} of {most}", now - party.since);
            now += party.serve;
            party.since = now + party.pause;
        }
    }

    #[test]
    fn a_turn_is_longer_than_the_way(took in 0..i64::MAX - 1) {
        prop_assert!(turn_ms(took) >= TURN_MS);
        prop_assert!(turn_ms(took) > took);
    }
}
