// SPDX-License-Identifier: GPL-2.0
//! The KFD interface: /dev/kfd, its ioctls, and the topology.

mod amdgpu_module;
mod args;
mod caller;
mod chardev;
mod criu;
mod debug;
mod dmabuf;
mod events;
mod info;
mod ioctl;
mod memory;
mod queues;
mod settings;
mod smi;
mod svm;

use hw::topology::gpu_id::GpuId;
use hw::xgmi::HivePlace;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, Mutex};

use crate::gpu::Gpu;
use crate::hive;
use crate::ip::retries::FaultOwner;
use crate::kern::arc_slot::{ArcSlot, FilledSlot};
use crate::kern::chrdev::CharDevice;
use crate::kern::class::{ClassDevice, DeviceClass};
use crate::kern::host::NumaNode;
use crate::kern::mm_exit;
use crate::kern::pci_ext;
use crate::mem::bo::DrmDevice;
use crate::mem::pasid::PasidPool;
use crate::process::context::GpuContext;
use crate::process::sysfs::ProcessesFolder;
use crate::process::table::ProcessTable;
use crate::process::Process;
use crate::queue::interrupts::ProcessSink;
use crate::topology::{GpuFacts, Topology};
use amdgpu_module::{AmdgpuModule, GpuLink};
use chardev::KfdFile;

/// The only instance, for callbacks that get no argument.
/// The most GPUs: [`GpuFacts::peers`] has a bit for each. amdgpu takes as many
/// (MAX_GPU_INSTANCE).
const MAX_GPUS: usize = u64::BITS as usize;

static INSTANCE: ArcSlot<Kfd> = ArcSlot::new();

/// The interface's state. The lock of `nodes` is inside the mmap lock.
#[pin_data]
pub(crate) struct Kfd {
    #[pin]
    topology: Topology,
    #[pin]
    nodes: Mutex<KVec<KfdNode>>,
    processes: Arc<ProcessTable>,
    amdgpu: Option<Arc<AmdgpuModule>>,
}

/// A GPU that processes can use.
struct KfdNode {
    facts: GpuFacts,
    gpu: Arc<Gpu>,
    drm: ARef<DrmDevice>,
}

impl KfdNode {
    /// Whether `process`, the caller's, may use the GPU: `/dev/kfd` is one file for all GPUs, so
    /// the render node counts. A process with a context keeps it, whatever its cgroups deny later.
    fn is_granted_to(&self, process: &Process) -> bool {
        process.context(self.facts.id).is_some() || self.facts.render_node.is_granted()
    }
}

/// Waits, when dropped, for the remaining work of ended processes.
struct SynchronizeOnDrop(Arc<ProcessTable>);

impl Drop for SynchronizeOnDrop {
    fn drop(&mut self) {
        self.0.wait_ended();
        mm_exit::synchronize();
    }
}

/// /dev/kfd and all that belongs to it, while the module is loaded. The drop order is: first no new
/// callers, then no remaining work of old ones, then the state.
pub(crate) struct KfdRegistration {
    _filled: FilledSlot<Kfd>,
    _device: CharDevice<KfdFile>,
    _synchronize: SynchronizeOnDrop,
    _kfd: Arc<Kfd>,
}

impl KfdRegistration {
    /// Registers the interface without a GPU.
    ///
    /// # Errors
    ///
    /// `EBUSY` if amdgpu is loaded.
    pub(crate) fn new(module: &'static ThisModule) -> Result<Self> {
        let amdgpu = AmdgpuModule::new(module)?;
        let class = DeviceClass::new(c"kfd")?;
        let device = CharDevice::new(c"kfd", module)?;
        let class_device = ClassDevice::new(class, c"kfd", device.number())?;
        let class_device = Arc::new(class_device, GFP_KERNEL)?;
        let processes = ProcessTable::new(ProcessesFolder::new(class_device.clone())?)?;
        let kfd = Arc::pin_init(
            try_pin_init!(Kfd {
                topology <- Topology::new(class_device),
                nodes <- kernel::new_mutex!(KVec::new(), "Kfd::nodes"),
                processes,
                amdgpu,
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _filled: INSTANCE.fill(kfd.clone())?,
            _device: device,
            _synchronize: SynchronizeOnDrop(kfd.processes.clone()),
            _kfd: kfd,
        })
    }
}

impl Kfd {
    /// The instance.
    ///
    /// # Errors
    ///
    /// `ENODEV` while the module is being loaded or unloaded.
    fn instance() -> Result<Arc<Self>> {
        INSTANCE.get().ok_or(ENODEV)
    }

    /// Lets processes use the GPU of `node`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is a GPU of the same id; `ENOSPC` beyond [`MAX_GPUS`]; `ENOMEM`.
    fn add(&self, node: KfdNode) -> Result {
        let id = node.facts.id;
        {
            let mut nodes = self.nodes.lock();
            if nodes.iter().any(|node| node.facts.id == id) {
                return Err(EEXIST);
            }
            if nodes.len() >= MAX_GPUS {
                return Err(ENOSPC);
            }
            nodes.push(node, GFP_KERNEL)?;
        }
        let shown = self.processes.show(id).and_then(|()| {
            let topology = self.topology.show(|| self.shown_facts());
            topology.inspect_err(|_| self.processes.hide(id))
        });
        shown.inspect_err(|_| {
            self.nodes.lock().retain(|node| node.facts.id != id);
        })
    }

    /// Takes `gpu` away from all processes, with everything that they have on it. Afterwards
    /// nothing of the processes uses the device.
    fn remove(&self, gpu: &Arc<Gpu>) {
        // Contexts are created under this lock, so no new one appears after it.
        self.nodes
            .lock()
            .retain(|node| !Arc::ptr_eq(&node.gpu, gpu));
        self.processes.remove_gpu(gpu);
        self.processes.hide(gpu.hw.id);
        if let Err(error) = self.topology.show(|| self.shown_facts()) {
            pr_warn!("the topology is not shown: {error:?}\n");
        }
    }

    /// Runs `f` on the GPU `id`, which stays in place meanwhile.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such GPU.
    fn with_node<T>(&self, id: GpuId, f: impl FnOnce(&KfdNode) -> Result<T>) -> Result<T> {
        let nodes = self.nodes.lock();
        let node = nodes.iter().find(|node| node.facts.id == id);
        f(node.ok_or(ENODEV)?)
    }

    /// Runs `f` on the GPU `id`, which stays in place meanwhile, if `process`, the caller's, may
    /// use it.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an unknown GPU, and for one that the caller's cgroups deny.
    fn with_granted<T>(
        &self,
        process: &Process,
        id: GpuId,
        f: impl FnOnce(&KfdNode) -> Result<T>,
    ) -> Result<T> {
        self.with_node(id, |node| {
            if node.is_granted_to(process) {
                f(node)
            } else {
                Err(ENODEV)
            }
        })
    }

    /// The context of `process`, the caller's, on the GPU `id`.
    ///
    /// # Errors
    ///
    /// `ENODEV` as [`Kfd::with_granted`]; `ENOMEM`.
    fn context(&self, process: &Process, id: GpuId) -> Result<Arc<GpuContext>> {
        self.with_granted(process, id, |node| process.context_on(&node.gpu))
    }

    /// The number of GPUs.
    fn gpus(&self) -> usize {
        self.nodes.lock().len()
    }

    /// Whether `process`, the caller's, may use any GPU.
    fn has_granted(&self, process: &Process) -> bool {
        let nodes = self.nodes.lock();
        nodes.iter().any(|node| node.is_granted_to(process))
    }

    /// The facts of the GPUs that `process`, the caller's, may use, in the order of their nodes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn facts_for(&self, process: &Process) -> Result<KVec<GpuFacts>> {
        let mut facts = KVec::new();
        let nodes = self.nodes.lock();
        for node in nodes.iter().filter(|node| node.is_granted_to(process)) {
            facts.push(node.facts, GFP_KERNEL)?;
        }
        Ok(facts)
    }

    /// The facts of all GPUs, which are shown from now on; see [`Kfd::all_facts`].
    fn shown_facts(&self) -> Result<KVec<GpuFacts>> {
        let facts = self.all_facts()?;
        let reach = facts.iter().any(|facts| facts.peers != 0);
        if let Some(amdgpu) = &self.amdgpu {
            amdgpu.set_peers(reach);
        }
        Ok(facts)
    }

    /// The facts of all GPUs, in the order of their nodes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn all_facts(&self) -> Result<KVec<GpuFacts>> {
        let mut all = KVec::new();
        // Before the lock: a GPU that joins may take seconds.
        let places = hive::places()?;
        let nodes = self.nodes.lock();
        for node in nodes.iter() {
            let mut facts = node.facts;
            facts.hive = hive::place_of(&node.gpu.hw, &places);
            for (bit, other) in nodes.iter().enumerate() {
                let is_other = !Arc::ptr_eq(&node.gpu, &other.gpu);
                if is_other && pci_ext::reaches(&node.gpu.hw.dev, &other.gpu.hw.dev) {
                    facts.peers |= 1 << bit;
                }
            }
            all.push(facts, GFP_KERNEL)?;
        }
        Ok(all)
    }
}

/// Notifies the processes of `gpu` that it is reset. May sleep.
pub(crate) fn notify_reset(gpu: &Arc<Gpu>) {
    if let Ok(kfd) = Kfd::instance() {
        kfd.processes.notify_reset(gpu);
    }
}

/// The receiver of interrupts of GPUs for processes.
///
/// # Errors
///
/// `ENODEV` without an interface.
pub(crate) fn process_sink() -> Result<Arc<dyn ProcessSink>> {
    Ok(Kfd::instance()?.processes.sink())
}

/// The PASIDs, of which address spaces without a process get some too.
///
/// # Errors
///
/// `ENODEV` without an interface.
pub(crate) fn pasids() -> Result<Arc<PasidPool>> {
    Ok(Kfd::instance()?.processes.pasids().clone())
}

/// The owner of the page faults of processes.
///
/// # Errors
///
/// `ENODEV` without an interface.
pub(crate) fn fault_owner() -> Result<Arc<dyn FaultOwner>> {
    Ok(Kfd::instance()?.processes.fault_owner())
}

/// A GPU that processes can use. On drop they lose everything that they have on it.
pub(crate) struct PluggedGpu {
    kfd: Arc<Kfd>,
    gpu: Arc<Gpu>,
    _link: Option<GpuLink>,
}

/// Facts of a GPU that processes see and [`Gpu`] does not know.
pub(crate) struct NodeInfo {
    /// Versions of the firmware of compute queues and of SDMA.
    pub(crate) firmware: (u32, u32),
    /// The board's serial number, 0 if it is not known.
    pub(crate) serial: u64,
    /// Whether atomic operations of the GPU reach system memory.
    pub(crate) atomics: bool,
    /// Whether it does atomic operations that others send to it.
    pub(crate) completes_atomics: bool,
    /// MB/s that the path to the processors can carry; 0 if that is not known.
    pub(crate) link_mbs: u32,
}

impl PluggedGpu {
    /// Lets processes use `gpu`, whose render node is `drm`.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an interface or a render node; `EEXIST` if there is a GPU of the same id;
    /// `ENOSPC` beyond [`MAX_GPUS`]; `ENOMEM`.
    pub(crate) fn new(gpu: &Arc<Gpu>, drm: &ARef<DrmDevice>, info: NodeInfo) -> Result<Self> {
        let kfd = Kfd::instance()?;
        let facts = GpuFacts {
            cus: gpu.hw.cus,
            id: gpu.hw.id,
            domain: gpu.hw.domain,
            location: gpu.hw.location,
            render_node: drm.render_node().ok_or(ENODEV)?,
            vram: gpu.memory.vram.total(),
            revision: gpu.hw.revision,
            pci_revision: gpu.hw.pci_revision,
            subsystem: gpu.hw.subsystem,
            firmware: info.firmware,
            serial: info.serial,
            atomics: info.atomics,
            completes_atomics: info.completes_atomics,
            link_mbs: info.link_mbs,
            numa: NumaNode::of(&gpu.hw.dev),
            peers: 0,
            hive: HivePlace::default(),
        };
        let amdgpu = kfd.amdgpu.as_ref();
        let link = amdgpu.map(|amdgpu| amdgpu.show(&gpu.hw.dev)).transpose()?;
        kfd.add(KfdNode {
            facts,
            gpu: gpu.clone(),
            drm: drm.clone(),
        })?;
        Ok(Self {
            kfd,
            gpu: gpu.clone(),
            _link: link,
        })
    }
}

impl Drop for PluggedGpu {
    fn drop(&mut self) {
        self.kfd.remove(&self.gpu);
    }
}
