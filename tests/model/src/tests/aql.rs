// SPDX-License-Identifier: GPL-2.0
//! AQL packets and signals.

use super::compute::*;
use super::rig::*;
use crate::regs::gc::{self, cp_hqd_error as error};

fn rig() -> (Rig, Compute) {
    let mut rig = Rig::new();
    let queue = rig.running([1, 0, 3], 8, true);
    (rig, queue)
}

/// A signal at `offset` of the queue's data page.
fn signal(rig: &Rig, queue: &Compute, offset: u64, value: i64) -> u64 {
    rig.poke64(vram(queue.memory() + offset + 8), value as u64);
    queue.data() + offset
}

fn value(rig: &Rig, queue: &Compute, offset: u64) -> i64 {
    rig.peek64(vram(queue.memory() + offset + 8)) as i64
}

/// A packet of 64 bytes: header, qwords from 8 on, completion signal.
fn packet(header: u32, qwords: &[u64], completion: u64) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = header;
    for (n, &qword) in qwords.iter().enumerate() {
        words[2 + 2 * n] = lo(qword);
        words[3 + 2 * n] = hi(qword);
    }
    words[14] = lo(completion);
    words[15] = hi(completion);
    words
}

const BARRIER_AND: u32 = 3;
const BARRIER_OR: u32 = 5;

#[test]
fn completion() {
    let (rig, mut queue) = rig();
    let done = signal(&rig, &queue, 0, 1);
    rig.aql(&mut queue, &packet(BARRIER_AND, &[], done));
    assert_eq!(value(&rig, &queue, 0), 0);
    assert_eq!(rig.ih_entries(), 0);
    // The header is invalid again, all else unchanged.
    assert_eq!(rig.peek32(vram(queue.vram)), 1);
    assert_eq!(rig.peek64(vram(queue.memory() + 0x20)), 0);
    // With a mailbox and an event; and timestamps if the queue wants them.
    rig.poke64(vram(queue.memory() + 0x10), queue.data() + 0x100);
    rig.poke64(vram(queue.memory() + 0x18), 0x1234);
    rig.poke(vram(queue.amd_queue() + 0xb4), &[1 << 3]);
    rig.aql(&mut queue, &packet(BARRIER_AND | 1 << 8, &[], done));
    assert_eq!(value(&rig, &queue, 0), -1);
    assert_eq!(rig.peek64(vram(queue.memory() + 0x100)), 0x1234);
    assert_eq!(rig.iv_head(0), [0x14, 181, 3 << 4 | 1 << 2, 8]);
    assert_eq!(rig.iv(0)[3..5], [0x8008, 0x1234]);
    let stamps = [0x20, 0x28].map(|at| rig.peek64(vram(queue.memory() + at)));
    assert!(stamps[0] > 0 && stamps[1] >= stamps[0]);
    assert_eq!(rig.gpu.summary.aql.get()["BARRIER_AND"], 2);
}

#[test]
fn the_ring_wraps() {
    let (rig, mut queue) = rig();
    signal(&rig, &queue, 0, 0);
    let done = queue.data();
    for _ in 0..300 {
        rig.aql(&mut queue, &packet(BARRIER_AND, &[], done));
    }
    assert_eq!(value(&rig, &queue, 0), -300);
    assert_eq!(rig.reported(&queue), 300);
}

#[test]
fn a_full_ring() {
    let (rig, mut queue) = rig();
    let gate = signal(&rig, &queue, 0x40, 1);
    let done = signal(&rig, &queue, 0, 64);
    rig.put_aql(&mut queue, &packet(BARRIER_AND, &[gate], done));
    for _ in 1..64 {
        rig.put_aql(&mut queue, &packet(BARRIER_AND, &[], done));
    }
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.reported(&queue), 0);
    signal(&rig, &queue, 0x40, 0);
    eventually("all packets", || {
        rig.settle().unwrap();
        value(&rig, &queue, 0) == 0
    });
    assert_eq!(rig.reported(&queue), 64);
}

#[test]
fn barrier_and_or() {
    let (rig, mut queue) = rig();
    let a = signal(&rig, &queue, 0x40, 1);
    let b = signal(&rig, &queue, 0x80, 1);
    let done = signal(&rig, &queue, 0, 2);
    rig.put_aql(&mut queue, &packet(BARRIER_AND, &[0, a, 0, 0, b], done));
    rig.put_aql(&mut queue, &packet(BARRIER_OR, &[a, 0, b], done));
    rig.knock(&queue);
    rig.settle().unwrap();
    signal(&rig, &queue, 0x40, 0);
    rig.settle().unwrap();
    assert_eq!(value(&rig, &queue, 0), 2);
    signal(&rig, &queue, 0x80, 0);
    eventually("both", || {
        rig.settle().unwrap();
        value(&rig, &queue, 0) == 0
    });
    // One of the two is enough for the other kind.
    signal(&rig, &queue, 0x40, 1);
    rig.aql(&mut queue, &packet(BARRIER_OR, &[a, b], done));
    signal(&rig, &queue, 0x80, 5);
    rig.put_aql(&mut queue, &packet(BARRIER_OR, &[a, b], done));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(value(&rig, &queue, 0), -1);
    signal(&rig, &queue, 0x40, 0);
    eventually("one", || {
        rig.settle().unwrap();
        value(&rig, &queue, 0) == -2
    });
    rig.aql(&mut queue, &packet(BARRIER_OR, &[], done));
}

#[test]
fn barrier_value() {
    let (rig, mut queue) = rig();
    let gate = signal(&rig, &queue, 0x40, 0x1_0005);
    let done = signal(&rig, &queue, 0, 4);
    // (condition, reference) that hold for 5.
    for (condition, reference) in [(0, 5u64), (1, 6), (2, 6), (3, 5)] {
        let words = packet(2 << 16, &[gate, reference, 0xffff, condition], done);
        rig.aql(&mut queue, &words);
    }
    assert_eq!(value(&rig, &queue, 0), 0);
    let words = packet(2 << 16, &[gate, 6, 0xffff, 0], done);
    rig.put_aql(&mut queue, &words);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(value(&rig, &queue, 0), 0);
    signal(&rig, &queue, 0x40, 6);
    eventually("the value", || {
        rig.settle().unwrap();
        value(&rig, &queue, 0) == -1
    });
}

#[test]
fn vendor_packets_lead_to_pm4() {
    let (rig, mut queue) = rig();
    let done = signal(&rig, &queue, 0, 1);
    let words = [
        &[0xc005_5800, 0x2a << 22, !0, 0xff, 0, 0, 4][..],
        &write(queue.data() + 0x200, 77),
    ]
    .concat();
    for (n, word) in words.iter().enumerate() {
        let at = queue.memory() + 0x800 + n as u64 * 4;
        rig.poke(vram(at), &word.to_le_bytes());
    }
    let mut vendor = packet(1 << 16, &[], done);
    vendor[1..5].copy_from_slice(&indirect(queue.data() + 0x800, words.len() as u32));
    vendor[5] = 0xa;
    rig.aql(&mut queue, &vendor);
    assert_eq!(rig.peek32(vram(queue.memory() + 0x200)), 77);
    assert_eq!(value(&rig, &queue, 0), 0);
    assert_eq!(rig.gpu.summary.aql.get()["VENDOR_PM4_IB"], 1);
}

#[test]
fn a_vendor_packet_goes_on_where_it_was() {
    let (rig, mut queue) = rig();
    let done = signal(&rig, &queue, 0, 1);
    let words = wait(queue.data() + 0x200, 1);
    for (n, word) in words.iter().enumerate() {
        let at = queue.memory() + 0x800 + n as u64 * 4;
        rig.poke(vram(at), &word.to_le_bytes());
    }
    let mut vendor = packet(1 << 16, &[], done);
    vendor[1..5].copy_from_slice(&indirect(queue.data() + 0x800, words.len() as u32));
    rig.put_aql(&mut queue, &vendor);
    rig.knock(&queue);
    rig.settle().unwrap();
    rig.dequeue(&queue);
    assert!(!rig.is_active(&queue));
    assert_eq!(rig.mqd_dword(&queue, 96), 0);
    rig.poke(vram(queue.memory() + 0x200), &[1]);
    rig.load(&queue);
    rig.settle().unwrap();
    assert_eq!(value(&rig, &queue, 0), 0);
    assert_eq!(rig.reported(&queue), 1);
    rig.dequeue(&queue);
    assert_eq!(rig.mqd_dword(&queue, 96), 1);
    assert_eq!(rig.mqd_dword(&queue, 138), 16);
}

#[test]
fn invalid_packets_are_waited_for() {
    let (rig, mut queue) = rig();
    let done = signal(&rig, &queue, 0, 2);
    let whole = packet(BARRIER_AND, &[], done);
    let mut empty = whole;
    empty[0] = 1;
    rig.put_aql(&mut queue, &empty);
    rig.put_aql(&mut queue, &whole);
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(rig.reported(&queue), 0);
    rig.poke(vram(queue.vram), &[3]);
    eventually("both", || {
        rig.settle().unwrap();
        rig.reported(&queue) == 2
    });
    assert_eq!(value(&rig, &queue, 0), 0);
}

#[test]
fn refused_packets() {
    for (words, code) in [
        (packet(4, &[], 0), 20),
        (packet(6, &[], 0), 20),
        (packet(0xff, &[], 0), 20),
        (packet(3 << 16, &[], 0), 23),
        (packet(1 << 16, &[], 0), 23),
        (packet(BARRIER_AND, &[], 4), 20),
        (packet(BARRIER_AND, &[1], 0), 20),
    ] {
        let (rig, mut queue) = rig();
        // The queue's queue_inactive_signal, with an event.
        let inactive = signal(&rig, &queue, 0x40, 0);
        rig.poke64(vram(queue.memory() + 0x50), queue.data() + 0x100);
        rig.poke64(vram(queue.memory() + 0x58), 9);
        rig.poke64(vram(queue.amd_queue() + 0xc0), inactive);
        rig.put_aql(&mut queue, &words);
        rig.knock(&queue);
        rig.settle().unwrap();
        assert_eq!(rig.iv_head(0), [0x14, 183, 3 << 4 | 1 << 2, 8]);
        let iv = rig.iv(0);
        assert_eq!(iv[4], queue.doorbell / 2 & 0x3ff | code << 10);
        assert_eq!(iv[5], words[0]);
        assert_eq!(rig.hqd(&queue, gc::CP_HQD_ERROR), error::AQL_ERROR.of(1));
        let reported = if code == 23 { 256 } else { 32 };
        assert_eq!(value(&rig, &queue, 0x40), reported);
        assert_eq!(rig.iv_head(1)[..2], [0x14, 181]);
        assert_eq!(rig.iv(1)[4], 9);
        assert_eq!(rig.reported(&queue), 0);
        rig.dequeue(&queue);
        assert!(!rig.is_active(&queue));
    }
}

#[test]
fn faults() {
    let (rig, mut queue) = rig();
    rig.put_aql(&mut queue, &packet(BARRIER_AND, &[0x1000], 0));
    rig.knock(&queue);
    rig.settle().unwrap();
    assert_eq!(
        rig.hqd(&queue, gc::CP_HQD_ERROR),
        error::TC_UTCL1_ERROR.of(1)
    );
    assert_eq!(rig.iv_head(0)[..2], [0x1b, 0]);
    assert_eq!(rig.ih_entries(), 1);
}
