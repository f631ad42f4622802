// SPDX-License-Identifier: GPL-2.0
//! Every number that is derived from the description of a chip, for one that does not exist: what a
//! second chip needs is a description, and no condition elsewhere.

#[path = "asic/made_up.rs"]
mod made_up;

use hw::asic::gfx90a::MI210;
use hw::asic::{Asic, SdmaInfo};
use hw::doorbell::{DoorbellSlot, SliceIndex};
use hw::firmware::state::RunningEngines;
use hw::ih::{IhClient, IvEntry, IvEvent};
use hw::ip::{IpBlock, IpTable, IpVersion};
use hw::kernel_queue::{scheduler, KernelQueue};
use hw::mqd::compute::{ComputeMqd, ComputeMqdConfig, PacketFormat, XccShare};
use hw::mqd::cu_mask;
use hw::pte::{Coherence, MemoryResidence, Mtype, PageAccess};
use hw::queue::QueuePriority;
use hw::sdma::engines::{SdmaMask, SdmaTrapSet};
use hw::sdma::ring::RingSize;
use hw::topology::cus::ComputeUnits;
use hw::topology::record::GpuNode;
use made_up::{discovered, MADE_UP};
use std::collections::{HashMap, HashSet};

/// 38 of 40 CUs of XCC 0 work, and 37 of XCC 1.
fn cus() -> ComputeUnits {
    let off = |xcc, engine, _| match (xcc, engine) {
        (0, 0) => 1 << 9,
        (0, 2) => 1 << 4,
        (1, 0) => 1 | 1 << 5,
        (1, 3) => 1 << 1,
        _ => 0,
    };
    ComputeUnits::new(&MADE_UP, off).unwrap()
}

#[test]
fn the_parts_fit_each_other() {
    assert!(MADE_UP.is_consistent());
    let broken = |change: fn(&mut Asic)| {
        let mut asic = MADE_UP;
        change(&mut asic);
        !asic.is_consistent()
    };
    // The other chip's doorbells: sixteen engines would run into the interrupt ring's slot.
    assert!(broken(
        |asic| asic.doorbells.ih_first = MI210.doorbells.ih_first
    ));
    assert!(broken(|asic| asic.doorbells = MI210.doorbells));
    assert!(broken(|asic| asic.sdma.xgmi_engines = 15));
    assert!(broken(|asic| asic.gfx.xccs = 3));
    assert!(broken(|asic| asic.mec.kiq.me = 1));
    assert!(broken(|asic| asic.mec.pipes = 5));
    assert!(broken(
        |asic| (asic.mec.pipes, asic.mec.pipe_queues) = (8, 4)
    ));
    assert!(broken(
        |asic| (asic.mec.pipes, asic.mec.pipe_queues) = (0, 8)
    ));
    // Products and shifts that do not fit are no panics.
    assert!(broken(|asic| {
        (asic.mec.pipes, asic.mec.pipe_queues) = (64, 64)
    }));
    // The driver drives two micro engines, and users have the first.
    assert!(broken(|asic| asic.mec.micro_engines = 3));
    assert!(broken(|asic| asic.mec.kiq.me = 3));
    assert!(broken(|asic| {
        (asic.mec.user, asic.mec.kiq.me, asic.mec.hiq.me) = (2, 1, 1)
    }));
    assert!(broken(|asic| asic.mec.hiq = asic.mec.kiq));
    assert!(broken(|asic| asic.mec.hiq = asic.mec.unused()));
    assert!(broken(|asic| asic.mec.kiq.queue = asic.mec.pipe_queues - 1));
    assert!(broken(|asic| asic.vmids.first_of_firmware = 2));
    assert!(broken(|asic| asic.gfx.shader_engines = 33));
    assert!(broken(|asic| asic.trap = &[0; 1000]));
    assert!(broken(|asic| asic.mqd.cu_masks = &[0; 9]));
    // A shader engine without a word of the mask.
    assert!(broken(|asic| asic.mqd.cu_masks = &[0; 3]));
    assert!(broken(|asic| asic.vmids.last = 16));
    // Engines that no client or no entry of the list names.
    assert!(broken(|asic| asic.interrupts.sdma_clients = &[8, 9, 1]));
    assert!(broken(|asic| asic.interrupts.sdma_clients = &[]));
    assert!(broken(|asic| asic.interrupts.nodes_per_die = 0));
    assert!(broken(|asic| asic.ips = MI210.ips));
    // More engines than a set has room for, which all have doorbells and clients.
    assert!(broken(|asic| {
        asic.sdma.xgmi_engines = 34;
        asic.doorbells.sdma_engines = 36;
        asic.doorbells.sdma_slots = 4;
        asic.doorbells.sdma_user_align = 1;
    }));
}

#[test]
fn no_doorbell_has_two_owners() {
    let layout = &MADE_UP.doorbells;
    let mut owners: HashMap<u16, String> = HashMap::new();
    let mut own = |slot: DoorbellSlot, owner: String| {
        let before = owners.insert(slot.index(), owner);
        assert_eq!(before, None, "slot {:#x}", slot.index());
    };
    for xcc in 0..2 {
        own(layout.kiq(xcc).unwrap(), format!("KIQ {xcc}"));
        own(layout.hiq(xcc).unwrap(), format!("HIQ {xcc}"));
    }
    for engine in 0..16 {
        own(
            layout.sdma_kernel(engine).unwrap(),
            format!("ring {engine}"),
        );
    }
    for slot in 0..layout.ih_slots {
        let slot = DoorbellSlot::new(layout.ih_first + slot).unwrap();
        own(slot, "IH".to_owned());
    }
    let mut users = HashSet::new();
    for (engine, queue) in (0..16).flat_map(|engine| (0..6).map(move |queue| (engine, queue))) {
        let slot = layout.sdma(engine, queue).unwrap();
        assert!(users.insert(slot.index()), "engine {engine} queue {queue}");
        assert!(!layout.is_cp(slot));
    }
    for other in [layout.ih_ring0(), layout.ih_retry_cam()] {
        assert!(!users.contains(&other.index()));
    }
    for engine in 0..16 {
        let range = layout.sdma_range(engine).unwrap();
        let routed = range.first.index()..range.first.index() + range.slots;
        for queue in 0..6 {
            assert!(routed.contains(&(layout.sdma(engine, queue).unwrap().index() % 512)));
        }
    }
}

#[test]
fn doorbells_are_where_the_layout_says() {
    let layout = &MADE_UP.doorbells;
    let slot = |slot: Option<DoorbellSlot>| slot.map(DoorbellSlot::index);
    assert_eq!(slot(layout.kiq(1)), Some(0x20));
    assert_eq!(slot(layout.hiq(1)), Some(0x21));
    assert_eq!(layout.kiq(2), None);
    assert_eq!(slot(KernelQueue::Hiq.doorbell(layout, 1)), Some(0x21));
    assert_eq!(slot(layout.sdma_kernel(15)), Some(0x196));
    assert_eq!(layout.sdma_kernel(16), None);
    // RLC queues begin at a multiple of four slots.
    assert_eq!(slot(layout.sdma(0, 0)), Some(0x100));
    assert_eq!(slot(layout.sdma(1, 0)), Some(0x10c));
    assert_eq!(slot(layout.sdma(1, 5)), Some(0x30e));
    assert_eq!(slot(layout.sdma(15, 4)), Some(0x19a));
    assert_eq!(slot(layout.sdma(15, 5)), Some(0x39a));
    // An engine has six queues, fewer than the registers have room for.
    assert_eq!(layout.sdma(15, 6), None);
    let range = layout.sdma_range(15).unwrap();
    assert_eq!((range.first.index(), range.slots), (0x196, 10));
    assert_eq!(range.bif(), 0x32c << 2 | 20 << 16);
    assert_eq!(layout.sdma_range(16), None);
    assert_eq!(layout.ih_range().bif(), 0x340 << 2 | 8 << 16);
    let ih = SliceIndex::KERNEL.doorbell(layout.ih_ring0());
    assert_eq!((ih.byte(), ih.dword()), (0xd00, 0x340));
    assert_eq!(layout.ih_retry_cam().index(), 0x1a3);
    assert_eq!(layout.cp_slots().count(), 512 - 0xe9);
    assert!(layout.is_cp(DoorbellSlot::new(0x1e9).unwrap()));
    assert!(!layout.is_cp(DoorbellSlot::new(0x3e8).unwrap()));
}

#[test]
fn blocks_are_where_a_table_made_at_run_time_says() {
    let blocks = discovered(Some(1));
    let table = IpTable::new(&blocks);
    let register =
        |block, n, segment, offset| table.find(block, n)?.bases.register(segment, offset);
    // A fused-off XCC leaves a gap: the second one that works is number 2.
    assert_eq!(table.of(IpBlock::Gc).count(), 2);
    assert_eq!(table.find(IpBlock::Gc, 1).unwrap().number, 2);
    assert_eq!(register(IpBlock::Gc, 0, 0, 0x1245), Some(0x3245));
    assert_eq!(register(IpBlock::Gc, 1, 1, 0x2200), Some(0x2_c200));
    assert_eq!(register(IpBlock::Gc, 2, 0, 0), None);
    assert_eq!(register(IpBlock::Sdma, 9, 0, 0x80), Some(0x4_18e0));
    assert_eq!(register(IpBlock::Sdma, 15, 0, 0), Some(0x7_9800));
    assert_eq!(register(IpBlock::Sdma, 16, 0, 0), None);
    assert_eq!(register(IpBlock::Nbio, 0, 8, 4), Some(0x404_0004));
    assert_eq!(register(IpBlock::Nbio, 0, 9, 0), None);
    assert_eq!(register(IpBlock::Nbio, 0, 8, u32::MAX), None);
    assert_eq!(table.version(IpBlock::Gc), Some(IpVersion::new(9, 4, 3)));
    assert_eq!(table.version(IpBlock::Df), None);
    assert_eq!(
        table.of(IpBlock::Sdma).count(),
        usize::from(MADE_UP.sdma.engines())
    );
    let without_gap = discovered(Some(2));
    let table = IpTable::new(&without_gap);
    let second = table.find(IpBlock::Gc, 1).unwrap();
    assert_eq!(
        (second.number, second.bases.register(0, 0)),
        (1, Some(0x1_2000))
    );
}

#[test]
fn a_queue_has_a_descriptor_and_a_save_area_for_each_xcc() {
    // 37 CUs of an XCC, rounded down from 75 in two.
    let sizes = cus().context_save();
    assert_eq!(sizes.waves, 37 * 40);
    assert_eq!(sizes.control_stack, 0x3000);
    assert_eq!(sizes.area, 0x3000 + 37 * 0x9_5000);
    assert_eq!(sizes.debug, 37 * 40 * 32);
    assert_eq!(sizes, MADE_UP.context_save(37));
    let per_xcc = u64::from(sizes.area) + u64::from(sizes.debug);
    assert_eq!(sizes.total(sizes.area, MADE_UP.gfx.xccs), 2 * per_xcc);
    // So many CUs that shader engines are the bound.
    assert_eq!(MADE_UP.context_save(60).waves, 4 * 512);
    let mqd = &MADE_UP.mqd;
    assert_eq!(mqd.stride(sizes.control_stack), 0x4000);
    assert_eq!(mqd.bytes(sizes.control_stack, MADE_UP.gfx.xccs), 0x8000);
    assert_eq!(mqd.stride(1), 0x2000);
    assert_eq!(mqd.abandoned_byte(), 960);
}

#[test]
fn a_descriptor_masks_the_shader_engines_that_it_has_words_for() {
    let config = ComputeMqdConfig {
        mqd_address: 0x1000,
        ring_base: 0x10_0000,
        ring_size: RingSize::new(4096).unwrap(),
        read_pointer: 0x2000,
        write_pointer: 0x2008,
        eop_base: 0x3000,
        eop_bytes: 4096,
        doorbell: SliceIndex::KERNEL.doorbell(MADE_UP.doorbells.hiq(1).unwrap()),
        vmid: 0,
        format: PacketFormat::Kernel,
        priority: QueuePriority::NORMAL,
        context_save: None,
        share: XccShare::ALONE,
    };
    let mqd = ComputeMqd::new(&MADE_UP.mqd, &config);
    let masks = [23, 24, 26, 27, 39, 40, 41, 42].map(|dword: usize| mqd.dwords()[dword]);
    assert_eq!(masks, [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0, 0, 0, 0]);
    assert_eq!(mqd.dwords()[143], 0x42 << 2);
}

#[test]
fn bits_of_a_cu_mask_are_dealt_to_the_xccs_in_turn() {
    let cus = cus();
    let spread = |xcc, bit: &dyn Fn(u32) -> bool| cu_mask::spread(&cus, xcc, bit);
    let all = |xcc| spread(xcc, &|_| true).map(|masks| masks.map(u32::count_ones));
    assert_eq!(all(0), Some([9, 10, 9, 10, 0, 0, 0, 0]));
    assert_eq!(all(1), Some([8, 10, 10, 9, 0, 0, 0, 0]));
    // Bits 0 and 1 are the first CU of each XCC.
    assert_eq!(spread(0, &|bit| bit == 0), Some([1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(spread(1, &|bit| bit == 0), None);
    assert_eq!(spread(1, &|bit| bit == 1), Some([1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(spread(0, &|bit| bit == 10), Some([0, 2, 0, 0, 0, 0, 0, 0]));
    assert_eq!(spread(1, &|bit| bit >= 2 * 37), None);
}

#[test]
fn a_node_tells_of_all_its_xccs() {
    let node = GpuNode {
        cus: cus(),
        mem_banks_count: 1,
        caches_count: cus().caches(0).count() as u32,
        io_links_count: 1,
        p2p_links_count: 0,
        simd_id_base: 0,
        location_id: 0,
        domain: 0,
        drm_render_minor: 128,
        hive_id: 0,
        num_sdma_engines: MADE_UP.sdma.host_engines.into(),
        num_sdma_xgmi_engines: MADE_UP.sdma.xgmi_engines.into(),
        fw_version: 0,
        sdma_fw_version: 0,
        unique_id: 0,
        asic_revision: 1,
        shares_memory: true,
        max_engine_clk_ccompute: 0,
    };
    let text = node.to_string();
    assert!(text.len() < 4096);
    for line in [
        "num_xcc 2",
        "simd_count 300",
        "array_count 8",
        "simd_arrays_per_engine 1",
        "cu_per_simd_array 10",
        "gfx_target_version 90402",
        "num_sdma_engines 2",
        "num_sdma_xgmi_engines 14",
        "num_sdma_queues_per_engine 6",
        "num_cp_queues 24",
        "max_engine_clk_fcompute 2100",
        "device_id 32767",
        "lds_size_in_kb 64",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let sizes = cus().context_save();
    assert!(text.contains(&format!("\ncwsr_size {}\n", sizes.area)));
    assert!(text.contains(&format!("\nctl_stack_size {}\n", sizes.control_stack)));
    // A vector L1 for each CU, an instruction cache for each pair of which one works, one L2.
    let units = cus();
    let caches: Vec<_> = units.caches(0).collect();
    let kinds = |level, kib| {
        let same = caches
            .iter()
            .filter(|cache| (cache.level, cache.size) == (level, kib));
        same.count()
    };
    assert_eq!(kinds(1, 32), 75);
    assert_eq!(kinds(1, 64), 8 * 5);
    assert_eq!(kinds(2, 4096), 1);
    // The array behind those of XCC 0 is the first of XCC 1, whose CUs 0 and 5 are fused off.
    let first = cus()
        .caches(0)
        .map(|cache| cache.processor_id_low)
        .find(|&cu| cu >= 40);
    assert_eq!(first, Some(41));
    assert_eq!((cus().mask(1, 0, 0), cus().mask(0, 0, 0)), (0x3de, 0x1ff));
    assert_eq!(
        (
            cus().mask(2, 0, 0),
            cus().mask(0, 4, 0),
            cus().mask(0, 0, 1)
        ),
        (0, 0, 0)
    );
    // DEV_INFO has room for one XCC.
    assert_eq!(cus().bitmap()[0], [0x1ff, 0, 0, 0]);
}

#[test]
fn sets_of_engines_have_room_for_all() {
    let engines = MADE_UP.sdma.engines();
    assert_eq!(engines, 16);
    let all: SdmaMask = (0..engines).collect();
    assert!(all.iter().eq(0..16) && !all.contains(16) && !all.is_empty());
    let mut mask = SdmaMask::EMPTY;
    assert!(mask.is_empty() && mask.insert(8));
    assert!(!mask.contains(0) && mask.contains(8));
    // One that no set can have is not taken for another one.
    assert!(!mask.insert(SdmaMask::MAX_ENGINES) && !mask.insert(u8::MAX));
    assert!(mask.iter().eq([8]));
    let running = RunningEngines {
        sdma: [3, 15].into_iter().collect(),
        ..RunningEngines::default()
    };
    assert!(running.any());
    assert_eq!(running.to_string(), "SDMA3, SDMA15");
}

#[test]
fn traps_of_every_engine_are_kept_apart() {
    let mut traps = SdmaTrapSet::default();
    // Engine 8's is not a repetition of engine 0's.
    assert!((0..16).all(|engine| traps.is_first(engine)));
    assert_eq!(traps.repeated().count(), 0);
    assert!(!traps.is_first(8) && !traps.is_first(15));
    assert!(traps.repeated().eq([8, 15]));
    // One without a record is handled each time.
    assert!(traps.is_first(32) && traps.is_first(32) && traps.is_first(255));
    assert!(traps.repeated().eq([8, 15]));
}

#[test]
fn an_interrupt_names_the_engine_of_its_die() {
    let entry = |client: u8, node: u8| {
        let dwords = [
            u32::from(client) | 224 << 8,
            0,
            0,
            u32::from(node) << 16,
            0,
            0,
            0,
            0,
        ];
        IvEntry::decode(&dwords, &MADE_UP.interrupts)
    };
    let mut seen = SdmaMask::EMPTY;
    for die in 0..4 {
        for (n, client) in (0..).zip([8, 9, 1, 4]) {
            let entry = entry(client, 4 * die);
            assert_eq!(entry.client, IhClient::Sdma(4 * die + n));
            let IvEvent::SdmaTrap(trap) = entry.event() else {
                panic!("client {client} of die {die} raised no trap");
            };
            assert!(!seen.contains(trap.engine) && seen.insert(trap.engine));
        }
    }
    assert!(seen.iter().eq(0..16));
    // An XCC of a die names the die, too.
    assert_eq!(entry(9, 6).client, IhClient::Sdma(5));
    // The fifth client of the other chip is no engine here.
    assert_eq!(entry(5, 0).client, IhClient::Other(5));
    assert_eq!(entry(0x14, 9).client, IhClient::Cp);
    // No node makes another engine of it than one that is too large.
    assert_eq!(entry(4, u8::MAX).client, IhClient::Sdma(255));
}

#[test]
fn pages_have_the_chip_s_memory_types() {
    let plain = Coherence::default();
    let coherent = Coherence {
        coherent: true,
        ..plain
    };
    let uncached = Coherence {
        uncached: true,
        ..coherent
    };
    let pte = &MADE_UP.pte;
    let (local, host) = (MemoryResidence::LocalVram, MemoryResidence::Host);
    assert_eq!(pte.mtype(local, plain), Mtype::Rw);
    assert_eq!(pte.mtype(local, coherent), Mtype::Rw);
    assert_eq!(pte.mtype(local, uncached), Mtype::Uc);
    assert_eq!(pte.mtype(host, plain), Mtype::Uc);
    let flags = pte.flags(local, PageAccess::READ_WRITE, plain);
    assert!(flags.snooped && !flags.system && flags.writeable && !flags.executable);
    assert!(pte.flags(host, PageAccess::READ, plain).system);
}

#[test]
fn hqds_and_queues_of_the_driver() {
    let mec = &MADE_UP.mec;
    assert_eq!(mec.user_hqds(), 32);
    assert_eq!(mec.user_mask(), 0xffff_ffff);
    assert_eq!(mec.hqds().count(), 32);
    assert_eq!(mec.all_hqds().count(), 64);
    let hqd = mec.hqd(13).unwrap();
    assert_eq!((hqd.pipe(), hqd.queue(), hqd.poll_bit()), (1, 3, 11));
    assert_eq!(hqd.location().me, 1);
    let kiq = KernelQueue::Kiq.location(mec);
    assert_eq!(scheduler(kiq), 0x80 | 2 << 5 | 1 << 3);
    // Fewer pipes, and users on the second micro engine.
    let mut other = *mec;
    (other.user, other.pipes) = (2, 2);
    assert_eq!((other.user_hqds(), other.user_mask()), (16, 0xffff_0000));
    assert!(
        other
            .hqds()
            .map(|hqd| hqd.poll_bit())
            .collect::<HashSet<_>>()
            .len()
            == 16
    );
    assert_eq!(other.hqd(16), None);
    // HQDs of a third micro engine have no bits left, and neither has a micro engine without any.
    (other.user, other.pipes) = (3, 4);
    assert_eq!(other.user_mask(), 0);
    (other.user, other.pipes) = (1, 0);
    assert_eq!((other.user_hqds(), other.user_mask()), (0, 0));
}

#[test]
fn golden_settings_of_a_die_follow_those_of_all() {
    assert_eq!(MADE_UP.golden.of_die(3).count(), 1);
    assert_eq!(MI210.golden.of_die(1).count(), 10);
    assert_eq!(MI210.golden.of_die(2).count(), 4);
    let two: Vec<u32> = [0, 1]
        .into_iter()
        .map(|die| MI210.golden.of_die(die).last().unwrap().value)
        .collect();
    assert_eq!(two, [0x351, 0x49]);
}

/// Not the engine that runtimes name for copies from the host.
#[test]
fn the_engine_without_queues_that_wait_for_pages() {
    assert_eq!(MI210.sdma.pages_engine(), 1);
    let one = |xgmi_engines| SdmaInfo {
        host_engines: 1,
        xgmi_engines,
        ..MI210.sdma
    };
    assert_eq!(one(3).pages_engine(), 3);
    assert_eq!(one(0).pages_engine(), 0);
}
