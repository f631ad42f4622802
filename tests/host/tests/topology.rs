// SPDX-License-Identifier: GPL-2.0
//! Topology texts, read in libhsakmt's way, and facts of the ASIC.

use hw::asic::gfx90a::MI210;
use hw::asic::{Asic, KNOWN_ASICS};
use hw::ip;
use hw::mqd::cu_mask;
use hw::topology::cus::ComputeUnits;
use hw::topology::gpu_id::{GpuId, PciIdentity};
use hw::topology::record::{
    link_flag, CacheRecord, CpuNode, GpuNode, HeapType, IoLink, MemoryBank, NumberFile,
    SystemProperties,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::fmt::Display;

/// Reads `%s %llu\n` lines until one does not fit. Returns the rest, too.
fn scan(text: &str) -> (HashMap<String, u64>, String) {
    let mut properties = HashMap::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let Some((name, value)) = line.split_once(' ') else {
            break;
        };
        let Ok(value) = value.parse::<u64>() else {
            break;
        };
        assert!(
            properties.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
        rest = after;
    }
    (properties, rest.to_owned())
}

/// The properties of a file that must be read to its end and fit its page.
fn properties(file: &impl Display) -> HashMap<String, u64> {
    let text = file.to_string();
    assert!(text.len() < 4096);
    let (properties, rest) = scan(&text);
    assert_eq!(rest, "", "unread");
    properties
}

/// An MI210 with one CU less in each engine, another one in each.
fn cus() -> ComputeUnits {
    ComputeUnits::new(&MI210, |_, engine, _| 1 << (engine * 3 % 14)).unwrap()
}

fn gpu_node() -> GpuNode {
    GpuNode {
        cus: cus(),
        mem_banks_count: 1,
        caches_count: cus().caches(0).count() as u32,
        io_links_count: 1,
        p2p_links_count: 3,
        simd_id_base: 0x8000_0000,
        location_id: 0x0300,
        domain: 0,
        drm_render_minor: 128,
        hive_id: 0x1_4b2c_9d07_55aa,
        num_sdma_engines: 2,
        num_sdma_xgmi_engines: 0,
        fw_version: 60,
        sdma_fw_version: 8,
        unique_id: u64::MAX,
        asic_revision: 1,
        shares_memory: false,
        max_engine_clk_ccompute: 3000,
    }
}

#[test]
fn a_gpu_node_says_what_libhsakmt_needs() {
    let p = properties(&gpu_node());
    for (name, value) in [
        ("cpu_cores_count", 0),
        ("simd_count", 416),
        ("mem_banks_count", 1),
        ("io_links_count", 1),
        ("p2p_links_count", 3),
        ("simd_id_base", 0x8000_0000),
        ("max_waves_per_simd", 8),
        ("lds_size_in_kb", 64),
        ("num_gws", 0),
        ("wave_front_size", 64),
        ("array_count", 8),
        ("simd_arrays_per_engine", 1),
        ("cu_per_simd_array", 14),
        ("simd_per_cu", 4),
        ("gfx_target_version", 90010),
        ("vendor_id", 4098),
        ("device_id", 29711),
        ("location_id", 0x300),
        ("domain", 0),
        ("drm_render_minor", 128),
        ("hive_id", 0x1_4b2c_9d07_55aa),
        ("num_sdma_engines", 2),
        ("num_sdma_xgmi_engines", 0),
        ("num_sdma_queues_per_engine", 8),
        ("num_cp_queues", 32),
        ("cwsr_size", 0x3c9_1000),
        ("ctl_stack_size", 0x9000),
        ("fw_version", 60),
        ("sdma_fw_version", 8),
        ("unique_id", u64::MAX),
        ("num_xcc", 1),
        ("max_engine_clk_ccompute", 3000),
    ] {
        assert_eq!(p.get(name), Some(&value), "{name}");
    }
    // Doorbell type 2, on-chip ECC, the revision, exceptions, four watch points, what debuggers use;
    // no SVM, no RAS events, no per-queue reset, no precise ALU exceptions.
    let capability = p["capability"];
    assert_eq!(capability >> 12 & 3, 2);
    assert_eq!(capability >> 26 & 1, 1);
    assert_eq!(capability >> 22 & 0xf, 1);
    assert_eq!(capability >> 29 & 1, 1);
    let old = GpuNode {
        fw_version: 50,
        ..gpu_node()
    };
    assert_eq!(properties(&old)["capability"], capability & !(1 << 29));
    assert_eq!(capability >> 7 & 0x1f, 2 << 1 | 1);
    assert_eq!(capability >> 15 & 0xf, 0xf);
    // Bits 29:6 can be masked; dispatches are always known.
    assert_eq!(p["debug_prop"], 0x5d6);
    for bit in [19, 21, 27, 28, 30, 31] {
        assert_eq!(capability >> bit & 1, 0, "capability bit {bit}");
    }
    let shares = GpuNode {
        shares_memory: true,
        ..gpu_node()
    };
    assert_eq!(properties(&shares)["capability"], capability | 1 << 27);
}

#[test]
fn a_cpu_node_says_what_libhsakmt_needs() {
    let cpu = properties(&CpuNode {
        cpu_cores_count: 2,
        cpu_core_id_base: 0,
        mem_banks_count: 1,
        io_links_count: 1,
        p2p_links_count: 0,
        max_engine_clk_ccompute: 3000,
    });
    assert_eq!(cpu["cpu_cores_count"], 2);
    assert_eq!(cpu["simd_count"], 0);
    assert_eq!(cpu["p2p_links_count"], 0);
    assert_eq!(cpu["caches_count"], 0);
    assert_eq!(cpu["drm_render_minor"], 0);
    assert_eq!(cpu["max_engine_clk_ccompute"], 3000);
}

#[test]
fn small_files() {
    assert_eq!(NumberFile(41234).to_string(), "41234\n");
    let system = properties(&SystemProperties::default());
    assert_eq!(system.len(), 3);
    let link = properties(&IoLink::pcie(1, 0, 20));
    for (name, value) in [
        ("type", 2),
        ("node_from", 1),
        ("node_to", 0),
        ("weight", 20),
        ("flags", 1),
    ] {
        assert_eq!(link[name], value, "{name}");
    }
    assert_eq!(link.len(), 13);
    let mut slow = IoLink::pcie(0, 1, 20);
    slow.flags |= link_flag::NO_ATOMICS_32 | link_flag::NO_ATOMICS_64;
    assert_eq!(properties(&slow)["flags"], 0b1101);
}

/// The caches of `cus`, numbered from 0.
fn caches(cus: &ComputeUnits) -> Vec<CacheRecord<'_>> {
    cus.caches(0).collect()
}

/// The processors that a cache serves according to its text: the map has 32 places for each array.
fn siblings(cache: &CacheRecord<'_>) -> Vec<u32> {
    let text = cache.to_string();
    assert!(text.len() < 4096);
    let (properties, rest) = scan(&text);
    assert_eq!(properties.len(), 8);
    let map = rest
        .strip_prefix("sibling_map ")
        .and_then(|map| map.strip_suffix('\n'))
        .expect("sibling_map is last");
    let bits: Vec<&str> = map.split(',').collect();
    let first = properties["processor_id_low"] as u32;
    let first_array = first / 14;
    let arrays = if cache.level == 1 { 1 } else { 8 - first_array };
    assert_eq!(bits.len() as u32, 32 * arrays);
    (0..)
        .zip(bits)
        .filter(|(_, bit)| match *bit {
            "0" => false,
            "1" => true,
            other => panic!("sibling {other}"),
        })
        .map(|(place, _)| match place / 32 {
            0 => first + place,
            array => (first_array + array) * 14 + place % 32,
        })
        .collect()
}

#[test]
fn each_kind_of_cache_serves_every_cu_once() {
    let working: Vec<u32> = (0..8)
        .flat_map(|array| {
            (0..14)
                .filter(move |cu| cus().mask(0, array, 0) >> cu & 1 != 0)
                .map(move |cu| array * 14 + cu)
        })
        .collect();
    assert_eq!(working.len(), 104);
    // Level, KiB, type, number, CUs of each at most.
    let kinds = [
        (1, 16, 9, 104, 1),
        (1, 32, 10, 56, 2),
        (1, 16, 9, 56, 2),
        (2, 8192, 9, 1, 112),
    ];
    let cus = cus();
    let all = caches(&cus);
    let mut rest = all.as_slice();
    for (level, size, cache_type, count, shared_by) in kinds {
        let mut served = Vec::new();
        for _ in 0..count {
            let (cache, after) = rest.split_first().expect("a cache for each CU");
            assert_eq!(
                (cache.level, cache.size, cache.cache_type),
                (level, size, cache_type)
            );
            let siblings = siblings(cache);
            assert!(!siblings.is_empty() && siblings.len() <= shared_by);
            assert_eq!(siblings[0], cache.processor_id_low);
            served.extend(siblings);
            rest = after;
        }
        assert_eq!(served, working);
    }
    assert!(rest.is_empty());
    // Processors are numbered from the node's first SIMD on; the first of them is fused off.
    let base = cus.caches(0x8000_0000).next().unwrap();
    assert_eq!(base.processor_id_low, 0x8000_0001);
}

#[test]
fn the_packed_cu_map_has_every_cu() {
    let bitmap = cus().bitmap();
    let count: u32 = bitmap.iter().flatten().map(|mask| mask.count_ones()).sum();
    assert_eq!(count, 104);
    assert_eq!(cus().count(), 104);
    // Engine 5 is in column 1, row 1; rows 2 and 3 are empty.
    assert_eq!(bitmap[1][1], cus().mask(0, 5, 0));
    assert!(bitmap.iter().all(|column| column[2] == 0 && column[3] == 0));
    assert_eq!(cus().mask(0, 8, 0), 0);
}

proptest! {
    #[test]
    fn fuses_of_any_kind(inactive in prop::array::uniform8(0u32..1 << 16)) {
        let working: u32 = inactive.iter().map(|off| (!off & 0x3fff).count_ones()).sum();
        let cus = ComputeUnits::new(&MI210, |_, engine, _| inactive[engine as usize]);
        prop_assert_eq!(cus.map_or(0, |cus| cus.count()), working);
        if let Some(cus) = cus {
            // Each serves all, whichever CUs are missing.
            let last = cus.caches(0).last().unwrap();
            prop_assert_eq!(siblings(&last).len() as u32, working);
            let caches = cus.caches(0);
            let vector = caches.filter(|cache| cache.cache_type == 9 && cache.level == 1);
            let served = vector.map(|cache| siblings(&cache).len() as u32).sum::<u32>();
            prop_assert_eq!(served, 2 * working);
            let masks = cu_mask::spread(&cus, 0, |_| true).unwrap();
            // As many as the working ones, from bit 0 on.
            let of_working = |engine| 1 << cus.mask(0, engine, 0).count_ones();
            prop_assert!((0..).zip(masks).all(|(engine, mask)| mask + 1 == of_working(engine)));
            // Each bit is another CU, and together they are the CUs of a full mask.
            let mut seen = [0; cu_mask::MAX_WORDS];
            for n in 0..working {
                let one = cu_mask::spread(&cus, 0, |bit| bit == n).unwrap();
                for (seen, one) in seen.iter_mut().zip(one) {
                    prop_assert_eq!(*seen & one, 0);
                    *seen |= one;
                }
            }
            prop_assert_eq!(seen, masks);
            prop_assert_eq!(cu_mask::spread(&cus, 0, |bit| bit >= working), None);
        }
    }
}

#[test]
fn asics_are_found_by_device_id() {
    assert_eq!(Asic::find(0x740f).unwrap().ids.name, MI210.ids.name);
    // MI210's virtual function.
    assert!(Asic::find(0x7410).is_none());
    for known in KNOWN_ASICS {
        let found = Asic::find(known.ids.device).unwrap();
        assert_eq!(found.ids.name, known.ids.name);
        assert!(found.is_consistent());
    }
}

#[test]
fn registers_are_placed_by_segment() {
    let register = |block, instance, segment, offset| {
        let ip = ip::IpTable::new(MI210.ips).find(block, instance)?;
        ip.bases.register(segment, offset)
    };
    // GRBM_GFX_INDEX, IH_RB_CNTL, SDMA4's CNTL, NBIO's RCC_CONFIG_MEMSIZE.
    assert_eq!(register(ip::IpBlock::Gc, 0, 1, 0x2200), Some(0xc200));
    assert_eq!(register(ip::IpBlock::Osssys, 0, 0, 0x80), Some(0x1120));
    assert_eq!(register(ip::IpBlock::Sdma, 4, 0, 0x1c), Some(0x1_e81c));
    assert_eq!(register(ip::IpBlock::Nbio, 0, 2, 0xc3), Some(0xde3));
    assert_eq!(register(ip::IpBlock::Sdma, 5, 0, 0), None);
    assert_eq!(register(ip::IpBlock::Gc, 0, 2, 0), None);
    let gc = ip::IpTable::new(MI210.ips)
        .find(ip::IpBlock::Gc, 0)
        .unwrap();
    assert_eq!(gc.version.to_string(), "9.4.2");
    assert!(gc.version > ip::IpVersion::new(9, 4, 1));
}

fn identities() -> impl Strategy<Value = PciIdentity> {
    any::<(u32, u8, u8, u16, u16, u16, u64)>().prop_map(
        |(domain, bus, devfn, device, subsystem_vendor, subsystem, vram)| PciIdentity {
            domain,
            bus,
            devfn,
            device,
            subsystem_vendor,
            subsystem,
            vram,
        },
    )
}

proptest! {
    #[test]
    fn a_gpu_id_is_steady_and_fits_mmap_offsets(identity in identities()) {
        let id = GpuId::new(&identity);
        prop_assert_eq!(id, GpuId::new(&identity));
        prop_assert_ne!(id.get(), 0);
        prop_assert_eq!(GpuId::from_raw(id.get().into()), Some(id));
        let location = u32::from(identity.bus) * 256 + u32::from(identity.devfn);
        prop_assert_eq!(identity.location(), location);
    }

    #[test]
    fn only_16_bits_can_be_a_gpu_id(raw: u32) {
        let possible = raw != 0 && raw <= 0xffff;
        let id = GpuId::from_raw(raw).map(|id| u32::from(id.get()));
        prop_assert_eq!(id, possible.then_some(raw));
    }

    #[test]
    fn memory_banks_read_back(size: u64, width: u32, clock: u32, heap in 0usize..2) {
        let heap = [HeapType::System, HeapType::FramebufferPublic][heap];
        let bank = MemoryBank { heap, size_in_bytes: size, flags: 0, width, mem_clk_max: clock };
        let p = properties(&bank);
        prop_assert_eq!(p["heap_type"], heap as u64);
        prop_assert_eq!(p["size_in_bytes"], size);
        prop_assert_eq!((p["width"], p["mem_clk_max"]), (width.into(), clock.into()));
    }
}

#[test]
fn gpus_of_one_machine_get_different_ids() {
    let ids: std::collections::HashSet<u16> = (0..8)
        .map(|bus| {
            let identity = PciIdentity {
                domain: 0,
                bus: 0x40 + bus,
                devfn: 0,
                device: 0x740f,
                subsystem_vendor: 0x1002,
                subsystem: 0x0c34,
                vram: 64 << 30,
            };
            GpuId::new(&identity).get()
        })
        .collect();
    assert_eq!(ids.len(), 8);
}
