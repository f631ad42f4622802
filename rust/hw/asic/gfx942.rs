// SPDX-License-Identifier: GPL-2.0
//! gfx942: MI300X and MI325X. A GPU of several XCCs, each a GC block like that of gfx90a, and of
//! dies (AIDs) with an MMHUB and four SDMA engines each. A discovery table in VRAM lists its
//! blocks.
//!
//! Source: amdgpu of Linux 7.3 (under MIT) where nothing else is said; the facts that name gfx90a
//! have not changed. Made by: hand.

use super::gfx90a::{MI210, MM_CLIENTS};
use super::{
    Asic, AsicIds, CacheKind, GfxGolden, GfxInfo, GoldenRegister, GoldenSetting, SdmaGolden,
    SdmaInfo, VmidSplit, VramInfo, DRM_FAMILY_AI, DRM_VRAM_HBM,
};
use crate::cleaner::{self, Cleaner};
use crate::debug::WatchInfo;
use crate::doorbell::DoorbellLayout;
use crate::firmware::part::{FirmwarePart, FirmwareSource};
use crate::firmware::plan::{FirmwarePlan, LoadStep};
use crate::ih::IhInfo;
use crate::mqd::compute::{MqdInfo, XccSplit};
use crate::psp::{BootloaderCommand, PspImageType};
use crate::pte::{Mtype, PteFormat, PteRule};
use crate::queue::MecInfo;
use crate::smu::interface::SmuInterface;
use crate::topology::record::cache_type;
use crate::trap::gfx9_4_3;

/// Its devices, with all that such a chip has.
pub const ASICS: [&Asic; 3] = [&MI300X, &MI325X, &MI300X_HF];

/// MI300X.
pub const MI300X: Asic = whole(&IDS[0], &SMALL[0]);
/// MI325X.
pub const MI325X: Asic = whole(&IDS[1], &SMALL[1]);
/// MI300X HF.
const MI300X_HF: Asic = whole(&IDS[2], &SMALL[2]);

/// The same with fewer XCCs and AIDs, as simulators have it, or with XCCs that do not work.
const SMALL: [[Asic; 6]; 3] = [smaller(&IDS[0]), smaller(&IDS[1]), smaller(&IDS[2])];

const fn smaller(ids: &AsicIds) -> [Asic; 6] {
    [
        part(ids, 1, 1),
        part(ids, 2, 1),
        part(ids, 3, 2),
        part(ids, 4, 2),
        part(ids, 6, 4),
        part(ids, 7, 4),
    ]
}

const IDS: [AsicIds; 3] = [
    ids(0x74a1, "AMD Instinct MI300X"),
    ids(0x74a5, "AMD Instinct MI325X"),
    ids(0x74a9, "AMD Instinct MI300X HF"),
];

const fn ids(device: u16, name: &'static str) -> AsicIds {
    AsicIds {
        device,
        name,
        family: "ip discovery",
        gfx_target_version: 90402,
        drm_family: DRM_FAMILY_AI,
        external_revision: 0x46,
    }
}

/// All of a chip: eight XCCs on four AIDs.
const fn whole(ids: &AsicIds, smaller: &'static [Asic]) -> Asic {
    Asic {
        caches: &CACHES,
        smaller,
        ..chip(ids, 8, 4)
    }
}

/// A chip with so many XCCs that work, and AIDs.
const fn part(ids: &AsicIds, xccs: u8, aids: u8) -> Asic {
    let (of_xcc, _) = CACHES.split_at(CACHES.len() - 1);
    Asic {
        // The L3 belongs to the memory controllers (UMC), of which such a chip lists none.
        caches: of_xcc,
        ..chip(ids, xccs, aids)
    }
}

/// SDMA engines of an AID.
const ENGINES: u8 = 4;
/// The engines for traffic with the host, whatever their number (kfd_device.c).
const HOST_ENGINES: u8 = 2;

const fn chip(ids: &AsicIds, xccs: u8, aids: u8) -> Asic {
    let engines = ENGINES * aids;
    Asic {
        ids: *ids,
        gfx: GfxInfo {
            xccs: xccs as u32,
            shader_engines: 4,
            arrays_per_engine: 1,
            cus_per_array: 10,
            max_mhz: 2100,
            has_f8_mode: true,
            exceptions_firmware: 0,
            watch: WatchInfo {
                lowest: 7,
                highest: 30,
            },
            ..MI210.gfx
        },
        golden: GfxGolden {
            common: &COMMON,
            dies: &[],
        },
        mec: MecInfo {
            cp_queues: 24,
            xnack_chain: Some(184),
            ..MI210.mec
        },
        mqd: MqdInfo {
            // Four engines; the words of four more have another meaning (v9_structs.h).
            cu_masks: &[23, 24, 26, 27],
            is_eop_optional: true,
            split: Some(XccSplit {
                xcc: 39,
                chunk: 41,
                others: [40, 42],
                target: 225,
                stride: 226,
            }),
            ..MI210.mqd
        },
        sdma: SdmaInfo {
            host_engines: HOST_ENGINES,
            xgmi_engines: engines - HOST_ENGINES,
            queues_per_engine: 8,
            code_version: [4, 4],
            // sdma_v4_4_2_inst_init_golden_registers: NUM_BANKS, PIPE_INTERLEAVE_SIZE.
            golden: SdmaGolden {
                tiles_mask: 0x7038,
                tiles: 0x4000,
                ..MI210.sdma.golden
            },
        },
        interrupts: IhInfo {
            sdma_clients: &[0x08, 0x09, 0x01, 0x04],
            nodes_per_die: 4,
            mm_clients: &MM_CLIENTS,
        },
        // AMDGPU_DOORBELL_LAYOUT1_* of amdgpu.
        doorbells: DoorbellLayout {
            xccs,
            kiq: 0,
            hiq: 1,
            xcc_slots: 0x20,
            sdma_engines: engines,
            sdma_queues: 8,
            sdma_first: 0x100,
            sdma_slots: 10,
            sdma_user_align: 4,
            ih_first: 0x1a0,
            ih_slots: 4,
            ih_retry_cam: 0x1a3,
            non_cp_first: 0x100,
            non_cp_last: 0x1e8,
        },
        // In the gap between the two segments of XCC 0's registers (nbio_v7_9.c).
        hdp_page: 0x1_a000,
        // gmc_v9_0_get_coherence_flags.
        pte: PteFormat {
            local_vram: PteRule {
                plain: Mtype::Rw,
                coherent: Mtype::Rw,
                extended: Mtype::Cc,
                uncached: Mtype::Uc,
                snooped: true,
            },
            hive: PteRule {
                plain: Mtype::Nc,
                coherent: Mtype::Nc,
                extended: Mtype::Uc,
                uncached: Mtype::Uc,
                snooped: true,
            },
            host: PteRule {
                plain: Mtype::Uc,
                coherent: Mtype::Uc,
                extended: Mtype::Uc,
                uncached: Mtype::Uc,
                snooped: true,
            },
        },
        vmids: VmidSplit { ..MI210.vmids },
        // 32 GT/s (amdgpu_xgmi_init_info).
        xgmi_link_mbs: 64_000,
        vram: VramInfo {
            drm_type: DRM_VRAM_HBM,
            width: 8192,
            max_mhz: 1300,
            ecc: true,
            // With the discovery table (amdgpu_ttm_init_fw_resv_region).
            kept: 280 << 20,
        },
        trap: &gfx9_4_3::CODE,
        // The firmware launches it as on gfx90a, and its words are the same (amdgpu:
        // gfx_v9_4_3_sw_init, gfx_v9_4_3_cleaner_shader.asm).
        cleaner: Some(Cleaner {
            code: &cleaner::gfx9_4_2::CODE,
            firmware: 153,
        }),
        firmware: match ids.device {
            0x74a5 => &FIRMWARE_MI325X,
            _ => &FIRMWARE,
        },
        ips: &[],
        ..MI210
    }
}

const _: () = {
    let mut n = 0;
    while n < ASICS.len() {
        assert!(ASICS[n].is_consistent());
        let mut part = 0;
        while part < ASICS[n].smaller.len() {
            assert!(ASICS[n].smaller[part].is_consistent());
            part += 1;
        }
        n += 1;
    }
};

// The figures of MI300X, of whose XCCs 38 CUs work each (kfd-abi.md's dump of a real one).
const _: () = {
    let sizes = MI300X.context_save(38);
    assert!(sizes.waves == 38 * 40);
    assert!(sizes.control_stack == 0x3000);
    assert!(sizes.area == 0x162_1000);
};

/// Caches of an XCC, and the one of all memory controllers.
const CACHES: [CacheKind; 5] = [
    // Vector L1.
    CacheKind {
        level: 1,
        kib: 32,
        line: 128,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: 1,
    },
    // Scalar L1, instructions.
    CacheKind {
        level: 1,
        kib: 64,
        line: 64,
        kind: cache_type::INSTRUCTION | cache_type::SIMD,
        shared_by: 2,
    },
    // Scalar L1, data.
    CacheKind {
        level: 1,
        kib: 16,
        line: 64,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: 2,
    },
    // L2: one XCC's, listed once for all of them.
    CacheKind {
        level: 2,
        kib: 4096,
        line: 128,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: u32::MAX,
    },
    // L3 (MALL).
    CacheKind {
        level: 3,
        kib: 262_144,
        line: 64,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: u32::MAX,
    },
];

/// Golden settings of every XCC (gfx_v9_4_3_init_golden_registers of amdgpu).
const COMMON: [GoldenSetting; 2] = [
    GoldenSetting::new(GoldenRegister::GbAddrConfig, u32::MAX, 0x2a11_4042),
    // SPARE.
    GoldenSetting::new(GoldenRegister::TcpUtcl1Cntl2, 0xff, 1),
];

/// Firmware of MI300X and MI300X HF: PSP 13.0.6.
const FIRMWARE: FirmwarePlan = FirmwarePlan {
    files: &[
        (FirmwareSource::Sos, c"amdgpu/psp_13_0_6_sos.bin"),
        (FirmwareSource::Smc, c"amdgpu/smu_13_0_6.bin"),
        (FirmwareSource::Sdma, c"amdgpu/sdma_4_4_2.bin"),
        (FirmwareSource::Mec, c"amdgpu/gc_9_4_3_mec.bin"),
        (FirmwareSource::Rlc, c"amdgpu/gc_9_4_3_rlc.bin"),
    ],
    applications: c"amdgpu/psp_13_0_6_ta.bin",
    links_version: 0,
    bootloader: &[
        (FirmwarePart::KeyDatabase, BootloaderCommand::KeyDatabase),
        (FirmwarePart::SystemDriver, BootloaderCommand::SystemDriver),
        (FirmwarePart::SocDriver, BootloaderCommand::SocDriver),
        (
            FirmwarePart::InterfaceDriver,
            BootloaderCommand::InterfaceDriver,
        ),
        (FirmwarePart::DebugDriver, BootloaderCommand::DebugDriver),
        (FirmwarePart::RasDriver, BootloaderCommand::RasDriver),
        (FirmwarePart::SecureOs, BootloaderCommand::SecureOs),
    ],
    before_tmr: &[],
    tmr_bytes: 0,
    after_tmr: &loads(FirmwarePart::SmuTableX),
    tells_partitions: true,
    smu: SmuInterface::V13_0_6,
};

/// Firmware of MI325X.
const FIRMWARE_MI325X: FirmwarePlan = FirmwarePlan {
    after_tmr: &loads(FirmwarePart::SmuTable3),
    ..FIRMWARE
};

/// What the PSP loads, the SMU's table first.
const fn loads(table: FirmwarePart) -> [LoadStep; 12] {
    [
        (table, PspImageType::SmuTable),
        (FirmwarePart::Sdma, PspImageType::Sdma0),
        (FirmwarePart::Sdma, PspImageType::Sdma1),
        (FirmwarePart::Sdma, PspImageType::Sdma2),
        (FirmwarePart::Sdma, PspImageType::Sdma3),
        (FirmwarePart::Mec, PspImageType::Mec),
        (FirmwarePart::MecJumpTable, PspImageType::MecJumpTable),
        (FirmwarePart::RestoreControl, PspImageType::RestoreControl),
        (FirmwarePart::RestoreGpm, PspImageType::RestoreGpm),
        (FirmwarePart::RestoreSrm, PspImageType::RestoreSrm),
        (FirmwarePart::Rlc, PspImageType::Rlc),
        (FirmwarePart::RegisterList, PspImageType::RegisterList),
    ]
}
