// SPDX-License-Identifier: GPL-2.0
//! PM4 packets of compute queues.

use super::compute::*;
use super::rig::*;
use crate::error::ModelError;
use crate::regs::gc::{self, cp_hqd_error as error};

fn rig() -> (Rig, Compute) {
    let mut rig = Rig::new();
    let queue = rig.running([1, 1, 2], 8, false);
    (rig, queue)
}

#[test]
fn write_data() {
    let (rig, mut queue) = rig();
    let to = queue.data();
    rig.pm4(&mut queue, &write(to, 0x1234));
    assert_eq!(rig.peek32(vram(queue.memory())), 0x1234);
    rig.pm4(&mut queue, &[0xc005_3700, 5 << 8, lo(to), hi(to), 1, 2, 3]);
    assert_eq!(rig.peek64(vram(queue.memory())), 1 | 2 << 32);
    assert_eq!(rig.peek32(vram(queue.memory() + 8)), 3);
    // All to one place.
    rig.pm4(
        &mut queue,
        &[0xc004_3700, 5 << 8 | 1 << 16, lo(to), hi(to), 7, 8],
    );
    assert_eq!(rig.peek64(vram(queue.memory())), 8 | 2 << 32);
    // More than the processor reads at once.
    let mut words = vec![0xc000_3700 | 102 << 16, 5 << 8, lo(to), hi(to)];
    words.extend(0..100);
    rig.pm4(&mut queue, &words);
    assert_eq!(rig.peek32(vram(queue.memory() + 99 * 4)), 99);
    assert_eq!(rig.gpu.summary.pm4.get()["WRITE_DATA"], 4);
}

#[test]
fn the_ring_wraps() {
    let (rig, mut queue) = rig();
    for n in 0..1000 {
        let to = queue.data();
        rig.pm4(&mut queue, &write(to, n));
        assert_eq!(rig.peek32(vram(queue.memory())), n);
    }
    assert!(queue.wptr > 4 * DWORDS);
    assert_eq!(
        u64::from(rig.hqd(&queue, gc::CP_HQD_PQ_WPTR_LO)),
        queue.wptr
    );
}

#[test]
fn a_packet_waits_for_its_end() {
    let (rig, mut queue) = rig();
    let to = queue.data();
    let words = write(to, 6);
    rig.put(&mut queue, &words[..2]);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 0);
    rig.pm4(&mut queue, &words[2..]);
    assert_eq!(rig.peek32(vram(queue.memory())), 6);
}

#[test]
fn nops() {
    let (rig, mut queue) = rig();
    let to = queue.data();
    let nops = [0xffff_1000, 0x8000_0000, 0xc002_1000, 1, 2, 3];
    rig.pm4(&mut queue, &[&nops[..], &write(to, 1)].concat());
    // ACQUIRE_MEM and EVENT_WRITE have nothing to do.
    let caches = [0xc005_5800, 0, !0, 0xff, 0, 0, 10, 0xc000_4600, 0x407];
    rig.pm4(&mut queue, &[&caches[..], &write(to, 2)].concat());
    assert_eq!(rig.peek32(vram(queue.memory())), 2);
}

#[test]
fn release_mem() {
    let (rig, mut queue) = rig();
    let to = queue.data();
    rig.pm4(&mut queue, &release(to, 0x1_0000_0002, 0x77));
    assert_eq!(rig.peek64(vram(queue.memory())), 0x1_0000_0002);
    // Queue 2, ME 1, pipe 1.
    assert_eq!(rig.iv_head(0), [0x14, 181, 2 << 4 | 1 << 2 | 1, 8]);
    let iv = rig.iv(0);
    assert_eq!((iv[0] >> 31, iv[3]), (0, 0x8008));
    assert_eq!((iv[4], iv[5]), (0x77, queue.doorbell));
    // The clock, without an interrupt.
    let mut clock = release(to, 0, 0);
    clock[2] = 3 << 29;
    rig.pm4(&mut queue, &clock);
    assert!(rig.peek64(vram(queue.memory())) <= rig.gpu.clock.now());
    let mut dword = release(to, 0xdead_beef, 0);
    dword[2] = 1 << 29;
    rig.poke64(vram(queue.memory()), 0);
    rig.pm4(&mut queue, &dword);
    assert_eq!(rig.peek64(vram(queue.memory())), 0xdead_beef);
    assert_eq!(rig.ih_entries(), 1);
    assert_eq!(rig.gpu.summary.cp_eops.get(), 3);
    assert_eq!(rig.hqd(&queue, gc::CP_HQD_EOP_WPTR) & 0x1fff, 24);
    // Through the EOP buffer, which is behind the pointers.
    assert_eq!(rig.peek32(vram(queue.amd_queue() + 0x1010)), 0x77);
}

#[test]
fn interrupts_need_to_be_enabled() {
    let (rig, mut queue) = rig();
    rig.select(queue.at);
    rig.set(gc::CPC_INT_CNTL, 0);
    let to = queue.data();
    rig.pm4(&mut queue, &release(to, 1, 1));
    assert_eq!(rig.ih_entries(), 0);
    rig.set(gc::CP_ME1_PIPE1_INT_CNTL, 1 << 26);
    rig.pm4(&mut queue, &release(to, 2, 1));
    assert_eq!(rig.ih_entries(), 1);
}

#[test]
fn copy_data() {
    let (rig, mut queue) = rig();
    let at = queue.data();
    rig.poke64(vram(queue.memory()), 0x1111_2222_3333_4444);
    let copy = |from: u32, to: u32, wide: u32, src: u64, dst: u64| {
        let control = from | to << 8 | wide << 16;
        [0xc004_4000, control, lo(src), hi(src), lo(dst), hi(dst)]
    };
    rig.pm4(&mut queue, &copy(1, 5, 0, at, at + 16));
    assert_eq!(rig.peek64(vram(queue.memory() + 16)), 0x3333_4444);
    rig.pm4(&mut queue, &copy(2, 5, 1, at, at + 16));
    assert_eq!(rig.peek64(vram(queue.memory() + 16)), 0x1111_2222_3333_4444);
    rig.pm4(&mut queue, &copy(5, 2, 1, 0xabcd_0000_0001, at + 16));
    assert_eq!(rig.peek64(vram(queue.memory() + 16)), 0xabcd_0000_0001);
    rig.pm4(&mut queue, &copy(9, 5, 1, 0, at + 16));
    assert!(rig.peek64(vram(queue.memory() + 16)) <= rig.gpu.clock.now());
    // Scratch registers are open to all.
    rig.pm4(&mut queue, &[0xc001_7900, 0x41, 99]);
    let scratch = u64::from(gc::SCRATCH_REG1.0);
    rig.pm4(&mut queue, &copy(0, 5, 0, scratch, at + 16));
    assert_eq!(rig.peek32(vram(queue.memory() + 16)), 99);
    rig.pm4(&mut queue, &copy(1, 0, 0, at, scratch));
    assert_eq!(rig.get(gc::SCRATCH_REG1), 0x3333_4444);
}

#[test]
fn registers_of_a_queue_are_set() {
    let (rig, mut queue) = rig();
    // PGM_LO and PGM_HI, then PGM_RSRC3 and the last one of USER_DATA.
    for words in [
        &[0xc002_7602, 0x20c, 1, 2][..],
        &[0xc001_7602, 0x22d, 1],
        &[0xc001_7602, 0x24f, 1],
    ] {
        rig.pm4(&mut queue, words);
    }
    assert_eq!(rig.gpu.summary.pm4.get()["SET_SH_REG"], 3);
    assert_eq!(rig.gpu.summary.cp_refused.get(), 0);
}

#[test]
fn atomic_mem() {
    let (rig, mut queue) = rig();
    let at = queue.data();
    rig.poke64(vram(queue.memory()), 40);
    let atomic = |op: u32, command: u32, operand: u64, compare: u64| {
        [
            0xc007_1e00,
            op | command << 8,
            lo(at),
            hi(at),
            lo(operand),
            hi(operand),
            lo(compare),
            hi(compare),
            10,
        ]
    };
    rig.pm4(&mut queue, &atomic(0x2f, 0, 2, 0));
    assert_eq!(rig.peek64(vram(queue.memory())), 42);
    rig.pm4(&mut queue, &atomic(0x28, 0, 50, 41));
    assert_eq!(rig.peek64(vram(queue.memory())), 42);
    // Until it swaps.
    rig.put(&mut queue, &atomic(0x28, 1, 50, 41));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_ne!(rig.reported(&queue), queue.wptr);
    rig.poke64(vram(queue.memory()), 41);
    eventually("the swap", || {
        rig.settle().unwrap();
        rig.peek64(vram(queue.memory())) == 50
    });
}

#[test]
fn wait_reg_mem() {
    let (rig, mut queue) = rig();
    let at = queue.data();
    for (func, value) in [(0, 9), (1, 4), (2, 5), (3, 5), (4, 6), (5, 5), (6, 6)] {
        rig.poke(vram(queue.memory()), &0xff05_u32.to_le_bytes());
        if func != 0 && func != 2 && func != 3 && func != 5 {
            let words = [0xc005_3c00, func | 1 << 4, lo(at), hi(at), 5, 0xff, 4];
            rig.put(&mut queue, &words);
            rig.knock(&queue);
            rig.settle().unwrap();
            assert_ne!(rig.reported(&queue), queue.wptr % DWORDS, "{func}");
            rig.poke(vram(queue.memory()), &(value | 0xff00u32).to_le_bytes());
        } else {
            let words = [0xc005_3c00, func | 1 << 4, lo(at), hi(at), 5, 0xff, 4];
            rig.put(&mut queue, &words);
            rig.knock(&queue);
        }
        eventually("the wait", || {
            rig.settle().unwrap();
            rig.reported(&queue) == queue.wptr % DWORDS
        });
    }
}

#[test]
fn a_wait_that_requests_first() {
    let (mut rig, _) = rig();
    let mut queue = rig.running([2, 1, 0], 0, false);
    let range = gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32.nth(5, 2);
    rig.set(range, !0);
    // A flush of VMID 2: the reference is the request, of which only the VMID's bit comes back.
    let (request, ack) = (
        gc::VM_INVALIDATE_ENG0_REQ.nth(5, 1),
        gc::VM_INVALIDATE_ENG0_ACK.nth(5, 1),
    );
    let words = [
        0xc005_3c00,
        3 | 1 << 6,
        request.0,
        ack.0,
        0x7c_0004,
        4,
        0x20,
    ];
    rig.put(&mut queue, &words);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.get(request), 0x7c_0004);
    assert_eq!(rig.reported(&queue), queue.wptr % DWORDS);
}

#[test]
fn a_wait_for_memory_that_is_not_there() {
    let (rig, mut queue) = rig();
    rig.put(&mut queue, &wait(0x1000, 5));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.iv_head(0)[..2], [0x1b, 0]);
    assert_eq!(rig.ih_entries(), 1);
    let bits = rig.hqd(&queue, gc::CP_HQD_ERROR);
    assert!(error::TC_UTCL1_ERROR.is_set(bits));
}

#[test]
fn the_status_tells_what_is_at_work() {
    let (rig, mut queue) = rig();
    assert_eq!(rig.get(gc::GRBM_STATUS), 0);
    let at = queue.data();
    rig.put(&mut queue, &wait(at, 1));
    rig.knock(&queue);
    rig.settle().unwrap();
    // GUI_ACTIVE and CP_BUSY.
    assert_eq!(rig.get(gc::GRBM_STATUS), 1 << 31 | 1 << 29);
    rig.dequeue(&queue);
    assert_eq!(rig.get(gc::GRBM_STATUS), 0);
    rig.poke(vram(queue.memory()), &[1]);
    rig.load(&queue);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.get(gc::GRBM_STATUS), 0);
}

#[test]
fn indirect_buffers() {
    let (rig, mut queue) = rig();
    let ib = queue.data() + 0x800;
    let words = [write(queue.data(), 1), write(queue.data() + 4, 2)].concat();
    for (n, word) in words.iter().enumerate() {
        let at = queue.memory() + 0x800 + n as u64 * 4;
        rig.poke(vram(at), &word.to_le_bytes());
    }
    rig.pm4(&mut queue, &indirect(ib, 10));
    assert_eq!(rig.peek64(vram(queue.memory())), 1 | 2 << 32);
    rig.pm4(&mut queue, &indirect(ib, 0));
    // Chained: the first buffer ends in a jump to the second.
    let second = queue.data() + 0xc00;
    let mut chain = indirect(second, 5);
    chain[3] |= 1 << 20;
    for (at, words) in [(0x800, &chain[..]), (0xc00, &write(queue.data(), 9)[..])] {
        for (n, word) in words.iter().enumerate() {
            let at = queue.memory() + at + n as u64 * 4;
            rig.poke(vram(at), &word.to_le_bytes());
        }
    }
    rig.pm4(&mut queue, &indirect(ib, 4));
    assert_eq!(rig.peek32(vram(queue.memory())), 9);
}

#[test]
fn an_indirect_buffer_goes_on_where_it_was() {
    let (rig, mut queue) = rig();
    let count = queue.data();
    let add = |n: u32| [0xc007_1e00, 0x0f, lo(count), hi(count), n, 0, 0, 0, 0];
    let words = [&add(1)[..], &wait(count + 8, 1), &add(10)].concat();
    for (n, word) in words.iter().enumerate() {
        let at = queue.memory() + 0x800 + n as u64 * 4;
        rig.poke(vram(at), &word.to_le_bytes());
    }
    rig.put(&mut queue, &indirect(count + 0x800, words.len() as u32));
    rig.put(&mut queue, &add(100));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 1);
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
    rig.poke(vram(queue.memory() + 8), &[1]);
    rig.load(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.peek32(vram(queue.memory())), 111);
}

#[test]
fn refused_packets() {
    for (words, reason) in [
        (&[0xc000_1500, 0][..], "DISPATCH_DIRECT"),
        (&[0x0000_1234, 0], "type 0"),
        (&[0xc003_3700, 0, 0x3245, 0, 1], "a register"),
        (&[0xc003_3700, 9 << 8, 0, 0, 1], "a destination"),
        (&[0xc005_a000, 0, 0, 0, 0, 0, 0], "the kernel's packet"),
        (&[0xc001_3c00, 0, 0], "a count"),
        (&[0xffff_3700, 5 << 8], "longer than the ring"),
        (&[0xc001_7900, 0x342, 5], "a register that is not modelled"),
        (&[0xc001_7602, 0x8, 5], "a register of graphics' shaders"),
        (&[0xc001_7602, 0x22a, 5], "a COMPUTE_* register beyond them"),
        (&[0xc002_7602, 0x24f, 5, 5], "the second of two registers"),
    ] {
        let (rig, mut queue) = rig();
        rig.put(&mut queue, words);
        rig.knock(&queue);
        rig.settle().unwrap();
        let iv = rig.iv(0);
        assert_eq!(rig.iv_head(0), [0x14, 183, 0x25, 8], "{reason}");
        assert_eq!(iv[4], queue.doorbell / 2 & 0x3ff | 20 << 10, "{reason}");
        assert_eq!([iv[5], iv[6], iv[7]], [words[0], 0, 0], "{reason}");
        let bits = rig.hqd(&queue, gc::CP_HQD_ERROR);
        assert_eq!(bits, error::SUA_ERROR.of(1), "{reason}");
        rig.dequeue(&queue);
        assert!(!rig.is_active(&queue), "{reason}");
        assert_eq!(rig.ih_entries(), 1, "{reason}");
        assert_eq!(rig.gpu.summary.cp_refused.get(), 1);
    }
}

#[test]
fn refused_packets_of_the_kernel() {
    let mut rig = Rig::new();
    let mut queue = rig.running([2, 1, 0], 0, false);
    let to = queue.data();
    rig.pm4(&mut queue, &write(to, 3));
    // Registers are the kernel's.
    rig.pm4(&mut queue, &[0xc001_7900, 0x40, 0xdead_beef]);
    assert_eq!(rig.get(gc::SCRATCH_REG0), 0xdead_beef);
    rig.pm4(&mut queue, &[0xc003_3700, 0, gc::CP_IQ_WAIT_TIME2.0, 0, 5]);
    assert_eq!(rig.get(gc::CP_IQ_WAIT_TIME2), 5);
    rig.put(&mut queue, &[0xc000_1500, 0]);
    rig.knock(&queue);
    let result = rig.settle().unwrap_err();
    assert!(matches!(result, ModelError::CpPacket { .. }), "{result}");
    assert!(
        result.to_string().contains("MEC2 pipe 1 queue 0"),
        "{result}"
    );
}

#[test]
fn registers_of_the_kernel_that_are_not_modelled() {
    for words in [[0xc001_7900, 0x3fff, 5], [0xc001_7602, 0x8, 5]] {
        let mut rig = Rig::new();
        let mut queue = rig.running([2, 1, 0], 0, false);
        rig.put(&mut queue, &words);
        rig.knock(&queue);
        let result = rig.settle().unwrap_err();
        let is_unknown = matches!(result, ModelError::UnknownRegister { .. });
        assert!(is_unknown, "{words:x?}: {result}");
    }
}

#[test]
fn faults() {
    let (rig, mut queue) = rig();
    // Data: the packet goes on.
    rig.pm4(&mut queue, &write(0x4000, 1));
    assert_eq!(rig.iv_head(0), [0x1b, 0, 0x28, 8]);
    // An indirect buffer: the queue stops, with only the hub's interrupt.
    rig.put(&mut queue, &indirect(0x8000, 8));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.ih_entries(), 2);
    let bits = rig.hqd(&queue, gc::CP_HQD_ERROR);
    assert_eq!(bits, error::IB_UTCL1_ERROR.of(1));
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
}

#[test]
fn a_ring_or_eop_buffer_that_is_not_there() {
    for (dword, bit) in [(136, error::PQ_UTCL1_ERROR), (165, error::EOP_UTCL1_ERROR)] {
        let mut rig = Rig::new();
        rig.start_mecs();
        let mut queue = rig.compute([1, 0, 1], 8, false);
        rig.set_mqd(&queue, dword, 0x40);
        rig.set_mqd(&queue, dword + 1, 0);
        rig.load(&queue);
        let to = queue.data();
        rig.put(&mut queue, &release(to, 1, 0));
        rig.knock(&queue);
        rig.settle().unwrap();
        assert_eq!(rig.hqd(&queue, gc::CP_HQD_ERROR), bit.of(1));
        assert_eq!(rig.iv_head(0)[..2], [0x1b, 0]);
        rig.dequeue(&queue);
        assert!(!rig.is_active(&queue));
    }
}
