// SPDX-License-Identifier: GPL-2.0
//! Processes with XNACK on beside such with it off.

use hw::asic::gfx90a::MI210;
use hw::xnack_mix::{XnackKinds, XnackMix, XnackTurn};

const NONE: XnackKinds = XnackKinds {
    retrying: false,
    failing: false,
};

#[test]
fn firmware_from_98_on_chains() {
    assert_eq!(XnackMix::of(&MI210.mec, 0), XnackMix::Apart);
    assert_eq!(XnackMix::of(&MI210.mec, 97), XnackMix::Apart);
    assert_eq!(XnackMix::of(&MI210.mec, 98), XnackMix::Chained);
    let mut mec = MI210.mec;
    mec.xnack_chain = None;
    assert_eq!(XnackMix::of(&mec, u32::MAX), XnackMix::Apart);
}

#[test]
fn older_firmware_has_one_kind_at_a_time() {
    for wanted in [
        NONE,
        NONE.with(true),
        NONE.with(false),
        NONE.with(true).with(false),
    ] {
        let mut turn = XnackTurn::default();
        let mut seen = [false; 2];
        for step in 0..8 {
            turn = turn.next(wanted, step % 2 == 1);
            let allowed = [false, true].map(|kind| turn.allows(XnackMix::Apart, wanted, kind));
            assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 1);
            for (seen, allowed) in seen.iter_mut().zip(allowed) {
                *seen |= allowed;
            }
            // A kind alone does not wait for a turn.
            if wanted.retrying != wanted.failing {
                assert!(turn.allows(XnackMix::Apart, wanted, wanted.retrying));
            }
        }
        if wanted.are_both() {
            assert_eq!(seen, [true; 2]);
        }
    }
}

#[test]
fn newer_firmware_has_all() {
    let both = NONE.with(true).with(false);
    for kind in [false, true] {
        assert!(XnackTurn::default().allows(XnackMix::Chained, both, kind));
    }
}
