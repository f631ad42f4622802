// SPDX-License-Identifier: GPL-2.0
//! Compute queues: loading and unloading HQDs, doorbells, hangs. Also the common parts of the other
//! compute tests.

use super::rig::*;
use crate::control::command;
use crate::cp::test::*;
use crate::cp::Hang;
use crate::error::Result;
use crate::regs::gc::{
    self, cp_hqd_pq_control as pq_control, cp_hqd_pq_doorbell_control as doorbell,
    grbm_gfx_cntl as select, grbm_soft_reset, spi_compute_queue_reset,
};
use crate::regs::{nbio, Reg};

/// The place of a user queue's memory in its address space: ring, pointers, EOP buffer, data.
pub const VA: u64 = 0x6000_0000_0000;
/// Dwords of a queue's ring.
pub const DWORDS: u64 = 1024;
const MEMORY: u64 = 0x5000;
const POINTERS: u64 = 0x1000;
const EOP: u64 = 0x2000;
/// The place of a queue's data, from its memory's start.
pub const DATA: u64 = 0x3000;

/// A compute queue that the rig drives.
#[derive(Clone, Copy)]
pub struct Compute {
    /// ME, pipe, queue.
    pub at: [u32; 3],
    pub vmid: u8,
    pub aql: bool,
    /// Its memory, in VRAM and in its address space.
    pub vram: u64,
    pub va: u64,
    pub mqd: u64,
    /// Dwords, or AQL packets.
    pub wptr: u64,
    /// Dword index.
    pub doorbell: u32,
}

impl Compute {
    /// Address of the read index.
    pub fn report(&self) -> u64 {
        self.va + POINTERS + 0x80
    }

    /// The address of the data page.
    pub fn data(&self) -> u64 {
        self.va + DATA
    }

    /// The place of the data page in VRAM.
    pub fn memory(&self) -> u64 {
        self.vram + DATA
    }

    /// The amd_queue_t, in VRAM.
    pub fn amd_queue(&self) -> u64 {
        self.vram + POINTERS
    }
}

impl Rig {
    /// Runs both MECs, with doorbells and interrupts.
    pub fn start_mecs(&self) {
        self.set(gc::CP_MEC_CNTL, 0);
        self.set(gc::CP_PQ_STATUS, 2);
        self.set(gc::CP_MEC_DOORBELL_RANGE_LOWER, 0);
        self.set(gc::CP_MEC_DOORBELL_RANGE_UPPER, 0x1f_fffc);
        for pipe in 0..4 {
            for me in 1..3 {
                self.select([me, pipe, 0]);
                self.set(gc::CPC_INT_CNTL, 1 << 26 | 1 << 24);
            }
        }
        self.set(gc::GRBM_GFX_CNTL, 0);
    }

    pub fn select(&self, [me, pipe, queue]: [u32; 3]) {
        self.set(
            gc::GRBM_GFX_CNTL,
            select::MEID.of(me) | select::PIPEID.of(pipe) | select::QUEUEID.of(queue),
        );
    }

    pub fn hqd(&self, queue: &Compute, reg: Reg) -> u32 {
        self.select(queue.at);
        let value = self.get(reg);
        self.set(gc::GRBM_GFX_CNTL, 0);
        value
    }

    pub fn set_hqd(&self, queue: &Compute, reg: Reg, value: u32) {
        self.select(queue.at);
        self.set(reg, value);
        self.set(gc::GRBM_GFX_CNTL, 0);
    }

    pub fn mqd_dword(&self, queue: &Compute, dword: u64) -> u32 {
        self.peek32(vram(queue.mqd + dword * 4))
    }

    pub fn set_mqd(&self, queue: &Compute, dword: u64, value: u32) {
        self.poke(vram(queue.mqd + dword * 4), &value.to_le_bytes());
    }

    /// Memory and MQD of a queue, which is not loaded yet.
    pub fn compute(&mut self, at: [u32; 3], vmid: u8, aql: bool) -> Compute {
        let memory = self.alloc(MEMORY);
        let mqd = self.alloc(0x4000);
        let va = match vmid {
            0 => FB + memory,
            _ => VA + memory,
        };
        if vmid != 0 {
            self.map(vmid, va, vram(memory), MEMORY, RW);
        }
        let number = (at[0] - 1) * 32 + at[1] * 8 + at[2];
        let queue = Compute {
            at,
            vmid,
            aql,
            vram: memory,
            va,
            mqd,
            wptr: 0,
            doorbell: 0x1000 + 2 * number,
        };
        let kernel = u32::from(vmid == 0);
        let reports = self.gpu.regs.asic.reports_aql;
        let control = pq_control::QUEUE_SIZE.of(DWORDS.ilog2() - 1)
            | pq_control::RPTR_BLOCK_SIZE.of(5)
            | pq_control::UNORD_DISPATCH.of(1)
            | pq_control::SLOT_BASED_WPTR.of(if aql { 2 } else { 0 })
            | pq_control::NO_UPDATE_RPTR.of((aql && !reports).into())
            | pq_control::QUEUE_FULL_EN.of(aql.into())
            | pq_control::WPP_CLAMP_EN.of(aql.into())
            | pq_control::PRIV_STATE.of(kernel)
            | pq_control::KMD_QUEUE.of(kernel);
        let wptr = va + POINTERS + 0x38;
        for (dword, value) in [
            (128, FB + mqd),
            (136, va >> 8),
            (139, queue.report()),
            (141, wptr),
            (165, (va + EOP) >> 8),
        ] {
            self.set_mqd(&queue, dword, lo(value));
            self.set_mqd(&queue, dword + 1, hi(value));
        }
        for (dword, value) in [
            (0, 0xc031_0800),
            (131, vmid.into()),
            (132, 0x5301),
            (135, 0x111),
            (149, 0xb0_0000),
            (160, 1 << 14),
            (162, 1 << 8),
            (143, doorbell::DOORBELL_OFFSET.of(queue.doorbell)),
            (145, control),
            (167, 8),
            (181, aql.into()),
        ] {
            self.set_mqd(&queue, dword, value);
        }
        if aql {
            for slot in 0..DWORDS / 16 {
                self.poke(vram(memory + slot * 64), &[1]);
            }
            self.poke(vram(queue.amd_queue() + 0x88), &0x80u32.to_le_bytes());
        }
        queue
    }

    /// Loads a queue's MQD into its HQD, where ACTIVE is 0.
    pub fn load_registers(&self, queue: &Compute) {
        self.select(queue.at);
        for dword in 128..184u32 {
            let reg = Reg(gc::CP_MQD_BASE_ADDR.0 + dword - 128);
            self.set(reg, self.mqd_dword(queue, dword.into()));
        }
        self.set(gc::GRBM_GFX_CNTL, 0);
    }

    /// Loads a queue's MQD into its HQD and starts it.
    pub fn load(&self, queue: &Compute) {
        self.load_registers(queue);
        self.select(queue.at);
        let control = self.mqd_dword(queue, 143);
        let control = doorbell::DOORBELL_EN.put(control, 1);
        self.set(gc::CP_HQD_PQ_DOORBELL_CONTROL, control);
        self.set(gc::CP_HQD_EOP_RPTR, 1 << 31);
        self.set(gc::CP_HQD_ACTIVE, 1);
        self.set(gc::GRBM_GFX_CNTL, 0);
    }

    /// A queue that runs.
    pub fn running(&mut self, at: [u32; 3], vmid: u8, aql: bool) -> Compute {
        self.start_mecs();
        let queue = self.compute(at, vmid, aql);
        self.load(&queue);
        queue
    }

    /// Puts PM4 packets into the ring, without a doorbell.
    pub fn put(&self, queue: &mut Compute, words: &[u32]) {
        for word in words {
            let at = queue.vram + queue.wptr % DWORDS * 4;
            self.poke(vram(at), &word.to_le_bytes());
            queue.wptr += 1;
        }
        self.poke64(vram(queue.amd_queue() + 0x38), queue.wptr);
    }

    /// Puts an AQL packet into the ring, without a doorbell.
    pub fn put_aql(&self, queue: &mut Compute, packet: &[u32; 16]) {
        let bytes: Vec<u8> = packet.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.poke(vram(queue.vram + queue.wptr % (DWORDS / 16) * 64), &bytes);
        queue.wptr += 1;
        self.poke64(vram(queue.amd_queue() + 0x38), queue.wptr);
    }

    pub fn knock(&self, queue: &Compute) {
        let value = queue.wptr - u64::from(queue.aql);
        self.store_doorbell(queue, value);
    }

    pub fn store_doorbell(&self, queue: &Compute, value: u64) {
        let byte = u64::from(queue.doorbell) * 4;
        let gpu = &self.gpu;
        gpu.nbio.doorbell(gpu, byte, &value.to_le_bytes()).unwrap();
    }

    /// Steps the front end until it has nothing to do now.
    pub fn settle(&self) -> Result<()> {
        settle(&self.gpu)
    }

    /// Submits PM4 and checks that it is done.
    pub fn pm4(&self, queue: &mut Compute, words: &[u32]) {
        self.put(queue, words);
        self.knock(queue);
        self.settle().unwrap();
        assert_eq!(self.hqd(queue, gc::CP_HQD_ERROR), 0);
        assert_eq!(self.reported(queue), queue.wptr % DWORDS);
    }

    /// Submits an AQL packet and checks that it is done.
    pub fn aql(&self, queue: &mut Compute, packet: &[u32; 16]) {
        self.put_aql(queue, packet);
        self.knock(queue);
        self.settle().unwrap();
        assert_eq!(self.hqd(queue, gc::CP_HQD_ERROR), 0);
        assert_eq!(self.reported(queue), queue.wptr);
    }

    /// The read pointer in memory.
    pub fn reported(&self, queue: &Compute) -> u64 {
        self.peek64(vram(queue.amd_queue() + 0x80))
    }

    pub fn dequeue(&self, queue: &Compute) {
        self.set_hqd(queue, gc::CP_HQD_DEQUEUE_REQUEST, 1);
        self.settle().unwrap();
    }

    pub fn is_active(&self, queue: &Compute) -> bool {
        self.hqd(queue, gc::CP_HQD_ACTIVE) & 1 == 1
    }
}

/// WRITE_DATA of one dword to memory.
pub fn write(to: u64, value: u32) -> [u32; 5] {
    [0xc003_3700, 5 << 8, lo(to), hi(to), value]
}

/// WAIT_REG_MEM of memory until it equals `value`.
pub fn wait(at: u64, value: u32) -> [u32; 7] {
    [0xc005_3c00, 3 | 1 << 4, lo(at), hi(at), value, !0, 4]
}

/// INDIRECT_BUFFER.
pub fn indirect(at: u64, dwords: u32) -> [u32; 4] {
    [0xc002_3f00, lo(at), hi(at), dwords | 1 << 23]
}

/// RELEASE_MEM of 64 bits with an interrupt.
pub fn release(to: u64, value: u64, context: u32) -> [u32; 8] {
    [
        0xc006_4900,
        0x14 | 5 << 8,
        2 << 29 | 2 << 24,
        lo(to),
        hi(to),
        lo(value),
        hi(value),
        context,
    ]
}

#[test]
fn registers_are_banked() {
    let rig = Rig::new();
    rig.select([1, 2, 3]);
    rig.set(gc::CP_HQD_VMID, 9);
    rig.select([2, 2, 3]);
    assert_eq!(rig.get(gc::CP_HQD_VMID), 0);
    rig.select([1, 2, 3]);
    assert_eq!(rig.get(gc::CP_HQD_VMID), 9);
    rig.set(gc::GRBM_GFX_CNTL, 0);
    assert!(rig.gpu.write(gc::CP_HQD_VMID, 1).is_err());
    assert_eq!(rig.get(gc::CP_HQD_VMID), 0);
}

#[test]
fn halted_out_of_reset() {
    let mut rig = Rig::new();
    let mut queue = rig.compute([1, 0, 0], 8, false);
    rig.set(gc::CP_PQ_STATUS, 2);
    rig.load(&queue);
    let packet = write(queue.data(), 5);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
    rig.set(gc::CP_MEC_CNTL, 1 << 28);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 5);
}

#[test]
fn doorbells_need_to_be_enabled() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 0, 0], 8, false);
    rig.set(gc::CP_PQ_STATUS, 0);
    let packet = write(queue.data(), 5);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
    assert_eq!(rig.gpu.summary.doorbells_unattached.get(), 1);
    rig.set(gc::CP_PQ_STATUS, 2);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 5);
    assert_eq!(rig.hqd(&queue, gc::CP_HQD_PQ_DOORBELL_CONTROL) >> 31, 1);
    assert_eq!(rig.gpu.summary.doorbells_cp.get(), 1);
    // The engines' part of the page is not the command processor's.
    rig.set(nbio::BIF_SDMA0_DOORBELL_RANGE, 0);
}

#[test]
fn a_dequeue_request_does_not_wait_for_turns() {
    let mut rig = Rig::new();
    let mut queues: Vec<_> = (0..4)
        .map(|pipe| rig.running([1, pipe, 0], 8, false))
        .collect();
    rig.settle().unwrap();
    for queue in &mut queues {
        for n in 0..8 {
            let packet = write(queue.data(), n);
            rig.put(queue, &packet);
        }
        rig.knock(queue);
    }
    assert!(rig.gpu.cp.step(&rig.gpu).unwrap());
    // The last in the order of turns.
    let last = &queues[3];
    rig.set_hqd(last, gc::CP_HQD_DEQUEUE_REQUEST, 1);
    assert!(rig.gpu.cp.step(&rig.gpu).unwrap());
    assert!(!rig.is_active(last));
    rig.settle().unwrap();
    for queue in &queues[..3] {
        assert_eq!(rig.reported(queue), queue.wptr);
    }
}

#[test]
fn state_goes_to_the_mqd_and_back() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 3, 7], 8, false);
    let packet = write(queue.data(), 1);
    rig.pm4(&mut queue, &packet);
    let packet = wait(queue.data(), 2);
    rig.put(&mut queue, &packet);
    let packet = write(queue.data(), 3);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.hqd(&queue, gc::CP_HQD_PQ_RPTR), 5);
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
    assert_eq!(rig.mqd_dword(&queue, 138), 5);
    assert_eq!(rig.mqd_dword(&queue, 182), 17);
    // Doorbells of a queue that is not loaded belong to no queue.
    rig.knock(&queue);
    assert_eq!(rig.gpu.summary.doorbells_unattached.get(), 1);
    // It goes on elsewhere.
    queue.at = [2, 1, 0];
    rig.poke(vram(queue.memory()), &2u32.to_le_bytes());
    rig.load(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 3);
    assert_eq!(rig.reported(&queue), 17);
    assert_eq!(rig.gpu.summary.cp_loads.get(), 2);
}

#[test]
fn the_write_pointer_is_read_from_memory() {
    let mut rig = Rig::new();
    rig.start_mecs();
    for aql in [false, true] {
        let mut queue = rig.compute([1, 1, u32::from(aql)], 8, aql);
        if aql {
            rig.put_aql(&mut queue, &[3; 16].map(|_| 0));
            rig.poke(vram(queue.vram), &[3]);
        } else {
            let packet = write(queue.data(), 7);
            rig.put(&mut queue, &packet);
        }
        rig.set(gc::CP_PQ_WPTR_POLL_CNTL1, 1 << (8 + u32::from(aql)));
        rig.load(&queue);
        rig.settle().unwrap();
        assert_eq!(rig.reported(&queue), queue.wptr, "aql {aql}");
    }
}

#[test]
fn the_write_pointer_is_polled() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 1, 1], 8, false);
    rig.set(gc::CP_PQ_WPTR_POLL_CNTL, 1 << 31);
    for n in 1..4 {
        let packet = write(queue.data(), n);
        rig.put(&mut queue, &packet);
        eventually("the write", || {
            rig.settle().unwrap();
            rig.peek32(vram(queue.memory())) == n
        });
    }
}

#[test]
fn a_write_pointer_past_the_ring() {
    let mut rig = Rig::new();
    let queue = rig.running([1, 0, 0], 8, false);
    rig.store_doorbell(&queue, DWORDS + 1);
    rig.settle().unwrap();
    assert_eq!(rig.iv_head(0), [0x14, 183, 1 << 2, 8]);
    assert_eq!(rig.iv(0)[4], (queue.doorbell / 2) & 0x3ff | 20 << 10);
    assert_ne!(rig.hqd(&queue, gc::CP_HQD_ERROR), 0);
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
}

#[test]
fn a_hung_queue_goes_only_by_a_reset() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 2, 3], 8, false);
    let mut other = rig.running([1, 2, 4], 9, false);
    assert_eq!(command(&rig.gpu, "hang-queue"), Ok(String::new()));
    let packet = write(queue.data(), 1);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
    rig.dequeue(&queue);
    rig.set_hqd(&queue, gc::CP_HQD_ACTIVE, 0);
    assert!(rig.is_active(&queue));
    // Others do not notice.
    let packet = write(other.data(), 1);
    rig.pm4(&mut other, &packet);
    rig.set_hqd(
        &queue,
        gc::SPI_COMPUTE_QUEUE_RESET,
        spi_compute_queue_reset::RESET.of(1),
    );
    rig.settle().unwrap();
    assert!(!rig.is_active(&queue));
    assert_eq!(rig.mqd_dword(&queue, 138), 0);
    assert_eq!(rig.mqd_dword(&queue, 182), 5);
    assert!(rig.is_active(&other));
    // The packet was not lost.
    rig.load(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 1);
}

#[test]
fn hung_waves_can_be_reset() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 2, 3], 8, false);
    assert_eq!(command(&rig.gpu, "hang-queue waves"), Ok(String::new()));
    let packet = write(queue.data(), 1);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    rig.dequeue(&queue);
    assert!(rig.is_active(&queue));
    rig.set_hqd(&queue, gc::CP_HQD_DEQUEUE_REQUEST, 2);
    rig.settle().unwrap();
    assert!(!rig.is_active(&queue));
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
}

#[test]
fn resets_of_pipes_and_all() {
    let mut rig = Rig::new();
    let queues = [[1, 2, 3], [1, 2, 5], [1, 3, 3], [2, 1, 0]].map(|at| rig.running(at, 8, false));
    rig.gpu.cp.hang_queues(1, Hang::Whole);
    rig.store_doorbell(&queues[0], 1);
    rig.settle().unwrap();
    rig.set(gc::CP_MEC_CNTL, 1 << 18);
    rig.set(gc::CP_MEC_CNTL, 0);
    let active = |rig: &Rig| queues.map(|queue| rig.is_active(&queue));
    assert_eq!(active(&rig), [false, false, true, true]);
    rig.set(gc::CP_MEC_CNTL, 1 << 21);
    rig.set(gc::CP_MEC_CNTL, 0);
    assert_eq!(active(&rig), [false, false, true, false]);
    let all = grbm_soft_reset::SOFT_RESET_CPC.of(1);
    rig.set(gc::GRBM_SOFT_RESET, all);
    rig.set(gc::GRBM_SOFT_RESET, 0);
    assert_eq!(active(&rig), [false; 4]);
}

#[test]
fn a_queue_that_never_rests_is_taken_off() {
    let mut rig = Rig::new();
    rig.gpu.start();
    let mut queue = rig.running([1, 0, 0], 8, false);
    let (count, ib) = (queue.data(), queue.data() + 0x800);
    let mut again = indirect(ib, 13);
    again[3] |= 1 << 20;
    let add = [0xc007_1e00, 0x0f, lo(count), hi(count), 1, 0, 0, 0, 0];
    for (n, word) in add.iter().chain(&again).enumerate() {
        let at = queue.memory() + 0x800 + n as u64 * 4;
        rig.poke(vram(at), &word.to_le_bytes());
    }
    rig.put(&mut queue, &indirect(ib, 13));
    let counted = |rig: &Rig| rig.peek32(vram(queue.memory()));
    for round in 0..4 {
        let before = counted(&rig);
        rig.load(&queue);
        rig.knock(&queue);
        eventually("the count", || counted(&rig) > before);
        match round {
            0 => rig.set_hqd(&queue, gc::CP_HQD_DEQUEUE_REQUEST, 1),
            1 => rig.set_hqd(&queue, gc::CP_HQD_ACTIVE, 0),
            2 => rig.set(gc::CP_MEC_CNTL, 1 << 16),
            _ => rig.gpu.reset(),
        }
        eventually("the end", || !rig.is_active(&queue));
        rig.set(gc::RLC_CNTL, 1);
        rig.set(gc::CP_MEC_CNTL, 0);
        let after = counted(&rig);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(counted(&rig), after, "round {round}");
    }
}

#[test]
fn paused_queues_can_be_taken_off() {
    let mut rig = Rig::new();
    let mut queue = rig.running([1, 0, 0], 8, false);
    assert_eq!(command(&rig.gpu, "pause mec"), Ok(String::new()));
    let packet = write(queue.data(), 1);
    rig.put(&mut queue, &packet);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
    assert_eq!(command(&rig.gpu, "resume mec"), Ok(String::new()));
    rig.load(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 1);
}

#[test]
fn many_queues_with_the_thread() {
    let mut rig = Rig::new();
    rig.gpu.start();
    let mut queues: Vec<Compute> = (0..32)
        .map(|n| rig.running([1, n / 8, n % 8], 8 + (n % 8) as u8, false))
        .collect();
    // Each waits for the one before; the first is released last.
    let gate = queues[0].data() + 0x100;
    let mut before = gate;
    for (n, queue) in queues.iter_mut().enumerate() {
        rig.map(queue.vmid, VA + 0x1000_0000, vram(0), 0x1000, RW);
        let shared = VA + 0x1000_0000 + 8 * n as u64;
        rig.put(queue, &wait(before, 1));
        rig.put(queue, &release(shared, 1, 0));
        rig.knock(queue);
        before = shared;
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(rig.peek64(vram(8 * 31)), 0);
    rig.poke(vram(queues[0].memory() + 0x100), &1u32.to_le_bytes());
    eventually("the last", || rig.peek64(vram(8 * 31)) == 1);
}
