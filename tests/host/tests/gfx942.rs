// SPDX-License-Identifier: GPL-2.0
//! Facts of gfx942, as far as others say the same: dumps of real machines, amdgpu's figures.

use hw::asic::gfx90a::MI210;
use hw::asic::gfx942::{MI300X, MI325X};
use hw::asic::{Asic, KNOWN_ASICS};
use hw::doorbell::{DoorbellPort, DoorbellRange, DoorbellSlot, SliceIndex};
use hw::firmware::file::FirmwareFile;
use hw::firmware::part::FirmwarePart;
use hw::ih::IhClient;
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, ContextSaveArea, PacketFormat, XccShare};
use hw::partition::Partitioning;
use hw::psp::BootloaderCommand;
use hw::pte::{Coherence, MemoryResidence, Mtype, PageAccess};
use hw::queue::QueuePriority;
use hw::sdma::ring::RingSize;
use hw::topology::cus::ComputeUnits;
use hw::topology::record::GpuNode;

// libhsakmt gives no EOP buffer on gfx942.
const _: () = assert!(MI300X.mqd.is_eop_optional && !MI210.mqd.is_eop_optional);

fn node(asic: &'static Asic) -> String {
    // 38 of 40 CUs of each XCC work.
    let off = |_, engine, _| if engine < 2 { 1 << 9 } else { 0 };
    let cus = ComputeUnits::new(asic, off).unwrap();
    let node = GpuNode {
        mem_banks_count: 1,
        caches_count: cus.caches(0).count() as u32,
        cus,
        io_links_count: 1,
        p2p_links_count: 0,
        simd_id_base: 0,
        location_id: 0,
        domain: 0,
        drm_render_minor: 128,
        hive_id: 0,
        num_sdma_engines: asic.sdma.host_engines.into(),
        num_sdma_xgmi_engines: asic.sdma.xgmi_engines.into(),
        fw_version: 0,
        sdma_fw_version: 0,
        unique_id: 0,
        asic_revision: 1,
        shares_memory: true,
        max_engine_clk_ccompute: 0,
    };
    node.to_string()
}

#[test]
fn a_node_is_as_on_a_real_machine() {
    let text = node(&MI300X);
    for line in [
        "simd_count 1216",
        "caches_count 626",
        "array_count 32",
        "simd_arrays_per_engine 1",
        "cu_per_simd_array 10",
        "gfx_target_version 90402",
        "device_id 29857",
        "num_xcc 8",
        "num_sdma_engines 2",
        "num_sdma_xgmi_engines 14",
        "num_sdma_queues_per_engine 8",
        "num_cp_queues 24",
        "cwsr_size 23203840",
        "ctl_stack_size 12288",
        "lds_size_in_kb 64",
        "max_waves_per_simd 8",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_part_with_one_xcc_has_the_same_xcc() {
    let part = &MI325X.smaller[0];
    assert_eq!(part.ids.device, MI325X.ids.device);
    let text = node(part);
    for line in [
        "simd_count 152",
        "array_count 4",
        "num_xcc 1",
        "num_sdma_engines 2",
        "num_sdma_xgmi_engines 2",
        "cwsr_size 23203840",
        "ctl_stack_size 12288",
        // No memory controller, and so no L3.
        "caches_count 79",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn doorbells_are_where_amdgpu_has_them() {
    let layout = &MI300X.doorbells;
    let dword =
        |slot: Option<DoorbellSlot>| slot.map(|slot| SliceIndex::KERNEL.doorbell(slot).dword());
    assert_eq!(dword(layout.kiq(7)), Some(2 * 0xe0));
    assert_eq!(dword(layout.sdma_kernel(15)), Some(2 * 0x196));
    // AMDGPU_DOORBELL_LAYOUT1_IH.
    assert_eq!(layout.ih_ring0().index(), 0x1a0);
    let slot = |engine, queue| layout.sdma(engine, queue).unwrap().index();
    assert_eq!((slot(0, 0), slot(0, 1), slot(0, 7)), (0x100, 0x300, 0x303));
    // Ranges: what nbio_v7_9_sdma_doorbell_range and nbio_v7_9_ih_doorbell_range write.
    let ranges = [0, 1, 2, 3].map(|engine| layout.sdma_range(engine).unwrap());
    assert_eq!(
        ranges.map(DoorbellRange::entry),
        [0x5200, 0x5214, 0x5228, 0x523c]
    );
    assert_eq!(layout.ih_range().entry(), 0x2340);
    let control = |n: usize| DoorbellPort::SDMA[n].control(ranges[n]);
    assert_eq!(
        [0, 1, 2, 3].map(control),
        [0x1028_071d, 0x2028_0411, 0x8028_0493, 0x9028_0515]
    );
    assert_eq!(DoorbellPort::IH.control(layout.ih_range()), 0x0010_0001);
    // 0x10a is no multiple of four.
    assert_eq!((slot(1, 0), slot(1, 6)), (0x10c, 0x10f));
}

#[test]
fn memory_is_cached_as_in_amdgpu() {
    let coherences = [(false, false), (true, false), (false, true), (true, true)];
    let types = |residence| {
        coherences.map(|(coherent, uncached)| {
            let coherence = Coherence {
                coherent,
                uncached,
                ..Coherence::default()
            };
            let flags = MI300X
                .pte
                .flags(residence, PageAccess::READ_WRITE, coherence);
            assert!(flags.snooped);
            flags.mtype
        })
    };
    assert_eq!(
        types(MemoryResidence::LocalVram),
        [Mtype::Rw, Mtype::Rw, Mtype::Uc, Mtype::Uc]
    );
    assert_eq!(
        types(MemoryResidence::Hive),
        [Mtype::Nc, Mtype::Nc, Mtype::Uc, Mtype::Uc]
    );
    assert_eq!(types(MemoryResidence::Host), [Mtype::Uc; 4]);
    let extended = Coherence {
        extended: true,
        ..Coherence::default()
    };
    let types = |asic: &Asic| {
        [MemoryResidence::LocalVram, MemoryResidence::Host]
            .map(|residence| asic.pte.mtype(residence, extended))
    };
    assert_eq!(types(&MI300X), [Mtype::Cc, Mtype::Uc]);
    assert_eq!(types(&MI210), [Mtype::Cc, Mtype::Uc]);
}

#[test]
fn the_node_of_an_interrupt_tells_the_die() {
    let client = |id, node| MI300X.interrupts.client(id, node);
    assert_eq!(client(8, 0), IhClient::Sdma(0));
    assert_eq!(client(4, 0), IhClient::Sdma(3));
    assert_eq!(client(1, 12), IhClient::Sdma(14));
    let nodes = |xcc| MI300X.interrupts.nodes_of_xcc(xcc);
    assert_eq!(
        [0, 1, 2, 7].map(nodes),
        [[1, 0], [2, 0], [5, 4], [14, 12]].map(Some)
    );
    assert_eq!(MI210.interrupts.nodes_of_xcc(0), None);
    // gfx90a's fifth engine.
    assert_ne!(client(5, 0), IhClient::Sdma(4));
}

/// A queue that one XCC runs, without an EOP buffer.
fn queue_of(format: PacketFormat) -> ComputeMqdConfig {
    ComputeMqdConfig {
        mqd_address: 0x1000,
        ring_base: 0x10_0000,
        ring_size: RingSize::new(4096).unwrap(),
        read_pointer: 0x2000,
        write_pointer: 0x2008,
        eop_base: 0,
        eop_bytes: 0,
        doorbell: SliceIndex::KERNEL.doorbell(MI300X.doorbells.hiq(0).unwrap()),
        vmid: 0,
        format,
        priority: QueuePriority::NORMAL,
        context_save: None,
        share: XccShare::ALONE,
    }
}

#[test]
fn one_xcc_has_all_workgroups() {
    let mqd = |format| {
        let mqd = ComputeMqd::new(&MI300X.mqd, &queue_of(format));
        // No EOP buffer.
        assert_eq!(mqd.dwords()[165..168], [0; 3]);
        assert_eq!(
            [23, 24, 26, 27].map(|at: usize| mqd.dwords()[at]),
            [u32::MAX; 4]
        );
        // The read pointer of AQL, which gfx90a does not report (NO_UPDATE_RPTR), is reported.
        assert_eq!(mqd.dwords()[145] >> 27 & 1, 0);
        [39, 40, 41, 42].map(|at: usize| mqd.dwords()[at])
    };
    assert_eq!(mqd(PacketFormat::Aql), [0, u32::MAX, 1, u32::MAX]);
    assert_eq!(mqd(PacketFormat::Pm4), [0, u32::MAX, 0, u32::MAX]);
    assert_eq!(mqd(PacketFormat::Kernel), [u32::MAX; 4]);
}

#[test]
fn workgroups_are_dealt_to_the_xccs() {
    let mqd = |place, format| {
        let config = ComputeMqdConfig {
            context_save: Some(ContextSaveArea {
                base: 0x10_0000_0000,
                size: 0x162_1000,
                control_stack: 0x3000,
                trap_handler: true,
            }),
            share: XccShare {
                place,
                count: 8,
                first: 5,
                target: 2,
                stride: 0x4000,
            },
            ..queue_of(format)
        };
        let mqd = ComputeMqd::new(&MI300X.mqd, &config);
        let no_update = mqd.dwords()[145] >> 27 & 1;
        let save = u64::from(mqd.dwords()[171]) | u64::from(mqd.dwords()[172]) << 32;
        let split = [39, 41, 225, 226].map(|at: usize| mqd.dwords()[at]);
        (split, no_update, save)
    };
    let (aql, pm4) = (PacketFormat::Aql, PacketFormat::Pm4);
    assert_eq!(mqd(0, aql), ([5, 1, 0, 0x4000], 0, 0x10_0000_0000));
    assert_eq!(mqd(4, aql), ([1, 1, 0, 0x4000], 1, 0x10_0588_4000));
    assert_eq!(mqd(4, pm4).0, [0, 0, 2, 0x4000]);
    // HIQs: of all but the first one the read pointer is not reported.
    let kernel = |place| mqd(place, PacketFormat::Kernel);
    assert_eq!((kernel(0).1, kernel(7).1), (0, 1));
    assert_eq!(kernel(7).0, [u32::MAX, u32::MAX, 0, 0x4000]);
}

#[test]
fn a_part_for_each_number_of_xccs() {
    let counts = MI300X
        .smaller
        .iter()
        .map(|part| (part.gfx.xccs, part.sdma.engines()));
    assert!(counts.eq([(1, 4), (2, 4), (3, 8), (4, 8), (6, 16), (7, 16)]));
}

#[test]
fn the_bootloader_gets_all_drivers() {
    let plan = MI300X.firmware;
    let (last, drivers) = plan.bootloader.split_last().unwrap();
    assert_eq!(*last, (FirmwarePart::SecureOs, BootloaderCommand::SecureOs));
    assert!(drivers
        .iter()
        .map(|step| step.1 as u32)
        .eq([0x8_0000, 0x1_0000, 0xb_0000, 0xd_0000, 0xc_0000, 0xe_0000]));
    assert!(plan.parts().all(|part| plan.file(part.source()).is_some()));
}

#[test]
fn the_smu_gets_the_table_of_its_chip() {
    // As the vendor's file has them: list at 0x100, 12 bytes an entry.
    let mut file = vec![0; 0x124];
    let mut put = |at: usize, word: u32| file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    let tables = [0x5032_5341, 0x5032_5358, 0x5032_5303];
    for (at, word) in [(0, 0x124 + 0x300), (4, 0x34), (8, 2 | 1 << 16)] {
        put(at, word);
    }
    put(0x2c, tables.len() as u32);
    put(0x30, 0x100);
    for (n, &id) in (0..).zip(&tables) {
        let entry = 0x100 + n as usize * 12;
        put(entry, id);
        put(entry + 4, 0x124 + n * 0x100);
        put(entry + 8, 0x100);
    }
    for id in tables {
        let mut image = [0; 0x100];
        image[0x10..0x14].copy_from_slice(b"$PS1");
        image[0x6c..0x70].copy_from_slice(&0x100_u32.to_le_bytes());
        image[0xfc..].copy_from_slice(&id.to_le_bytes());
        file.extend(image);
    }
    let file = FirmwareFile::new(&file).unwrap();
    for (asic, id) in [(&MI300X, 0x5032_5358_u32), (&MI325X, 0x5032_5303)] {
        let (part, kind) = asic.firmware.after_tmr[0];
        assert_eq!(kind as u32, 129);
        let image = part.find(&file).unwrap();
        assert_eq!(image.bytes[0xfc..], id.to_le_bytes());
    }
    // It has no firmware of the SMU's own.
    assert!(FirmwarePart::Smu.find(&file).is_err());
}

#[test]
fn devices_are_found() {
    for (device, name) in [
        (0x74a1, "AMD Instinct MI300X"),
        (0x74a5, "AMD Instinct MI325X"),
        (0x74a9, "AMD Instinct MI300X HF"),
    ] {
        assert_eq!(Asic::find(device).unwrap().ids.name, name);
    }
    // MI300A, which is an APU, and MI350X, which is another chip.
    assert!([0x74a0, 0x75a0]
        .into_iter()
        .all(|id| Asic::find(id).is_none()));
    assert_eq!(KNOWN_ASICS.len(), 6);
}

#[test]
fn only_a_whole_gpu_is_driven() {
    let partitioning = |compute, memory| Partitioning { compute, memory };
    for whole in [partitioning(0, 0), partitioning(0, 1)] {
        assert!(whole.is_whole());
        assert_eq!(whole.to_string(), "SPX, NPS1");
    }
    for (parts, name) in [
        (partitioning(4, 1), "CPX, NPS1"),
        (partitioning(0, 1 << 3), "SPX, NPS4"),
        (partitioning(9, 0), "compute mode 9, NPS1"),
    ] {
        assert!(!parts.is_whole());
        assert_eq!(parts.to_string(), name);
    }
}
