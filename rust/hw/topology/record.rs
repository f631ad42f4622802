// SPDX-License-Identifier: GPL-2.0
//! The topology's files as records. `Display` gives the text: one `name value` line a property,
//! unsigned decimal, which clients read with `%s %llu` until the first line that does not fit. A
//! file has to stay below one page.

use super::cus::ComputeUnits;
use crate::bits::Field;
use crate::debug::WatchInfo;
use crate::xgmi::ta::XgmiWay;
use core::fmt::{self, Display, Formatter};

/// Writes the named fields of `$record` as lines.
macro_rules! properties {
    ($f:ident, $record:ident, $($field:ident),+ $(,)?) => {
        $(writeln!($f, concat!(stringify!($field), " {}"), $record.$field)?;)+
    };
}

/// `topology/system_properties`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemProperties {
    /// Maker of the platform.
    pub platform_oem: u64,
    /// The platform.
    pub platform_id: u64,
    /// Its revision.
    pub platform_rev: u64,
}

impl Display for SystemProperties {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        properties!(f, self, platform_oem, platform_id, platform_rev);
        Ok(())
    }
}

/// A file that holds one number: `generation_id`, `gpu_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFile(pub u32);

impl Display for NumberFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// Bits of a GPU node's `capability`.
pub mod capability {
    use crate::bits::Field;

    /// Doorbells are 64 bits wide (type 2): what ROCr asks for.
    pub(super) const DOORBELL_64: u32 = Field::new(13, 12).put(2);
    /// Memory has error correction.
    pub(super) const MEMORY_ECC: u32 = Field::bit(20).flag(true);
    /// There is shared virtual memory (`HSA_CAP_SVMAPI_SUPPORTED`).
    pub(super) const SHARED_VIRTUAL_MEMORY: u32 = Field::bit(27).flag(true);
    /// On-chip memory has error correction: the ISA is `sramecc+`.
    pub(super) const SRAM_ECC: u32 = Field::bit(26).flag(true);
    /// There are watch points, in 11:8 the logarithm of their number.
    pub(super) const WATCH_POINTS: u32 =
        Field::bit(7).flag(true) | Field::new(11, 8).put(crate::debug::WATCH_POINTS.ilog2());
    /// Debuggers may use traps, override which exceptions trap, set how waves are launched, and ask
    /// for precise memory exceptions.
    pub(super) const DEBUGGERS: u32 = Field::new(18, 15).put(0xf);
    /// The driver tells a runtime of exceptions (`HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED`).
    pub(super) const EXCEPTIONS: u32 = Field::bit(29).flag(true);
    /// Where the ASIC's revision is.
    pub(super) const ASIC_REVISION: Field = Field::new(25, 22);
}

/// `nodes/N/properties` of a node of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuNode {
    /// Processors, at least one.
    pub cpu_cores_count: u32,
    /// APIC id of the first.
    pub cpu_core_id_base: u32,
    /// Folders under `mem_banks`.
    pub mem_banks_count: u32,
    /// Folders under `io_links`.
    pub io_links_count: u32,
    /// Folders under `p2p_links`.
    pub p2p_links_count: u32,
    /// Highest clock of a processor, MHz.
    pub max_engine_clk_ccompute: u32,
}

impl Display for CpuNode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Zeros for properties that only a GPU has: where a line is absent (p2p_links_count),
        // libhsakmt keeps the value of the node that it read before.
        let common = NodeCommon {
            cpu_cores_count: self.cpu_cores_count,
            mem_banks_count: self.mem_banks_count,
            io_links_count: self.io_links_count,
            p2p_links_count: self.p2p_links_count,
            cpu_core_id_base: self.cpu_core_id_base,
            ..NodeCommon::default()
        };
        write!(f, "{common}")?;
        properties!(f, self, max_engine_clk_ccompute);
        Ok(())
    }
}

/// `nodes/N/properties` of a GPU's node.
#[derive(Clone, Copy, Debug)]
pub struct GpuNode {
    /// Its compute units, and with them the chip.
    pub cus: ComputeUnits,
    /// Folders under `mem_banks`.
    pub mem_banks_count: u32,
    /// Folders under `caches`.
    pub caches_count: u32,
    /// Folders under `io_links`.
    pub io_links_count: u32,
    /// Folders under `p2p_links`.
    pub p2p_links_count: u32,
    /// Number of the first SIMD.
    pub simd_id_base: u32,
    /// Bus, device and function.
    pub location_id: u32,
    /// PCI domain.
    pub domain: u32,
    /// Minor number of the render node: 128 to 255.
    pub drm_render_minor: u32,
    /// The hive that it is in; 0 for none.
    pub hive_id: u64,
    /// SDMA engines for `SDMA` queues.
    pub num_sdma_engines: u32,
    /// SDMA engines for `SDMA_XGMI` queues; ROCr uses other paths where it is not 0.
    pub num_sdma_xgmi_engines: u32,
    /// Version of the CP's firmware.
    pub fw_version: u32,
    /// Version of the SDMA engines' firmware.
    pub sdma_fw_version: u32,
    /// The GPU's serial number.
    pub unique_id: u64,
    /// Revision of the ASIC, 4 bits.
    pub asic_revision: u32,
    /// Highest clock of a processor of the host, MHz.
    pub max_engine_clk_ccompute: u32,
    /// Processes may share their memory with it at its own addresses (SVM).
    pub shares_memory: bool,
}

impl GpuNode {
    /// The bits of `capability`.
    #[inline]
    pub const fn capability(&self) -> u32 {
        gpu_capability(
            &self.cus,
            self.fw_version,
            self.asic_revision,
            self.shares_memory,
        )
    }
}

/// `debug_prop` of a GPU with these watch points: the bits that they may mask, and that waves
/// always find their dispatch in TTMPs.
#[inline]
pub const fn gpu_debug_properties(watch: WatchInfo) -> u32 {
    Field::new(3, 0).put(watch.lowest)
        | Field::new(9, 4).put(watch.highest)
        | Field::bit(10).flag(true)
}

/// `capability` of a GPU with these compute units, firmware of the CP and revision. Processes may
/// share their memory with it if `shares_memory`.
#[inline]
pub const fn gpu_capability(
    cus: &ComputeUnits,
    fw_version: u32,
    asic_revision: u32,
    shares_memory: bool,
) -> u32 {
    let ecc = if cus.asic().vram.ecc {
        capability::SRAM_ECC | capability::MEMORY_ECC
    } else {
        0
    };
    let svm = match shares_memory {
        true => capability::SHARED_VIRTUAL_MEMORY,
        false => 0,
    };
    let exceptions = match fw_version >= cus.asic().gfx.exceptions_firmware {
        true => capability::EXCEPTIONS,
        false => 0,
    };
    let revision = capability::ASIC_REVISION.put(asic_revision);
    let debuggers = capability::WATCH_POINTS | capability::DEBUGGERS;
    capability::DOORBELL_64 | ecc | svm | exceptions | debuggers | revision
}

impl Display for GpuNode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let asic = self.cus.asic();
        let gfx = &asic.gfx;
        let save = self.cus.context_save();
        let common = NodeCommon {
            simd_count: self.cus.simds(),
            mem_banks_count: self.mem_banks_count,
            caches_count: self.caches_count,
            io_links_count: self.io_links_count,
            p2p_links_count: self.p2p_links_count,
            simd_id_base: self.simd_id_base,
            max_waves_per_simd: gfx.waves_per_simd,
            lds_size_in_kb: gfx.lds_kib,
            wave_front_size: gfx.wave_size,
            array_count: gfx.arrays(),
            simd_arrays_per_engine: gfx.arrays_per_engine,
            cu_per_simd_array: gfx.cus_per_array,
            simd_per_cu: gfx.simds_per_cu,
            max_slots_scratch_cu: gfx.scratch_slots_per_cu,
            gfx_target_version: asic.ids.gfx_target_version,
            vendor_id: crate::asic::VENDOR_AMD.into(),
            device_id: asic.ids.device.into(),
            location_id: self.location_id,
            domain: self.domain,
            drm_render_minor: self.drm_render_minor,
            hive_id: self.hive_id,
            num_sdma_engines: self.num_sdma_engines,
            num_sdma_xgmi_engines: self.num_sdma_xgmi_engines,
            num_sdma_queues_per_engine: asic.sdma.queues_per_engine.into(),
            num_cp_queues: asic.mec.cp_queues,
            cwsr_size: save.area,
            ctl_stack_size: save.control_stack,
            ..NodeCommon::default()
        };
        write!(f, "{common}")?;
        writeln!(f, "max_engine_clk_fcompute {}", gfx.max_mhz)?;
        writeln!(f, "local_mem_size 0")?;
        properties!(f, self, fw_version);
        writeln!(f, "capability {}", self.capability())?;
        writeln!(f, "capability2 0")?;
        let debug_prop = gpu_debug_properties(gfx.watch);
        writeln!(f, "debug_prop {debug_prop}")?;
        properties!(f, self, sdma_fw_version, unique_id);
        writeln!(f, "num_xcc {}", gfx.xccs)?;
        properties!(f, self, max_engine_clk_ccompute);
        Ok(())
    }
}

/// The lines that every node has.
#[derive(Clone, Copy, Debug, Default)]
struct NodeCommon {
    cpu_cores_count: u32,
    simd_count: u32,
    mem_banks_count: u32,
    caches_count: u32,
    io_links_count: u32,
    // Always printed, even at 0: its absence makes libhsakmt invent links.
    p2p_links_count: u32,
    cpu_core_id_base: u32,
    simd_id_base: u32,
    max_waves_per_simd: u32,
    lds_size_in_kb: u32,
    gds_size_in_kb: u32,
    num_gws: u32,
    wave_front_size: u32,
    array_count: u32,
    simd_arrays_per_engine: u32,
    cu_per_simd_array: u32,
    simd_per_cu: u32,
    max_slots_scratch_cu: u32,
    gfx_target_version: u32,
    vendor_id: u32,
    device_id: u32,
    location_id: u32,
    domain: u32,
    drm_render_minor: u32,
    hive_id: u64,
    num_sdma_engines: u32,
    num_sdma_xgmi_engines: u32,
    num_sdma_queues_per_engine: u32,
    num_cp_queues: u32,
    cwsr_size: u32,
    ctl_stack_size: u32,
}

impl Display for NodeCommon {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        properties!(
            f,
            self,
            cpu_cores_count,
            simd_count,
            mem_banks_count,
            caches_count,
            io_links_count,
            p2p_links_count,
            cpu_core_id_base,
            simd_id_base,
            max_waves_per_simd,
            lds_size_in_kb,
            gds_size_in_kb,
            num_gws,
            wave_front_size,
            array_count,
            simd_arrays_per_engine,
            cu_per_simd_array,
            simd_per_cu,
            max_slots_scratch_cu,
            gfx_target_version,
            vendor_id,
            device_id,
            location_id,
            domain,
            drm_render_minor,
            hive_id,
            num_sdma_engines,
            num_sdma_xgmi_engines,
            num_sdma_queues_per_engine,
            num_cp_queues,
            cwsr_size,
            ctl_stack_size,
        );
        Ok(())
    }
}

/// What memory a bank is: `heap_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HeapType {
    /// Host memory.
    System = 0,
    /// VRAM, all of which the CPU reaches through BAR0.
    FramebufferPublic = 1,
}

/// `mem_banks/J/properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBank {
    /// What memory it is.
    pub heap: HeapType,
    /// Its bytes.
    pub size_in_bytes: u64,
    /// Bits: 0 hot-pluggable, 1 non-volatile.
    pub flags: u32,
    /// Bits of its bus.
    pub width: u32,
    /// Highest clock, MHz.
    pub mem_clk_max: u32,
}

impl Display for MemoryBank {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "heap_type {}", self.heap as u32)?;
        properties!(f, self, size_in_bytes, flags, width, mem_clk_max);
        Ok(())
    }
}

/// Bits of a cache's `type`.
pub mod cache_type {
    /// Holds data.
    pub const DATA: u32 = 1;
    /// Holds instructions.
    pub const INSTRUCTION: u32 = 2;
    /// A SIMD's.
    pub const SIMD: u32 = 8;
}

/// The compute units that a cache serves, as its sibling map has them: a word of 32 places for each
/// array, of which the first place is the first unit that works.
#[derive(Clone, Copy, Debug)]
pub enum CacheSiblings<'a> {
    /// Units of one array, a bit each.
    Some(u32),
    /// All of the GPU.
    All(&'a ComputeUnits),
}

impl CacheSiblings<'_> {
    /// The words, a bit for each place.
    fn words(&self) -> impl Iterator<Item = u32> + '_ {
        let (some, all) = match self {
            Self::Some(mask) => (Some(*mask), None),
            Self::All(cus) => (None, Some(cus.array_masks())),
        };
        let from_first = |(n, mask): (usize, u32)| match n {
            // No shift for an array without units, which cannot be the first one.
            0 => mask.checked_shr(mask.trailing_zeros()).unwrap_or(0),
            _ => mask,
        };
        let all = all.into_iter().flatten();
        let working = all.skip_while(|&mask| mask == 0).enumerate();
        some.into_iter().chain(working.map(from_first))
    }
}

/// `caches/J/properties`.
#[derive(Clone, Copy, Debug)]
pub struct CacheRecord<'a> {
    /// The first processor that it serves.
    pub processor_id_low: u32,
    /// Distance from the processor.
    pub level: u32,
    /// KiB.
    pub size: u32,
    /// Bytes of a line.
    pub cache_line_size: u32,
    /// Lines of a tag.
    pub cache_lines_per_tag: u32,
    /// Ways.
    pub association: u32,
    /// Nanoseconds.
    pub latency: u32,
    /// Bits of [`cache_type`].
    pub cache_type: u32,
    /// The processors that it serves.
    pub siblings: CacheSiblings<'a>,
}

impl Display for CacheRecord<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        properties!(
            f,
            self,
            processor_id_low,
            level,
            size,
            cache_line_size,
            cache_lines_per_tag,
            association,
            latency,
        );
        writeln!(f, "type {}", self.cache_type)?;
        // Last, since it is no number and ends a client's reading.
        write!(f, "sibling_map ")?;
        for (index, word) in self.siblings.words().enumerate() {
            for bit in 0..32 {
                let separator = if index == 0 && bit == 0 { "" } else { "," };
                write!(f, "{separator}{}", word >> bit & 1)?;
            }
        }
        writeln!(f)
    }
}

/// Bits of a link's `flags`.
pub mod link_flag {
    /// The bits that follow count; without it they are ignored.
    pub(super) const OVERRIDE: u32 = 1;
    /// Neither end's caches see what the other end writes.
    pub const NON_COHERENT: u32 = 1 << 1;
    /// The link does not carry 32-bit atomic operations.
    pub const NO_ATOMICS_32: u32 = 1 << 2;
    /// The link does not carry 64-bit atomic operations.
    pub const NO_ATOMICS_64: u32 = 1 << 3;
}

/// `type` of a link between processors of AMD's.
pub const LINK_HYPER_TRANSPORT: u32 = 1;
/// `type` of a link over PCI Express.
const LINK_PCIE: u32 = 2;
/// `type` of a link between processors of other makers.
pub const LINK_QPI: u32 = 5;
/// `type` of a link over XGMI.
const LINK_XGMI: u32 = 11;
/// `weight` of a hop over XGMI (amdgpu: KFD_CRAT_XGMI_WEIGHT). RCCL takes a link for one only with
/// this weight.
const LINK_WEIGHT_XGMI: u32 = 15;
/// `weight` of a link from a GPU to the processors that it hangs on.
pub const LINK_WEIGHT_DIRECT: u32 = 20;
/// MB/s of the slowest link of PCI Express: one lane at 2.5 GT/s, as amdgpu calculates it
/// (amdgpu_amdkfd_get_pcie_bandwidth_mbytes).
pub const PCIE_LEAST_MBS: u32 = 2500 / 8;

/// `io_links/J/properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoLink {
    /// What link it is.
    pub link_type: u32,
    /// The node that the file is under.
    pub node_from: u32,
    /// The node at the other end.
    pub node_to: u32,
    /// Cost of the way; up to 20 counts as direct.
    pub weight: u32,
    /// MB/s at least; 0 for unknown.
    pub min_bandwidth: u32,
    /// MB/s at most; 0 for unknown.
    pub max_bandwidth: u32,
    /// SDMA engines to use for it, a bit each; 0 for any.
    pub recommended_sdma_engine_id_mask: u32,
    /// Bits of [`link_flag`].
    pub flags: u32,
}

impl IoLink {
    /// A link of any type of which nothing else is known.
    #[inline]
    pub const fn new(link_type: u32, node_from: u32, node_to: u32, weight: u32) -> Self {
        Self {
            link_type,
            node_from,
            node_to,
            weight,
            min_bandwidth: 0,
            max_bandwidth: 0,
            recommended_sdma_engine_id_mask: 0,
            flags: 0,
        }
    }

    /// A link over XGMI between two GPUs, the other end at the end of `way`, with `link_mbs` MB/s
    /// for each link that joins them directly. It carries atomic operations and is coherent.
    #[inline]
    pub const fn xgmi(node_from: u32, node_to: u32, way: XgmiWay, link_mbs: u32) -> Self {
        let weight = LINK_WEIGHT_XGMI * way.hops;
        Self {
            min_bandwidth: if way.links > 0 { link_mbs } else { 0 },
            max_bandwidth: link_mbs.saturating_mul(way.links),
            flags: link_flag::OVERRIDE,
            ..Self::new(LINK_XGMI, node_from, node_to, weight)
        }
    }

    /// A link over PCI Express that carries atomic operations.
    #[inline]
    pub const fn pcie(node_from: u32, node_to: u32, weight: u32) -> Self {
        Self {
            flags: link_flag::OVERRIDE,
            ..Self::new(LINK_PCIE, node_from, node_to, weight)
        }
    }
}

impl Display for IoLink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "type {}", self.link_type)?;
        writeln!(f, "version_major 0\nversion_minor 0")?;
        properties!(f, self, node_from, node_to, weight);
        writeln!(f, "min_latency 0\nmax_latency 0")?;
        properties!(f, self, min_bandwidth, max_bandwidth);
        writeln!(f, "recommended_transfer_size 0")?;
        properties!(f, self, recommended_sdma_engine_id_mask, flags);
        Ok(())
    }
}
