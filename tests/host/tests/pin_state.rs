// SPDX-License-Identifier: GPL-2.0
//! No place in use is taken away: a buffer never moves while a user relies on its place.

use hw::pin_state::PinState;
use proptest::prelude::*;

/// The requests to a buffer.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Pin,
    Unpin,
    Share(bool),
    Unshare(bool),
    ShareInVram,
    UnshareInVram,
    Recall(bool),
    Begin(bool),
    Settle,
    Orphan,
    Detach,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = prop_oneof![
        3 => Just(Ask::Pin),
        3 => Just(Ask::Unpin),
        4 => any::<bool>().prop_map(Ask::Share),
        4 => any::<bool>().prop_map(Ask::Unshare),
        2 => Just(Ask::ShareInVram),
        2 => Just(Ask::UnshareInVram),
        2 => any::<bool>().prop_map(Ask::Recall),
        6 => any::<bool>().prop_map(Ask::Begin),
        6 => Just(Ask::Settle),
        1 => Just(Ask::Orphan),
        1 => Just(Ask::Detach),
    ];
    prop::collection::vec(ask, 0..200)
}

proptest! {
    /// A user that was told that it stays finds it there until it has given it back.
    #[test]
    fn stays_where_it_is_relied_upon(asks in asks()) {
        let mut stay = PinState::new();
        // Its place, the target of a move, the number of pins, the users that share it: told and
        // not.
        let (mut home, mut to, mut pins, mut shared) = (true, None, 0u32, [0u32; 2]);
        let (mut in_vram, mut asked_back) = (0u32, false);
        for ask in asks {
            let before = stay.clone();
            match ask {
                Ask::Pin => {
                    let pinned = stay.pin();
                    prop_assert_eq!(pinned, to.is_none());
                    pins += u32::from(pinned);
                }
                Ask::Unpin if pins != 0 => {
                    pins -= 1;
                    stay.unpin();
                }
                Ask::Share(stays) => {
                    let given = stay.share(stays, home);
                    prop_assert_eq!(given, to.is_none() && !home);
                    shared[usize::from(stays)] += u32::from(given);
                }
                Ask::Unshare(stays) if shared[usize::from(stays)] != 0 => {
                    shared[usize::from(stays)] -= 1;
                    let may_come = stay.unshare(stays);
                    let none = pins == 0 && shared == [0, 0] && !stay.is_orphan();
                    prop_assert_eq!(may_come, none && !asked_back);
                }
                Ask::ShareInVram => {
                    let given = stay.share_in_vram(home);
                    prop_assert_eq!(given, to.is_none() && home && !before.is_detached());
                    in_vram += u32::from(given);
                }
                Ask::UnshareInVram if in_vram != 0 => {
                    in_vram -= 1;
                    stay.unshare_in_vram();
                }
                Ask::Recall(on) => {
                    asked_back = on;
                    stay.ask_back(on);
                }
                Ask::Begin(to_be_shared) if home || !to_be_shared => {
                    if stay.start_move(to_be_shared) {
                        prop_assert_eq!((pins, shared, in_vram, to), (0, [0, 0], 0, None));
                        prop_assert!(!before.is_detached());
                        prop_assert!(to_be_shared || !before.is_orphan());
                        to = Some(!home);
                    } else {
                        prop_assert_eq!(&stay, &before);
                    }
                }
                Ask::Settle if to.is_some() => {
                    home = to.take().unwrap_or(home);
                    stay.end_move();
                }
                Ask::Orphan if to.is_none() => {
                    prop_assert_eq!(stay.orphan(), !before.is_orphan());
                }
                Ask::Detach => stay.detach(),
                _ => (),
            }
            prop_assert_eq!(stay.is_moving(), to.is_some());
            prop_assert_eq!(stay.is_shared(), shared[0] != 0);
            prop_assert_eq!(stay.is_stuck(), pins + shared[1] + in_vram != 0 || stay.is_orphan());
            prop_assert!(in_vram == 0 || (home && to.is_none()));
            // No user gets a place that the buffer is about to leave, and a user that shares it
            // finds it mapped for its own process too.
            prop_assert!(to.is_none() || !(stay.is_mappable(home, false) || stay.may_move()));
            prop_assert!(to.is_some() || shared == [0, 0] || stay.is_mappable(home, true));
        }
    }
}

/// Another device has mapped it since the check whether it can move back: it stays, and moves back
/// later.
#[test]
fn shared_since_somebody_looked() {
    let mut stay = PinState::new();
    assert!(stay.start_move(false));
    stay.end_move();
    assert!(stay.may_move());
    assert!(stay.share(false, false));
    assert!(stay.may_move());
    assert!(!stay.start_move(false));
    assert!(stay.unshare(false));
    assert!(stay.start_move(false));
    // While it moves no user gets it.
    assert!(!stay.share(false, false));
}
