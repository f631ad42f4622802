// SPDX-License-Identifier: GPL-2.0
//! Waves that leave their queue and come back, and other uses of the trap handler.

use super::assembly::assemble;
use super::compute::*;
use super::rig::*;
use crate::hub::{Flush, HubId};
use crate::regs::gc::{
    self, cp_hqd_error as error, grbm_gfx_cntl as select, vm_l2_protection_fault_status as status,
};
use crate::sq::pool::Worker;
use crate::tlb::Scope;

pub const VMID: u8 = 8;
/// Addresses in the queue's address space.
pub const CODE: u64 = 0x6100_0000_0000;
pub const OUT: u64 = 0x6200_0000_0000;
/// Behind the results of five groups of asm/patterns.s.
pub const ARGUMENTS: u64 = OUT + 0xe00;
const AREA: u64 = 0x6400_0000_0000;
const HANDLER: u64 = 0xffff_ffff_ffbf_0000;
/// The handler's memory, where it counts traps.
const COUNTS: u64 = OUT + 0xf00;
/// Bytes of the area, of which the control stack's copy takes the first.
const AREA_SIZE: u64 = 0x4_0000;
const STACK: u32 = 0x1000;
/// 16 VGPRs, 8 of them arch; denormals are kept.
pub const RSRC1: u32 = 1 | 0xf0 << 12;
const RSRC3: u32 = 1;
/// Arguments in two user SGPRs, the group's number in x.
pub const RSRC2: u32 = 2 << 1 | 1 << 7;
pub const TRAP_PRESENT: u32 = 1 << 6;
const ALL_CUS: u32 = !0;

const END: u32 = 0xbf81_0000; // s_endpgm
const NO_CODE: u32 = 0xffff_ffff;
/// s_trap 3, three times.
const TRAPS: [u32; 4] = [0xbf92_0003, 0xbf92_0003, 0xbf92_0003, END];

/// A queue of process VMID, with a trap handler and a save area.
pub struct Waves {
    pub rig: Rig,
    pub queue: Compute,
    worker: Worker,
    code: u64,
    pub out: u64,
    area: u64,
}

impl Waves {
    pub fn new(aql: bool) -> Waves {
        Waves::on(aql, AREA_SIZE)
    }

    /// A queue with a trap handler and a save area of that size, which is not loaded yet.
    fn on(aql: bool, size: u64) -> Waves {
        let mut rig = Rig::new();
        rig.start_mecs();
        let queue = rig.compute([1, 2, 3], VMID, aql);
        let [code, out, handler] = [0; 3].map(|_| rig.alloc(4096));
        let area = rig.alloc(AREA_SIZE);
        rig.map(VMID, CODE, vram(code), 4096, READ | EXECUTE);
        rig.map(VMID, OUT, vram(out), 4096, RW);
        rig.map(VMID, AREA, vram(area), AREA_SIZE, RW);
        rig.map(VMID, HANDLER, vram(handler), 4096, READ | EXECUTE);
        rig.set(gc::GRBM_GFX_CNTL, select::VMID.of(VMID.into()));
        for (reg, value) in [
            (gc::SH_MEM_BASES, 1 << 16 | 2),
            (gc::SQ_SHADER_TBA_LO, (HANDLER >> 8) as u32),
            (gc::SQ_SHADER_TBA_HI, (HANDLER >> 40) as u32 & 0xff),
            (gc::SQ_SHADER_TMA_LO, (COUNTS >> 8) as u32),
            (gc::SQ_SHADER_TMA_HI, (COUNTS >> 40) as u32),
            (gc::SPI_GDBG_PER_VMID_CNTL, 1 << 3),
        ] {
            rig.set(reg, value);
        }
        rig.set(gc::GRBM_GFX_CNTL, 0);
        for dword in [23, 24, 26, 27, 39, 40, 41, 42] {
            rig.set_mqd(&queue, dword, ALL_CUS);
        }
        for (dword, value) in [
            (20, TRAP_PRESENT),
            (171, lo(AREA)),
            (172, hi(AREA)),
            (174, STACK),
            (175, STACK),
            (176, STACK),
            (177, size as u32),
        ] {
            rig.set_mqd(&queue, dword, value);
        }
        let waves = Waves {
            rig,
            queue,
            worker: Worker::default(),
            code,
            out,
            area,
        };
        waves.words(handler, &assemble(include_str!("asm/handler.s")));
        waves.rig.poke64(vram(out + ARGUMENTS - OUT), OUT);
        waves
    }

    pub fn words(&self, at: u64, words: &[u32]) {
        for (n, &word) in (0..).zip(words) {
            self.rig.poke(vram(at + 4 * n), &word.to_le_bytes());
        }
    }

    /// Replaces the code.
    pub fn kernel(&self, code: &[u32]) {
        self.words(self.code + 256, code);
        for (at, word) in [
            (0x10, 256),
            (0x2c, RSRC3),
            (0x30, RSRC1),
            (0x34, RSRC2),
            (0x38, 1 << 3),
        ] {
            self.words(self.code + at, &[word]);
        }
    }

    /// Submits a dispatch of groups of 128 items with 512 bytes of LDS.
    fn submit(&mut self, groups: u32) {
        let done = self.queue.data();
        let mut packet = [0; 16];
        packet[0] = 2 | 1 << 16;
        packet[1] = 128 | 1 << 16;
        packet[2] = 1;
        packet[3..6].copy_from_slice(&[128 * groups, 1, 1]);
        packet[7] = 512;
        packet[8..12].copy_from_slice(&[lo(CODE), hi(CODE), lo(ARGUMENTS), hi(ARGUMENTS)]);
        packet[14..16].copy_from_slice(&[lo(done), hi(done)]);
        self.rig.put_aql(&mut self.queue, &packet);
        self.rig.knock(&self.queue);
    }

    /// Submits a dispatch of groups of 64 items by PM4.
    pub fn pm4(&mut self, dims: [u32; 3], rsrc2: u32) {
        self.packets(&dispatch(CODE + 256, dims, rsrc2, ARGUMENTS));
    }

    pub fn packets(&mut self, words: &[u32]) {
        self.rig.put(&mut self.queue, words);
        self.rig.knock(&self.queue);
    }

    /// Steps the front end and the waves a few times.
    pub fn run(&mut self) {
        for _ in 0..300 {
            self.worker.step(&self.rig.gpu.sq, &self.rig.gpu).unwrap();
            self.rig.gpu.cp.step(&self.rig.gpu).unwrap();
        }
    }

    pub fn load(&mut self) {
        self.rig.load(&self.queue);
        self.run();
    }

    pub fn request(&mut self, kind: u32) {
        self.rig
            .set_hqd(&self.queue, gc::CP_HQD_DEQUEUE_REQUEST, kind);
        self.run();
    }

    pub fn is_active(&self) -> bool {
        self.rig.is_active(&self.queue)
    }

    pub fn mqd(&self, dword: u64) -> u32 {
        self.rig.mqd_dword(&self.queue, dword)
    }

    pub fn out(&self, at: u64) -> u32 {
        self.rig.peek32(vram(self.out + at))
    }

    fn signal(&self) -> i64 {
        self.rig.peek64(vram(self.queue.memory() + 8)) as i64
    }

    /// Words at the start of OUT.
    pub fn words_out(&self, words: &[u32]) {
        self.words(self.out, words);
    }

    /// Lets the waves of asm/patterns.s end.
    pub fn release(&mut self) {
        self.words_out(&[1]);
        self.run();
    }
}

/// The COMPUTE_* registers for groups of 64 items with the code at `pc`, and the dispatch of `dims`
/// items.
pub fn dispatch(pc: u64, dims: [u32; 3], rsrc2: u32, arguments: u64) -> Vec<u32> {
    let pgm = pc >> 8;
    let mut words = vec![0xc003_7602, 0x207, 64, 1, 1];
    words.extend([0xc002_7602, 0x20c, lo(pgm), hi(pgm)]);
    words.extend([0xc002_7602, 0x212, RSRC1, rsrc2]);
    words.extend([0xc001_7602, 0x22d, RSRC3]);
    words.extend([0xc002_7602, 0x240, lo(arguments), hi(arguments)]);
    words.extend([0xc003_1502, dims[0], dims[1], dims[2], 0x21]);
    words
}

/// The result of asm/patterns.s for an item.
fn pattern(item: u32) -> u32 {
    let masked = if 0x1234u64 >> (item % 64) & 1 == 1 {
        0x5000 + item
    } else {
        0
    };
    let vectors = masked + (item ^ 64) + 2 * (0x7000 + item) + (0xa000 + item);
    vectors + 0x1f0_0000 + 0x200_0000
}

fn check_patterns(waves: &Waves, groups: u32) {
    for item in 0..128 * groups {
        let got = waves.out(256 + 4 * u64::from(item));
        assert_eq!(got, pattern(item), "item {item}: {got:#x}");
    }
    assert_eq!(waves.signal(), -1);
}

/// Stores what it finds in v3, s20 and LDS at OUT + 512, by lane, and leaves a word of its own
/// there.
const FINDS: &str = "
	s_mov_b32 s8, 0x200
	s_add_u32 s0, s0, s8
	s_addc_u32 s1, s1, 0
	v_lshlrev_b32 v1, 2, v0
	global_store_dword v1, v3, s[0:1]
	ds_read_b32 v2, v1
	s_waitcnt lgkmcnt(0)
	global_store_dword v1, v2, s[0:1] offset:256
	v_mov_b32 v2, s20
	global_store_dword v1, v2, s[0:1] offset:512
	v_mov_b32 v3, 0x111
	v_mov_b32 v2, 0x222
	ds_write_b32 v1, v2
	s_movk_i32 s20, 0x333
	s_endpgm
";

#[test]
fn waves_find_what_others_have_left() {
    let mut w = Waves::new(false);
    w.kernel(&assemble(FINDS));
    // The arguments are the address itself.
    let words = dispatch(CODE + 256, [64, 1, 1], RSRC2 | 1 << 15, OUT);
    w.load();
    for found in [[0; 3], [0x111, 0x222, 0x333]] {
        w.packets(&words);
        w.run();
        for lane in [0, 63] {
            let at = 512 + 4 * lane;
            assert_eq!([0, 256, 512].map(|more| w.out(at + more)), found);
        }
    }
}

#[test]
fn all_registers_survive() {
    let mut w = Waves::new(true);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    w.load();
    w.submit(3);
    w.run();
    for round in 1..=3 {
        w.request(3);
        assert!(!w.is_active());
        assert_eq!(w.rig.gpu.summary.sq_saved.get(), 6 * round);
        // Two dwords, and for each group three words.
        assert_eq!(w.mqd(174), STACK - 4 * (2 + 3 * 3));
        let record = 16 * 256 + 640;
        assert_eq!(w.mqd(176), STACK + 6 * record + 3 * 512);
        // There are waves; no launch was cut.
        assert_eq!(w.mqd(132) >> 29, 1);
        assert_eq!(w.signal(), 0);
        w.load();
        assert_eq!(w.rig.hqd(&w.queue, gc::CP_HQD_CNTL_STACK_OFFSET), STACK);
        assert_eq!(w.rig.gpu.summary.sq_restored.get(), 6 * round);
    }
    w.release();
    check_patterns(&w, 3);
    assert_eq!(w.rig.gpu.summary.sq_waves.get(), 6);
}

#[test]
fn asked_to_leave_before_they_are_back() {
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&[NO_CODE]);
    // Its packet is done, so that only the wave is left.
    w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
    w.run();
    w.request(3);
    assert!(!w.is_active());
    w.rig.load(&w.queue);
    w.request(3);
    assert!(!w.is_active());
    // It is in the memory where it was.
    assert_eq!(w.mqd(174), STACK - 4 * (2 + 2));
    w.load();
    assert_eq!(w.rig.gpu.summary.sq_restored.get(), 1);
    w.request(3);
    assert_eq!(w.rig.gpu.summary.sq_saved.get(), 2);
}

#[test]
fn asked_to_leave_while_they_are_launched() {
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&[NO_CODE]);
    let words = dispatch(CODE + 256, [64, 1, 1], RSRC2 | TRAP_PRESENT, ARGUMENTS);
    let (registers, launch) = words.split_at(words.len() - 5);
    w.packets(registers);
    w.run();
    w.packets(launch);
    let request = || w.rig.set_hqd(&w.queue, gc::CP_HQD_DEQUEUE_REQUEST, 3);
    while !w.rig.gpu.cp.step_with(&w.rig.gpu, request).unwrap() {}
    w.run();
    assert!(!w.is_active());
    w.load();
    assert_eq!(w.rig.gpu.summary.sq_waves.get(), 1);
}

#[test]
fn waves_are_only_in_memory() {
    let mut w = Waves::new(true);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    w.load();
    w.submit(1);
    w.run();
    w.request(3);
    // Control stack, from the newest on: state, first wave, last wave.
    let stack = |n: u64| {
        w.rig
            .peek32(vram(w.queue.mqd + 4096 + u64::from(w.mqd(174)) + 4 * n))
    };
    assert_eq!(stack(2), 1 | 7 << 6 | 1 << 9 | 1 << 24 | 1 << 31);
    assert_eq!(
        [stack(3), stack(4)].map(|word| word >> 15),
        [1 << 2, 1 << 1]
    );
    // The second wave is below. Its accumulation VGPR 0, of lane 5; its group's number and its own
    // are in TTMPs.
    let record = w.area + u64::from(STACK);
    let at = record + 8 * 256 + 5 * 4;
    assert_eq!(w.rig.peek32(vram(at)), 0x7000 + 64 + 5);
    let ttmp = |n: u64| w.rig.peek32(vram(record + 16 * 256 + 448 + 64 + 4 * n));
    assert_eq!([6, 8, 11].map(ttmp), [0, 0, 1 | 1 << 6]);
    // It stands at its barrier, and has not passed it.
    let pc = w.rig.peek32(vram(record + 16 * 256 + 448 + 4));
    assert_eq!(
        w.rig.peek32(vram(w.code + u64::from(pc - lo(CODE)))),
        0xbf8a_0000
    );
    w.words(at, &[0x7000 + 64 + 5 + 0x800_0000]);
    w.load();
    w.release();
    assert_eq!(w.out(256 + 4 * 69), pattern(69) + 0x800_0000);
    assert_eq!(w.out(256 + 4 * 68), pattern(68));
    assert_eq!(w.signal(), -1);
}

/// A queue with a launch of five groups, of which a CU has room for two at a time.
fn launched_in_part() -> Waves {
    let mut w = Waves::new(true);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    for dword in [24, 26, 27, 39, 40, 41, 42] {
        w.rig.set_mqd(&w.queue, dword, 0);
    }
    w.rig.set_mqd(&w.queue, 23, 1 << 4);
    w.rig.set_mqd(&w.queue, 22, 2 << 12);
    w.load();
    w.submit(5);
    w.run();
    assert_eq!(w.rig.gpu.summary.sq_groups.get(), 2);
    w.request(3);
    assert!(!w.is_active());
    w
}

#[test]
fn a_launch_that_was_cut() {
    let mut w = launched_in_part();
    // A cut launch, waves, the first group that is missing.
    assert_eq!(w.mqd(132) >> 29, 0b101);
    assert_eq!(w.mqd(28), 2);
    w.load();
    w.release();
    check_patterns(&w, 5);
    assert_eq!(w.rig.gpu.summary.sq_groups.get(), 5);
}

#[test]
fn a_launch_that_is_cut_again() {
    let mut w = launched_in_part();
    w.load();
    // The first groups end, and others begin, which wait again.
    w.words_out(&[1]);
    while w.rig.gpu.summary.sq_groups.get() == 2 {
        w.worker.step(&w.rig.gpu.sq, &w.rig.gpu).unwrap();
    }
    w.words_out(&[0]);
    w.request(3);
    assert!(!w.is_active());
    let launched = w.rig.gpu.summary.sq_groups.get();
    assert!((3..5).contains(&launched));
    assert_eq!(u64::from(w.mqd(28)), launched);
    w.load();
    w.release();
    check_patterns(&w, 5);
    assert_eq!(w.rig.gpu.summary.sq_groups.get(), 5);
}

#[test]
fn an_area_that_is_too_small() {
    let mut w = Waves::on(true, 0x2000);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    w.load();
    w.submit(1);
    w.run();
    w.request(3);
    assert!(w.is_active());
    let bits = w.rig.hqd(&w.queue, gc::CP_HQD_ERROR);
    assert!(error::SR_UTCL1_ERROR.is_set(bits));
    w.request(2);
    assert!(!w.is_active());
    assert_eq!(w.mqd(174), STACK);
    assert_eq!(w.mqd(132) >> 29, 0);
}

#[test]
fn an_area_that_is_not_there() {
    let mut w = Waves::new(true);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    w.load();
    w.submit(1);
    w.run();
    let entry = w.rig.entry(VMID, AREA + u64::from(STACK));
    w.rig.poke64(entry, 0);
    let gpu = w.rig.gpu.clone();
    gpu.hub(HubId::Gfx)
        .flush(&gpu, 1 << VMID, Scope::ALL, Flush::Heavy);
    w.request(3);
    assert!(w.is_active());
    w.request(2);
    assert!(!w.is_active());
}

#[test]
fn waves_without_a_handler_only_drain() {
    let mut w = Waves::new(true);
    w.rig.set_mqd(&w.queue, 20, 0);
    w.kernel(&assemble(include_str!("asm/patterns.s")));
    w.load();
    w.submit(2);
    w.run();
    w.request(3);
    assert!(w.is_active());
    w.release();
    assert!(!w.is_active());
    check_patterns(&w, 2);
}

#[test]
fn traps() {
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&TRAPS);
    w.pm4([130, 1, 1], RSRC2 | TRAP_PRESENT);
    w.run();
    // Three waves.
    assert_eq!(w.out(COUNTS - OUT + 3 * 4), 9);
    // Without a handler a trap does nothing.
    w.pm4([64, 1, 1], RSRC2);
    w.run();
    assert_eq!(w.out(COUNTS - OUT + 3 * 4), 9);
    assert_eq!(w.rig.gpu.summary.sq_waves.get(), 4);
}

#[test]
fn what_is_no_instruction() {
    let mut w = Waves::new(false);
    w.load();
    w.kernel(&[NO_CODE]);
    // The handler halts the wave, which can be saved.
    w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
    w.run();
    assert_eq!(w.rig.ih_entries(), 0);
    w.request(3);
    assert!(!w.is_active());
    assert_eq!(w.rig.gpu.summary.sq_saved.get(), 1);
    w.load();
    w.request(2);
    // Without a handler SQ reports it: encoding 2, type 1.
    w.load();
    w.pm4([64, 1, 1], RSRC2);
    let packet = release(w.queue.data(), 1, 5);
    w.packets(&packet);
    w.run();
    assert_eq!(w.rig.ih_entries(), 1);
    let iv = w.rig.iv(0);
    assert_eq!((iv[4] >> 26 & 3, iv[5] >> 4 & 0xf), (2, 1));
    assert_eq!(
        w.rig.hqd(&w.queue, gc::CP_HQD_ERROR),
        error::TC_UTCL1_ERROR.of(1)
    );
}

#[test]
fn faults_have_their_clients() {
    for (rights, code, cid) in [
        // s_load_dword s4, s[4:5], 0x0
        (READ | EXECUTE, [0xc002_0102, 0, END], 10),
        // global_load_dword v0, v0, s[4:5]
        (READ | EXECUTE, [0xdc50_8000, 0x0004_0000, END], 8),
        (READ, [END; 3], 9),
    ] {
        let mut w = Waves::new(false);
        w.load();
        w.rig.map(VMID, CODE, vram(w.code), 4096, rights);
        w.kernel(&code);
        w.pm4([64, 1, 1], RSRC2);
        w.run();
        let bits = w.rig.get(gc::VM_L2_PROTECTION_FAULT_STATUS);
        assert_eq!(status::CID.get(bits), cid);
        assert_eq!(
            status::PERMISSION_FAULTS.get(bits) >> 3 & 1,
            u32::from(cid == 9)
        );
    }
}

#[test]
fn code_that_may_not_be_executed_halts_its_wave() {
    let mut w = Waves::new(false);
    w.load();
    w.rig.map(VMID, CODE, vram(w.code), 4096, READ);
    w.kernel(&TRAPS);
    w.pm4([64, 1, 1], RSRC2 | TRAP_PRESENT);
    w.run();
    assert!(w.rig.hqd(&w.queue, gc::CP_HQD_ERROR) == 0);
    w.request(3);
    assert!(!w.is_active());
    // HALT in the STATUS that was saved.
    let saved = w.area + u64::from(STACK) + 16 * 256 + 448 + 5 * 4;
    assert_eq!(w.rig.peek32(vram(saved)) >> 13 & 1, 1);
}
