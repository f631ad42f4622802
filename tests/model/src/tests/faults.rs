// SPDX-License-Identifier: GPL-2.0
//! Translation as seen by packets: permissions, stale entries, faults.

use std::os::unix::fs::FileExt;

use super::rig::*;
use crate::regs::gc::{self, vm_context0_cntl as context};
use crate::regs::sdma::{self, f32_cntl};
use crate::regs::{mmhub, nbio, osssys, Reg, MMHUB_DELTA};

const VA: u64 = 0x1234_5000_0000;
const STATUS: Reg = mmhub::VM_L2_PROTECTION_FAULT_STATUS;

/// A rig with a user queue of VMID 8 and a page of VRAM and one of RAM mapped.
fn rig() -> (Rig, Ring) {
    let mut rig = Rig::new();
    let ring = rig.ring(0, 1, 8);
    rig.map(8, VA, vram(0x10_0000), 4096, RW);
    rig.map(8, VA + 0x1000, system(RAM), 4096, RW);
    (rig, ring)
}

#[test]
fn copies_between_vram_and_ram() {
    let (rig, mut ring) = rig();
    rig.poke(vram(0x10_0000), b"from vram");
    rig.run(&mut ring, &copy(VA + 0x1000, VA, 9));
    assert_eq!(rig.peek(system(RAM), 9), b"from vram");
    assert_eq!(rig.gpu.summary.faults.get(), 0);
    assert_eq!(rig.gpu.summary.bytes_copied.get(), 9);
}

#[test]
fn stale_entries_stay_until_a_flush() {
    let (mut rig, mut ring) = rig();
    rig.run(&mut ring, &fence(VA, 1));
    rig.map(8, VA, vram(0x20_0000), 4096, RW);
    rig.run(&mut ring, &fence(VA, 2));
    assert_eq!(rig.peek32(vram(0x10_0000)), 2);
    assert_eq!(rig.peek32(vram(0x20_0000)), 0);
    // Of another address space, so without effect.
    rig.flush(9);
    rig.run(&mut ring, &fence(VA, 3));
    assert_eq!(rig.peek32(vram(0x10_0000)), 3);
    rig.flush(8);
    rig.run(&mut ring, &fence(VA, 4));
    assert_eq!(rig.peek32(vram(0x20_0000)), 4);
    assert_eq!(rig.peek32(vram(0x10_0000)), 3);
}

#[test]
fn stale_directories_stay_until_a_flush() {
    let (mut rig, mut ring) = rig();
    rig.run(&mut ring, &fence(VA, 1));
    // Another page of the same 2 MiB through a new table: the old PDB0 entry is still used.
    let old_table = rig.entry(8, VA).addr & !0xfff;
    let new_table = rig.alloc(4096);
    rig.poke64(vram(new_table + 0x10), 0x30_0000 | VALID | RW);
    rig.poke64(vram(old_table + 0x10), 0x20_0000 | VALID | RW);
    let pdb0 = find_pde(&rig, old_table);
    rig.poke64(pdb0, new_table | VALID | 1 << 56);
    rig.run(&mut ring, &fence(VA + 0x2000, 5));
    assert_eq!(rig.peek32(vram(0x20_0000)), 5);
    rig.flush(8);
    rig.run(&mut ring, &fence(VA + 0x2000, 6));
    assert_eq!(rig.peek32(vram(0x30_0000)), 6);
}

/// amdgpu's SVM relies on the opposite: Documentation/amdgpu-bugs.md.
#[test]
fn a_fragment_is_believed_over_the_entries_in_it() {
    const TWO_PAGES: u64 = 1 << 7;
    let (mut rig, mut ring) = rig();
    rig.map(8, VA + 0x2000, vram(0x20_0000), 0x2000, RW | TWO_PAGES);
    // The second page changes now, and the first still says that it is as before.
    rig.map(8, VA + 0x3000, vram(0x30_0000), 0x1000, RW);
    rig.run(&mut ring, &fence(VA + 0x2000, 1));
    rig.run(&mut ring, &fence(VA + 0x3000, 2));
    assert_eq!(rig.peek32(vram(0x20_1000)), 2);
    assert_eq!(rig.peek32(vram(0x30_0000)), 0);
    rig.map(8, VA + 0x2000, vram(0x20_0000), 0x1000, RW);
    rig.flush(8);
    rig.run(&mut ring, &fence(VA + 0x2000, 3));
    rig.run(&mut ring, &fence(VA + 0x3000, 4));
    assert_eq!(rig.peek32(vram(0x30_0000)), 4);
}

/// The PDB0 entry that points to `table`.
fn find_pde(rig: &Rig, table: u64) -> crate::memory::Phys {
    (64 * MIB..VRAM)
        .step_by(8)
        .map(vram)
        .find(|&at| rig.peek64(at) == table | VALID | 1 << 56)
        .unwrap()
}

#[test]
fn what_is_not_valid_is_not_cached() {
    let (mut rig, mut ring) = rig();
    let va = VA + 0x10_0000;
    rig.run(&mut ring, &fence(va, 1));
    assert_eq!(rig.gpu.summary.faults.get(), 1);
    rig.map(8, va, vram(0x40_0000), 4096, RW);
    rig.run(&mut ring, &fence(va, 2));
    assert_eq!(rig.peek32(vram(0x40_0000)), 2);
    assert_eq!(rig.gpu.summary.faults.get(), 1);
}

#[test]
fn unmapped_destination() {
    let (rig, mut ring) = rig();
    let va = VA + 0x3000;
    rig.run(&mut ring, &copy(va + 4, VA, 8));
    // Client VMC, source 0; not valid (8) and write (0x20).
    assert_eq!(rig.iv_head(0), [0x12, 0, 0x28, 8]);
    let iv = rig.iv(0);
    assert_eq!(iv[0] >> 31, 1);
    assert_eq!(iv[3], 0x8008);
    assert_eq!(iv[4], lo(va >> 12));
    assert_eq!(iv[5], hi(va >> 12) & 0xf | 1 << 5);
    assert_eq!(rig.ih_entries(), 1);
    let status = rig.get(STATUS);
    assert_eq!(status >> 20 & 0xf, 8);
    assert_eq!(status >> 18 & 1, 1);
    assert_eq!(status >> 4 & 0xf, 0b101);
    assert_eq!(status >> 9 & 0x1ff, 256);
    assert_eq!(
        rig.get(mmhub::VM_L2_PROTECTION_FAULT_ADDR_LO32),
        lo(va >> 12)
    );
    // A second fault does not change the data of the first.
    rig.run(&mut ring, &fence(VA + 0x5000, 1));
    assert_eq!(rig.get(STATUS), status | 1);
    assert_eq!(
        rig.get(mmhub::VM_L2_PROTECTION_FAULT_ADDR_LO32),
        lo(va >> 12)
    );
    let control = rig.get(mmhub::VM_L2_PROTECTION_FAULT_CNTL);
    rig.set(mmhub::VM_L2_PROTECTION_FAULT_CNTL, control | 1);
    assert_eq!(rig.get(STATUS), 0);
}

#[test]
fn faults_interrupt_when_their_client_may() {
    let (rig, mut ring) = rig();
    let control = rig.get(mmhub::VM_L2_PROTECTION_FAULT_CNTL);
    // Client 256 is one of the others.
    rig.set(mmhub::VM_L2_PROTECTION_FAULT_CNTL, control & !(1 << 29));
    rig.run(&mut ring, &fence(VA + 0x4000, 1));
    assert_ne!(rig.get(STATUS), 0);
    assert_eq!(rig.ih_entries(), 0);
    rig.set(mmhub::VM_L2_PROTECTION_FAULT_CNTL, control | 1);
    rig.run(&mut ring, &fence(VA + 0x5000, 1));
    assert_eq!(rig.ih_entries(), 1);
}

#[test]
fn unmapped_source_reads_zero() {
    let (rig, mut ring) = rig();
    rig.poke(vram(0x10_0000), &[0xff; 16]);
    rig.run(&mut ring, &copy(VA, VA + 0x8000, 8));
    assert_eq!(rig.peek(vram(0x10_0000), 16), [[0; 8], [0xff; 8]].concat());
    assert_eq!(rig.iv_head(0), [0x12, 0, 0x18, 8]);
    assert_eq!(rig.iv(0)[5] & 0xf0, 1 << 6);
}

#[test]
fn permissions() {
    let (mut rig, mut ring) = rig();
    rig.map(8, VA + 0x6000, vram(0x50_0000), 4096, READ);
    rig.map(8, VA + 0x7000, vram(0x51_0000), 4096, WRITE);
    rig.run(&mut ring, &fence(VA + 0x6000, 1));
    assert_eq!(rig.peek32(vram(0x50_0000)), 0);
    assert_eq!(rig.iv_head(0), [0x12, 0, 0x20, 8]);
    rig.poke(vram(0x51_0000), &[0xff; 4]);
    rig.poke(vram(0x10_0000), &[0xff; 4]);
    rig.run(&mut ring, &copy(VA, VA + 0x7000, 4));
    assert_eq!(rig.peek32(vram(0x10_0000)), 0);
    assert_eq!(rig.iv_head(1), [0x12, 0, 0x10, 8]);
    // An atomic needs both.
    let add = |va| [10 | 0x2f << 25, lo(va), hi(va), 1, 0, 0, 0, 0];
    rig.run(&mut ring, &add(VA + 0x6000));
    rig.run(&mut ring, &add(VA + 0x7000));
    assert_eq!(rig.gpu.summary.faults.get(), 4);
    rig.run(&mut ring, &fence(VA + 0x7000, 9));
    assert_eq!(rig.peek32(vram(0x51_0000)), 9);
    assert_eq!(rig.gpu.summary.faults.get(), 4);
}

#[test]
fn interrupts_of_faults_can_be_off() {
    let (rig, mut ring) = rig();
    let control = Reg(gc::VM_CONTEXT0_CNTL.0 + 8 + MMHUB_DELTA);
    let value = rig.get(control);
    rig.set(
        control,
        context::VALID_PROTECTION_FAULT_ENABLE_INTERRUPT.put(value, 0),
    );
    rig.run(&mut ring, &fence(VA + 0x2000, 1));
    assert_eq!(rig.ih_entries(), 0);
    assert_eq!(rig.gpu.summary.faults.get(), 1);
    assert_ne!(rig.get(STATUS), 0);
}

#[test]
fn one_interrupt_for_a_run_of_pages() {
    let (rig, mut ring) = rig();
    rig.run(&mut ring, &copy(VA + 0x2_0000, VA + 0x4_0000, 0x1_0000));
    assert_eq!(rig.ih_entries(), 2);
    assert_eq!(rig.rptr(&ring), ring.wptr);
}

#[test]
fn outside_of_the_context_and_in_the_hole() {
    let (rig, mut ring) = rig();
    let end = Reg(gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.0 + 16 + MMHUB_DELTA);
    rig.set(end, 0xffff_ffff);
    rig.set(Reg(end.0 + 1), 0x7);
    rig.run(&mut ring, &fence(1 << 47 | 0xffff << 48, 1));
    rig.run(&mut ring, &fence(1 << 50, 1));
    assert_eq!(rig.ih_entries(), 2);
    assert_eq!(rig.get(STATUS) >> 1 & 7, 1);
}

#[test]
fn large_pages() {
    let (mut rig, mut ring) = rig();
    let two = 0x2000_0000_0000;
    let one = 0x3000_0000_0000;
    rig.map_large(8, two, 0x40_0000, RW);
    rig.map_huge(8, one, 0, RW);
    rig.run(&mut ring, &fence(two + 0x1f_fffc, 0x11));
    assert_eq!(rig.peek32(vram(0x5f_fffc)), 0x11);
    rig.run(&mut ring, &fence(one + 0x123_4568, 0x22));
    assert_eq!(rig.peek32(vram(0x123_4568)), 0x22);
    // Past the end of VRAM: the page table is wrong.
    rig.submit(&mut ring, &fence(one + VRAM, 0));
    let error = rig.drain(0).unwrap_err();
    assert!(
        error.to_string().contains("past the end of VRAM"),
        "{error}"
    );
}

#[test]
fn an_address_that_is_not_mapped_for_dma_is_named() {
    let (rig, mut ring) = rig();
    rig.unmap_ram(RAM, 4096);
    rig.submit(&mut ring, &fence(VA + 0x1000, 1));
    let error = rig.drain(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "DMA write at bus address 0x10000000, which is not mapped for the device"
    );
}

#[test]
fn the_kernel_does_not_fault() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    // Context 0 ends after 64 MiB.
    rig.submit(&mut ring, &fence(RAM_SIZE, 1));
    let error = rig.drain(0).unwrap_err();
    assert!(error.to_string().contains("VMID 0 write fault"), "{error}");
}

#[test]
fn gart_and_frame_buffer() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    rig.poke(vram(0x1000), b"kernel");
    rig.run(&mut ring, &copy(0x3_0000, FB + 0x1000, 6));
    assert_eq!(rig.peek(system(RAM + 0x3_0000), 6), b"kernel");
}

#[test]
fn outside_of_the_system_aperture_tables_translate() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    // They change while no engine is at work.
    rig.set(sdma::F32_CNTL, f32_cntl::HALT.of(1));
    rig.set(osssys::IH_RB_CNTL, 0);
    // Physical in it, by the tables elsewhere: those end before the frame buffer.
    for (reg, value) in [
        (mmhub::MC_VM_SYSTEM_APERTURE_LOW_ADDR, FB >> 18),
        (
            mmhub::MC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            (FB + 96 * MIB - 1) >> 18,
        ),
        (mmhub::MC_VM_MX_L1_TLB_CNTL, 1 | 3 << 3),
    ] {
        rig.set(reg, value as u32);
    }
    rig.set(sdma::F32_CNTL, 0);
    rig.bring_up_ih(true);
    rig.run(&mut ring, &fence(FB + 96 * MIB - 4, 7));
    assert_eq!(rig.peek32(vram(96 * MIB - 4)), 7);
    rig.submit(&mut ring, &fence(FB + 96 * MIB, 7));
    let error = rig.gpu.sdma[0].step(&rig.gpu).unwrap_err();
    let at = format!("{:#x}", FB + 96 * MIB);
    assert!(error.to_string().contains(&at), "{error}");
}

#[test]
fn dma_pages_need_not_be_neighbours() {
    let (mut rig, mut ring) = rig();
    // Each page of RAM mapped by itself, in reverse order, as a vIOMMU may do.
    for page in 0..16u64 {
        rig.unmap_ram(RAM + 0x10_0000 * 3 + (page << 12), 4096);
    }
    for page in (0..16u64).rev() {
        rig.map_ram(RAM + 0x10_0000 * 3 + (page << 12), 4096);
    }
    let va = VA + 0x100_0000;
    rig.map(8, va, system(RAM + 0x30_0000), 0x1_0000, RW);
    let data: Vec<u8> = (0..0x1_0000u32).map(|n| ((n * 7) >> 3) as u8).collect();
    rig.poke(system(RAM + 0x30_0000), &data);
    rig.map(8, va + 0x10_0000, vram(0x60_0000), 0x1_0000, RW);
    rig.run(&mut ring, &copy(va + 0x10_0000, va, 0x1_0000));
    assert_eq!(rig.peek(vram(0x60_0000), 0x1_0000), data);
}

#[test]
fn context_that_is_not_enabled() {
    let (rig, mut ring) = rig();
    rig.set(Reg(gc::VM_CONTEXT0_CNTL.0 + 8 + MMHUB_DELTA), 0);
    rig.submit(&mut ring, &fence(VA, 1));
    assert!(rig.drain(0).is_err());
}

#[test]
fn an_invalidation_out_of_reset_is_acknowledged() {
    let rig = Rig::new();
    let range = gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32.nth(17, 2);
    rig.set(range, 0);
    rig.set(range.nth(1, 1), 0);
    let before = rig.gpu.summary.tlb_flushes.get();
    rig.set(gc::VM_INVALIDATE_ENG17_REQ, 1);
    assert_eq!(rig.get(gc::VM_INVALIDATE_ENG17_ACK), 1);
    assert_eq!(rig.gpu.summary.tlb_flushes.get(), before);
}

#[test]
fn an_invalidation_needs_its_range() {
    let rig = Rig::new();
    let range = gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32.nth(3, 2);
    rig.set(range, 0);
    assert!(rig
        .gpu
        .write(gc::VM_INVALIDATE_ENG0_REQ.nth(3, 1), 1)
        .is_err());
}

#[test]
fn a_packet_does_not_repeat_the_fault_of_a_page() {
    let (rig, mut ring) = rig();
    // 64 rows of four bytes, sixteen apart, all from one page that is not mapped.
    let from = VA + 0x5000;
    rig.run(
        &mut ring,
        &[
            1 | 4 << 8,
            lo(from),
            hi(from),
            0,
            15 << 13,
            0,
            lo(VA),
            hi(VA),
            0,
            15 << 13,
            0,
            3 | 63 << 16,
            0,
        ],
    );
    assert_eq!(rig.ih_entries(), 1);
    // The next packet does.
    rig.run(&mut ring, &copy(VA, from, 4));
    assert_eq!(rig.ih_entries(), 2);
}

#[test]
fn stores_of_the_host_to_tables_need_an_hdp_flush() {
    let (mut rig, mut ring) = rig();
    rig.run(&mut ring, &fence(VA, 1));
    let entry = rig.entry(8, VA + 0x2000);
    let vram_file = rig.gpu.bus.vram_file().try_clone_to_owned().unwrap();
    let value = 0x10_1000 | VALID | RW;
    std::fs::File::from(vram_file)
        .write_all_at(&value.to_le_bytes(), entry.addr)
        .unwrap();
    // A flush of the TLBs does not help.
    rig.flush(8);
    rig.run(&mut ring, &fence(VA + 0x2000, 2));
    assert_eq!(rig.peek32(vram(0x10_1000)), 0);
    rig.set(nbio::GPU_HDP_FLUSH_REQ, 1);
    rig.run(&mut ring, &fence(VA + 0x2000, 3));
    assert_eq!(rig.peek32(vram(0x10_1000)), 3);
}
