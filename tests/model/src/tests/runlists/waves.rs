// SPDX-License-Identifier: GPL-2.0
//! Queues with waves that never end, taking turns.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::sq::pool::Worker;
use crate::tests::assembly::assemble;
use crate::tests::waves::{dispatch, RSRC2, TRAP_PRESENT};

const CODE: u64 = 0x6100_0000_0000;
const HANDLER: u64 = 0x6300_0000_0000;
const AREA: u64 = 0x6400_0000_0000;
const AREA_SIZE: u64 = 0x1_0000;
const STACK: u32 = 0x1000;

/// Counts for ever in the dword whose address is in the arguments.
const BEATS: &str = "
beat:
	s_mov_b32 s4, 1
	s_atomic_add s4, s[0:1], 0x0
	s_sleep 1
	s_branch beat
";

/// Queues of process `number`, each with an endless dispatch.
fn beating<const N: usize>(it: &mut Schedulers, number: u8) -> [Compute; N] {
    pages(it, number);
    std::array::from_fn(|n| queue(it, number, AREA + n as u64 * AREA_SIZE, 0))
}

/// The kernel and the trap handler of process `number`.
fn pages(it: &mut Schedulers, number: u8) {
    let page = |it: &mut Schedulers, at: u64, words: &[u32]| {
        let to = it.rig.alloc(4096);
        it.rig.map(number, at, vram(to), 4096, READ | EXECUTE);
        for (n, &word) in (0..).zip(words) {
            it.rig.poke(vram(to + 4 * n), &word.to_le_bytes());
        }
    };
    page(it, CODE, &assemble(BEATS));
    page(it, HANDLER, &assemble(include_str!("../asm/handler.s")));
}

/// A queue with an endless dispatch behind `no_ops` other packets. Its waves are saved at `save`.
fn queue(it: &mut Schedulers, number: u8, save: u64, no_ops: usize) -> Compute {
    let mut queue = it.queue(number, false);
    let area = it.rig.alloc(AREA_SIZE);
    it.rig.map(number, save, vram(area), AREA_SIZE, RW);
    for (dword, value) in [
        (20, TRAP_PRESENT),
        (23, !0),
        (132, 1 << 30 | 0x5301),
        (171, lo(save)),
        (172, hi(save)),
        (174, STACK),
        (175, STACK),
        (176, STACK),
        (177, AREA_SIZE as u32),
    ] {
        it.rig.set_mqd(&queue, dword, value);
    }
    it.rig.put(&mut queue, &[0xc000_1000, 0].repeat(no_ops));
    let words = dispatch(CODE, [64, 1, 1], RSRC2 | TRAP_PRESENT, queue.data());
    it.rig.put(&mut queue, &words);
    queue
}

/// Runs the list of processes' queues until waves were saved `saves` times.
fn run<const N: usize>(it: &mut Schedulers, queues: &[[Compute; N]], saves: u64) -> Worker {
    let entries: Vec<(u8, &[Compute])> = queues
        .iter()
        .map(|queues| (queues[0].vmid, queues.as_slice()))
        .collect();
    let list = it.list(&entries, true);
    // The handlers' addresses.
    let words = 21 + 7 * N as u64;
    for n in 0..queues.len() as u64 {
        let at = it.list + 4 * (words * n + 6);
        it.rig.poke64(vram(at), HANDLER >> 8);
    }
    it.send(&list);
    let mut worker = Worker::default();
    eventually("turns of all queues", || {
        steps(it, &mut worker);
        it.rig.gpu.summary.cp_saves.get() >= saves
    });
    worker
}

/// The queues' beats until now.
fn beats<const N: usize>(it: &Schedulers, queues: &[[Compute; N]]) -> Vec<u32> {
    let beats = |queue: &Compute| it.rig.peek32(vram(queue.memory()));
    queues.iter().flatten().map(beats).collect()
}

/// Some steps of the waves and of the front end.
fn steps(it: &Schedulers, worker: &mut Worker) {
    for _ in 0..20 {
        worker.step(&it.rig.gpu.sq, &it.rig.gpu).unwrap();
        it.rig.gpu.cp.step(&it.rig.gpu).unwrap();
    }
}

#[test]
fn endless_waves_take_turns() {
    let mut it = Schedulers::new(TWO_VMIDS, 1);
    let queues = [8, 9, 10].map(|number| beating::<1>(&mut it, number));
    run(&mut it, &queues, 12);
    let beats = beats(&it, &queues);
    // One slot: its user has been off the hardware, except for the first time.
    let summary = &it.rig.gpu.summary;
    assert!(summary.cp_restores.get() + 4 >= summary.cp_saves.get());
    assert!(!beats.contains(&0), "{beats:?}");
    assert_eq!(it.rig.gpu.summary.sq_waves.get(), 3);
}

/// A queue that leaves does not come back into the place that it has freed for a process without a
/// VMID.
#[test]
fn more_processes_with_endless_waves_than_vmids() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let queues = [8, 9, 10].map(|number| beating::<2>(&mut it, number));
    run(&mut it, &queues, 24);
    let beats = beats(&it, &queues);
    assert!(!beats.contains(&0), "{beats:?}");
}

/// Also those of a queue that has done more packets than the others before them.
#[test]
fn packets_before_endless_waves_cost_no_turns() {
    let mut it = Schedulers::new(TWO_VMIDS, 1);
    let queues = [(8, 0), (9, 0), (10, 40)].map(|(number, no_ops)| {
        pages(&mut it, number);
        [queue(&mut it, number, AREA, no_ops)]
    });
    let mut worker = run(&mut it, &queues, 12);
    let (before, saves) = (beats(&it, &queues), &it.rig.gpu.summary.cp_saves);
    let later = saves.get() + 12;
    eventually("four turns of each", || {
        steps(&it, &mut worker);
        saves.get() >= later
    });
    for (before, after) in before.iter().zip(beats(&it, &queues)) {
        assert_ne!(*before, after);
    }
}

/// However long that takes: a queue whose waves come back more slowly than a time slice lasts would
/// never go on.
#[test]
fn a_time_slice_begins_when_waves_are_back() {
    let mut it = Schedulers::new(TWO_VMIDS, 1);
    let queues = [8, 9, 10].map(|number| beating::<1>(&mut it, number));
    let mut worker = run(&mut it, &queues, 3);
    let rig = &it.rig;
    let (restores, saves) = (&rig.gpu.summary.cp_restores, &rig.gpu.summary.cp_saves);
    for _ in 0..6 {
        let before = restores.get();
        eventually("saved waves to come back", || {
            worker.step(&rig.gpu.sq, &rig.gpu).unwrap();
            rig.gpu.cp.step(&rig.gpu).unwrap();
            restores.get() > before
        });
        let (there, gone) = (restores.get(), saves.get());
        let before = beats(&it, &queues);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            rig.gpu.cp.step(&rig.gpu).unwrap();
        }
        assert_eq!((restores.get(), saves.get()), (there, gone));
        eventually("the next queue's turn", || {
            steps(&it, &mut worker);
            saves.get() > gone
        });
        assert_ne!(beats(&it, &queues), before);
    }
}

/// A wave may be saved at any moment, also while the scheduler asks whether it has been: no queue is
/// forgotten by that.
#[test]
fn waves_that_leave_while_they_are_looked_at() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let queues = [8, 9, 10].map(|number| beating::<2>(&mut it, number));
    let mut worker = run(&mut it, &queues, 24);
    let gpu = &it.rig.gpu;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                worker.step(&gpu.sq, gpu).unwrap();
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            gpu.cp.step(gpu).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    let (before, saves) = (beats(&it, &queues), &gpu.summary.cp_saves);
    let later = saves.get() + 24;
    eventually("four turns of each", || {
        steps(&it, &mut worker);
        saves.get() >= later
    });
    for (before, after) in before.iter().zip(beats(&it, &queues)) {
        assert_ne!(*before, after);
    }
}
