// SPDX-License-Identifier: GPL-2.0
//! Chips as values. [`Asic`] is the only access to facts of a chip, and each chip has a file below
//! `asic/` with all of its facts. Code elsewhere asks the `Asic` of its GPU and never which chip it
//! is. Behaviour that differs is chosen by the version of the block, in the driver's HALs.
//!
//! Figures that differ from card to card (compute units, VRAM, clocks) come from registers, the SMU
//! or the VBIOS; the figures here are the most that a chip of that kind has.

pub mod gfx90a;
pub mod gfx942;

use crate::cleaner::Cleaner;
use crate::debug::WatchInfo;
use crate::discovery::{Discovery, GcFigures};
use crate::doorbell::DoorbellLayout;
use crate::firmware::plan::FirmwarePlan;
use crate::ih::IhInfo;
use crate::ip::{IpBlock, IpInstance};
use crate::mqd::compute::MqdInfo;
use crate::pte::PteFormat;
use crate::queue::MecInfo;
use crate::sdma::engines::SdmaMask;

/// PCI vendor id of AMD.
pub const VENDOR_AMD: u16 = 0x1002;

/// AMDGPU_FAMILY_AI of DEV_INFO: gfx9.
pub const DRM_FAMILY_AI: u32 = 141;
/// AMDGPU_VRAM_TYPE_HBM of DEV_INFO.
pub const DRM_VRAM_HBM: u32 = 6;

/// Names and numbers by which user space knows a chip.
#[derive(Clone, Copy, Debug)]
pub struct AsicIds {
    /// PCI device id.
    pub device: u16,
    /// The marketing name.
    pub name: &'static str,
    /// The lower-case name of the family in sysfs.
    pub family: &'static str,
    /// `gfx_target_version`: major * 10000 + minor * 100 + stepping.
    pub gfx_target_version: u32,
    /// The family's number in DEV_INFO (AMDGPU_FAMILY_*).
    pub drm_family: u32,
    /// Added to ATI_REV_ID to give the external revision of DEV_INFO.
    pub external_revision: u32,
}

/// Graphics and compute: XCCs, shader engines and compute units.
#[derive(Clone, Copy, Debug)]
pub struct GfxInfo {
    /// Accelerator complexes (XCCs), each a whole GC block with the figures that follow.
    pub xccs: u32,
    /// Shader engines of an XCC.
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
    /// Contexts of the graphics pipe (DEV_INFO).
    pub graphics_contexts: u32,
    /// Highest engine clock, MHz.
    pub max_mhz: u32,
    /// Frequency of the clock that timestamps count, kHz.
    pub reference_khz: u32,
    /// Waves have the formats of 8-bit floats that SH_MEM_CONFIG.F8_MODE selects.
    pub has_f8_mode: bool,
    /// The first version of the CP's firmware that can report exceptions of queues
    /// (kfd_topology_set_dbg_firmware_support of amdkfd).
    pub exceptions_firmware: u32,
    /// How watch points compare (kfd_topology_set_capabilities of amdkfd).
    pub watch: WatchInfo,
}

impl GfxInfo {
    /// Shader arrays of one XCC.
    #[inline]
    const fn arrays_per_xcc(&self) -> u32 {
        self.shader_engines * self.arrays_per_engine
    }

    /// Whether a discovery table has the same figures.
    fn has_figures(&self, found: &GcFigures) -> bool {
        self.shader_engines == found.shader_engines
            && self.arrays_per_engine == found.arrays_per_engine
            && self.cus_per_array == found.cus_per_array
            && self.wave_size == found.wave_size
    }

    /// Shader arrays of the GPU: `array_count`.
    #[inline]
    pub const fn arrays(&self) -> u32 {
        self.xccs * self.arrays_per_xcc()
    }
}

/// Figures of saved waves (CWSR). libhsakmt has the same ones.
#[derive(Clone, Copy, Debug)]
pub struct WaveSaveInfo {
    /// Bytes of a CU's vector registers, accumulators included.
    pub vgpr_bytes: u32,
    /// Bytes of a CU's scalar registers.
    pub sgpr_bytes: u32,
    /// Bytes of a CU's LDS.
    pub lds_bytes: u32,
    /// Bytes of a CU's hardware registers.
    pub hwreg_bytes: u32,
    /// Waves that a CU holds at most, as the control stack counts them. amdgpu
    /// (get_num_waves of kfd_queue.c) and libhsakmt (update_ctx_save_restore_size) have 40 for
    /// every GPU before gfx10: ten for each of four SIMDs, also where a SIMD holds fewer
    /// ([`GfxInfo::waves_per_simd`]).
    pub waves_per_cu: u32,
    /// Waves that a shader engine holds at most: 512 in the same functions.
    pub waves_per_engine: u32,
    /// Bytes of the user's header at the start of the control stack.
    pub header_bytes: u32,
    /// Bytes of the control stack for each wave, and once for the whole.
    pub stack_bytes: u32,
    /// Bytes that a debugger needs for each wave.
    pub debug_bytes: u32,
}

/// SDMA engines.
#[derive(Clone, Copy, Debug)]
pub struct SdmaInfo {
    /// The first engines, which serve `SDMA` queues: traffic with the host.
    pub host_engines: u8,
    /// The engines behind them, which serve `SDMA_XGMI` queues: links between GPUs.
    pub xgmi_engines: u8,
    /// RLC queues of an engine.
    pub queues_per_engine: u8,
    /// Major and minor version of amdgpu's code for these engines, which HW_IP_INFO tells
    /// (sdma_v4_0.c, sdma_v4_4_2.c).
    pub code_version: [u32; 2],
    /// Golden settings of an engine.
    pub golden: SdmaGolden,
}

impl SdmaInfo {
    /// All engines, numbered from 0 on.
    #[inline]
    pub const fn engines(&self) -> u8 {
        self.host_engines + self.xgmi_engines
    }

    /// The engines for links between GPUs, a bit each.
    #[inline]
    pub const fn xgmi_engines_mask(&self) -> u32 {
        ((1 << self.engines()) - 1) & !self.host_engines_mask()
    }

    /// The engines for traffic with the host, a bit each.
    #[inline]
    pub const fn host_engines_mask(&self) -> u32 {
        (1 << self.host_engines) - 1
    }

    /// The engine on which no queue waits for a page: one that is not the first, as runtimes name
    /// that for copies from the host. ROCr does so for gfx90a, "due to a RAS issue"
    /// (`GpuAgent::DmaCopyOnEngine`).
    #[inline]
    pub const fn pages_engine(&self) -> u8 {
        if self.host_engines > 1 {
            self.host_engines - 1
        } else {
            self.engines().saturating_sub(1)
        }
    }
}

/// Register contents of an SDMA engine that no driver chooses.
#[derive(Clone, Copy, Debug)]
pub struct SdmaGolden {
    /// GB_ADDR_CONFIG, the layout of tiled memory: the bits that are set.
    pub tiles_mask: u32,
    /// GB_ADDR_CONFIG: the values of those bits.
    pub tiles: u32,
    /// UTCL1_TIMEOUT: tries of a translation that misses.
    pub xnack_limit: u32,
    /// PHASEn_QUANTUM: time slice of a queue, microseconds.
    pub quantum: u32,
}

/// A register of GC that [`GfxGolden`] sets. Its place in the block is in the driver's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoldenRegister {
    /// GB_ADDR_CONFIG: the layout of tiled memory.
    GbAddrConfig,
    /// TA_CNTL_AUX.
    TaCntlAux,
    /// TCP_UTCL1_CNTL1.
    TcpUtcl1Cntl1,
    /// TCP_UTCL1_CNTL2.
    TcpUtcl1Cntl2,
    /// TCI_CNTL_3.
    TciCntl3,
    /// TCP_CHAN_STEER_0: which channel of L2 is which.
    TcpChanSteer0,
    /// TCP_CHAN_STEER_1: which channel of L2 is which.
    TcpChanSteer1,
    /// TCP_CHAN_STEER_2: which channel of L2 is which.
    TcpChanSteer2,
    /// TCP_CHAN_STEER_3: which channel of L2 is which.
    TcpChanSteer3,
    /// TCP_CHAN_STEER_4: which channel of L2 is which.
    TcpChanSteer4,
    /// TCP_CHAN_STEER_5: which channel of L2 is which.
    TcpChanSteer5,
}

/// Contents of some bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoldenSetting {
    /// The register.
    pub register: GoldenRegister,
    /// The bits that are set; the others stay.
    pub mask: u32,
    /// The values of those bits.
    pub value: u32,
}

impl GoldenSetting {
    /// The setting `value` of the bits `mask` of `register`.
    #[inline]
    pub const fn new(register: GoldenRegister, mask: u32, value: u32) -> Self {
        Self {
            register,
            mask,
            value,
        }
    }
}

/// Register contents of GC that no driver chooses ("golden settings").
#[derive(Clone, Copy, Debug)]
pub struct GfxGolden {
    /// Settings of every die.
    pub common: &'static [GoldenSetting],
    /// Settings by the number of the die in its package.
    pub dies: &'static [&'static [GoldenSetting]],
}

impl GfxGolden {
    /// The settings of die `die`, in the order in which they are written.
    pub fn of_die(&self, die: u32) -> impl Iterator<Item = &'static GoldenSetting> {
        let own = self.dies.get(die as usize).copied().unwrap_or(&[]);
        self.common.iter().chain(own)
    }
}

/// VMIDs of a hub: a context and its registers for each.
const VMIDS: u8 = 16;

/// The use of VMIDs. VMID 0 is the driver's own.
#[derive(Clone, Copy, Debug)]
pub struct VmidSplit {
    /// The first VMID of compute. VMIDs between 0 and this one belong to graphics.
    pub first: u8,
    /// The last VMID.
    pub last: u8,
    /// The first VMID that the CP's firmware gives to processes, if it schedules.
    pub first_of_firmware: u8,
}

/// Memory of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct VramInfo {
    /// Its type in DEV_INFO (AMDGPU_VRAM_TYPE_*).
    pub drm_type: u32,
    /// Bits of its bus.
    pub width: u32,
    /// Highest clock, MHz.
    pub max_mhz: u32,
    /// Whether it has error correction.
    pub ecc: bool,
    /// Bytes at its end that firmware may use.
    pub kept: u64,
}

/// Caches of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKind {
    /// Its level, as distance from the CU.
    pub level: u8,
    /// KiB of each.
    pub kib: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Contents: bits of [`crate::topology::record::cache_type`].
    pub kind: u32,
    /// CUs that share one; more than an array has for one cache of the whole GPU.
    pub shared_by: u32,
}

/// A chip.
#[derive(Clone, Copy, Debug)]
pub struct Asic {
    /// Its names and numbers.
    pub ids: AsicIds,
    /// Compute units and the blocks around them.
    pub gfx: GfxInfo,
    /// How waves are saved.
    pub wave_save: WaveSaveInfo,
    /// Golden settings of GC.
    pub golden: GfxGolden,
    /// The micro engines of compute and their HQDs.
    pub mec: MecInfo,
    /// Compute queue descriptors.
    pub mqd: MqdInfo,
    /// SDMA engines.
    pub sdma: SdmaInfo,
    /// How interrupts name blocks.
    pub interrupts: IhInfo,
    /// The doorbells of each block.
    pub doorbells: DoorbellLayout,
    /// The byte in BAR5 to which the page of HDP flush registers is remapped.
    pub hdp_page: u32,
    /// Attributes of page-table entries.
    pub pte: PteFormat,
    /// The use of VMIDs.
    pub vmids: VmidSplit,
    /// Memory.
    pub vram: VramInfo,
    /// MB/s of one link of XGMI, 16 lanes wide.
    pub xgmi_link_mbs: u32,
    /// Caches, nearest to the CU first.
    pub caches: &'static [CacheKind],
    /// The words of the trap handler.
    pub trap: &'static [u32],
    /// The cleaner, if a version of the firmware runs one.
    pub cleaner: Option<Cleaner>,
    /// How the firmware of the chip is loaded.
    pub firmware: &'static FirmwarePlan,
    /// Its blocks, if the chip has no discovery table in memory.
    pub ips: &'static [IpInstance],
    /// The same chip with fewer XCCs and engines, of which its discovery table may tell.
    pub smaller: &'static [Asic],
}

impl Asic {
    /// The chip of a PCI device id, if the driver drives it.
    #[inline]
    pub fn find(device_id: u16) -> Option<&'static Self> {
        KNOWN_ASICS
            .into_iter()
            .find(|asic| asic.ids.device == device_id)
    }

    /// Dies with SDMA engines, each with an MMHUB.
    #[inline]
    pub const fn dies(&self) -> usize {
        let engines = self.sdma.engines() as usize;
        match self.interrupts.sdma_clients.len() {
            0 => 0,
            on_die => engines.div_ceil(on_die),
        }
    }

    /// Whether the chip has a discovery table in memory, which lists its blocks.
    #[inline]
    pub const fn is_discovered(&self) -> bool {
        self.ips.is_empty()
    }

    /// The chip with the XCCs and SDMA engines that the table `found` has. `None` if it has other
    /// ones than the driver knows such chips with, or XCCs of another size.
    pub fn of_discovery(&'static self, found: &Discovery<'_>) -> Option<&'static Self> {
        let mut all = core::iter::once(self).chain(self.smaller);
        all.find(|asic| {
            asic.gfx.xccs == found.count(IpBlock::Gc)
                && u32::from(asic.sdma.engines()) == found.count(IpBlock::Sdma)
                && asic.gfx.has_figures(found.gc())
        })
    }

    /// Sizes of a compute queue's save area if `cus` compute units of an XCC work.
    #[inline]
    pub const fn context_save(&self, cus: u32) -> ContextSaveSizes {
        ContextSaveSizes::new(self, cus)
    }

    /// Whether the parts of the description fit each other: doorbells of different blocks do not
    /// overlap, there is a doorbell for every engine, XCC and queue, and registers, descriptors and
    /// the driver's own sets have room for all that the chip has.
    pub const fn is_consistent(&self) -> bool {
        self.doorbells.is_consistent()
            && self.doorbells.sdma_engines == self.sdma.engines()
            && self.doorbells.sdma_queues == self.sdma.queues_per_engine
            && self.doorbells.xccs as u32 == self.gfx.xccs
            && self.sdma.engines() <= SdmaMask::MAX_ENGINES
            && self.interrupts.are_sdma_engines(self.sdma.engines())
            && self.lists_sdma_engines()
            && self.mec.is_consistent()
            && self.vmids.first <= self.vmids.first_of_firmware
            && self.vmids.first_of_firmware <= self.vmids.last
            && self.vmids.last < VMIDS
            && self.gfx.arrays() as usize <= crate::topology::cus::MAX_ARRAYS
            && self.mqd.cu_masks.len() >= self.gfx.shader_engines as usize
            && self.mqd.cu_masks.len() <= crate::mqd::cu_mask::MAX_WORDS
            && self.gfx.xccs as usize <= crate::mqd::cu_mask::MAX_XCCS
            && self.trap.len() * 4 <= crate::trap::CODE_BYTES
    }

    /// Whether the list of blocks has every SDMA engine. A chip without a list gets one at run
    /// time.
    const fn lists_sdma_engines(&self) -> bool {
        let mut engine = 0;
        while engine < self.sdma.engines() && !self.ips.is_empty() {
            let mut n = 0;
            while n < self.ips.len() {
                let ip = &self.ips[n];
                if matches!(ip.block, IpBlock::Sdma) && ip.number == engine {
                    break;
                }
                n += 1;
            }
            if n == self.ips.len() {
                return false;
            }
            engine += 1;
        }
        true
    }
}

/// The chips of the driver's PCI table, each with a device id of vendor [`VENDOR_AMD`]: the only
/// list of them.
pub const KNOWN_ASICS: [&Asic; 6] = {
    let [a, b, c] = gfx90a::ASICS;
    let [d, e, f] = gfx942::ASICS;
    [a, b, c, d, e, f]
};

/// Bytes of a page of host memory, by which save areas are rounded.
const PAGE: u32 = 4096;

/// Sizes of the area in which one XCC saves a compute queue's waves (CWSR), as amdgpu calculates
/// them (kfd_queue_ctx_save_restore_size of kfd_queue.c, Linux 7.3). All are of one XCC: the CUs
/// of the GPU divided by its XCCs, and the shader engines of one XCC, as amdgpu multiplies
/// `array_count` by XCCs only in sysfs.
///
/// User space must allocate just these sizes. libhsakmt takes `ctl_stack_size` and `cwsr_size` from
/// the topology, and older versions calculate them from it. Those bound waves by `array_count`,
/// thus by the shader engines of all XCCs. So they agree if there is one XCC, or if CUs bound the
/// waves of an XCC rather than its shader engines: fewer than 13 CUs in each engine.
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
        let save = &asic.wave_save;
        let by_cu = cus * save.waves_per_cu;
        let by_engine = asic.gfx.shader_engines * save.waves_per_engine;
        let waves = if by_cu < by_engine { by_cu } else { by_engine };
        let registers =
            cus * (save.vgpr_bytes + save.sgpr_bytes + save.lds_bytes + save.hwreg_bytes);
        let control_stack = (save.header_bytes + save.stack_bytes * waves + save.stack_bytes)
            .next_multiple_of(PAGE);
        Self {
            waves,
            control_stack,
            area: control_stack + registers.next_multiple_of(PAGE),
            debug: (save.debug_bytes * waves).next_multiple_of(64),
        }
    }

    /// Bytes that a process allocates for a queue which `xccs` XCCs run: an area of `area` bytes
    /// for each XCC, then the debugger's part of each.
    #[inline]
    pub const fn total(&self, area: u32, xccs: u32) -> u64 {
        (area as u64 + self.debug as u64) * xccs as u64
    }
}
