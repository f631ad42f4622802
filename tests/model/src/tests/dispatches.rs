// SPDX-License-Identifier: GPL-2.0
//! Kernel dispatches: AQL packets to waves and back.

use std::time::{Duration, Instant};

use rustix::time::{clock_gettime, ClockId};

use super::compute::*;
use super::rig::*;
use crate::regs::gc::{self, cp_hqd_error as error, grbm_gfx_cntl as select};

const VMID: u8 = 8;
/// The address of code in the queue's address space, and that of kernels' results.
const CODE: u64 = 0x6100_0000_0000;
const OUT: u64 = 0x6200_0000_0000;

/// Writes the number of each item to a buffer whose address is in the arguments.
pub const NUMBERS: [u32; 9] = [
    0xc006_0100, // s_load_dwordx2 s[4:5], s[0:1], 0x0
    0,
    0x8e02_8602, // s_lshl_b32 s2, s2, 6
    0x6800_0002, // v_add_u32 v0, s2, v0
    0x2402_0082, // v_lshlrev_b32 v1, 2, v0
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xdc70_8000, // global_store_dword v1, v0, s[4:5]
    0x0004_0001,
    END,
];
const END: u32 = 0xbf81_0000; // s_endpgm
const FOR_EVER: u32 = 0xbf82_ffff; // s_branch .
/// s_sendmsg of an interrupt.
const INTERRUPT: [u32; 4] = [
    0xbefc_00ff, // s_mov_b32 m0, 0x812345
    0x0081_2345,
    0xbf90_0001, // s_sendmsg sendmsg(MSG_INTERRUPT)
    END,
];

/// RSRC2: kernel arguments in two user SGPRs, the group's number in x.
pub const RSRC2: u32 = 2 << 1 | 1 << 7;
/// Kernel arguments only; with the address of scratch.
pub const KERNARG: u32 = 1 << 3;

pub struct Kernels {
    pub rig: Rig,
    pub queue: Compute,
    /// Code and results in VRAM.
    code: u64,
    pub out: u64,
}

impl Kernels {
    fn new() -> Kernels {
        Kernels::on(Rig::new())
    }

    pub fn on(mut rig: Rig) -> Kernels {
        rig.set(gc::GRBM_GFX_CNTL, select::VMID.of(VMID.into()));
        rig.set(gc::SH_MEM_BASES, 1 << 16 | 2);
        rig.set(gc::GRBM_GFX_CNTL, 0);
        let queue = rig.running([1, 0, 3], VMID, true);
        for dword in [23, 24, 26, 27, 39, 40, 41, 42] {
            rig.set_mqd(&queue, dword, !0);
        }
        let (code, out) = (rig.alloc(4096), rig.alloc(4096));
        rig.map(VMID, CODE, vram(code), 4096, READ | EXECUTE);
        rig.map(VMID, OUT, vram(out), 4096, RW);
        Kernels {
            rig,
            queue,
            code,
            out,
        }
    }

    /// Replaces the kernel: its descriptor is at CODE, its code 256 bytes further on.
    pub fn kernel(&self, code: &[u32], rsrc2: u32, properties: u32) {
        let put = |at: u64, word: u32| self.rig.poke(vram(self.code + at), &word.to_le_bytes());
        put(0x10, 256);
        // 8 VGPRs, all of them arch; denormals are kept.
        put(0x2c, 1);
        put(0x30, 0xf0 << 12);
        put(0x34, rsrc2);
        put(0x38, properties);
        for (n, &word) in (0..).zip(code) {
            put(256 + 4 * n, word);
        }
    }

    /// A packet of `items` items in groups of 64, with arguments at the start of OUT's second half.
    pub fn packet(&self, items: u32) -> [u32; 16] {
        self.rig.poke64(vram(self.out + 2048), OUT);
        let done = self.queue.data();
        let mut words = [0; 16];
        words[0] = 2 | 1 << 16;
        words[1] = 64 | 1 << 16;
        words[2] = 1;
        words[3..6].copy_from_slice(&[items, 1, 1]);
        words[8..12].copy_from_slice(&[lo(CODE), hi(CODE), lo(OUT + 2048), hi(OUT + 2048)]);
        words[14..16].copy_from_slice(&[lo(done), hi(done)]);
        words
    }

    fn submit(&mut self, packet: &[u32; 16]) {
        self.rig.put_aql(&mut self.queue, packet);
        self.rig.knock(&self.queue);
    }

    /// The completion signal.
    pub fn signal(&self) -> i64 {
        self.rig.peek64(vram(self.queue.memory() + 8)) as i64
    }

    /// Gives the queue a queue_inactive_signal, at 0x80 of its data.
    fn inactive(&self) -> impl Fn() -> u64 + '_ {
        let handle = self.queue.data() + 0x80;
        self.rig.poke64(vram(self.queue.amd_queue() + 0xc0), handle);
        || self.rig.peek64(vram(self.queue.memory() + 0x88))
    }

    fn error(&self) -> u32 {
        self.rig.hqd(&self.queue, gc::CP_HQD_ERROR)
    }
}

#[test]
fn items_in_groups() {
    let mut k = Kernels::new();
    k.kernel(&NUMBERS, RSRC2, KERNARG);
    k.rig.poke(vram(k.queue.amd_queue() + 0xb4), &[1 << 3]);
    // Two groups and a part of one.
    let packet = k.packet(150);
    k.rig.aql(&mut k.queue, &packet);
    for n in 0..160 {
        let expected = if n < 150 { n } else { 0 };
        assert_eq!(k.rig.peek32(vram(k.out + 4 * u64::from(n))), expected);
    }
    assert_eq!(k.signal(), -1);
    let stamps = [0x20, 0x28].map(|at| k.rig.peek64(vram(k.queue.memory() + at)));
    assert!(stamps[0] > 0 && stamps[1] >= stamps[0]);
    let summary = &k.rig.gpu.summary;
    assert_eq!(summary.aql.get()["KERNEL_DISPATCH"], 1);
    assert_eq!((summary.sq_groups.get(), summary.sq_waves.get()), (3, 3));
    assert_eq!(summary.instructions(), 3 * 7);
    // In each group two instructions and the store have lanes.
    assert_eq!(summary.sq_lanes.get(), 3 * 150);
    // The next dispatch uses new code.
    k.kernel(&INTERRUPT, RSRC2, KERNARG);
    let packet = k.packet(1);
    k.rig.aql(&mut k.queue, &packet);
    assert_eq!(k.signal(), -2);
    // Client and source of the engine's, VMID; M0 is in the words of the wave's message.
    let [client, source, _, vmid] = k.rig.iv_head(0);
    assert_eq!([client & !3, source, vmid], [8, 239, VMID.into()]);
    let iv = k.rig.iv(0);
    assert_eq!(iv[4] & 0xfff | iv[4] >> 28 << 12 | iv[5] << 16, 0x81_2345);
    assert_eq!(iv[4] >> 26 & 3, 1);
}

/// From doorbell to signal, with the device's threads. Run with --ignored --nocapture, and
/// --release.
#[test]
#[ignore = "a measurement"]
fn empty_dispatches() {
    const COUNT: u32 = 5000;
    // Processor time of all threads except this one, which only waits.
    let now = || {
        let [all, here] = [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime].map(|clock| {
            let now = clock_gettime(clock);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        });
        all.saturating_sub(here)
    };
    let mut k = Kernels::new();
    k.kernel(&[END], RSRC2, KERNARG);
    let packet = k.packet(64);
    k.rig.gpu.start();
    let (begin, cpu) = (Instant::now(), now());
    for n in 1..=i64::from(COUNT) {
        k.submit(&packet);
        while k.signal() != -n {
            std::thread::yield_now();
        }
    }
    println!(
        "an empty dispatch: {:?}, of which the device's threads use {:?} of the processor",
        begin.elapsed() / COUNT,
        (now() - cpu) / COUNT
    );
}

#[test]
fn what_is_wrong_with_a_dispatch() {
    // Dword and its value, queue_inactive_signal, exception code.
    for (dword, value, inactive, code) in [
        (3, 0, 2, 16),
        (4, 2, 2, 16),
        (7, 65537, 4, 17),
        (8, 4, 8, 18),
        (9, 0x7000, 8, 18),
        (1, 64 | 17 << 16, 64, 21),
    ] {
        let mut k = Kernels::new();
        k.kernel(&NUMBERS, RSRC2, KERNARG);
        let mut packet = k.packet(64);
        packet[dword] = value;
        if dword == 1 {
            // Two dimensions, so that the second one's size is checked.
            packet[0] = 2 | 2 << 16;
        }
        k.submit(&packet);
        let signal = k.inactive();
        k.rig.settle().unwrap();
        assert_eq!(signal(), inactive, "dword {dword}");
        assert_eq!(k.error(), error::AQL_ERROR.of(1));
        assert_eq!(k.signal(), 0);
        // Behind that of the fault, where the kernel cannot be read.
        let iv = k.rig.iv(k.rig.ih_entries() - 1);
        assert_eq!(iv[4] >> 10, code, "dword {dword}");
    }
}

#[test]
fn registers_that_do_not_fit() {
    let mut k = Kernels::new();
    k.kernel(&NUMBERS, RSRC2, KERNARG);
    // 136 VGPRs for each of four waves of a SIMD.
    k.rig
        .poke(vram(k.code + 0x30), &(16u32 | 0xf0 << 12).to_le_bytes());
    let mut packet = k.packet(1024);
    packet[1] = 1024 | 1 << 16;
    k.submit(&packet);
    let signal = k.inactive();
    k.rig.settle().unwrap();
    assert_eq!(signal(), 128);
}

#[test]
fn a_fault_of_a_wave() {
    let mut k = Kernels::new();
    k.kernel(&NUMBERS, RSRC2, KERNARG);
    let packet = k.packet(64 * 1000);
    k.rig.poke64(vram(k.out + 2048), 0x6300_0000_0000);
    k.submit(&packet);
    k.rig.settle().unwrap();
    let [client, source, _, vmid] = k.rig.iv_head(0);
    assert_eq!([client, source, vmid], [0x1b, 0, VMID.into()]);
    let status = k.rig.get(gc::VM_L2_PROTECTION_FAULT_STATUS);
    assert_eq!(gc::vm_l2_protection_fault_status::CID.get(status), 8);
    // Never completed, and no more groups were launched.
    assert_eq!(k.error(), error::TC_UTCL1_ERROR.of(1));
    assert_eq!(k.signal(), 0);
    assert!(k.rig.gpu.summary.sq_groups.get() < 10);
    k.rig.dequeue(&k.queue);
    assert!(!k.rig.is_active(&k.queue));
}

#[test]
fn scratch_is_asked_for() {
    let mut k = Kernels::new();
    // The wave's offset in s3, to a buffer.
    let mut code = NUMBERS;
    code[3] = 0x7e00_0203; // v_mov_b32 v0, s3
    code[4] = 0x7e02_0280; // v_mov_b32 v1, 0
    k.kernel(&code, RSRC2 | 1, KERNARG);
    let mut packet = k.packet(64);
    packet[6] = 100;
    k.submit(&packet);
    let signal = k.inactive();
    k.rig.settle().unwrap();
    assert_eq!(signal(), 1);
    assert_eq!((k.signal(), k.error()), (0, 0));
    // 8 waves of 7 KiB: 112 bytes for each lane.
    let amd_queue = k.queue.amd_queue();
    k.rig
        .poke(vram(amd_queue + 0x8c), &(8u32 | 7 << 12).to_le_bytes());
    k.rig.poke(vram(amd_queue + 0xb0), &112u32.to_le_bytes());
    k.rig.poke(vram(amd_queue + 0xb4), &[1 << 4]);
    k.rig.poke(vram(k.out), &[0xff; 4]);
    k.rig.poke64(vram(k.queue.memory() + 0x88), 0);
    eventually("the end of the waves", || {
        k.rig.settle().unwrap();
        signal() == 512
    });
    assert_eq!(k.rig.peek32(vram(k.out)), 0);
    assert_eq!(k.signal(), 0);
    // Its owner reclaims the scratch: it zeroes the signal first, and the bit last.
    k.rig.poke64(vram(k.queue.memory() + 0x88), 0);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        k.rig.settle().unwrap();
        assert_eq!((signal(), k.signal()), (0, 0));
    }
    k.rig.poke(vram(amd_queue + 0xb4), &[0]);
    eventually("completion", || {
        k.rig.settle().unwrap();
        k.signal() == -1
    });
}

#[test]
fn waves_keep_a_queue() {
    let mut k = Kernels::new();
    k.kernel(&[FOR_EVER, END], RSRC2, KERNARG);
    let packet = k.packet(64);
    k.submit(&packet);
    // Without a worker: the waves are there and do not end.
    let step = |k: &Kernels| {
        for _ in 0..50 {
            k.rig.gpu.cp.step(&k.rig.gpu).unwrap();
        }
    };
    step(&k);
    k.rig.set_hqd(&k.queue, gc::CP_HQD_DEQUEUE_REQUEST, 1);
    step(&k);
    assert!(k.rig.is_active(&k.queue));
    k.rig.set_hqd(&k.queue, gc::CP_HQD_DEQUEUE_REQUEST, 2);
    step(&k);
    assert!(!k.rig.is_active(&k.queue));
    // Nothing is left for the workers.
    k.rig.settle().unwrap();
    assert_eq!(k.rig.gpu.summary.sq_groups.get(), 0);
    assert_eq!(k.rig.mqd_dword(&k.queue, 96), 0);
}
