// SPDX-License-Identifier: GPL-2.0
//! What a node's files say, gathered from the machine and from the GPUs.

use core::fmt;

use hw::topology::record::{link_flag, Cache, CpuNode, GpuNode, Heap, IoLink, MemoryBank};
use kernel::prelude::*;

use super::GpuFacts;
use crate::kern::host;

/// Where the numbers of SIMDs begin, apart from those of processors.
const FIRST_SIMD: u32 = 0x8000_0000;

/// A node.
pub(super) struct Node {
    /// 0 for processors.
    pub(super) gpu_id: u32,
    /// The family of a GPU.
    pub(super) name: &'static str,
    /// The main record.
    pub(super) properties: KBox<dyn fmt::Display>,
    /// Memory.
    pub(super) banks: KVec<MemoryBank>,
    /// Caches; libhsakmt finds those of processors by itself.
    pub(super) caches: KVec<Cache>,
    /// Links to other nodes.
    pub(super) links: KVec<IoLink>,
}

/// A link between a GPU's node and that of the processors.
fn link(from: u32, to: u32, gpu: &GpuFacts) -> IoLink {
    let mut link = IoLink::pcie(from, to);
    if !gpu.atomics {
        link.flags |= link_flag::NO_ATOMICS_32 | link_flag::NO_ATOMICS_64;
    }
    link
}

impl Node {
    /// Node 0 of a machine with `gpus`: all processors and all memory.
    pub(super) fn processors(gpus: &[GpuFacts]) -> Result<Self> {
        let mut links = KVec::with_capacity(gpus.len(), GFP_KERNEL)?;
        for (index, gpu) in gpus.iter().enumerate() {
            // The processors reach all of VRAM, and this link is what says so.
            links.push(link(0, u32::try_from(index)? + 1, gpu), GFP_KERNEL)?;
        }
        let mut banks = KVec::with_capacity(1, GFP_KERNEL)?;
        banks.push(
            MemoryBank {
                heap: Heap::System,
                size_in_bytes: host::memory_bytes(),
                flags: 0,
                width: 64,
                mem_clk_max: 0,
            },
            GFP_KERNEL,
        )?;
        let properties = CpuNode {
            cpu_cores_count: host::processors(),
            cpu_core_id_base: host::first_apic_id(),
            mem_banks_count: 1,
            io_links_count: u32::try_from(links.len())?,
            max_engine_clk_ccompute: host::processor_mhz(),
        };
        Ok(Self {
            gpu_id: 0,
            name: "",
            properties: KBox::new(properties, GFP_KERNEL)?,
            banks,
            caches: KVec::new(),
            links,
        })
    }

    /// Node `number`, a GPU.
    pub(super) fn gpu(number: u32, gpu: &GpuFacts) -> Result<Self> {
        let asic = gpu.asic;
        let simds = (number - 1).checked_mul(asic.simds()).ok_or(EOVERFLOW)?;
        let first_simd = FIRST_SIMD.checked_add(simds).ok_or(EOVERFLOW)?;
        let mut caches = KVec::new();
        for cache in asic.cache_list(first_simd) {
            caches.push(cache, GFP_KERNEL)?;
        }
        let mut links = KVec::with_capacity(1, GFP_KERNEL)?;
        links.push(link(number, 0, gpu), GFP_KERNEL)?;
        let mut banks = KVec::with_capacity(1, GFP_KERNEL)?;
        banks.push(
            MemoryBank {
                heap: Heap::FramebufferPublic,
                size_in_bytes: gpu.vram,
                flags: 0,
                width: asic.memory_width,
                mem_clk_max: asic.max_memory_mhz,
            },
            GFP_KERNEL,
        )?;
        let properties = GpuNode {
            asic,
            mem_banks_count: 1,
            caches_count: u32::try_from(caches.len())?,
            io_links_count: 1,
            simd_id_base: first_simd,
            location_id: gpu.location,
            domain: gpu.domain,
            drm_render_minor: gpu.render_minor,
            num_sdma_engines: asic.sdma_engines,
            // ROCr would choose other ways of copying if it knew of these.
            num_sdma_xgmi_engines: 0,
            fw_version: gpu.firmware.0,
            sdma_fw_version: gpu.firmware.1,
            unique_id: 0,
            asic_revision: gpu.revision,
            max_engine_clk_ccompute: host::processor_mhz(),
        };
        Ok(Self {
            gpu_id: gpu.id.get().into(),
            name: asic.family,
            properties: KBox::new(properties, GFP_KERNEL)?,
            banks,
            caches,
            links,
        })
    }
}
