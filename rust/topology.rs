// SPDX-License-Identifier: GPL-2.0
//! `/sys/devices/virtual/kfd/kfd/topology`: what the machine is made of, for libhsakmt to read. The first nodes are
//! the processors with their memory, one for each NUMA node, and each GPU is a node after them.

mod node;
mod tree;

use hw::topology::cus::ComputeUnits;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::kern::class::ClassDevice;
use crate::kern::host::NumaNode;
use tree::TopologyTree;

/// What the topology says of a GPU.
#[derive(Clone, Copy)]
pub(crate) struct GpuFacts {
    /// Its compute units, and with them what the ASIC is.
    pub(crate) cus: ComputeUnits,
    /// The number by which user space names it.
    pub(crate) id: GpuId,
    /// PCI domain.
    pub(crate) domain: u32,
    /// PCI bus in 15:8, device and function in 7:0.
    pub(crate) location: u32,
    /// Minor number of its render node.
    pub(crate) render_minor: u32,
    /// Bytes of VRAM.
    pub(crate) vram: u64,
    /// Revision of the ASIC.
    pub(crate) revision: u32,
    /// Versions of the firmware of compute queues and of SDMA.
    pub(crate) firmware: (u32, u32),
    /// The board's number, 0 if it is not known.
    pub(crate) serial: u64,
    /// Whether the way from the GPU to memory carries PCIe's atomic operations.
    pub(crate) atomics: bool,
    /// The processors that it hangs on, if that is known.
    pub(crate) numa: Option<NumaNode>,
    /// The GPUs of which it reaches the memory: a bit for each, in the order of their nodes.
    pub(crate) peers: u64,
}

impl GpuFacts {
    /// Whether it reaches the memory of the GPU `index`, another one.
    fn reaches(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|bit| self.peers.checked_shr(bit).unwrap_or(0) & 1 != 0)
    }
}

/// The topology's files. They are made anew when a GPU comes or goes, and `generation_id` says so.
#[pin_data]
pub(crate) struct Topology {
    #[pin]
    state: Mutex<TopologyState>,
}

/// Dropped in this order: the files are in the device's folder.
struct TopologyState {
    tree: Option<TopologyTree>,
    generation: u32,
    device: Arc<ClassDevice>,
}

impl Topology {
    /// A topology of no GPUs, in the folder of `device`.
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

    /// Makes the files say what GPUs there are, as `gpus` tells. On an error there are no files, until it is tried
    /// again.
    pub(crate) fn show(&self, gpus: impl FnOnce() -> Result<KVec<GpuFacts>>) -> Result {
        let mut state = self.state.lock();
        let gpus = gpus()?;
        state.tree = None;
        state.generation = state.generation.wrapping_add(1);
        state.tree = Some(TopologyTree::new(&state.device, state.generation, &gpus)?);
        Ok(())
    }
}
