// SPDX-License-Identifier: GPL-2.0
//! `/sys/devices/virtual/kfd/kfd/topology`: the components of the machine, for libhsakmt. The first
//! nodes are the processors with their memory, one per NUMA node. The GPUs follow, one node each.

mod node;
mod tree;

use hw::topology::cus::ComputeUnits;
use hw::topology::gpu_id::GpuId;
use hw::topology::record;
use hw::xgmi::HivePlace;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::kern::class::ClassDevice;
use crate::kern::host::NumaNode;
use crate::kern::params;
use crate::kern::render_node::RenderNode;
use tree::TopologyTree;

/// The properties of a GPU in the topology.
#[derive(Clone, Copy)]
pub(crate) struct GpuFacts {
    /// The compute units, which include the properties of the ASIC.
    pub(crate) cus: ComputeUnits,
    /// The number by which user space names the GPU.
    pub(crate) id: GpuId,
    /// The PCI domain.
    pub(crate) domain: u32,
    /// The PCI bus in 15:8, device and function in 7:0.
    pub(crate) location: u32,
    /// The render node, which cgroups grant or deny.
    pub(crate) render_node: RenderNode,
    /// The size of VRAM, in bytes.
    pub(crate) vram: u64,
    /// The revision of the ASIC.
    pub(crate) revision: u32,
    /// The revision in PCI's configuration space.
    pub(crate) pci_revision: u8,
    /// The subsystem's vendor and device in PCI's configuration space.
    pub(crate) subsystem: (u16, u16),
    /// The versions of the firmware of compute queues and of SDMA.
    pub(crate) firmware: (u32, u32),
    /// The serial number of the board; 0 if it is not known.
    pub(crate) serial: u64,
    /// Whether the path from the GPU to memory supports PCIe atomic operations.
    pub(crate) atomics: bool,
    /// Whether the GPU does PCIe atomic operations that others send to it.
    pub(crate) completes_atomics: bool,
    /// MB/s that the path from the GPU to the processors can carry; 0 if that is not known.
    pub(crate) link_mbs: u32,
    /// The processors to which the GPU is attached, if known.
    pub(crate) numa: Option<NumaNode>,
    /// The GPUs whose memory this GPU can reach by PCI Express: a bit for each, in the order of
    /// their nodes.
    pub(crate) peers: u64,
    /// Its place in its hive.
    pub(crate) hive: HivePlace,
}

impl GpuFacts {
    /// `capability` of the node.
    pub(crate) fn capability(&self) -> u32 {
        let is_shared = params::is_svm_enabled();
        record::gpu_capability(&self.cus, self.firmware.0, self.revision, is_shared)
    }

    /// `debug_prop` of the node.
    pub(crate) fn debug_properties(&self) -> u32 {
        record::gpu_debug_properties(self.cus.asic().gfx.watch)
    }

    /// Whether the GPU can reach the memory of the GPU `index`, another one.
    fn reaches(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|bit| self.peers.checked_shr(bit).unwrap_or(0) & 1 != 0)
    }
}

/// The files of the topology. They are created again when a GPU is added or removed, and
/// `generation_id` changes each time.
#[pin_data]
pub(crate) struct Topology {
    #[pin]
    state: Mutex<TopologyState>,
}

/// Fields are dropped in this order, because the files are in the device's folder.
struct TopologyState {
    tree: Option<TopologyTree>,
    generation: u32,
    device: Arc<ClassDevice>,
}

impl Topology {
    /// A topology without GPUs, in the folder of `device`.
    ///
    /// # Errors
    ///
    /// Those of the creation of the files.
    pub(crate) fn new(device: Arc<ClassDevice>) -> impl PinInit<Self, Error> {
        let state = TopologyTree::new(&device, 1, &[]).map(|tree| TopologyState {
            tree: Some(tree),
            generation: 1,
            device,
        });
        try_pin_init!(Self {
            state <- kernel::new_mutex!(state?, "Topology::state"),
        })
    }

    /// Updates the files to the GPUs that `gpus` returns. After an error there are no files until
    /// the next call.
    ///
    /// # Errors
    ///
    /// Those of `gpus` and of the creation of the files.
    pub(crate) fn show(&self, gpus: impl FnOnce() -> Result<KVec<GpuFacts>>) -> Result {
        let mut state = self.state.lock();
        let gpus = gpus()?;
        state.tree = None;
        state.generation = state.generation.wrapping_add(1);
        state.tree = Some(TopologyTree::new(&state.device, state.generation, &gpus)?);
        Ok(())
    }
}
