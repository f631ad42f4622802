// SPDX-License-Identifier: GPL-2.0
//! PM4 packets of KIQ and HIQ: the dwords of each, by hand from the specification.

use hw::asic::gfx90a::MI210;
use hw::cleaner::Cleaner;
use hw::debug::{DebugControls, LaunchMode, WaveControls};
use hw::doorbell::{Doorbell, DoorbellSlot, SliceIndex};
use hw::pm4::memory::{release, write_register};
use hw::pm4::schedule::{
    self as s, HqdSelect, MapProcess, MapQueue, RunlistIb, SetResources, UnmapQueues,
};
use hw::pte::ContextBase;
use hw::trap::TrapHandler;
use hw::xnack_mix::XnackMix;
use proptest::prelude::*;

const ADDRESS: u64 = 0x1234_5678_9abc_def8;

fn doorbell(slice: u16, slot: u16) -> Doorbell {
    let slice = SliceIndex::new(slice, 2 << 20).unwrap();
    slice.doorbell(DoorbellSlot::new(slot).unwrap())
}

/// Opcode and dwords in a type-3 header.
fn parse(header: u32) -> (u32, usize) {
    assert_eq!(header >> 30, 3);
    assert_eq!(header & 0xff, 0);
    (header >> 8 & 0xff, (header >> 16 & 0x3fff) as usize + 2)
}

#[test]
fn fences_and_registers() {
    assert_eq!(
        release(ADDRESS, 0x1122_3344_5566_7788),
        [
            0xc006_4900,
            0x0003_8514,
            0x4000_0000,
            0x9abc_def8,
            0x1234_5678,
            0x5566_7788,
            0x1122_3344,
            0
        ]
    );
    assert_eq!(
        write_register(0x30b0, 0x4001_0201),
        [0xc003_3700, 0x0001_0000, 0x30b0, 0, 0x4001_0201]
    );
}

#[test]
fn what_the_scheduler_may_use() {
    let resources = SetResources {
        vmids: 0xff00,
        queues: 0x0000_0001_ffff_ffff,
        unmap_latency: 4000,
        xnack: XnackMix::Apart,
    };
    let mut packet = [0xc006_a000, 0x2028_ff00, 0xffff_ffff, 1, 0, 0, 0, 0];
    assert_eq!(s::set_resources(resources), packet);
    // pm_set_resources_v9: enb_xnack_retry_disable_check.
    packet[1] |= 1 << 28;
    let resources = SetResources {
        xnack: XnackMix::Chained,
        ..resources
    };
    assert_eq!(s::set_resources(resources), packet);
}

#[test]
fn where_the_cleaner_is() {
    // gfx_v9_0_kiq_set_resources.
    assert_eq!(
        s::set_kernel_resources(0x1_0000_0000, 0x12_3456_7800),
        [0xc006_a000, 0, 0, 1, 0x1234_5678, 0, 0, 0]
    );
    assert_eq!(
        s::set_kernel_resources(0, 0x0001_0000_0000_0100)[4..6],
        [1, 0x100]
    );
    let mec = &MI210.mec;
    assert_eq!(mec.mask_of(mec.hiq), 1 << 32);
    assert_eq!(mec.mask_of(mec.kiq), 1 << 40);
    assert_eq!(mec.mask_of(mec.unused()), 1 << 41);
    assert_eq!(
        mec.all_hqds().fold(0, |mask, hqd| mask | mec.mask_of(hqd)),
        u64::MAX
    );
}

#[test]
fn firmware_that_runs_a_cleaner() {
    let cleaner = MI210.cleaner.as_ref();
    assert!(Cleaner::of(cleaner, 0).is_none());
    assert!(Cleaner::of(cleaner, 87).is_none());
    assert!(Cleaner::of(cleaner, 88).is_some());
    assert!(Cleaner::of(None, u32::MAX).is_none());
}

#[test]
fn a_runlist() {
    let process = MapProcess {
        pasid: 0x8001,
        root: ContextBase::new(0x12_3456_7000),
        sh_mem_bases: 0x0001_0002,
        sh_mem_config: 0x1018,
        trap: TrapHandler {
            code: 0x0012_3456_7800,
            memory: 0x0fed_cba9_8700,
        },
        quantum: 10,
        queues: 3,
        clean: false,
        debug: DebugControls::default(),
    };
    let mut expected = [0; 21];
    expected[0] = 0xc013_a100;
    expected[1] = 10 << 25 | 0x8001;
    expected[2] = 0x3456_7001;
    expected[3] = 0x12;
    expected[4] = 0x0001_0002;
    expected[5] = 0x1018;
    expected[6] = 0x1234_5678;
    expected[8] = 0xedcb_a987;
    expected[9] = 0xf;
    expected[13] = 3 << 22 | 1 << 7;
    expected[14] = 1 << 3;
    assert_eq!(s::map_process(process), expected);
    // pm4_mes_map_process_aldebaran: exec_cleaner_shader.
    expected[1] |= 1 << 17;
    let cleaned = MapProcess {
        clean: true,
        ..process
    };
    assert_eq!(s::map_process(cleaned), expected);
    // single_memops, and what is set of waves.
    expected[1] |= 1 << 16;
    expected[14] = 0x2000 | 0x81 << 4 | 1 << 3 | 1 << 1;
    expected[16] = 0x8123_4567;
    let mut waves = WaveControls::default();
    waves.launch = LaunchMode::Halt;
    waves.precise_memory = true;
    assert_eq!(waves.override_exceptions(true, !0, 0x81), 0);
    let debugged = MapProcess {
        debug: DebugControls {
            waves,
            watches: [0, 0x8123_4567, 0, 0],
        },
        ..cleaned
    };
    assert_eq!(s::map_process(debugged), expected);

    let queue = MapQueue {
        place: HqdSelect::Any,
        doorbell: doorbell(3, 5),
        mqd: 0x1_0000_2000,
        write_pointer: 0x7f00_1234_5678,
    };
    assert_eq!(
        s::map_queue(queue),
        [
            0xc005_a200,
            1 << 29 | 1 << 4,
            2 * (3 * 1024 + 5) << 2,
            0x2000,
            1,
            0x1234_5678,
            0x7f00
        ]
    );

    let list = RunlistIb {
        address: 0x1_0000_3000,
        dwords: 0x123,
        processes: 5,
    };
    assert_eq!(
        s::run_list(list, false),
        [0xc002_a500, 0x3000, 1, 0x0580_0123]
    );
    assert_eq!(
        s::run_list(list, true),
        [0xc002_a500, 0x3000, 1, 0x05d0_0123]
    );
}

#[test]
fn hiq_is_mapped_where_it_is_told() {
    let hiq = MapQueue {
        place: HqdSelect::Hiq {
            me: 2,
            pipe: 1,
            queue: 3,
        },
        doorbell: doorbell(0, 1),
        mqd: 0x4000,
        write_pointer: 0x5000,
    };
    let word = 1 << 29 | 1 << 26 | 1 << 18 | 1 << 16 | 3 << 13;
    assert_eq!(
        s::map_queue(hiq),
        [0xc005_a200, word, 2 << 2, 0x4000, 0, 0x5000, 0]
    );
}

#[test]
fn pre_emption() {
    assert_eq!(
        s::unmap_queues(UnmapQueues::All),
        [0xc004_a300, 3 << 4, 0, 0, 0, 0]
    );
    assert_eq!(
        s::unmap_queues(UnmapQueues::Reset(doorbell(0, 1))),
        [0xc004_a300, 1 << 29 | 1, 2 << 2, 0, 0, 0]
    );
    assert_eq!(
        s::query_status(ADDRESS, 0x1_0000_0064),
        [
            0xc005_a400,
            0x8000_0000,
            0,
            0x9abc_def8,
            0x1234_5678,
            0x64,
            1
        ]
    );
}

#[test]
fn headers_tell_the_length() {
    let process = MapProcess {
        pasid: 1,
        root: ContextBase::NONE,
        sh_mem_bases: 0,
        sh_mem_config: 0,
        trap: TrapHandler::default(),
        quantum: 1,
        queues: 0,
        clean: false,
        debug: DebugControls::default(),
    };
    let packet = s::map_process(process);
    assert_eq!(parse(packet[0]), (0xa1, packet.len()));
    let packet = release(0, 0);
    assert_eq!(parse(packet[0]), (0x49, packet.len()));
}

proptest! {
    /// No argument leaks into another field.
    #[test]
    fn fields_keep_to_their_bits(
        pasid: u16,
        queues: u32,
        quantum: u32,
        dwords: u32,
        processes: u32,
        clean: bool,
    ) {
        let process = MapProcess {
            pasid,
            root: ContextBase::NONE,
            sh_mem_bases: 0,
            sh_mem_config: 0,
            trap: TrapHandler::default(),
            quantum,
            queues,
            clean,
            debug: DebugControls::default(),
        };
        let packet = s::map_process(process);
        prop_assert_eq!(packet[1] & 0x01ff_ffff, u32::from(pasid) | u32::from(clean) << 17);
        prop_assert_eq!(packet[1] >> 25, quantum & 0x7f);
        prop_assert_eq!(packet[13] & 0x003f_ffff, 0x80);
        prop_assert_eq!(packet[13] >> 22, queues & 0x3ff);
        let packet = s::run_list(RunlistIb { address: 0, dwords, processes }, false);
        prop_assert_eq!(packet[3] & 0x000f_ffff, dwords & 0x000f_ffff);
        prop_assert_eq!(packet[3] >> 20, 8 | (processes & 0xf) << 4);
    }
}
