// SPDX-License-Identifier: GPL-2.0
//! KIQ, HIQ and runlists.

mod cleaner;
mod sdma;
mod waves;

use std::time::{Duration, Instant};

use super::compute::*;
use super::rig::*;
use crate::control::command;
use crate::cp::Hang;
use crate::psp::start::Start;
use crate::regs::athub;
use crate::regs::gc::{self, spi_compute_queue_reset};
use crate::regs::osssys;

const KIQ: [u32; 3] = [2, 1, 0];
const HIQ: [u32; 3] = [2, 0, 0];
const PASID: u32 = 0x8000;
const FENCE: u64 = 0x800;

/// The schedulers and their memory.
struct Schedulers {
    rig: Rig,
    kiq: Compute,
    hiq: Compute,
    list: u64,
    fence: u64,
    doorbells: u32,
}

/// Slots of MEC1 pipe 0, and VMIDs 1 and 2.
const FOUR_SLOTS: u64 = 0xf;
const TWO_VMIDS: u32 = 0b110;

impl Schedulers {
    fn new(vmids: u32, slots: u64) -> Schedulers {
        let mut rig = Rig::new();
        for vmid in 0..16 {
            rig.set(osssys::IH_VMID_0_LUT.nth(vmid, 1), 0);
        }
        let kiq = rig.running(KIQ, 0, false);
        let [me, pipe, queue] = KIQ;
        rig.set(gc::RLC_CP_SCHEDULERS, 0x80 | me << 5 | pipe << 3 | queue);
        let hiq = rig.compute(HIQ, 0, false);
        let list = rig.alloc(0x1_0000);
        let fence = hiq.memory();
        let mut it = Schedulers {
            rig,
            kiq,
            hiq,
            list,
            fence,
            doorbells: 0,
        };
        let words = map_queues(&hiq, 1 << 26 | 1 << 29 | 1 << 18);
        it.on_kiq(&words);
        it.on_hiq(&[
            0xc006_a000,
            vmids | 1 << 16 | 1 << 29,
            lo(slots),
            hi(slots),
            0,
            0,
            0,
            0,
        ]);
        it
    }

    fn on_kiq(&mut self, words: &[u32]) {
        self.rig.pm4(&mut self.kiq, words);
    }

    fn send(&mut self, words: &[u32]) {
        self.rig.put(&mut self.hiq, words);
        self.rig.knock(&self.hiq);
    }

    fn on_hiq(&mut self, words: &[u32]) {
        self.send(words);
        self.rig.settle().unwrap();
        assert_eq!(self.rig.reported(&self.hiq), self.hiq.wptr % DWORDS);
    }

    /// Writes the runlist: each process is the number of its page table, with its queues.
    fn list(&mut self, processes: &[(u8, &[Compute])], repeats: bool) -> [u32; 4] {
        let mut words = Vec::new();
        for &(number, queues) in processes {
            words.extend(self.map_process(number, queues.len() as u32));
            for queue in queues {
                words.extend(map_queues(queue, 1 << 4 | 1 << 29));
            }
        }
        let at = FB + self.list;
        let dwords = words.len() as u32 + if repeats { 4 } else { 0 };
        let run = [0xc002_a500, lo(at), hi(at), dwords | 1 << 23];
        if repeats {
            words.extend([run[0], run[1], run[2], run[3] | 1 << 20 | 1 << 22]);
        }
        for (n, word) in words.iter().enumerate() {
            let at = self.list + n as u64 * 4;
            self.rig.poke(vram(at), &word.to_le_bytes());
        }
        run
    }

    fn map_process(&self, number: u8, queues: u32) -> [u32; 21] {
        let root = self.rig.roots[usize::from(number)] | VALID;
        let mut words = [0; 21];
        words[0] = 0xc013_a100;
        words[1] = PASID + u32::from(number) | 10 << 25;
        words[2] = lo(root);
        words[3] = hi(root);
        words[4] = 0x1_0002;
        words[13] = queues << 22 | 1 << 7;
        words
    }

    /// Makes `queue` hang with a packet to execute.
    fn hang(&mut self, queue: &mut Compute) {
        self.rig.gpu.cp.hang_queues(1, Hang::Whole);
        let packet = write(queue.data(), 1);
        self.rig.put(queue, &packet);
        self.rig.knock(queue);
        self.rig.settle().unwrap();
    }

    /// UNMAP_QUEUES and QUERY_STATUS with a fence.
    fn unmap(&mut self, control: u32, what: u32, fence: u64) {
        let at = FB + self.fence + FENCE;
        self.send(&[0xc004_a300, control | 1 << 29, what, 0, 0, 0]);
        self.send(&[
            0xc005_a400,
            2 << 30,
            0,
            lo(at),
            hi(at),
            lo(fence),
            hi(fence),
        ]);
    }

    fn fence(&self) -> u64 {
        self.rig.peek64(vram(self.fence + FENCE))
    }

    /// A queue of process `number`, with HWS' MQD.
    fn queue(&mut self, number: u8, aql: bool) -> Compute {
        let mut queue = self.rig.compute([1, 0, 0], number, aql);
        // A doorbell of its own, in the part of a page that is the command processor's.
        self.doorbells += 2;
        queue.doorbell = 0x2000 + self.doorbells;
        assert!(self.doorbells < 0x200);
        self.rig.set_mqd(&queue, 131, 0);
        self.rig.set_mqd(&queue, 143, 0);
        queue
    }
}

fn map_queues(queue: &Compute, control: u32) -> [u32; 7] {
    let mqd = FB + queue.mqd;
    let wptr = queue.va + 0x1038;
    [
        0xc005_a200,
        control,
        queue.doorbell << 2,
        lo(mqd),
        hi(mqd),
        lo(wptr),
        hi(wptr),
    ]
}

const ALL_DYNAMIC: u32 = 3 << 4;

#[test]
fn a_runlist_that_fits() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false), it.queue(8, true), it.queue(9, false)];
    // One has work before it is mapped.
    let to = queues[2].data();
    it.rig.put(&mut queues[2], &release(to, 3, 0x33));
    let list = it.list(&[(8, &queues[..2]), (9, &queues[2..])], false);
    it.on_hiq(&list);
    assert_eq!(it.rig.peek64(vram(queues[2].memory())), 3);
    assert_eq!(it.rig.iv(0)[3], PASID + 9);
    assert_eq!(it.rig.iv_head(0)[3], 2);
    assert_eq!(
        it.rig.get(athub::ATC_VMID1_PASID_MAPPING),
        1 << 31 | PASID + 8
    );
    assert_eq!(it.rig.get(osssys::IH_VMID_2_LUT_MM), PASID + 9);
    let packet = write(queues[0].data(), 1);
    it.rig.put(&mut queues[0], &packet);
    it.rig.knock(&queues[0]);
    it.rig.put_aql(&mut queues[1], &[0; 16]);
    it.rig.poke(vram(queues[1].vram), &[3]);
    it.rig.knock(&queues[1]);
    it.rig.settle().unwrap();
    assert_eq!(it.rig.peek32(vram(queues[0].memory())), 1);
    assert_eq!(it.rig.reported(&queues[1]), 1);
    it.unmap(ALL_DYNAMIC, 0, 100);
    it.rig.settle().unwrap();
    assert_eq!(it.fence(), 100);
    assert_eq!(it.rig.get(osssys::IH_VMID_2_LUT), 0);
    assert_eq!(it.rig.mqd_dword(&queues[0], 138), 5);
    assert_eq!(it.rig.mqd_dword(&queues[1], 96), 1);
    // Without mapped queues doorbells belong to no queue; the next turn does their work.
    let packet = write(queues[0].data(), 2);
    it.rig.put(&mut queues[0], &packet);
    it.rig.knock(&queues[0]);
    assert_eq!(it.rig.gpu.summary.doorbells_unattached.get(), 1);
    it.on_hiq(&list);
    assert_eq!(it.rig.peek32(vram(queues[0].memory())), 2);
    assert_eq!(it.rig.gpu.summary.cp_switches.get(), 0);
    assert_eq!(it.rig.gpu.summary.cp_runlists.get(), 2);
}

#[test]
fn queues_by_doorbell_and_by_process() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false), it.queue(8, false), it.queue(9, false)];
    let list = it.list(&[(8, &queues[..2]), (9, &queues[2..])], false);
    it.on_hiq(&list);
    it.unmap(0, queues[0].doorbell << 2, 1);
    it.rig.settle().unwrap();
    let mut runs = |it: &mut Schedulers, n: usize, value: u32| {
        let packet = write(queues[n].data(), value);
        it.rig.put(&mut queues[n], &packet);
        it.rig.knock(&queues[n]);
        it.rig.settle().unwrap();
        it.rig.peek32(vram(queues[n].memory())) == value
    };
    assert_eq!([0, 1, 2].map(|n| runs(&mut it, n, 1)), [false, true, true]);
    it.unmap(1 << 4, PASID + 8, 2);
    it.rig.settle().unwrap();
    assert_eq!([0, 1, 2].map(|n| runs(&mut it, n, 2)), [false, false, true]);
    assert_eq!(it.fence(), 2);
}

#[test]
fn the_kernel_maps_a_queue_of_its_own() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queue = it.rig.compute([1, 2, 5], 0, false);
    let words = map_queues(&queue, 5 << 13 | 2 << 16 | 1 << 29);
    it.on_kiq(&words);
    let packet = write(queue.data(), 4);
    it.rig.pm4(&mut queue, &packet);
    assert_eq!(it.rig.peek32(vram(queue.memory())), 4);
    it.on_kiq(&[0xc004_a300, 1 << 29, queue.doorbell << 2, 0, 0, 0]);
    assert!(!it.rig.is_active(&queue));
}

#[test]
fn more_than_fits_takes_turns() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    it.rig.gpu.start();
    let mut all = Vec::new();
    for number in 3..15u8 {
        let queues: Vec<Compute> = (0..3).map(|n| it.queue(number, n == 2)).collect();
        all.push((number, queues));
    }
    let processes: Vec<(u8, &[Compute])> = all.iter().map(|(n, q)| (*n, &q[..])).collect();
    let list = it.list(&processes, true);
    it.send(&list);
    for round in 1..4u32 {
        for (_, queues) in &mut all {
            for queue in queues {
                if queue.aql {
                    let barrier = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    it.rig.put_aql(queue, &barrier);
                } else {
                    let packet = write(queue.data(), round);
                    it.rig.put(queue, &packet);
                }
                it.rig.knock(queue);
            }
        }
        for (_, queues) in &all {
            for queue in queues {
                eventually("the queue's turn", || match queue.aql {
                    true => it.rig.reported(queue) == u64::from(round),
                    false => it.rig.peek32(vram(queue.memory())) == round,
                });
            }
        }
    }
    assert!(it.rig.gpu.summary.cp_switches.get() > 32);
    it.unmap(ALL_DYNAMIC, 0, 7);
    eventually("the fence", || it.fence() == 7);
}

/// Endless work of more processes than VMIDs, or of more queues than slots.
fn work_is_fair(processes: u8, queues: usize) {
    let mut it = Schedulers::new(0xff00, 0xff_ffff);
    it.rig.gpu.start();
    let mut all = Vec::new();
    for number in 1..=processes {
        let queues: Vec<Compute> = (0..queues).map(|_| it.queue(number, false)).collect();
        all.push((number, queues));
    }
    for (_, queues) in &mut all {
        for queue in queues {
            // Counts for ever.
            let (count, ib) = (queue.data(), queue.data() + 0x800);
            let mut again = indirect(ib, 13);
            again[3] |= 1 << 20;
            let add = [0xc007_1e00, 0x0f, lo(count), hi(count), 1, 0, 0, 0, 0];
            for (n, word) in add.iter().chain(&again).enumerate() {
                let at = queue.memory() + 0x800 + n as u64 * 4;
                it.rig.poke(vram(at), &word.to_le_bytes());
            }
            it.rig.put(queue, &indirect(ib, 13));
        }
    }
    let processes: Vec<(u8, &[Compute])> = all.iter().map(|(n, q)| (*n, &q[..])).collect();
    let list = it.list(&processes, true);
    it.send(&list);
    let counts = |it: &Schedulers| -> Vec<u32> {
        all.iter()
            .flat_map(|(_, queues)| queues)
            .map(|queue| it.rig.peek32(vram(queue.memory())))
            .collect()
    };
    eventually("a turn of each", || counts(&it).iter().all(|&n| n > 0));
    // Turns last some time, and the work done in one depends on the host's other load: shares that
    // are not yet alike become so, unless there is no fairness.
    std::thread::sleep(Duration::from_secs(2));
    eventually("alike shares", || {
        let counts = counts(&it);
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        least * 10 > most * 6
    });
    it.unmap(ALL_DYNAMIC, 0, 1);
    eventually("the fence", || it.fence() == 1);
}

#[test]
fn turns_are_fair() {
    work_is_fair(14, 9);
}

#[test]
fn turns_are_fair_where_few_wait() {
    work_is_fair(10, 4);
}

#[test]
fn a_hung_queue_is_named_and_abandoned() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false), it.queue(9, false)];
    let list = it.list(&[(8, &queues[..1]), (9, &queues[1..])], false);
    it.on_hiq(&list);
    assert_eq!(command(&it.rig.gpu, "hang-queue 1"), Ok(String::new()));
    let packet = write(queues[1].data(), 1);
    it.rig.put(&mut queues[1], &packet);
    it.rig.knock(&queues[1]);
    it.rig.settle().unwrap();
    it.unmap(ALL_DYNAMIC, 0, 1);
    let begin = Instant::now();
    eventually("the report", || {
        it.rig.settle().unwrap();
        it.rig.mqd_dword(&it.hiq, 240) == queues[1].doorbell
    });
    // The latency is 100 ms, of which the first tick had begun.
    assert!(begin.elapsed() >= Duration::from_millis(50));
    // The firmware reports success.
    eventually("the fence", || {
        it.rig.settle().unwrap();
        it.fence() == 1
    });
    // The other is off; the driver searches for this one.
    let active: Vec<u32> = (0..4)
        .filter(|&queue| {
            it.rig.select([1, 0, queue]);
            it.rig.get(gc::CP_HQD_ACTIVE) == 1
        })
        .chain((1..4).filter(|&pipe| {
            it.rig.select([1, pipe, 0]);
            it.rig.get(gc::CP_HQD_ACTIVE) == 1
        }))
        .collect();
    assert_eq!(active.len(), 1);
    for queue in 0..4 {
        it.rig.select([1, 0, queue]);
        if it.rig.get(gc::CP_HQD_ACTIVE) == 1 {
            it.rig.set(
                gc::SPI_COMPUTE_QUEUE_RESET,
                spi_compute_queue_reset::RESET.of(1),
            );
            eventually("the queue is off", || {
                it.rig.settle().unwrap();
                it.rig.select([1, 0, queue]);
                it.rig.get(gc::CP_HQD_ACTIVE) == 0
            });
        }
    }
    // Without it, the other goes on.
    let list = it.list(&[(8, &queues[..1])], false);
    it.on_hiq(&list);
    let packet = write(queues[0].data(), 1);
    it.rig.put(&mut queues[0], &packet);
    it.rig.knock(&queues[0]);
    it.rig.settle().unwrap();
    assert_eq!(it.rig.peek32(vram(queues[0].memory())), 1);
    assert_eq!(it.rig.peek32(vram(queues[1].memory())), 0);
}

/// The driver has to search for a queue that was abandoned, and it keeps its VMID.
#[test]
fn no_list_beside_an_abandoned_queue() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false), it.queue(9, false)];
    let list = it.list(&[(8, &queues[..1])], false);
    it.on_hiq(&list);
    it.hang(&mut queues[0]);
    it.unmap(ALL_DYNAMIC, 0, 1);
    eventually("the fence", || {
        it.rig.settle().unwrap();
        it.fence() == 1
    });
    assert_eq!(it.rig.mqd_dword(&it.hiq, 240), queues[0].doorbell);
    let list = it.list(&[(9, &queues[1..])], false);
    it.send(&list);
    let error = it.rig.settle().unwrap_err();
    assert!(error.to_string().contains("has not left"), "{error}");
}

#[test]
fn a_hung_queue_can_be_reset_by_packet() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false)];
    let list = it.list(&[(8, &queues[..])], false);
    it.on_hiq(&list);
    it.hang(&mut queues[0]);
    it.unmap(1, queues[0].doorbell << 2, 5);
    it.rig.settle().unwrap();
    assert_eq!(it.fence(), 5);
    assert_eq!(it.rig.peek32(vram(queues[0].memory())), 0);
}

#[test]
fn stale_translations_of_a_vmid_go_with_its_process() {
    let mut it = Schedulers::new(0b10, FOUR_SLOTS);
    let mut queues = [it.queue(8, false), it.queue(9, false)];
    // The same address in both processes.
    let shared = VA + 0x1000_0000;
    for (number, at) in [(8, 0x1000), (9, 0x2000)] {
        it.rig.map(number, shared, vram(at), 4096, RW);
    }
    for queue in &mut queues {
        it.rig.put(queue, &write(shared, u32::from(queue.vmid)));
    }
    let list = it.list(&[(8, &queues[..1]), (9, &queues[1..])], true);
    it.send(&list);
    eventually("both", || {
        it.rig.settle().unwrap();
        it.rig.peek32(vram(0x1000)) == 8 && it.rig.peek32(vram(0x2000)) == 9
    });
}

#[test]
fn invalidate_tlbs() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queues = [it.queue(8, false)];
    let list = it.list(&[(8, &queues[..])], false);
    it.on_hiq(&list);
    let shared = VA + 0x1000_0000;
    it.rig.map(8, shared, vram(0x1000), 4096, RW);
    let mut store = |it: &mut Schedulers, value: u32| {
        it.rig.put(&mut queues[0], &write(shared, value));
        it.rig.knock(&queues[0]);
        it.rig.settle().unwrap();
    };
    store(&mut it, 1);
    it.rig.map(8, shared, vram(0x2000), 4096, RW);
    store(&mut it, 2);
    assert_eq!(it.rig.peek32(vram(0x1000)), 2);
    it.on_kiq(&[0xc000_9800, 1 | 1 << 4 | (PASID + 9) << 5]);
    store(&mut it, 3);
    assert_eq!(it.rig.peek32(vram(0x1000)), 3);
    it.on_kiq(&[0xc000_9800, 1 | 1 << 4 | (PASID + 8) << 5]);
    store(&mut it, 4);
    assert_eq!(it.rig.peek32(vram(0x2000)), 4);
}

#[test]
fn what_schedulers_refuse() {
    for (wrong, why) in [
        (0, "does not fit"),
        (1, "before MAP_PROCESS"),
        (2, "for the HIQ"),
        (3, "opcode is unknown"),
    ] {
        let mut it = Schedulers::new(TWO_VMIDS, 1);
        let queues = [it.queue(8, false), it.queue(8, false)];
        let list = it.list(&[(8, &queues[..])], false);
        match wrong {
            1 => it.rig.poke(
                vram(it.list),
                &map_queues(&queues[0], 1 << 4 | 1 << 29)
                    .map(u32::to_le_bytes)
                    .concat(),
            ),
            3 => it.rig.poke(vram(it.list), &0xc000_1500u32.to_le_bytes()),
            _ => {}
        }
        let queue = if wrong == 2 { &mut it.kiq } else { &mut it.hiq };
        it.rig.put(queue, &list);
        it.rig.knock(queue);
        let error = it.rig.settle().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_scheduler_whose_firmware_has_crashed() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let queue = it.queue(8, false);
    let list = it.list(&[(8, &[queue][..])], false);
    it.on_hiq(&list);
    command(&it.rig.gpu, "crash mec").unwrap();
    it.unmap(ALL_DYNAMIC, 0, 100);
    it.rig.settle().unwrap();
    assert_eq!((it.fence(), it.rig.is_active(&it.kiq)), (0, true));
    it.rig.gpu.power_cycle(Start::Warm);
    assert!(!it.rig.is_active(&it.kiq));
}

#[test]
fn packets_have_the_form_that_the_firmware_knows() {
    let fence = [0xc005_a400, 0, 0, 0, 0, 0, 0];
    let resources = [0xc006_a000, 1 << 29, 0, 0, 0, 0, 0, 0];
    let mut oac = resources;
    oac[6] = 1;
    for (words, why) in [
        (&fence[..], "QUERY_STATUS: the command"),
        (
            &[0xc004_a300, 1 << 29 | 1 << 2, 0, 0, 0, 0],
            "UNMAP_QUEUES: reserved",
        ),
        (&[0xc002_a500, 0, 0, 0], "RUN_LIST: not valid"),
        (&[0xc002_a500, 0, 0, 3 << 22], "RUN_LIST: chain without"),
        (&[0xc006_a000, 0, 0, 0, 0, 0, 0, 0], "not that of a HIQ"),
        (&oac, "always 0"),
    ] {
        let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
        it.send(words);
        let error = it.rig.settle().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn lists_have_the_form_that_the_firmware_knows() {
    // Dwords of MAP_PROCESS, of MAP_QUEUES, and of RUN_LIST at the end.
    for (dword, flip, why) in [
        (1, 1 << 24, "MAP_PROCESS: more than"),
        (10, 1, "always 0"),
        (13, 1 << 7, "MAP_PROCESS: not sdma_enable"),
        (14, 1, "MAP_PROCESS: SPI_GDBG_PER_VMID_CNTL.STALL_VMID"),
        (15, 1 << 24, "MAP_PROCESS: VMID of TCP_WATCH0_CNTL"),
        (18, 1 << 28, "MAP_PROCESS: VMID of TCP_WATCH3_CNTL"),
        (21 + 1, 1 << 24, "MAP_QUEUES: reserved"),
        (21 + 1, 1 << 30, "MAP_QUEUES: reserved"),
        (21 + 2, 1, "MAP_QUEUES: more than a doorbell"),
        (28 + 3, 1 << 22, "RUN_LIST: chain without"),
    ] {
        let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
        let queue = it.queue(8, false);
        let run = it.list(&[(8, &[queue])], true);
        let at = vram(it.list + 4 * dword);
        let value = it.rig.peek32(at) ^ flip;
        it.rig.poke(at, &value.to_le_bytes());
        it.send(&run);
        let error = it.rig.settle().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn descriptors_of_lists_have_the_form_that_the_firmware_knows() {
    for (dword, value, why) in [
        (0, 0, "the header of an MQD"),
        (135, 0, "CP_HQD_QUANTUM"),
        (161, 1, "always 0"),
    ] {
        let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
        let queue = it.queue(8, false);
        it.rig.set_mqd(&queue, dword, value);
        let run = it.list(&[(8, &[queue])], false);
        it.send(&run);
        let error = it.rig.settle().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
