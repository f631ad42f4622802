// SPDX-License-Identifier: GPL-2.0
//! The content of a node's files, gathered from the machine and from the GPUs.
//!
//! The first nodes are the NUMA nodes of the machine; the GPUs follow. A GPU has a direct link to
//! the processors to which it is attached, and indirect links through them.

use core::fmt;

use hw::topology::record::{
    link_flag, CacheRecord, CpuNode, GpuNode, HeapType, IoLink, MemoryBank, LINK_HYPER_TRANSPORT,
    LINK_QPI, LINK_WEIGHT_DIRECT, PCIE_LEAST_MBS,
};
use hw::xgmi::engines;
use kernel::prelude::*;

use super::GpuFacts;
use crate::kern::host::{self, NumaNode};
use crate::kern::params;
use crate::kern::render_node::RenderNode;

/// The first number of compute units, which keeps them apart from processors, as amdgpu has it.
const FIRST_SIMD: u32 = 0x8000_1000;

/// A node.
pub(super) struct TopologyNode<'a> {
    /// The id of a GPU; 0 for processors.
    pub(super) gpu_id: u32,
    /// The render node of a GPU.
    pub(super) render_node: Option<RenderNode>,
    /// The family of a GPU.
    pub(super) name: &'static str,
    /// The main record.
    pub(super) properties: KBox<dyn fmt::Display>,
    /// The memory banks.
    pub(super) banks: KVec<MemoryBank>,
    /// The caches. Empty for processors, whose caches libhsakmt finds by itself.
    pub(super) caches: KVec<CacheRecord<'a>>,
    /// The links to other nodes.
    pub(super) links: NodeLinks,
}

/// The links of a node.
#[derive(Default)]
pub(super) struct NodeLinks {
    /// Links without a node in between.
    pub(super) direct: KVec<IoLink>,
    /// Links through other nodes, or from GPU to GPU.
    pub(super) indirect: KVec<IoLink>,
}

impl NodeLinks {
    /// Adds a link from or to a GPU. It is direct up to [`LINK_WEIGHT_DIRECT`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    fn add(&mut self, link: IoLink) -> Result {
        let list = match link.weight {
            ..=LINK_WEIGHT_DIRECT => &mut self.direct,
            _ => &mut self.indirect,
        };
        Ok(list.push(link, GFP_KERNEL)?)
    }

    fn counts(&self) -> Result<(u32, u32)> {
        Ok((
            self.direct.len().try_into()?,
            self.indirect.len().try_into()?,
        ))
    }
}

/// The components of the machine: the processors of each NUMA node, and the GPUs.
pub(super) struct Machine<'a> {
    cpus: KVec<NumaNode>,
    gpus: &'a [GpuFacts],
}

impl<'a> Machine<'a> {
    /// This machine with `gpus`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(gpus: &'a [GpuFacts]) -> Result<Self> {
        let mut cpus = KVec::new();
        for node in NumaNode::all() {
            cpus.push(node, GFP_KERNEL)?;
        }
        Ok(Self { cpus, gpus })
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.cpus.len() + self.gpus.len()
    }

    /// Node `number`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such node.
    pub(super) fn node(&self, number: usize) -> Result<TopologyNode<'a>> {
        match number.checked_sub(self.cpus.len()) {
            None => self.processors(number),
            Some(index) => self.gpu(index),
        }
    }

    /// The number of a GPU's node.
    fn gpu_number(&self, index: usize) -> Result<u32> {
        Ok(u32::try_from(self.cpus.len() + index)?)
    }

    /// The processors to which a GPU is attached; the first ones, if that is not known.
    fn home(&self, gpu: &GpuFacts) -> Option<NumaNode> {
        gpu.numa.or(self.cpus.first().copied())
    }

    /// The weight of the path between a GPU and processors.
    fn to_processors(&self, gpu: &GpuFacts, node: NumaNode) -> u32 {
        match self.home(gpu) {
            Some(home) if home != node => LINK_WEIGHT_DIRECT + home.distance(node),
            _ => LINK_WEIGHT_DIRECT,
        }
    }

    /// The weight of the path from one GPU to another.
    fn to_gpu(&self, from: &GpuFacts, to: &GpuFacts) -> u32 {
        let home = self.home(from);
        LINK_WEIGHT_DIRECT + home.map_or(LINK_WEIGHT_DIRECT, |home| self.to_processors(to, home))
    }

    /// The link between a GPU and the processors `node`. Its speed, and the engines that serve it,
    /// are told only where it is direct, as by amdgpu.
    fn link_to_processors(&self, gpu: &GpuFacts, node: NumaNode, (from, to): (u32, u32)) -> IoLink {
        let mut link = IoLink::pcie(from, to, self.to_processors(gpu, node));
        if link.weight > LINK_WEIGHT_DIRECT {
            return link;
        }
        link.recommended_sdma_engine_id_mask = gpu.cus.asic().sdma.host_engines_mask();
        if gpu.link_mbs > 0 {
            link.min_bandwidth = PCIE_LEAST_MBS;
            link.max_bandwidth = gpu.link_mbs;
        }
        link
    }

    /// Node `index`: processors and their memory.
    fn processors(&self, index: usize) -> Result<TopologyNode<'a>> {
        let node = *self.cpus.get(index).ok_or(EINVAL)?;
        let number = u32::try_from(index)?;
        let mut links = NodeLinks::default();
        let between = if host::is_amd() {
            LINK_HYPER_TRANSPORT
        } else {
            LINK_QPI
        };
        for (other, &to) in self.cpus.iter().enumerate() {
            if to != node {
                let link = IoLink::new(between, number, other.try_into()?, node.distance(to));
                links.direct.push(link, GFP_KERNEL)?;
            }
        }
        for (other, gpu) in self.gpus.iter().enumerate() {
            // The processors can access all of VRAM; this link reports that.
            let ends = (number, self.gpu_number(other)?);
            let mut link = self.link_to_processors(gpu, node, ends);
            link.flags |= link_flag::NON_COHERENT;
            links.add(with_atomics(link, gpu.completes_atomics))?;
        }
        let mut banks = KVec::with_capacity(1, GFP_KERNEL)?;
        banks.push(
            MemoryBank {
                heap: HeapType::System,
                size_in_bytes: node.memory_bytes(),
                flags: 0,
                width: 64,
                mem_clk_max: host::memory_mhz(),
            },
            GFP_KERNEL,
        )?;
        let (io_links_count, p2p_links_count) = links.counts()?;
        let properties = CpuNode {
            cpu_cores_count: node.processors(),
            cpu_core_id_base: node.first_apic_id(),
            mem_banks_count: 1,
            io_links_count,
            p2p_links_count,
            max_engine_clk_ccompute: host::processor_mhz(),
        };
        Ok(TopologyNode {
            gpu_id: 0,
            render_node: None,
            name: "",
            properties: KBox::new(properties, GFP_KERNEL)?,
            banks,
            caches: KVec::new(),
            links,
        })
    }

    /// The node of GPU `index`.
    fn gpu(&self, index: usize) -> Result<TopologyNode<'a>> {
        let gpu = self.gpus.get(index).ok_or(EINVAL)?;
        let (asic, number) = (gpu.cus.asic(), self.gpu_number(index)?);
        let before = self.gpus.iter().take(index);
        let mut before = before.map(|gpu| gpu.cus.processor_numbers());
        let first_simd = before
            .try_fold(FIRST_SIMD, u32::checked_add)
            .ok_or(EOVERFLOW)?;
        let mut caches = KVec::new();
        for cache in gpu.cus.caches(first_simd) {
            caches.push(cache, GFP_KERNEL)?;
        }
        let mut links = NodeLinks::default();
        for (other, &node) in self.cpus.iter().enumerate() {
            let link = self.link_to_processors(gpu, node, (number, other.try_into()?));
            links.add(with_atomics(link, gpu.atomics))?;
        }
        for (other, to) in self.gpus.iter().enumerate() {
            if let Some(way) = gpu.hive.way_to(&to.hive).filter(|_| other != index) {
                let (own, there) = (&gpu.hive, &to.hive);
                let mut link =
                    IoLink::xgmi(number, self.gpu_number(other)?, way, asic.xgmi_link_mbs);
                link.recommended_sdma_engine_id_mask =
                    engines::recommended(&asic.sdma, own.nodes, own.number, there.number);
                // Through other GPUs, too, it is a direct one.
                links.direct.push(link, GFP_KERNEL)?;
            } else if gpu.reaches(other) {
                let mut link = IoLink::pcie(number, self.gpu_number(other)?, self.to_gpu(gpu, to));
                link.flags |= link_flag::NON_COHERENT;
                links.add(with_atomics(link, gpu.atomics && to.atomics))?;
            }
        }
        let mut banks = KVec::with_capacity(1, GFP_KERNEL)?;
        banks.push(
            MemoryBank {
                heap: HeapType::FramebufferPublic,
                size_in_bytes: gpu.vram,
                flags: 0,
                width: asic.vram.width,
                mem_clk_max: asic.vram.max_mhz,
            },
            GFP_KERNEL,
        )?;
        let (io_links_count, p2p_links_count) = links.counts()?;
        let properties = GpuNode {
            cus: gpu.cus,
            mem_banks_count: 1,
            caches_count: u32::try_from(caches.len())?,
            io_links_count,
            p2p_links_count,
            simd_id_base: first_simd,
            location_id: gpu.location,
            domain: gpu.domain,
            drm_render_minor: gpu.render_node.minor,
            num_sdma_engines: asic.sdma.host_engines.into(),
            hive_id: gpu.hive.hive,
            // Without a hive, ROCr would choose other ways to copy if it knew of these.
            num_sdma_xgmi_engines: match gpu.hive.hive {
                0 => 0,
                _ => asic.sdma.xgmi_engines.into(),
            },
            fw_version: gpu.firmware.0,
            sdma_fw_version: gpu.firmware.1,
            unique_id: gpu.serial,
            asic_revision: gpu.revision,
            shares_memory: params::is_svm_enabled(),
            max_engine_clk_ccompute: host::processor_mhz(),
        };
        Ok(TopologyNode {
            gpu_id: gpu.id.get().into(),
            render_node: Some(gpu.render_node),
            name: asic.ids.family,
            properties: KBox::new(properties, GFP_KERNEL)?,
            banks,
            caches,
            links,
        })
    }
}

/// Returns the link with flags that tell whether it carries atomic operations in its direction.
fn with_atomics(mut link: IoLink, carries: bool) -> IoLink {
    if !carries {
        link.flags |= link_flag::NO_ATOMICS_32 | link_flag::NO_ATOMICS_64;
    }
    link
}
