// SPDX-License-Identifier: GPL-2.0
//! What a debugger sets of waves, and the codes of exceptions.

use hw::asic::gfx90a::MI210;
use hw::debug::{LaunchMode, WatchPoint, WaveControls, EXCEPTIONS};
use hw::exceptions::{ExceptionCode, ExceptionOwner, ExceptionSet};
use proptest::prelude::*;

#[test]
fn launch_modes() {
    assert_eq!(LaunchMode::new(0), Some(LaunchMode::Normal));
    assert_eq!(LaunchMode::new(1), Some(LaunchMode::Halt));
    assert_eq!(LaunchMode::new(2), None);
    assert_eq!(LaunchMode::new(3), Some(LaunchMode::Debug));
    assert_eq!(LaunchMode::new(4), None);
    // TRAP_EN alone, as without a debugger.
    assert_eq!(WaveControls::default().register(), 1 << 3);
}

#[test]
fn exceptions_are_overridden() {
    let mut waves = WaveControls::default();
    assert_eq!(waves.override_exceptions(false, 0x80, 0x80), 0);
    assert_eq!(waves.register(), 0x80 << 4 | 1 << 3);
    // Those that are not asked for stay.
    assert_eq!(waves.override_exceptions(true, 0, 0x1), 0x80);
    assert_eq!(waves.register(), 1 << 13 | 0x80 << 4 | 1 << 3);
    assert_eq!(waves.override_exceptions(false, 0, 0x80), 0x80);
    assert_eq!(waves.register(), 1 << 3);
}

#[test]
fn watch_points() {
    let point = WatchPoint {
        address: 0x7fab_1234_5678,
        mask: 0xffff_ffc0,
        mode: 1,
    };
    assert_eq!(point.address_registers(), [0x7fab, 0x1234_5678]);
    // MASK has bits 29:6; MODE and VALID.
    assert_eq!(
        point.control(MI210.gfx.watch),
        1 << 31 | 1 << 29 | 0xff_ffff
    );
    let coarse = WatchPoint {
        mask: 0xffff_f000,
        mode: 3,
        ..point
    };
    assert_eq!(coarse.control(MI210.gfx.watch), 0xe0ff_ffc0);
}

#[test]
fn codes_of_exceptions() {
    let owner = |code| ExceptionCode::new(code).map(ExceptionCode::owner);
    for code in [1, 6, 16, 23, 30, 31] {
        assert_eq!(owner(code), Some(ExceptionOwner::Queue));
    }
    for code in 32..=36 {
        assert_eq!(owner(code), Some(ExceptionOwner::Device));
    }
    for code in [48, 49] {
        assert_eq!(owner(code), Some(ExceptionOwner::Process));
    }
    for code in [0, 7, 15, 24, 29, 37, 47, 50, u32::MAX] {
        assert_eq!(owner(code), None);
    }
    let code = ExceptionCode::new(48).map(ExceptionCode::set);
    assert_eq!(code, Some(ExceptionSet::RUNTIME));
    assert_eq!(ExceptionSet::RUNTIME.bits(), 1 << 47);
}

proptest! {
    /// No argument leaks into another field.
    #[test]
    fn fields_keep_to_their_bits(enable: u32, request: u32, address: u64, mask: u32, mode: u32) {
        let mut waves = WaveControls::default();
        waves.override_exceptions(false, enable, request);
        prop_assert_eq!(waves.register() >> 4, enable & request & EXCEPTIONS);
        let control = WatchPoint { address, mask, mode }.control(MI210.gfx.watch);
        prop_assert_eq!(control & 0xff_ffff, mask >> 6 & 0xff_ffff);
        prop_assert_eq!(control >> 29, 4 | mode & 3);
        prop_assert_eq!(control >> 24 & 0x1f, 0);
    }
}
