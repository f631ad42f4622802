// SPDX-License-Identifier: GPL-2.0
//! The KFD interface: /dev/kfd, its ioctls, and the topology.

mod args;
mod chardev;
mod info;
mod ioctl;

use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::kern::chrdev::CharDevice;
use crate::kern::class::{Class, ClassDevice};
use crate::kern::kobject::{FileName, Files, Folder};
use crate::kern::mm_exit;
use crate::kern::slot::{Filled, Slot};
use crate::process::table::Table;
use crate::topology::{GpuFacts, Topology};
use chardev::KfdFile;

/// The one instance, for who is called without an argument.
static INSTANCE: Slot<Kfd> = Slot::new();
static INITSTATE: FileName = FileName::new(c"initstate");

/// The interface's state.
#[pin_data]
pub(crate) struct Kfd {
    #[pin]
    topology: Topology,
    #[pin]
    nodes: Mutex<KVec<Node>>,
    processes: Arc<Table>,
}

/// A GPU that processes can use.
struct Node {
    facts: GpuFacts,
}

/// Waits, when dropped, for what still runs of ended processes.
struct Synchronize;

impl Drop for Synchronize {
    fn drop(&mut self) {
        mm_exit::synchronize();
    }
}

/// /dev/kfd and what belongs to it, as long as the module is loaded. Dropped in this order: no new callers, then
/// nothing of the old ones, then the state.
pub(crate) struct Registration {
    _filled: Filled<Kfd>,
    _device: CharDevice<KfdFile>,
    _synchronize: Synchronize,
    _kfd: Arc<Kfd>,
    _amdgpu: Folder,
}

impl Registration {
    /// Registers the interface without a GPU. EBUSY if amdgpu is loaded.
    pub(crate) fn new(module: &'static ThisModule) -> Result<Self> {
        // ROCm takes this file for the sign that the driver is there.
        let files = Files::new().with(&INITSTATE, &"live\n")?;
        let amdgpu = Folder::under_module_set(module, c"amdgpu", files).inspect_err(|error| {
            if *error == EBUSY {
                pr_err!("amdgpu is loaded: unload it first (modprobe -r amdgpu)\n");
            }
        })?;
        let class = Class::new(c"kfd")?;
        let device = CharDevice::new(c"kfd", module)?;
        let class_device = ClassDevice::new(class, c"kfd", device.number())?;
        let processes = Table::new()?;
        let kfd = Arc::pin_init(
            try_pin_init!(Kfd {
                topology <- Topology::new(class_device),
                nodes <- kernel::new_mutex!(KVec::new(), "Kfd::nodes"),
                processes,
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _filled: INSTANCE.fill(kfd.clone())?,
            _device: device,
            _synchronize: Synchronize,
            _kfd: kfd,
            _amdgpu: amdgpu,
        })
    }
}

impl Kfd {
    /// The instance; ENODEV while the module is being loaded or unloaded.
    pub(crate) fn instance() -> Result<Arc<Self>> {
        INSTANCE.get().ok_or(ENODEV)
    }

    /// The facts of the GPU that user space calls `gpu_id`. EINVAL.
    fn facts(&self, gpu_id: u32) -> Result<GpuFacts> {
        let id = GpuId::from_raw(gpu_id).ok_or(EINVAL)?;
        let nodes = self.nodes.lock();
        let node = nodes
            .iter()
            .find(|node| node.facts.id == id)
            .ok_or(EINVAL)?;
        Ok(node.facts)
    }

    /// The facts of all GPUs, in the order of their nodes. ENOMEM.
    fn all_facts(&self) -> Result<KVec<GpuFacts>> {
        let mut all = KVec::new();
        for node in self.nodes.lock().iter() {
            all.push(node.facts, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// What the clock of a GPU says; 0 if there is no such GPU.
    fn gpu_clock(&self, _gpu_id: u32) -> u64 {
        0
    }
}
