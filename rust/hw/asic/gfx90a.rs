// SPDX-License-Identifier: GPL-2.0
//! gfx90a (Aldebaran): MI210, and each die of MI250 and MI250X, on PCI Express. It has no discovery
//! table in memory, so its blocks are listed here.
//!
//! Source: amdgpu of Linux 7.3 (under MIT), by the names beside each table: aldebaran_ip_offset.h,
//! gfx_v9_4_2.c for the golden settings, kfd_crat.c for the caches. Made by: hand.

use super::{
    Asic, AsicIds, CacheKind, GfxGolden, GfxInfo, GoldenRegister, GoldenSetting, SdmaGolden,
    SdmaInfo, VmidSplit, VramInfo, WaveSaveInfo, DRM_FAMILY_AI, DRM_VRAM_HBM,
};
use crate::cleaner::{self, Cleaner};
use crate::debug::WatchInfo;
use crate::doorbell::DoorbellLayout;
use crate::firmware::part::{FirmwarePart, FirmwareSource};
use crate::firmware::plan::FirmwarePlan;
use crate::ih::IhInfo;
use crate::ip::{IpBlock, IpInstance, IpVersion};
use crate::mqd::compute::MqdInfo;
use crate::psp::{BootloaderCommand, PspImageType};
use crate::pte::{Mtype, PteFormat, PteRule};
use crate::queue::{HqdLocation, MecInfo};
use crate::smu::interface::SmuInterface;
use crate::topology::record::cache_type;
use crate::trap::gfx9_4_2;
use crate::xgmi::ta::LINKS_VERSION;

/// Its devices. A card of MI250 or MI250X has two dies with XGMI between them, and each is a device
/// with memory of its own.
pub const ASICS: [&Asic; 3] = [&MI250X, &MI250, &MI210];

/// MI210.
pub const MI210: Asic = Asic {
    ids: AsicIds {
        device: 0x740f,
        name: "AMD Instinct MI210",
        family: "aldebaran",
        gfx_target_version: 90010,
        drm_family: DRM_FAMILY_AI,
        external_revision: 0x3c,
    },
    gfx: GfxInfo {
        xccs: 1,
        shader_engines: 8,
        arrays_per_engine: 1,
        cus_per_array: 14,
        simds_per_cu: 4,
        waves_per_simd: 8,
        scratch_slots_per_cu: 32,
        lds_kib: 64,
        wave_size: 64,
        graphics_contexts: 8,
        max_mhz: 1700,
        reference_khz: 100_000,
        has_f8_mode: false,
        exceptions_firmware: 51,
        watch: WatchInfo {
            lowest: 6,
            highest: 29,
        },
    },
    wave_save: WaveSaveInfo {
        vgpr_bytes: 0x8_0000,
        sgpr_bytes: 0x4000,
        lds_bytes: 0x1_0000,
        hwreg_bytes: 0x1000,
        waves_per_cu: 40,
        waves_per_engine: 512,
        header_bytes: 40,
        stack_bytes: 8,
        debug_bytes: 32,
    },
    golden: GfxGolden {
        common: &COMMON,
        dies: &[&DIES[0], &DIES[1]],
    },
    mec: MecInfo {
        micro_engines: 2,
        user: 1,
        pipes: 4,
        pipe_queues: 8,
        cp_queues: 32,
        // MEC2 has the queues of the driver.
        kiq: HqdLocation {
            me: 2,
            pipe: 1,
            queue: 0,
        },
        hiq: HqdLocation {
            me: 2,
            pipe: 0,
            queue: 0,
        },
        // AMD's commit says 97, amdgpu asks for 98 (gfx_v9_4_2_init_sq).
        xnack_chain: Some(98),
    },
    mqd: MqdInfo {
        cu_masks: &[23, 24, 26, 27, 39, 40, 41, 42],
        eop_bytes: 4096,
        is_eop_optional: false,
        preload: 0x53,
        abandoned: 240,
        split: None,
    },
    sdma: SdmaInfo {
        host_engines: 2,
        xgmi_engines: 3,
        queues_per_engine: 8,
        code_version: [4, 0],
        // golden_settings_sdma_aldebaran of amdgpu.
        golden: SdmaGolden {
            tiles_mask: 0x0018_773f,
            tiles: 0x0010_4002,
            xnack_limit: 0x80,
            quantum: 32,
        },
    },
    interrupts: IhInfo {
        sdma_clients: &[0x08, 0x09, 0x01, 0x04, 0x05],
        nodes_per_die: 0,
        mm_clients: &MM_CLIENTS,
    },
    // AMDGPU_VEGA20_DOORBELL_* of amdgpu.
    doorbells: DoorbellLayout {
        xccs: 1,
        kiq: 0,
        hiq: 1,
        xcc_slots: 0,
        sdma_engines: 5,
        sdma_queues: 8,
        sdma_first: 0x100,
        sdma_slots: 10,
        sdma_user_align: 1,
        ih_first: 0x178,
        ih_slots: 4,
        ih_retry_cam: 0x17b,
        non_cp_first: 0x100,
        non_cp_last: 0x18f,
    },
    hdp_page: 0x7_f000,
    pte: PteFormat {
        local_vram: PteRule {
            plain: Mtype::Rw,
            coherent: Mtype::Cc,
            extended: Mtype::Cc,
            uncached: Mtype::Uc,
            snooped: false,
        },
        hive: PteRule {
            plain: Mtype::Nc,
            coherent: Mtype::Uc,
            extended: Mtype::Uc,
            uncached: Mtype::Uc,
            snooped: true,
        },
        host: PteRule {
            plain: Mtype::Nc,
            coherent: Mtype::Uc,
            extended: Mtype::Uc,
            uncached: Mtype::Uc,
            snooped: true,
        },
    },
    vmids: VmidSplit {
        first: 3,
        last: 15,
        first_of_firmware: 10,
    },
    vram: VramInfo {
        drm_type: DRM_VRAM_HBM,
        width: 4096,
        max_mhz: 1600,
        ecc: true,
        // PSP_RUNTIME_DB_OFFSET of amdgpu.
        kept: 2 << 20,
    },
    // 25 GT/s (amdgpu_xgmi_init_info).
    xgmi_link_mbs: 50_000,
    caches: &CACHES,
    trap: &gfx9_4_2::CODE,
    // amdgpu: gfx_v9_0_sw_init.
    cleaner: Some(Cleaner {
        code: &cleaner::gfx9_4_2::CODE,
        firmware: 88,
    }),
    firmware: &FIRMWARE,
    ips: &IPS,
    smaller: &[],
};

/// A die of MI250X.
const MI250X: Asic = die(0x7408, "AMD Instinct MI250X");

/// A die of MI250, and of MI250X by its revision.
const MI250: Asic = die(0x740c, "AMD Instinct MI250X / MI250");

/// A die that differs from MI210 in its names and in what fuses tell.
const fn die(device: u16, name: &'static str) -> Asic {
    let ids = AsicIds {
        device,
        name,
        ..MI210.ids
    };
    Asic { ids, ..MI210 }
}

const _: () = assert!(MI210.is_consistent());

// The figures that libhsakmt calculates for MI210, of which 104 CUs work.
const _: () = {
    let sizes = MI210.context_save(104);
    assert!(sizes.waves == 4096);
    assert!(sizes.control_stack == 0x9000);
    assert!(sizes.area == 0x3c9_1000);
    assert!(sizes.debug == 0x2_0000);
};

/// Clients of MMHUB (mmhub_client_ids_aldebaran of amdgpu).
pub(super) const MM_CLIENTS: [(u16, &str); 19] = [
    (2, "MP1"),
    (3, "MP0"),
    (33, "DBGU_IO0"),
    (34, "DBGU_IO2"),
    (36, "MPIO"),
    (107, "JPEG0"),
    (108, "VCN0"),
    (109, "VCNU0"),
    (139, "JPEG1"),
    (140, "VCN1"),
    (141, "VCNU1"),
    (161, "XDP"),
    (174, "HDP"),
    (256, "SDMA0"),
    (257, "SDMA1"),
    (258, "SDMA2"),
    (259, "SDMA3"),
    (260, "SDMA4"),
    (384, "OSS"),
];

const CACHES: [CacheKind; 4] = [
    // Vector L1.
    CacheKind {
        level: 1,
        kib: 16,
        line: 64,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: 1,
    },
    // Scalar L1, instructions.
    CacheKind {
        level: 1,
        kib: 32,
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
    // L2 of the whole GPU.
    CacheKind {
        level: 2,
        kib: 8192,
        line: 128,
        kind: cache_type::DATA | cache_type::SIMD,
        shared_by: u32::MAX,
    },
];

/// Golden settings of every die (golden_settings_gc_9_4_2_alde of amdgpu).
const COMMON: [GoldenSetting; 4] = [
    GoldenSetting::new(GoldenRegister::GbAddrConfig, 0xffff_77ff, 0x2a11_4042),
    GoldenSetting::new(GoldenRegister::TaCntlAux, 0xffff_feef, 0x010b_0000),
    GoldenSetting::new(GoldenRegister::TcpUtcl1Cntl1, 0xffff_ffff, 0x3080_0400),
    GoldenSetting::new(GoldenRegister::TciCntl3, 0xff, 0x20),
];

/// Channels of L2 by die, without which the compute units' caches are not consistent. Six channels
/// in each register, two in the last.
const DIES: [[GoldenSetting; 6]; 2] = [
    steer([
        0x141d_c920,
        0x3b45_8b93,
        0x1a4f_5583,
        0x3177_17f6,
        0x107c_c1e6,
        0x351,
    ]),
    steer([
        0x2591_aa38,
        0x0ac9_e88b,
        0x2bc3_369b,
        0x00fb_74ee,
        0x21f0_a2fe,
        0x49,
    ]),
];

const fn steer(values: [u32; 6]) -> [GoldenSetting; 6] {
    const SIX: u32 = 0x3fff_ffff;
    const TWO: u32 = 0x3ff;
    let [a, b, c, d, e, f] = values;
    [
        GoldenSetting::new(GoldenRegister::TcpChanSteer0, SIX, a),
        GoldenSetting::new(GoldenRegister::TcpChanSteer1, SIX, b),
        GoldenSetting::new(GoldenRegister::TcpChanSteer2, SIX, c),
        GoldenSetting::new(GoldenRegister::TcpChanSteer3, SIX, d),
        GoldenSetting::new(GoldenRegister::TcpChanSteer4, SIX, e),
        GoldenSetting::new(GoldenRegister::TcpChanSteer5, TWO, f),
    ]
}

/// Firmware of gfx90a on PCI Express: PSP 13.0.2.
const FIRMWARE: FirmwarePlan = FirmwarePlan {
    files: &[
        (FirmwareSource::Sos, c"amdgpu/aldebaran_sos.bin"),
        (FirmwareSource::Smc, c"amdgpu/aldebaran_smc.bin"),
        (FirmwareSource::Sdma, c"amdgpu/aldebaran_sdma.bin"),
        (FirmwareSource::Mec, c"amdgpu/aldebaran_mec.bin"),
        (FirmwareSource::Rlc, c"amdgpu/aldebaran_rlc.bin"),
    ],
    applications: c"amdgpu/aldebaran_ta.bin",
    links_version: LINKS_VERSION,
    bootloader: &[
        (FirmwarePart::KeyDatabase, BootloaderCommand::KeyDatabase),
        (FirmwarePart::SystemDriver, BootloaderCommand::SystemDriver),
        (FirmwarePart::SecureOs, BootloaderCommand::SecureOs),
    ],
    // Here the SMU keeps the path to memory awake.
    before_tmr: &[(FirmwarePart::Smu, PspImageType::Smu)],
    tmr_bytes: 8 << 20,
    after_tmr: &[
        (FirmwarePart::Sdma, PspImageType::Sdma0),
        (FirmwarePart::Sdma, PspImageType::Sdma1),
        (FirmwarePart::Sdma, PspImageType::Sdma2),
        (FirmwarePart::Sdma, PspImageType::Sdma3),
        (FirmwarePart::Sdma, PspImageType::Sdma4),
        (FirmwarePart::Mec, PspImageType::Mec),
        (FirmwarePart::MecJumpTable, PspImageType::MecJumpTable),
        (FirmwarePart::RestoreControl, PspImageType::RestoreControl),
        (FirmwarePart::RestoreGpm, PspImageType::RestoreGpm),
        (FirmwarePart::RestoreSrm, PspImageType::RestoreSrm),
        (FirmwarePart::Rlc, PspImageType::Rlc),
        (FirmwarePart::RegisterList, PspImageType::RegisterList),
    ],
    tells_partitions: false,
    smu: SmuInterface::V13_0_2,
};

const fn ip(block: IpBlock, version: (u8, u8, u8), instance: u8, bases: &[u32]) -> IpInstance {
    let (major, minor, rev) = version;
    IpInstance::new(block, IpVersion::new(major, minor, rev), instance, bases)
}

/// The blocks, with the first dword of each of their segments.
const IPS: [IpInstance; 14] = [
    ip(IpBlock::Nbio, (7, 4, 4), 0, &[0x0, 0x14, 0xd20, 0x1_0400]),
    ip(IpBlock::Gc, (9, 4, 2), 0, &[0x2000, 0xa000]),
    ip(IpBlock::Mmhub, (9, 4, 2), 0, &[0x1_a000]),
    ip(IpBlock::Athub, (9, 4, 2), 0, &[0xc20]),
    ip(IpBlock::Osssys, (4, 4, 0), 0, &[0x10a0]),
    ip(IpBlock::Hdp, (4, 4, 0), 0, &[0xf20]),
    ip(IpBlock::Sdma, (4, 4, 0), 0, &[0x1260]),
    ip(IpBlock::Sdma, (4, 4, 0), 1, &[0x1860]),
    ip(IpBlock::Sdma, (4, 4, 0), 2, &[0x1_e000]),
    ip(IpBlock::Sdma, (4, 4, 0), 3, &[0x1_e400]),
    ip(IpBlock::Sdma, (4, 4, 0), 4, &[0x1_e800]),
    ip(IpBlock::Mp, (13, 0, 2), 0, &[0x1_6000]),
    ip(IpBlock::Smuio, (13, 0, 2), 0, &[0x1_6800]),
    ip(IpBlock::Df, (3, 6, 0), 0, &[0x7000]),
];
