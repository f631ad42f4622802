// SPDX-License-Identifier: GPL-2.0
//! The page of the trap handler. The code's function is tested where it runs, on shaders.

use hw::asic::gfx90a::MI210;
use hw::asic::gfx942::MI300X;
use hw::trap::{SecondLevelTrap, TrapHandler, BYTES, MEMORY, PAGE};
use hw::va::{canonical, VaRange};
use proptest::prelude::*;

/// The target of the branch at dword `at` of `code`, a dword.
fn branch(code: &[u32], at: usize) -> usize {
    let word = code[at];
    assert_eq!(word >> 16, 0xbf82, "no s_branch at dword {at}: {word:#x}");
    (at as i64 + 1 + i64::from(word as i16)) as usize
}

#[test]
fn the_code_begins_with_two_branches() {
    for code in [MI210.trap, MI300X.trap] {
        let (trapped, restore) = (branch(code, 0), branch(code, 1));
        assert_eq!(trapped, 2);
        assert!(restore > trapped && restore < code.len());
        // s_getreg_b32 of STATUS, before anything changes SCC.
        assert_eq!(code[trapped] & 0xff80_ffff, 0xb880_f802);
        // s_rfe_b64 at the end.
        assert_eq!(code[code.len() - 1] & 0xff80_ff00, 0xbe80_1f00);
    }
}

#[test]
fn code_and_memory_share_the_page() {
    assert!(MI210.trap.len() * 4 <= MEMORY);
    assert_eq!(MEMORY % 256, 0);
    assert_eq!(canonical(PAGE), 0xffff_ffff_ffbf_0000);
    assert!(VaRange::upper(PAGE, BYTES as u64).is_ok());
    assert!(MEMORY + size_of_val(&SecondLevelTrap::default().block()) <= BYTES);
}

#[test]
fn the_memory_is_what_the_first_level_reads() {
    let second = SecondLevelTrap {
        code: 0x7f00_1234_5600,
        memory: 0x7f00_1234_6010,
    };
    assert_eq!(second.block(), [0x7f00_1234_5600, 0x7f00_1234_6010]);
    assert_eq!(SecondLevelTrap::default().block(), [0; 2]);
}

proptest! {
    #[test]
    fn registers_hold_what_is_extended_to_the_address(page in 0u64..1 << 36, upper: bool) {
        let page = (page << 12) & 0x7fff_ffff_f000;
        let page = if upper { page | 0xffff_8000_0000_0000 } else { page };
        let handler = TrapHandler::in_page(page);
        let [code_lo, code_hi, memory_lo, memory_hi] = handler.registers();
        // The handler's own computation: << 8, and the sign of bit 47.
        let extended = |lo: u32, hi: u32| {
            ((u64::from(hi) << 32 | u64::from(lo)) << 24) as i64 >> 16
        };
        prop_assert_eq!(extended(code_lo, code_hi) as u64, page);
        prop_assert_eq!(extended(memory_lo, memory_hi) as u64, page + MEMORY as u64);
        prop_assert!(code_hi < 256 && memory_hi < 256);
    }
}
