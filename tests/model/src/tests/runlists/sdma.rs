// SPDX-License-Identifier: GPL-2.0
//! SDMA queues in runlists.

use super::*;

/// An SDMA queue of a runlist, and its mapping.
struct SdmaQueue {
    ring: Ring,
    mqd: u64,
    wptr: u64,
    words: [u32; 7],
}

impl Schedulers {
    /// An SDMA queue of process `number`, with its MQD; no part of it is in registers.
    fn sdma_queue(&mut self, number: u8, engine: usize, n: u32) -> SdmaQueue {
        let rig = &mut self.rig;
        let memory = rig.alloc(2 * RING);
        let mqd = rig.alloc(4096);
        let va = 0x7f00_0000_0000 + memory;
        rig.map(number, va, vram(memory), 2 * RING, RW);
        let ring = Ring {
            engine,
            queue: 1,
            vmid: number,
            vram: memory,
            wptr: 0,
            doorbell: 0x200 + 20 * engine as u32 + 0x1000 + 2 * n,
        };
        let report = va + RING;
        for (dword, value) in [
            (0, RING.ilog2() - 2 << 1 | 1 << 12 | 6 << 16),
            (10, 1 << 8),
            (27, 0xf),
            (1, (va >> 8) as u32),
            (2, (va >> 40) as u32),
            (8, hi(report)),
            (9, lo(report)),
        ] {
            rig.poke(vram(mqd + 4 * dword), &value.to_le_bytes());
        }
        let wptr = va + RING + 64;
        // Engines 0 and 1 by the old field, the others by the extended one.
        let engine = engine as u32;
        let select = match engine {
            0 | 1 => (2 + engine) << 26,
            _ => engine << 26 | 1 << 2,
        };
        let words = [
            0xc005_a200,
            select | 1 << 4 | 1 << 29,
            ring.doorbell << 2,
            lo(FB + mqd),
            hi(FB + mqd),
            lo(wptr),
            hi(wptr),
        ];
        SdmaQueue {
            ring,
            mqd,
            wptr: memory + RING + 64,
            words,
        }
    }

    /// A runlist of one process with SDMA queues and a compute queue.
    fn sdma_list(&mut self, number: u8, queues: &[&SdmaQueue], compute: &[Compute]) -> [u32; 4] {
        let mut words = self.map_process(number, 0).to_vec();
        queues.iter().for_each(|queue| words.extend(queue.words));
        for queue in compute {
            words.extend(map_queues(queue, 1 << 4 | 1 << 29));
        }
        for (n, word) in words.iter().enumerate() {
            let at = self.list + n as u64 * 4;
            self.rig.poke(vram(at), &word.to_le_bytes());
        }
        let at = FB + self.list;
        [0xc002_a500, lo(at), hi(at), words.len() as u32 | 1 << 23]
    }

    /// Writes packets into an SDMA ring and its write pointer to memory, and rings the doorbell if
    /// `knock`.
    fn put_sdma(&self, queue: &mut SdmaQueue, words: &[u32], knock: bool) {
        for word in words {
            let at = queue.ring.vram + queue.ring.wptr % RING;
            self.rig.poke(vram(at), &word.to_le_bytes());
            queue.ring.wptr += 4;
        }
        self.rig.poke64(vram(queue.wptr), queue.ring.wptr);
        if knock {
            self.rig.doorbell(&queue.ring, queue.ring.wptr);
        }
    }
}

#[test]
fn sdma_queues_of_a_runlist() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let compute = it.queue(8, false);
    it.rig.map_large(8, VA, 0, RW);
    for engine in [0, 1, 4] {
        let mut queue = it.sdma_queue(8, engine, engine as u32);
        // Earlier packets are found by the write pointer in memory, the rest by doorbell.
        it.put_sdma(&mut queue, &fence(VA + 0x100, 1), false);
        let list = it.sdma_list(8, &[&queue], &[compute]);
        it.on_hiq(&list);
        it.rig.drain(engine).unwrap();
        assert_eq!(it.rig.peek32(vram(0x100)), 1);
        it.put_sdma(&mut queue, &fence(VA + 0x100, 2), true);
        it.rig.drain(engine).unwrap();
        assert_eq!(it.rig.peek32(vram(0x100)), 2);
        assert_eq!(it.rig.peek64(vram(queue.ring.vram + RING)), queue.ring.wptr);
        // Off, with the pointers in the MQD; a doorbell then belongs to no queue.
        it.unmap(ALL_DYNAMIC, 0, 100);
        it.rig.settle().unwrap();
        assert_eq!(it.fence(), 100);
        assert_eq!(it.rig.peek64(vram(queue.mqd + 12)), queue.ring.wptr);
        assert_eq!(it.rig.peek64(vram(queue.mqd + 20)), queue.ring.wptr);
        let before = it.rig.gpu.summary.doorbells_unattached.get();
        it.put_sdma(&mut queue, &fence(VA + 0x100, 3), true);
        it.rig.drain(engine).unwrap();
        assert_eq!(it.rig.peek32(vram(0x100)), 2);
        assert_eq!(it.rig.gpu.summary.doorbells_unattached.get(), before + 1);
        // The next list makes up for it.
        let list = it.sdma_list(8, &[&queue], &[compute]);
        it.on_hiq(&list);
        it.rig.drain(engine).unwrap();
        assert_eq!(it.rig.peek32(vram(0x100)), 3);
        it.unmap(ALL_DYNAMIC, 0, 101);
        it.rig.settle().unwrap();
    }
}

#[test]
fn an_sdma_queue_leaves_in_the_middle_of_a_buffer() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    it.rig.map_large(8, VA, 0, RW);
    let mut queue = it.sdma_queue(8, 2, 0);
    // A buffer that counts up, waits, and writes.
    let buffer: Vec<u32> = [
        &[
            10 | 0x2f << 25,
            lo(VA + 0x100),
            hi(VA + 0x100),
            1,
            0,
            0,
            0,
            0,
        ][..],
        &poll(VA + 0x108, 1)[..],
        &fence(VA + 0x110, 1)[..],
    ]
    .concat();
    for (n, word) in buffer.iter().enumerate() {
        it.rig
            .poke(vram(0x1000 + 4 * n as u64), &word.to_le_bytes());
    }
    let enter = [
        0,
        0,
        4,
        lo(VA + 0x1000),
        hi(VA + 0x1000),
        buffer.len() as u32,
        0,
        0,
    ];
    it.put_sdma(&mut queue, &enter, false);
    let list = it.sdma_list(8, &[&queue], &[]);
    for round in 0..3 {
        it.on_hiq(&list);
        for _ in 0..8 {
            it.rig.gpu.sdma[2].step(&it.rig.gpu).unwrap();
        }
        it.unmap(2 << 4, 0, 100 + round);
        it.rig.settle().unwrap();
        assert_eq!(it.fence(), 100 + round);
    }
    // The count was made once.
    assert_eq!(it.rig.peek64(vram(0x100)), 1);
    it.rig.poke(vram(0x108), &[1]);
    it.on_hiq(&list);
    it.rig.drain(2).unwrap();
    assert_eq!(it.rig.peek32(vram(0x110)), 1);
    assert_eq!(it.rig.peek64(vram(0x100)), 1);
    assert_eq!(it.rig.peek64(vram(queue.ring.vram + RING)), 32);
}

#[test]
fn a_refused_packet_of_an_sdma_queue_stays_refused() {
    let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
    let mut queue = it.sdma_queue(8, 0, 0);
    it.put_sdma(&mut queue, &[0xff], false);
    let list = it.sdma_list(8, &[&queue], &[]);
    for round in 0..2 {
        it.on_hiq(&list);
        it.rig.drain(0).unwrap();
        assert_eq!(it.rig.ih_entries(), 1);
        it.unmap(2 << 4, 0, 100 + round);
        it.rig.settle().unwrap();
        assert_eq!(it.fence(), 100 + round);
        assert_eq!(it.rig.peek64(vram(queue.mqd + 12)), 0);
    }
    // More queues than the engine has.
    let queues: Vec<SdmaQueue> = (0..9).map(|n| it.sdma_queue(8, 0, n)).collect();
    let list = it.sdma_list(8, &queues.iter().collect::<Vec<_>>(), &[]);
    it.send(&list);
    let error = it.rig.settle().unwrap_err();
    assert!(error.to_string().contains("more SDMA queues"), "{error}");
}

#[test]
fn descriptors_have_the_form_that_the_firmware_knows() {
    for (dword, value, why) in [
        (0, 1 << 12, "RPTR_WRITEBACK_TIMER"),
        (7, 1, "always 0"),
        (10, 0, "SWITCH_INSIDE_IB"),
        (27, 0, "DUMMY_REG"),
    ] {
        let mut it = Schedulers::new(TWO_VMIDS, FOUR_SLOTS);
        let queue = it.sdma_queue(8, 0, 0);
        let at = vram(queue.mqd + 4 * dword);
        it.rig.poke(at, &u32::to_le_bytes(value));
        let run = it.sdma_list(8, &[&queue], &[]);
        it.send(&run);
        let error = it.rig.settle().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
