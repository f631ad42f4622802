// SPDX-License-Identifier: GPL-2.0
//! Translations kept by waves: all that the hub has, and none that it has not.

use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

use super::assembly::assemble;
use super::rig::*;
use super::waves::*;
use crate::regs::gc::{self, vm_invalidate_eng0_req as req};

/// A page that moves.
const PAGE: u64 = 0x6300_0000_0000;
/// FLUSH_TYPE of an invalidation that does not wait for users of a translation.
const LEGACY: u32 = 0;
/// Counts in the page, at its beginning by lanes in order and behind that by lanes apart, by stores
/// and by atomics, until the word at OUT is not zero.
const COUNT: &str = "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32 v1, 2, v0
	v_lshlrev_b32 v3, 3, v0
	s_mov_b32 s8, 0
	s_waitcnt lgkmcnt(0)
again:
	s_add_u32 s8, s8, 1
	v_mov_b32 v2, s8
	global_store_dword v1, v2, s[6:7]
	global_store_dword v3, v2, s[6:7] offset:1024
	global_atomic_umax v3, v2, s[6:7] offset:2048
	global_load_dword v4, v1, s[4:5]
	s_waitcnt vmcnt(0)
	v_readfirstlane_b32 s9, v4
	s_cmp_eq_u32 s9, 0
	s_cbranch_scc1 again
	s_endpgm
";

/// Lanes store, add to and load words that are 64 KiB apart; twice, so that the second time
/// translations are found.
const FAR: &str = "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32 v1, 2, v0
	v_lshlrev_b32 v3, 16, v0
	v_add_u32 v2, 5, v0
	s_waitcnt lgkmcnt(0)
	.rept 2
	global_store_dword v3, v2, s[6:7] offset:8
	global_atomic_add v0, v3, v2, s[6:7] offset:8 glc
	global_load_dwordx4 v[4:7], v3, s[6:7]
	s_waitcnt vmcnt(0)
	v_lshl_add_u32 v0, v0, 16, v6
	global_store_dword v1, v0, s[4:5]
	.endr
	s_endpgm
";

/// A wave that counts, on the device's own threads, and the page's first memory.
fn counting() -> (Waves, u64) {
    let mut w = Waves::new(false);
    w.load();
    let page = w.rig.alloc(4096);
    w.rig.map(VMID, PAGE, vram(page), 4096, RW);
    w.words(w.out + ARGUMENTS + 8 - OUT, &[lo(PAGE), hi(PAGE)]);
    w.kernel(&assemble(COUNT));
    w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
    w.rig.gpu.start();
    goes_on(&w, page);
    (w, page)
}

/// The counts in a page.
fn counts(w: &Waves, page: u64) -> [u32; 3] {
    [0, 1024, 2048].map(|at| w.rig.peek32(vram(page + at)))
}

/// All counts in the page go on.
fn goes_on(w: &Waves, page: u64) {
    let before = counts(w, page);
    eventually("a thousand stores", || {
        let now = counts(w, page);
        (0..3).all(|n| now[n] > before[n] + 1000)
    });
}

fn flush(w: &Waves, vmid: u8, kind: u32) {
    let value = req::PER_VMID_INVALIDATE_REQ.of(1 << vmid)
        | req::FLUSH_TYPE.of(kind)
        | req::INVALIDATE_L2_PTES.of(1)
        | req::INVALIDATE_L1_PTES.of(1);
    w.rig.set(gc::VM_INVALIDATE_ENG17_REQ, value);
}

#[test]
fn they_stay_until_a_flush() {
    let (mut w, mut page) = counting();
    for kind in [HEAVYWEIGHT, LEGACY].into_iter().cycle().take(20) {
        let next = w.rig.alloc(4096);
        w.rig.map(VMID, PAGE, vram(next), 4096, RW);
        goes_on(&w, page);
        // Of another address space.
        flush(&w, VMID + 1, kind);
        goes_on(&w, page);
        assert_eq!(counts(&w, next), [0; 3]);
        flush(&w, VMID, kind);
        if kind == LEGACY {
            // A client that has a translation goes on with it, for one access.
            goes_on(&w, next);
        }
        let last = counts(&w, page);
        goes_on(&w, next);
        assert_eq!(counts(&w, page), last);
        page = next;
    }
    w.words_out(&[1; 64]);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

#[test]
fn what_is_unmapped_faults_after_a_flush() {
    let (mut w, page) = counting();
    w.rig.map(VMID, PAGE, vram(page), 4096, READ);
    goes_on(&w, page);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
    flush(&w, VMID, HEAVYWEIGHT);
    let last = counts(&w, page);
    eventually("the fault", || w.rig.gpu.summary.faults.get() > 0);
    assert_eq!(counts(&w, page), last);
    w.words_out(&[1; 64]);
}

#[test]
fn lanes_in_large_and_small_pages() {
    let mut w = Waves::new(false);
    w.load();
    let large = w.rig.alloc(2 * MIB);
    w.rig.map_large(VMID, PAGE, large, RW);
    let place = |lane: u64| lane << 16;
    let mut at = [vram(0); 64];
    for lane in 0..64 {
        at[lane as usize] = match lane {
            0..32 => vram(large + place(lane)),
            _ if lane % 2 == 0 => vram(w.rig.alloc(4096)),
            _ => system(RAM + RAM_SIZE / 2 + place(lane)),
        };
    }
    for lane in 32..64 {
        w.rig
            .map(VMID, PAGE + place(lane), at[lane as usize], 4096, RW);
    }
    w.words(w.out + ARGUMENTS + 8 - OUT, &[lo(PAGE), hi(PAGE)]);
    w.kernel(&assemble(FAR));
    w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
    w.run();
    for lane in 0..64u32 {
        let sum = 2 * (lane + 5);
        assert_eq!(w.rig.peek32(at[lane as usize].plus(8)), sum, "lane {lane}");
        assert_eq!(w.out(4 * u64::from(lane)), (lane + 5) << 16 | sum);
    }
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

/// The duration of accesses, end to end. Run with --ignored --nocapture, and --release.
#[test]
#[ignore = "a measurement"]
fn accesses() {
    let cpu = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    for (name, access) in [
        ("no access", "v_mov_b32 v6, v0"),
        ("load in order", "global_load_dword v4, v1, s[6:7]"),
        ("load x4 in order", "global_load_dwordx4 v[4:7], v3, s[6:7]"),
        ("load apart", "global_load_dword v4, v3, s[6:7]"),
        ("store in order", "global_store_dword v1, v2, s[6:7]"),
        ("store apart", "global_store_dword v3, v2, s[6:7]"),
        ("scalar load", "s_load_dwordx4 s[12:15], s[6:7], 0x0"),
    ] {
        let mut w = Waves::new(false);
        w.load();
        let page = w.rig.alloc(4096);
        w.rig.map(VMID, PAGE, vram(page), 4096, RW);
        w.words(w.out + ARGUMENTS + 8 - OUT, &[lo(PAGE), hi(PAGE)]);
        w.kernel(&assemble(&format!(
            "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32 v1, 2, v0
	v_lshlrev_b32 v3, 4, v0
	s_mov_b32 s8, 100000
	s_waitcnt lgkmcnt(0)
again:
	.rept 32
	{access}
	.endr
	s_sub_u32 s8, s8, 1
	s_cmp_lg_u32 s8, 0
	s_cbranch_scc1 again
	s_endpgm
"
        )));
        let best = (0..3).map(|_| {
            let (count, begin) = (w.rig.gpu.summary.instructions(), cpu());
            w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
            w.run();
            let count = w.rig.gpu.summary.instructions() - count;
            assert!(count > 3_000_000);
            (cpu() - begin).as_nanos() as f64 / count as f64
        });
        let best = best.fold(f64::INFINITY, f64::min);
        println!("{name:16} {best:6.1} ns");
    }
}
