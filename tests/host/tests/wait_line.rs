// SPDX-License-Identifier: GPL-2.0
//! A line of processes, against a plain list.

use hw::wait_line::{LineEntry, WaitLine, PASIDS};
use proptest::prelude::*;

const PLACES: usize = 6;

type Line = WaitLine<Vec<u16>, Vec<LineEntry<u32>>>;

fn empty() -> Line {
    WaitLine::new(vec![0; PASIDS], vec![LineEntry::FREE; PLACES])
}

#[derive(Clone, Debug)]
enum Change {
    Push(u16, u32),
    Remove(u16),
    Set(u16, u32),
    Retain(u32),
}

fn change() -> impl Strategy<Value = Change> {
    // The first PASIDs and the last.
    let pasid = prop_oneof![0u16..8, Just(u16::MAX)];
    let value = 0u32..4;
    prop_oneof![
        4 => (pasid.clone(), value.clone()).prop_map(|(pasid, value)| Change::Push(pasid, value)),
        3 => pasid.clone().prop_map(Change::Remove),
        1 => (pasid, value.clone()).prop_map(|(pasid, value)| Change::Set(pasid, value)),
        1 => value.prop_map(Change::Retain),
    ]
}

proptest! {
    #[test]
    fn a_line_is_a_list(changes in prop::collection::vec(change(), 0..60)) {
        let mut line = empty();
        let mut list: Vec<(u16, u32)> = Vec::new();
        for change in changes {
            match change {
                Change::Push(pasid, value) if !list.iter().any(|(other, _)| *other == pasid) => {
                    let fits = list.len() < PLACES;
                    prop_assert_eq!(line.push(pasid, value), fits);
                    if fits {
                        list.push((pasid, value));
                    }
                }
                Change::Push(..) => {}
                Change::Remove(pasid) => {
                    line.remove(pasid);
                    list.retain(|(other, _)| *other != pasid);
                }
                Change::Set(pasid, value) => {
                    let place = line.get_mut(pasid).map(|place| *place = value);
                    let known = list.iter_mut().find(|(other, _)| *other == pasid);
                    prop_assert_eq!(place.is_some(), known.is_some());
                    if let Some(known) = known {
                        known.1 = value;
                    }
                }
                Change::Retain(least) => {
                    line.retain(|value| *value >= least);
                    list.retain(|(_, value)| *value >= least);
                }
            }
            prop_assert_eq!((line.len(), line.is_empty()), (list.len(), list.is_empty()));
            let pasids: Vec<u16> = list.iter().map(|(pasid, _)| *pasid).collect();
            prop_assert_eq!(line.pasids().collect::<Vec<_>>(), pasids);
            for pasid in (0..8).chain([u16::MAX]) {
                let place = list.iter().position(|(other, _)| *other == pasid);
                prop_assert_eq!(line.has(pasid), place.is_some());
                prop_assert_eq!(line.place(pasid, PLACES), place);
                prop_assert_eq!(line.place(pasid, 2), place.map(|place| place.min(2)));
                let value = place.map(|place| list[place].1);
                prop_assert_eq!(line.get_mut(pasid).copied(), value);
            }
        }
    }
}
