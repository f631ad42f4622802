// SPDX-License-Identifier: GPL-2.0
//! A chip that does not exist, with two XCCs and sixteen SDMA engines on four dies. Its numbers are
//! like those of gfx 9.4.3 where that differs from gfx 9.4.2, and round otherwise.

use hw::asic::{
    Asic, AsicIds, CacheKind, GfxGolden, GfxInfo, GoldenRegister, GoldenSetting, SdmaGolden,
    SdmaInfo, VmidSplit, VramInfo, WaveSaveInfo, DRM_FAMILY_AI, DRM_VRAM_HBM,
};
use hw::debug::WatchInfo;
use hw::doorbell::DoorbellLayout;
use hw::firmware::part::{FirmwarePart, FirmwareSource};
use hw::firmware::plan::FirmwarePlan;
use hw::ih::IhInfo;
use hw::ip::{IpBlock, IpInstance, IpVersion};
use hw::mqd::compute::MqdInfo;
use hw::psp::PspImageType;
use hw::pte::{Mtype, PteFormat, PteRule};
use hw::queue::{HqdLocation, MecInfo};
use hw::smu::interface::SmuInterface;
use hw::topology::record::cache_type;

pub const MADE_UP: Asic = Asic {
    ids: AsicIds {
        device: 0x7fff,
        name: "Made-up GPU",
        family: "made up",
        gfx_target_version: 90402,
        drm_family: DRM_FAMILY_AI,
        external_revision: 0x46,
    },
    gfx: GfxInfo {
        xccs: 2,
        shader_engines: 4,
        arrays_per_engine: 1,
        cus_per_array: 10,
        simds_per_cu: 4,
        waves_per_simd: 8,
        scratch_slots_per_cu: 32,
        lds_kib: 64,
        wave_size: 64,
        graphics_contexts: 8,
        max_mhz: 2100,
        reference_khz: 100_000,
        has_f8_mode: true,
        exceptions_firmware: 0,
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
        common: &[GoldenSetting::new(GoldenRegister::TciCntl3, 0xff, 0x10)],
        dies: &[],
    },
    mec: MecInfo {
        micro_engines: 2,
        user: 1,
        pipes: 4,
        pipe_queues: 8,
        cp_queues: 24,
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
        xnack_chain: None,
    },
    mqd: MqdInfo {
        cu_masks: &[23, 24, 26, 27],
        eop_bytes: 4096,
        is_eop_optional: false,
        preload: 0x53,
        abandoned: 240,
        split: None,
    },
    sdma: SdmaInfo {
        host_engines: 2,
        xgmi_engines: 14,
        queues_per_engine: 6,
        code_version: [4, 0],
        golden: SdmaGolden {
            tiles_mask: 0x0018_773f,
            tiles: 0x0010_4002,
            xnack_limit: 0x80,
            quantum: 32,
        },
    },
    interrupts: IhInfo {
        sdma_clients: &[0x08, 0x09, 0x01, 0x04],
        nodes_per_die: 4,
        mm_clients: &[(256, "SDMA0")],
    },
    doorbells: DoorbellLayout {
        xccs: 2,
        kiq: 0,
        hiq: 1,
        xcc_slots: 0x20,
        sdma_engines: 16,
        sdma_queues: 6,
        sdma_first: 0x100,
        sdma_slots: 10,
        sdma_user_align: 4,
        ih_first: 0x1a0,
        ih_slots: 4,
        ih_retry_cam: 0x1a3,
        non_cp_first: 0x100,
        non_cp_last: 0x1e8,
    },
    hdp_page: 0x1_a000,
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
    vmids: VmidSplit {
        first: 3,
        last: 15,
        first_of_firmware: 8,
    },
    vram: VramInfo {
        drm_type: DRM_VRAM_HBM,
        width: 8192,
        max_mhz: 1300,
        ecc: true,
        kept: 2 << 20,
    },
    xgmi_link_mbs: 1000,
    caches: &[
        CacheKind {
            level: 1,
            kib: 32,
            line: 128,
            kind: cache_type::DATA | cache_type::SIMD,
            shared_by: 1,
        },
        CacheKind {
            level: 1,
            kib: 64,
            line: 128,
            kind: cache_type::INSTRUCTION | cache_type::SIMD,
            shared_by: 2,
        },
        CacheKind {
            level: 2,
            kib: 4096,
            line: 128,
            kind: cache_type::DATA | cache_type::SIMD,
            shared_by: u32::MAX,
        },
    ],
    trap: &[0xbf82_0001, 0xbf82_0001],
    cleaner: None,
    firmware: &FIRMWARE,
    ips: &[],
    smaller: &[],
};

const FIRMWARE: FirmwarePlan = FirmwarePlan {
    files: &[(FirmwareSource::Sdma, c"amdgpu/made_up_sdma.bin")],
    applications: c"amdgpu/made_up_ta.bin",
    links_version: 0,
    bootloader: &[],
    before_tmr: &[],
    tmr_bytes: 8 << 20,
    after_tmr: &[(FirmwarePart::Sdma, PspImageType::Sdma0)],
    tells_partitions: false,
    smu: SmuInterface::V13_0_2,
};

/// The blocks as a reader of a discovery table makes the list at run time, with XCC `fused_off`
/// left out: XCCs 0x10000 dwords apart, four SDMA engines a die, dies 0x20000 dwords apart.
pub fn discovered(fused_off: Option<u8>) -> Vec<IpInstance> {
    let nbio = [0, 0x14, 0xd20, 0x1_0400, 0, 0x50_0000, 0, 0, 0x404_0000];
    let mut blocks = vec![
        IpInstance::new(IpBlock::Nbio, IpVersion::new(7, 9, 0), 0, &nbio),
        IpInstance::new(IpBlock::Osssys, IpVersion::new(4, 4, 2), 0, &[0x10a0]),
    ];
    for xcc in (0..3).filter(|&xcc| Some(xcc) != fused_off) {
        let first = 0x1_0000 * u32::from(xcc);
        let bases = [first + 0x2000, first + 0xa000];
        blocks.push(IpInstance::new(
            IpBlock::Gc,
            IpVersion::new(9, 4, 3),
            xcc,
            &bases,
        ));
    }
    for engine in 0..16u8 {
        let base = [0x1260, 0x1860, 0x1_9400, 0x1_9800][usize::from(engine % 4)];
        let bases = [base + 0x2_0000 * u32::from(engine / 4)];
        blocks.push(IpInstance::new(
            IpBlock::Sdma,
            IpVersion::new(4, 4, 2),
            engine,
            &bases,
        ));
    }
    blocks
}
