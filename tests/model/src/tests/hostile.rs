// SPDX-License-Identifier: GPL-2.0
//! The freedoms that the model takes with `--hostile`, class by class.

use super::rig::*;
use crate::board::Board;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::ih::Iv;
use crate::regs::osssys;
use crate::vm::Vm;

const VMID: u8 = 3;
const VA: u64 = 0x5000_0000_0000;

fn rig(spec: &str) -> Rig {
    Rig::on(Board {
        hostile: Some(spec.parse().unwrap()),
        ..Board::new(VRAM)
    })
}

fn taken(gpu: &Gpu, site: &str) -> u64 {
    gpu.fate.counts().get(site).copied().unwrap_or(0)
}

/// Waits for everything that is late.
fn all_comes(rig: &Rig) {
    eventually("what is late", || !rig.gpu.bring_late().unwrap());
}

#[test]
fn entries_and_their_interrupts_are_late_in_order() {
    let mut rig = rig("1,ih");
    let mut waits = 0;
    for n in 0..400u32 {
        let iv = Iv {
            client: 9,
            source: 224,
            data: [n, 0, 0, 0],
            ..Iv::default()
        };
        let before = rig.ih_entries();
        rig.gpu.ih.push(&rig.gpu, iv).unwrap();
        waits += u32::from(rig.ih_entries() == before);
        if n % 4 == 3 {
            all_comes(&rig);
            let entries: Vec<u32> = (n - 3..=n).map(|k| rig.iv(k % 32)[4]).collect();
            assert_eq!(entries, Vec::from_iter(n - 3..=n));
            assert!(rig.msis() > 0);
            let wptr = (n + 1) % 32 * 32;
            rig.set(osssys::IH_RB_RPTR, wptr);
        }
    }
    assert!(waits > 0 && waits < 400, "{waits}");
    for site in ["ih_entry_late", "ih_msi_late", "ih_msi_twice"] {
        assert!(taken(&rig.gpu, site) > 0, "{site}");
    }
    // A ring that is turned off loses what has not come.
    for n in 0..32 {
        let iv = Iv {
            client: 9,
            source: n,
            ..Iv::default()
        };
        rig.gpu.ih.push(&rig.gpu, iv).unwrap();
        if rig.gpu.ih.holds(1) {
            break;
        }
    }
    assert!(rig.gpu.ih.holds(1));
    rig.set(osssys::IH_RB_CNTL, 0);
    assert!(!rig.gpu.ih.holds(1));
}

fn read(rig: &Rig, va: u64) -> u64 {
    let mut bytes = [0; 8];
    let vm = Vm::new(&rig.gpu, HubId::Mm, VMID, 0);
    vm.read(va, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn invalidations_take_effect_late() {
    let mut rig = rig("1,hub");
    let pages = [0, 1].map(|n| {
        let page = rig.alloc(4096);
        rig.poke64(vram(page), n);
        page
    });
    rig.map(VMID, VA, vram(pages[0]), 4096, RW);
    let (mut late, mut stale) = (0, 0);
    for n in 1..200u64 {
        let kind = if n % 3 == 0 { HEAVYWEIGHT } else { 0 };
        read(&rig, VA);
        rig.map(VMID, VA, vram(pages[(n % 2) as usize]), 4096, RW);
        rig.request_flush(VMID, kind);
        if !rig.is_flushed(VMID) {
            late += 1;
            stale += u32::from(read(&rig, VA) != n % 2);
            eventually("the acknowledge", || rig.is_flushed(VMID));
        }
        assert_eq!(read(&rig, VA), n % 2);
    }
    assert!(late > 10 && stale > 5, "{late} {stale}");
    // The thread brings those that no access looks at.
    while !rig.gpu.hub(HubId::Mm).bring_late(&rig.gpu) {
        rig.request_flush(VMID, HEAVYWEIGHT);
    }
    all_comes(&rig);
    assert!(rig.is_flushed(VMID));
}

#[test]
fn a_reset_forgets_requests() {
    let rig = rig("1,hub");
    while !rig.gpu.hub(HubId::Mm).bring_late(&rig.gpu) {
        rig.request_flush(VMID, HEAVYWEIGHT);
    }
    rig.gpu.reset();
    assert!(!rig.gpu.bring_late().unwrap());
}

#[test]
fn neighbours_come_with_an_entry() {
    let mut rig = rig("1,hub");
    let page = rig.alloc(0x2000);
    rig.poke64(vram(page), 1);
    rig.poke64(vram(page + 0x1000), 2);
    let mut stale = 0;
    for _ in 0..100 {
        rig.map(VMID, VA, vram(page), 4096, RW);
        rig.map(VMID, VA + 0x1000, vram(page), 4096, RW);
        rig.request_flush(VMID, HEAVYWEIGHT);
        eventually("the acknowledge", || rig.is_flushed(VMID));
        read(&rig, VA);
        // What was valid may be kept, so that a change of it wants a flush.
        rig.map(VMID, VA + 0x1000, vram(page + 0x1000), 4096, RW);
        stale += u32::from(read(&rig, VA + 0x1000) == 1);
    }
    assert!(stale > 10 && stale < 90, "{stale}");
    assert!(taken(&rig.gpu, "hub_lost") > 0);
}

#[test]
fn faults_are_in_the_ring_before_a_heavyweight_flush_ends() {
    let rig = rig("1,ih");
    for n in 0..64 {
        let iv = Iv {
            client: 18,
            vmid: VMID,
            mmhub: true,
            data: [n, 0, 0, 0],
            ..Iv::default()
        };
        let pushed = rig.ih_entries();
        rig.gpu.ih.push(&rig.gpu, iv).unwrap();
        if !rig.gpu.ih.holds(1 << VMID) {
            rig.set(osssys::IH_RB_RPTR, (rig.ih_entries() % 32) * 32);
            continue;
        }
        rig.request_flush(VMID, HEAVYWEIGHT);
        assert!(!rig.is_flushed(VMID));
        eventually("the entry", || {
            rig.gpu.bring_late().unwrap();
            rig.ih_entries() != pushed
        });
        assert!(rig.is_flushed(VMID));
        return;
    }
    panic!("no entry was late");
}

#[test]
fn stores_to_tables_may_be_seen_early() {
    let mut rig = rig("1,hdp");
    let pages = [0, 1].map(|n| {
        let page = rig.alloc(4096);
        rig.poke64(vram(page), n);
        page
    });
    rig.map(VMID, VA, vram(pages[0]), 4096, RW);
    read(&rig, VA);
    let (entry, mut early) = (rig.entry(VMID, VA), 0);
    for n in 0..100u64 {
        // As the host's processor stores it: nothing tells the model.
        let target = pages[(n % 2) as usize] | VALID | RW;
        let view = rig.gpu.bus.view();
        let span = view.span(entry, 8, crate::memory::Access::Write).unwrap();
        span.write(&target.to_le_bytes());
        drop(view);
        rig.flush(VMID);
        early += u32::from(read(&rig, VA) == n % 2);
        rig.gpu.bus.flush_hdp();
        rig.flush(VMID);
        assert_eq!(read(&rig, VA), n % 2);
    }
    assert!(early > 10 && early < 100, "{early}");
    assert!(taken(&rig.gpu, "hdp_line") > 0);
}

#[test]
fn traps_and_read_pointers_of_engines_are_late() {
    let mut rig = rig("1,sdma");
    let mut ring = rig.ring(0, 0, 0);
    let fenced = rig.alloc(4096);
    let (mut traps, mut pointers) = (0, 0);
    for n in 1..60u32 {
        let mut words = vec![0; 8];
        words.extend(fence(FB + fenced, n));
        words.extend([6, n]);
        let before = rig.ih_entries();
        rig.submit(&mut ring, &words);
        while rig.gpu.sdma[0].step(&rig.gpu).unwrap() {
            let behind = rig.rptr(&ring) - rig.peek64(vram(Rig::writeback(&ring)));
            pointers += u32::from(behind > 0);
        }
        assert_eq!(rig.peek64(vram(Rig::writeback(&ring))), ring.wptr);
        assert_eq!(rig.peek32(vram(fenced)), n);
        traps += u32::from(rig.ih_entries() == before);
        all_comes(&rig);
        assert_ne!(rig.ih_entries(), before);
        assert_eq!(rig.iv(before)[4], n);
        rig.set(osssys::IH_RB_RPTR, (before + 1) % 32 * 32);
    }
    assert!(traps > 3 && pointers > 30, "{traps} {pointers}");
}

#[test]
fn power_up_leaves_something() {
    let rig = rig("1,start,wave");
    rig.gpu.power_up();
    assert!(rig.gpu.clock.now() > 1 << 31);
    let words = rig.peek(vram(0x1000), 4096);
    assert!(words.iter().any(|&byte| byte != words[0]));
    for site in ["start_clock", "start_vram", "wave_power_up"] {
        assert_eq!(taken(&rig.gpu, site), 1, "{site}");
    }
}
