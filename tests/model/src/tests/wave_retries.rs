// SPDX-License-Identifier: GPL-2.0
//! Waves whose accesses are retried.

use super::assembly::assemble;
use super::rig::*;
use super::waves::*;
use crate::regs::gc::{
    self, grbm_gfx_cntl as select, sh_mem_config as config, vm_context0_cntl as context,
};
use crate::regs::Reg;

/// A page that is not mapped yet.
const PAGE: u64 = 0x6300_0000_0000;
/// Copies within the page, and from there to OUT.
const FROM_PAGE: &str = "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
	global_load_dword v2, v1, s[6:7]
	s_waitcnt vmcnt(0)
	global_store_dword v1, v2, s[6:7] offset:256
	global_store_dword v1, v2, s[4:5]
	s_endpgm
";

/// A wave that finds no page, of a context that retries.
fn without_a_page(config: u32) -> Waves {
    waves(FROM_PAGE, [64, 1, 1], config)
}

/// Waves of this kernel, of a process that retries.
fn waiting(kernel: &str, dims: [u32; 3]) -> Waves {
    waves(kernel, dims, 0)
}

fn waves(kernel: &str, dims: [u32; 3], config: u32) -> Waves {
    let mut w = Waves::new(false);
    w.load();
    let control = Reg(gc::VM_CONTEXT0_CNTL.0 + u32::from(VMID));
    let retry = context::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT;
    w.rig.set(control, retry.put(w.rig.get(control), 1));
    w.rig.set(gc::GRBM_GFX_CNTL, select::VMID.of(VMID.into()));
    w.rig.set(gc::SH_MEM_CONFIG, config);
    w.rig.set(gc::GRBM_GFX_CNTL, 0);
    w.words(w.out + ARGUMENTS + 8 - OUT, &[lo(PAGE), hi(PAGE)]);
    w.kernel(&assemble(kernel));
    w.pm4(dims, RSRC2 | TRAP_PRESENT);
    w
}

/// Steps the waves until their accesses have been retried some times more.
fn wait(w: &mut Waves) {
    let before = w.rig.gpu.summary.retry_faults.get();
    w.run();
    assert!(w.rig.gpu.summary.retry_faults.get() > before + 3);
}

/// Maps the page for them.
fn give(w: &mut Waves) {
    let page = w.rig.alloc(4096);
    w.words(page, &[11, 12, 13]);
    w.rig.map(VMID, PAGE, vram(page), 4096, RW);
}

#[test]
fn a_page_is_waited_for() {
    let mut w = without_a_page(0);
    wait(&mut w);
    // Not valid, and a read.
    assert_eq!(w.rig.iv_head(0), [0x1b, 0, 0x18, u32::from(VMID)]);
    assert_eq!(w.rig.iv(0)[4], lo(PAGE >> 12));
    assert_eq!(w.rig.iv(0)[5] & 0xf0, 1 << 7 | 1 << 6);
    let page = w.rig.alloc(4096);
    w.words(page, &[11, 12, 13]);
    w.rig.map(VMID, PAGE, vram(page), 4096, READ);
    wait(&mut w);
    assert_eq!(w.out(0), 0);
    w.rig.map(VMID, PAGE, vram(page), 4096, RW);
    w.run();
    assert_eq!([0, 4, 8].map(|at| w.out(at)), [11, 12, 13]);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
    // One page was missing, and was missed for writing.
    assert_eq!(w.rig.gpu.summary.retried.get(), 2);
}

#[test]
fn waves_that_are_killed_wait_no_longer() {
    let mut w = without_a_page(0);
    wait(&mut w);
    w.request(2);
    assert!(!w.is_active());
    give(&mut w);
    w.run();
    assert_eq!(w.out(0), 0);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

#[test]
fn waves_that_wait_are_saved() {
    let mut w = without_a_page(0);
    wait(&mut w);
    w.request(3);
    assert!(!w.is_active());
    assert_eq!(w.rig.gpu.summary.sq_saved.get(), 1);
    w.load();
    wait(&mut w);
    give(&mut w);
    w.run();
    assert_eq!([0, 4, 8].map(|at| w.out(at)), [11, 12, 13]);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

/// Adds the item's number and 1 to two words that all items have, and to OUT.
const ATOMICS: &str = "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_add_u32 v2, 1, v0
	v_mov_b32 v1, 0
	s_waitcnt lgkmcnt(0)
	v_cmp_gt_u32 vcc, 32, v0
	v_mov_b32 v3, 0x1000
	v_cndmask_b32 v1, v1, v3, vcc
	global_atomic_add v4, v1, v2, s[6:7] glc
	s_waitcnt vmcnt(0)
	v_mov_b32 v5, 0
	global_atomic_add v5, v2, s[4:5]
	s_endpgm
";

#[test]
fn nothing_is_done_twice() {
    let mut w = waiting(ATOMICS, [64, 1, 1]);
    let pages = [0; 2].map(|_| w.rig.alloc(4096));
    // Half of the items find their page.
    w.rig.map(VMID, PAGE, vram(pages[0]), 4096, RW);
    wait(&mut w);
    w.request(3);
    w.load();
    wait(&mut w);
    assert_eq!(w.rig.peek32(vram(pages[0])), 0);
    w.rig.map(VMID, PAGE + 4096, vram(pages[1]), 4096, RW);
    w.run();
    let sum = |items: std::ops::Range<u32>| items.map(|item| item + 1).sum::<u32>();
    assert_eq!(w.rig.peek32(vram(pages[0])), sum(32..64));
    assert_eq!(w.rig.peek32(vram(pages[1])), sum(0..32));
    assert_eq!(w.out(0), sum(0..64));
}

/// The first group writes to the page, the others to OUT.
const ONE_OF_TWO: &str = "
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_mov_b32 v1, 0
	v_mov_b32 v2, 5
	s_waitcnt lgkmcnt(0)
	s_cmp_eq_u32 s2, 0
	s_cselect_b32 s4, s6, s4
	s_cselect_b32 s5, s7, s5
	global_store_dword v1, v2, s[4:5]
	s_endpgm
";

#[test]
fn others_go_on() {
    let mut w = waiting(ONE_OF_TWO, [128, 1, 1]);
    wait(&mut w);
    assert_eq!(w.out(0), 5);
    let page = w.rig.alloc(4096);
    w.rig.map(VMID, PAGE, vram(page), 4096, RW);
    w.run();
    assert_eq!(w.rig.peek32(vram(page)), 5);
}

#[test]
fn waves_that_may_not_do_not_retry() {
    let mut w = without_a_page(config::RETRY_DISABLE.of(1));
    w.run();
    assert_eq!(w.rig.gpu.summary.retry_faults.get(), 0);
    assert_ne!(w.rig.gpu.summary.faults.get(), 0);
}
