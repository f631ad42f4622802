// SPDX-License-Identifier: GPL-2.0
//! Waves whose accesses are retried.

use std::time::{Duration, Instant};

use super::assembly::assemble;
use super::rig::*;
use super::waves::*;
use crate::regs::gc::{
    self, grbm_gfx_cntl as select, sh_mem_config as config, vm_context0_cntl as context,
};
use crate::regs::Reg;
use crate::sq::pool::Worker;

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
    let mut w = Waves::new(false);
    w.load();
    let control = Reg(gc::VM_CONTEXT0_CNTL.0 + u32::from(VMID));
    let retry = context::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT;
    w.rig.set(control, retry.put(w.rig.get(control), 1));
    w.rig.set(gc::GRBM_GFX_CNTL, select::VMID.of(VMID.into()));
    w.rig.set(gc::SH_MEM_CONFIG, config);
    w.rig.set(gc::GRBM_GFX_CNTL, 0);
    w.words(w.out + ARGUMENTS + 8 - OUT, &[lo(PAGE), hi(PAGE)]);
    w.kernel(&assemble(FROM_PAGE));
    w.pm4([64, 1, 1], RSRC2);
    w
}

/// Has another thread execute waves until they retry, and then until they end after `meanwhile`.
fn retrying(w: &mut Waves, meanwhile: impl FnOnce(&mut Waves)) {
    let gpu = w.rig.gpu.clone();
    while gpu.cp.step(&gpu).unwrap() {}
    let waves = std::thread::spawn(move || {
        let mut worker = Worker::default();
        while worker.step(&gpu.sq, &gpu).unwrap() {}
    });
    let end = Instant::now() + Duration::from_secs(20);
    while w.rig.gpu.summary.retry_faults.get() < 3 {
        assert!(Instant::now() < end && !waves.is_finished());
        std::thread::sleep(Duration::from_millis(1));
    }
    meanwhile(w);
    waves.join().unwrap();
}

#[test]
fn a_page_is_waited_for() {
    let mut w = without_a_page(0);
    retrying(&mut w, |w| {
        let page = w.rig.alloc(4096);
        w.words(page, &[11, 12, 13]);
        // Nothing that is to be flushed is held.
        w.rig.flush(VMID);
        w.rig.map(VMID, PAGE, vram(page), 4096, READ);
        let before = w.rig.gpu.summary.retry_faults.get();
        while w.rig.gpu.summary.retry_faults.get() < before + 3 {}
        w.rig.map(VMID, PAGE, vram(page), 4096, RW);
    });
    assert_eq!([0, 4, 8].map(|at| w.out(at)), [11, 12, 13]);
    // Not valid and a read, then a write that may not be.
    assert_eq!(w.rig.iv_head(0), [0x1b, 0, 0x18, u32::from(VMID)]);
    assert_eq!(w.rig.iv(0)[4], lo(PAGE >> 12));
    assert_eq!(w.rig.iv(0)[5] & 0xf0, 1 << 7 | 1 << 6);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

#[test]
fn waves_that_are_killed_wait_no_longer() {
    let mut w = without_a_page(0);
    retrying(&mut w, |w| {
        w.rig.set_hqd(&w.queue, gc::CP_HQD_DEQUEUE_REQUEST, 2);
        while w.rig.gpu.cp.step(&w.rig.gpu).unwrap() {}
    });
    assert_eq!(w.out(0), 0);
    assert_eq!(w.rig.gpu.summary.faults.get(), 0);
}

#[test]
fn waves_that_may_not_do_not_retry() {
    let mut w = without_a_page(config::RETRY_DISABLE.of(1));
    w.run();
    assert_eq!(w.rig.gpu.summary.retry_faults.get(), 0);
    assert_ne!(w.rig.gpu.summary.faults.get(), 0);
}
