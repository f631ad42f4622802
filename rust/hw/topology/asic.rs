// SPDX-License-Identifier: GPL-2.0
//! Facts of the ASICs that the driver knows, by PCI device id. gfx90a has no discovery table and the driver reads
//! no VBIOS, so this table is where they come from.

use super::record::cache_type;
use crate::firmware::plan::{self, FirmwarePlan};
use crate::ip::{IpInfo, GFX90A};

/// PCI vendor id of AMD.
pub const VENDOR_AMD: u16 = 0x1002;

/// Caches of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKind {
    /// Distance from the CU.
    pub level: u8,
    /// KiB of each.
    pub kib: u32,
    /// Bytes of a line.
    pub line: u32,
    /// What it holds: bits of [`cache_type`].
    pub kind: u32,
    /// CUs that share one.
    pub shared_by: u32,
}

/// An ASIC.
#[derive(Clone, Copy, Debug)]
pub struct Asic {
    /// PCI device id.
    pub device_id: u16,
    /// The name that users know.
    pub name: &'static str,
    /// The lower-case name of the family in sysfs.
    pub family: &'static str,
    /// `gfx_target_version`: major * 10000 + minor * 100 + stepping.
    pub gfx_target_version: u32,
    /// The hardware blocks.
    pub ips: &'static [IpInfo],
    /// How its firmware is loaded.
    pub firmware: &'static FirmwarePlan,
    /// Shader engines.
    pub shader_engines: u32,
    /// Shader arrays in an engine.
    pub arrays_per_engine: u32,
    /// Compute units in an array, fused-off ones included.
    pub cus_per_array: u32,
    /// SIMDs in a compute unit.
    pub simds_per_cu: u32,
    /// Waves that a SIMD holds.
    pub waves_per_simd: u32,
    /// Slots of scratch memory in a compute unit.
    pub scratch_slots_per_cu: u32,
    /// KiB of LDS in a compute unit.
    pub lds_kib: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// SDMA engines that serve `SDMA` queues.
    pub sdma_engines: u32,
    /// SDMA engines that hardware keeps for other GPUs.
    pub sdma_xgmi_engines: u32,
    /// User queues of an SDMA engine.
    pub sdma_queues_per_engine: u32,
    /// User queues of the CP.
    pub cp_queues: u32,
    /// Highest engine clock, MHz.
    pub max_engine_mhz: u32,
    /// Highest memory clock, MHz.
    pub max_memory_mhz: u32,
    /// Bits of the memory's bus.
    pub memory_width: u32,
    /// Memory has error correction.
    pub ecc: bool,
    /// Frequency of the clock that timestamps count, kHz.
    pub reference_khz: u32,
    /// Caches, nearest to the CU first.
    pub caches: &'static [CacheKind],
}

const ALDEBARAN_CACHES: [CacheKind; 4] = [
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

/// MI210: one Aldebaran die.
pub const MI210: Asic = Asic {
    device_id: 0x740f,
    name: "AMD Instinct MI210",
    family: "aldebaran",
    gfx_target_version: 90010,
    ips: &GFX90A,
    firmware: &plan::GFX90A,
    shader_engines: 8,
    arrays_per_engine: 1,
    cus_per_array: 14,
    simds_per_cu: 4,
    waves_per_simd: 8,
    scratch_slots_per_cu: 32,
    lds_kib: 64,
    wave_size: 64,
    sdma_engines: 2,
    sdma_xgmi_engines: 3,
    sdma_queues_per_engine: 8,
    cp_queues: crate::queue::USER_HQDS as u32,
    max_engine_mhz: 1700,
    max_memory_mhz: 1600,
    memory_width: 4096,
    ecc: true,
    reference_khz: 100_000,
    caches: &ALDEBARAN_CACHES,
};

/// The ASICs that the driver takes.
pub const ASICS: [&Asic; 1] = [&MI210];

impl Asic {
    /// The ASIC of a PCI device id.
    #[inline]
    pub fn find(device_id: u16) -> Option<&'static Self> {
        ASICS
            .iter()
            .copied()
            .find(|asic| asic.device_id == device_id)
    }

    /// Shader arrays of the GPU: `array_count`.
    #[inline]
    pub const fn arrays(&self) -> u32 {
        self.shader_engines * self.arrays_per_engine
    }

    /// Sizes of a compute queue's save area where `cus` compute units work.
    #[inline]
    pub const fn context_save(&self, cus: u32) -> ContextSaveSizes {
        ContextSaveSizes::new(self, cus)
    }
}

/// Bytes of a page of host memory, by which save areas are rounded.
const PAGE: u32 = 4096;
/// Bytes of a CU's vector registers, including accumulators.
const VGPR_BYTES: u32 = 0x8_0000;
/// Bytes of a CU's scalar registers.
const SGPR_BYTES: u32 = 0x4000;
/// Bytes of a CU's LDS.
const LDS_BYTES: u32 = 0x1_0000;
/// Bytes of a CU's hardware registers.
const HWREG_BYTES: u32 = 0x1000;
/// Waves that a CU can hold at most on gfx9.
const WAVES_PER_CU: u32 = 40;
/// Waves that an engine can hold at most.
const WAVES_PER_ENGINE: u32 = 512;
/// Bytes that the user's header takes at the start of the control stack.
const HEADER_BYTES: u32 = 40;
/// Bytes of the control stack for each wave, and once for the whole.
const STACK_BYTES: u32 = 8;
/// Bytes that a debugger needs for each wave.
const DEBUG_BYTES: u32 = 32;

/// Sizes of the area in which a compute queue's waves are saved (CWSR). The client works out the same from the
/// topology, so they must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSaveSizes {
    /// Waves at most.
    pub waves: u32,
    /// Bytes of the control stack: `ctl_stack_size`.
    pub control_stack: u32,
    /// Bytes of control stack and registers: `cwsr_size`.
    pub area: u32,
    /// Bytes for the debugger, after the area.
    pub debug: u32,
}

impl ContextSaveSizes {
    const fn new(asic: &Asic, cus: u32) -> Self {
        let by_cu = cus * WAVES_PER_CU;
        let by_engine = asic.arrays() / asic.arrays_per_engine * WAVES_PER_ENGINE;
        let waves = if by_cu < by_engine { by_cu } else { by_engine };
        let registers = cus * (VGPR_BYTES + SGPR_BYTES + LDS_BYTES + HWREG_BYTES);
        let control_stack =
            (HEADER_BYTES + STACK_BYTES * waves + STACK_BYTES).next_multiple_of(PAGE);
        Self {
            waves,
            control_stack,
            area: control_stack + registers.next_multiple_of(PAGE),
            debug: (DEBUG_BYTES * waves).next_multiple_of(64),
        }
    }
}

// The figures that libhsakmt arrives at for MI210, of which 104 CUs work.
const _: () = {
    let sizes = MI210.context_save(104);
    assert!(sizes.waves == 4096);
    assert!(sizes.control_stack == 0x9000);
    assert!(sizes.area == 0x3c9_1000);
    assert!(sizes.debug == 0x2_0000);
};
