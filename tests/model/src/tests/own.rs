// SPDX-License-Identifier: GPL-2.0
//! Accesses of queues to the doorbells and flush registers of the device that they are on.

use super::rig::*;
use crate::hub::HubId;
use crate::regs::{nbio, sdma};
use crate::vm::Vm;

const DOORBELLS: u64 = 0xc000_0000;
const REGISTERS: u64 = 0xd000_0000;
const FLUSH: u64 = 0x7f000;
const SLICE: u64 = 8192;

const VA: u64 = 0x1_0000_0000;
const AT: u64 = 0x10_0000;
/// The address of a slice of doorbells, and behind it of the flush registers.
const OWN: u64 = 0x2_0000_0000;

impl Rig {
    /// Maps slice `slice` of doorbells, and behind it the page of flush registers.
    pub fn map_own(&mut self, vmid: u8, va: u64, slice: u64) {
        self.gpu.bus.set_bars(DOORBELLS, REGISTERS, 512 << 10);
        self.set(nbio::DOORBELL_SELFRING_GPA_APER_BASE_LOW, lo(DOORBELLS));
        self.set(nbio::DOORBELL_SELFRING_GPA_APER_BASE_HIGH, hi(DOORBELLS));
        self.set(nbio::DOORBELL_SELFRING_GPA_APER_CNTL, 3);
        self.set(nbio::REMAP_HDP_MEM_FLUSH_CNTL, FLUSH as u32);
        self.set(nbio::REMAP_HDP_REG_FLUSH_CNTL, FLUSH as u32 + 4);
        self.map(vmid, va, system(DOORBELLS + slice * SLICE), SLICE, RW);
        self.map(vmid, va + SLICE, system(REGISTERS + FLUSH), 4096, RW);
    }
}

/// The slice of the queues here, and one without queues.
const QUEUES: u64 = 2;
const NOBODY: u64 = 3;

/// A user queue of VMID 8 with 2 MiB of VRAM and the device's own pages, doorbells of `slice` among
/// them.
fn rig(slice: u64) -> (Rig, Ring) {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    rig.map_large(8, VA, 0, RW);
    rig.map_own(8, OWN, slice);
    (rig, ring)
}

/// Uses `words` to ring the doorbell of another queue, whose write pointer lies at [`AT`].
fn rings(words: impl Fn(u64, u64) -> Vec<u32>) {
    let (mut rig, mut ring) = rig(QUEUES);
    let mut other = rig.ring(0, 2, 8);
    for word in fence(VA + AT + 64, 77) {
        rig.poke(vram(other.vram + other.wptr), &word.to_le_bytes());
        other.wptr += 4;
    }
    rig.poke64(vram(AT), other.wptr);
    let doorbell = OWN + u64::from(other.doorbell) * 4 - QUEUES * SLICE;
    rig.run(&mut ring, &words(doorbell, other.wptr));
    rig.drain(0).unwrap();
    assert_eq!(rig.rptr(&other), other.wptr);
    assert_eq!(rig.peek32(vram(AT + 64)), 77);
}

#[test]
fn stores_ring_doorbells() {
    rings(|doorbell, wptr| vec![2, lo(doorbell), hi(doorbell), 1, lo(wptr), hi(wptr)]);
    rings(|doorbell, _| copy(doorbell, VA + AT, 8).to_vec());
    rings(|doorbell, wptr| {
        let half = |at, value| fence(at, value);
        [half(doorbell, lo(wptr)), half(doorbell + 4, hi(wptr))].concat()
    });
}

#[test]
fn copies_and_fills_of_own_pages() {
    let (rig, mut ring) = rig(NOBODY);
    let last = rig.gpu.summary.doorbells_unattached.get();
    rig.poke(vram(AT), &[0xff; 32 << 10]);
    let pages = SLICE + 4096;
    // From there: zeros. The copy begins and ends in memory that is not mapped, and in the middle
    // of a dword.
    rig.run(&mut ring, &copy(VA + AT, OWN, pages));
    assert!(rig.peek(vram(AT), pages).iter().all(|byte| *byte == 0));
    assert_eq!(rig.peek32(vram(AT + pages)), !0);
    rig.run(&mut ring, &copy(VA + AT + 0x4001, OWN + SLICE - 3, 6));
    assert_eq!(rig.peek64(vram(AT + 0x4000)), 0xff00_0000_0000_00ff);
    // To there, and from there to there.
    rig.run(&mut ring, &copy(OWN, VA + AT + pages, pages));
    rig.run(&mut ring, &copy(OWN + 5, VA + AT, 4099));
    rig.run(&mut ring, &copy(OWN, OWN + 4096, 4096));
    let to = OWN + 2;
    rig.run(
        &mut ring,
        &[11, lo(to), hi(to), 0x1234_5678, pages as u32 - 8],
    );
    assert!(rig.gpu.summary.doorbells_unattached.get() > last + 512);
    assert_eq!(rig.get_queue(&ring, sdma::GFX_CONTEXT_STATUS) & 1, 0);
    // SDMA's doorbells say that stores to them were not of whole ones, and nothing else is said.
    for n in 0..rig.ih_entries() {
        assert_eq!(rig.iv_head(n)[1..], [244, 0, 0]);
    }
}

#[test]
fn words_of_own_pages() {
    let (rig, _) = rig(NOBODY);
    let vm = Vm::new(&rig.gpu, HubId::Gfx, 8, 0);
    for va in [OWN, OWN + 4, OWN + SLICE, OWN + SLICE + 4, OWN + SLICE + 8] {
        vm.store32(va, 1).unwrap();
        vm.write(va + 1, &[1; 3]).unwrap();
        assert_eq!(vm.load32(va).unwrap(), 0);
        vm.atomic(va, 4, |_| panic!("an atomic")).unwrap();
    }
    for va in [OWN, OWN + SLICE, OWN + SLICE + 4088] {
        assert_eq!(vm.load64(va).unwrap(), 0);
        vm.atomic(va, 8, |_| panic!("an atomic")).unwrap();
    }
    // Beside memory.
    let (mut rig, ring) = (rig, 0x3000);
    rig.map(8, OWN + ring, vram(AT), 4096, RW);
    let vm = Vm::new(&rig.gpu, HubId::Gfx, 8, 0);
    vm.store64s(OWN + ring - 8, &[1, 2, 3]).unwrap();
    assert_eq!(rig.peek64(vram(AT)), 2);
    assert_eq!(rig.peek64(vram(AT + 8)), 3);
    assert_eq!(vm.faults(), 0);
}

#[test]
fn other_registers_are_nobodys() {
    let (mut rig, _) = rig(NOBODY);
    rig.map(8, OWN + 0x10000, system(REGISTERS), 4096, RW);
    let vm = Vm::new(&rig.gpu, HubId::Mm, 8, 0);
    assert!(vm.load32(OWN + 0x10000).is_err());
    assert!(vm.store32(OWN + 0x10000, 1).is_err());
    let mut two = [0; 8];
    rig.map(8, OWN + 0x11000, system(REGISTERS + FLUSH - 4096), 8192, RW);
    let vm = Vm::new(&rig.gpu, HubId::Mm, 8, 0);
    assert!(vm.read(OWN + 0x12000 - 4, &mut two).is_err());
    assert!(vm.read(OWN + 0x12000, &mut two).is_ok());
}
