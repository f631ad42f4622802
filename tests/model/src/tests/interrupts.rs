// SPDX-License-Identifier: GPL-2.0

use super::rig::*;
use crate::ih::{Iv, ENTRY};
use crate::regs::osssys::{self, ih_rb_cntl};
use crate::regs::sdma;

fn push(rig: &Rig, context: u32) {
    let iv = Iv {
        client: 8,
        source: 224,
        ring: 2,
        vmid: 9,
        mmhub: true,
        data: [context, 0, 0, 0],
        retry: false,
    };
    rig.gpu.ih.push(&rig.gpu, iv).unwrap();
}

fn set_rptr(rig: &Rig, value: u32) {
    let byte = u64::from(IH_DOORBELL) * 4;
    rig.gpu
        .nbio
        .doorbell(&rig.gpu, byte, &value.to_le_bytes())
        .unwrap();
}

#[test]
fn entry() {
    let mut rig = Rig::new();
    push(&rig, 0x55);
    let iv = rig.iv(0);
    assert_eq!(iv[0], 8 | 224 << 8 | 2 << 16 | 9 << 24 | 1 << 31);
    assert_eq!(iv[3], 0x8009);
    assert_eq!(iv[4], 0x55);
    assert_eq!(rig.ih_wptr(), ENTRY);
    assert_eq!(rig.get(osssys::IH_RB_WPTR), ENTRY);
    assert_eq!(rig.msis(), 1);
}

#[test]
fn one_msi_until_the_read_pointer_is_written() {
    let mut rig = Rig::new();
    for n in 0..4 {
        push(&rig, n);
    }
    assert_eq!(rig.msis(), 1);
    // Not caught up: at once another one.
    set_rptr(&rig, 2 * ENTRY);
    assert_eq!(rig.msis(), 1);
    set_rptr(&rig, 4 * ENTRY);
    assert_eq!(rig.msis(), 0);
    push(&rig, 4);
    assert_eq!(rig.msis(), 1);
}

#[test]
fn without_rearm_the_rest_is_not_announced() {
    let mut rig = Rig::new();
    rig.bring_up_ih(false);
    push(&rig, 0);
    push(&rig, 1);
    set_rptr(&rig, ENTRY);
    assert_eq!(rig.msis(), 1);
}

#[test]
fn wraps() {
    let mut rig = Rig::new();
    let entries = IH_RING / ENTRY;
    for n in 0..entries + 5 {
        push(&rig, n);
        set_rptr(&rig, (n + 1) % entries * ENTRY);
    }
    assert_eq!(rig.ih_wptr(), 5 * ENTRY);
    assert_eq!(rig.iv(4)[4], entries + 4);
    assert_eq!(rig.iv(5)[4], 5);
    assert_eq!(rig.msis(), u64::from(entries) + 5);
}

#[test]
fn overflow_is_flagged_until_cleared() {
    let rig = Rig::new();
    let entries = IH_RING / ENTRY;
    for n in 0..entries - 1 {
        push(&rig, n);
    }
    assert_eq!(rig.ih_wptr() & 1, 0);
    push(&rig, 100);
    assert_eq!(rig.ih_wptr(), 1);
    push(&rig, 101);
    assert_eq!(rig.ih_wptr(), ENTRY | 1);
    assert_eq!(rig.gpu.summary.ih_overflows.get(), 1);
    // The driver resumes behind the overwritten entries.
    set_rptr(&rig, 2 * ENTRY);
    let control = rig.ih_control(true);
    rig.set(
        osssys::IH_RB_CNTL,
        control | ih_rb_cntl::WPTR_OVERFLOW_CLEAR.of(1),
    );
    rig.set(osssys::IH_RB_CNTL, control);
    set_rptr(&rig, ENTRY);
    push(&rig, 102);
    assert_eq!(rig.ih_wptr(), 2 * ENTRY);
}

#[test]
fn without_overflow_entries_are_lost() {
    let rig = Rig::new();
    let control = rig.ih_control(true) & !ih_rb_cntl::WPTR_OVERFLOW_ENABLE.of(1);
    rig.set(osssys::IH_RB_CNTL, control);
    for n in 0..IH_RING / ENTRY + 3 {
        push(&rig, n);
    }
    assert_eq!(rig.ih_wptr(), IH_RING - ENTRY);
    assert_eq!(rig.gpu.summary.ih_lost.get(), 4);
}

#[test]
fn dropped_on_request() {
    let mut rig = Rig::new();
    assert_eq!(
        crate::control::command(&rig.gpu, "drop-interrupt"),
        Ok(String::new())
    );
    push(&rig, 0);
    assert_eq!(rig.msis(), 0);
    assert_eq!(rig.ih_wptr(), ENTRY);
    set_rptr(&rig, ENTRY);
    push(&rig, 1);
    assert_eq!(rig.msis(), 1);
    assert_eq!(rig.gpu.summary.msis_dropped.get(), 1);
}

#[test]
fn a_ring_by_mc_address_goes_through_the_gart() {
    let rig = Rig::new();
    let control = ih_rb_cntl::MC_SPACE.put(rig.ih_control(true), 4);
    rig.set(osssys::IH_RB_CNTL, control);
    // GART address 1 MiB is where the ring is anyway.
    rig.set(osssys::IH_RB_BASE, 0x10_0000 >> 8);
    rig.set(osssys::IH_RB_WPTR_ADDR_LO, 0x20_0000);
    rig.set(osssys::IH_RB_WPTR_ADDR_HI, 0);
    push(&rig, 7);
    assert_eq!(rig.iv(0)[4], 7);
    assert_eq!(rig.ih_wptr(), ENTRY);
}

#[test]
fn a_ring_outside_of_the_dma_map_is_an_error() {
    let rig = Rig::new();
    rig.unmap_ram(RAM, RAM_SIZE);
    let error = rig.gpu.ih.push(&rig.gpu, Iv::default()).unwrap_err();
    assert!(error.to_string().contains("0x10100000"), "{error}");
}

#[test]
fn traps_need_to_be_enabled() {
    let mut rig = Rig::new();
    let mut ring = rig.ring(0, 0, 0);
    rig.run(&mut ring, &[6, 0xf000_0007]);
    assert_eq!(rig.iv_head(0), [8, 224, 0, 0]);
    assert_eq!(rig.iv(0)[4], 7);
    rig.set(sdma::CNTL, 0);
    rig.run(&mut ring, &[6, 8]);
    assert_eq!(rig.ih_entries(), 1);
}

#[test]
fn clients_of_the_engines() {
    let mut rig = Rig::new();
    for (engine, client) in [8, 9, 1, 4, 5].into_iter().enumerate() {
        let mut ring = rig.ring(engine, 1, 8);
        rig.run(&mut ring, &[6, 3]);
        assert_eq!(rig.iv_head(engine as u32), [client, 224, 2, 8]);
    }
}
