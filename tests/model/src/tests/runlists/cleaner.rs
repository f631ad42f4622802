// SPDX-License-Identifier: GPL-2.0
//! The cleaner shader, which runs before a process gets a VMID.

use super::*;
use crate::tests::assembly::assemble;

/// A cleaner whose second launch waits halted, as it has to.
const CLEANER: &str = "
	s_cmp_eq_u32 s0, 1
	s_cbranch_scc1 first
	s_sethalt 1
	s_endpgm
first:
	s_barrier
	s_mov_b64 ttmp[0:1], 0
	s_endpgm
";
/// exec_cleaner_shader.
const CLEAN: u32 = 1 << 17;

/// Schedulers with the first firmware that runs a cleaner.
fn without_cleaner() -> Schedulers {
    let it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    it.rig.set(gc::CP_MEC_ME1_UCODE_ADDR, 88);
    it
}

/// Schedulers whose KIQ knows a cleaner.
fn with_cleaner() -> Schedulers {
    let mut it = without_cleaner();
    let code = it.rig.alloc(4096);
    for (n, word) in (0..).zip(assemble(CLEANER)) {
        it.rig.poke(vram(code + 4 * n), &word.to_le_bytes());
    }
    let at = (FB + code) >> 8;
    it.on_kiq(&[0xc006_a000, 0, 0, 1, lo(at), hi(at), 0, 0]);
    it
}

/// A list of two processes, which are to be cleaned before, with `at_once` at the same time.
fn list(it: &mut Schedulers, queues: &[Compute; 2], at_once: u32) -> [u32; 4] {
    let [one, other] = queues.each_ref().map(std::slice::from_ref);
    let mut run = it.list(&[(8, one), (9, other)], true);
    // The second process is behind the first one, which has one queue.
    for process in [0, 21 + 7] {
        let at = vram(it.list + 4 * (process + 1));
        let word = it.rig.peek32(at) | CLEAN;
        it.rig.poke(at, &word.to_le_bytes());
    }
    run[3] |= at_once << 24;
    run
}

fn waiting(it: &mut Schedulers) -> [Compute; 2] {
    let mut queues = [it.queue(8, false), it.queue(9, false)];
    for queue in &mut queues {
        let packet = write(queue.data(), 1);
        it.rig.put(queue, &packet);
    }
    queues
}

#[test]
fn runs_before_each_process() {
    let mut it = with_cleaner();
    let queues = waiting(&mut it);
    let list = list(&mut it, &queues, 1);
    it.send(&list);
    it.rig.settle().unwrap();
    for queue in &queues {
        assert_eq!(it.rig.peek32(vram(queue.memory())), 1);
    }
    assert_eq!(it.rig.gpu.summary.sq_cleaned.get(), 2);
    // One has the hardware, though there are two VMIDs.
    assert_eq!(
        it.rig.get(athub::ATC_VMID1_PASID_MAPPING),
        1 << 31 | PASID + 9
    );
    assert_eq!(it.rig.get(athub::ATC_VMID1_PASID_MAPPING.nth(1, 1)), 0);
}

#[test]
fn needs_an_address() {
    let mut it = without_cleaner();
    let queues = waiting(&mut it);
    let list = list(&mut it, &queues, 1);
    it.send(&list);
    let error = it.rig.settle().unwrap_err().to_string();
    assert!(error.contains("knows no cleaner"), "{error}");
}

#[test]
fn needs_the_hardware_for_one_process() {
    let mut it = with_cleaner();
    let queues = waiting(&mut it);
    let list = list(&mut it, &queues, 2);
    it.send(&list);
    let error = it.rig.settle().unwrap_err().to_string();
    assert!(error.contains("2 processes at once"), "{error}");
}

#[test]
fn is_unknown_to_old_firmware() {
    let mut it = with_cleaner();
    it.rig.set(gc::CP_MEC_ME1_UCODE_ADDR, 87);
    let queues = waiting(&mut it);
    let list = list(&mut it, &queues, 1);
    it.send(&list);
    it.rig.settle().unwrap();
    assert_eq!(it.rig.gpu.summary.sq_cleaned.get(), 0);
}
