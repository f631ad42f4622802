// SPDX-License-Identifier: GPL-2.0
//! `/sys/class/kfd/kfd/proc/<PID>/`: amdkfd's files about a process, as far as rkfd has the values;
//! in it `context_<N>/`, of the same kind, for each secondary process of the address space.
//! They exist from the first open of /dev/kfd to the end of the process's state, with files for
//! each GPU of the machine, whether the process uses it or not: rocm-smi gives up if one GPU has
//! none.
//!
//! Removing a folder or file waits for its readers, so showing a file takes at most spinlocks.

use core::fmt;

use hw::context_id::ContextId;
use hw::queue::QueueType;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex, SetOnce};
use kernel::time::Delta;

use crate::kern::class::ClassDevice;
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsFolder, SysfsName};
use crate::kern::params::SdmaMode;
use crate::mem::account::{MemoryClient, MemoryRegion};
use crate::mem::queue_group::QueueGroup;
use crate::mem::vm::Vm;

static PASID: SysfsName = SysfsName::new(c"pasid");
static VRAM: SysfsName = SysfsName::new(c"vram");
static SDMA: SysfsName = SysfsName::new(c"sdma");
static EVICTED_MS: SysfsName = SysfsName::new(c"evicted_ms");
static SIZE: SysfsName = SysfsName::new(c"size");
static TYPE: SysfsName = SysfsName::new(c"type");
static GPUID: SysfsName = SysfsName::new(c"gpuid");

/// `proc`: the folder of the processes' folders.
#[pin_data]
pub(crate) struct ProcessesFolder {
    /// The GPUs for which every process has files.
    #[pin]
    gpus: Mutex<KVec<GpuId>>,
    folder: SysfsFolder,
    _device: Arc<ClassDevice>,
}

/// `proc/<PID>`, or `proc/<PID>/context_<N>`. Dropped in this order.
#[pin_data]
pub(super) struct ProcessFolder {
    /// Held while files are created.
    #[pin]
    gpus: Mutex<KVec<ProcessGpuFiles>>,
    queues: SysfsFolder,
    folder: SysfsFolder,
    all: Arc<ProcessesFolder>,
    /// Of a secondary process, the folder of the primary one.
    _primary: Option<Arc<Self>>,
}

/// The files of a GPU in a process's folder.
struct ProcessGpuFiles {
    gpu: GpuId,
    counted: Arc<ProcessCounters>,
    _stats: SysfsFolder,
    _files: AddedFiles,
}

/// `proc/<PID>/queues/<queue>`.
pub(super) struct QueueFolder {
    _folder: SysfsFolder,
    size: Arc<RingSizeFile>,
    _process: Arc<ProcessFolder>,
}

/// A number in the format of most files.
struct DecimalFile(u64);

impl fmt::Display for DecimalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// The counters of a process on a GPU, once it has acquired an address space there; until then all
/// are 0.
struct ProcessCounters(SetOnce<(Arc<MemoryClient>, Arc<QueueGroup>)>);

impl ProcessCounters {
    /// The counter that `count` selects.
    fn get(&self, count: impl FnOnce(&MemoryClient, &QueueGroup) -> u64) -> DecimalFile {
        let counted = self.0.as_ref();
        DecimalFile(counted.map_or(0, |(client, group)| count(client, group)))
    }
}

/// Bytes of VRAM that a process has allocated.
struct VramFile(Arc<ProcessCounters>);

impl fmt::Display for VramFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get(|client, _| client.bytes(MemoryRegion::Vram));
        bytes.fmt(f)
    }
}

/// Microseconds in which SDMA engines had packets of a process to execute.
struct SdmaFile(Arc<ProcessCounters>);

impl fmt::Display for SdmaFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0.get(|_, group| micros(group.sdma().total()));
        time.fmt(f)
    }
}

/// Milliseconds for which a process's queues were evicted.
struct EvictedMs(Arc<ProcessCounters>);

impl fmt::Display for EvictedMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0.get(|_, group| micros(group.evicted()) / 1000);
        time.fmt(f)
    }
}

/// The microseconds of a time; 0 if it is negative.
fn micros(time: Delta) -> u64 {
    u64::try_from(time.as_nanos() / 1000).unwrap_or(0)
}

/// Bytes of a queue's ring. Like all files of a queue it has no newline at its end, as in amdkfd.
struct RingSizeFile(Atomic<u64>);

impl fmt::Display for RingSizeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.load(Relaxed))
    }
}

impl ProcessesFolder {
    /// Creates the folder, without processes, in that of `device`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: Arc<ClassDevice>) -> Result<Arc<Self>> {
        let folder = SysfsFolder::under_device(&device, c"proc", SysfsFiles::new())?;
        Arc::pin_init(
            pin_init!(Self {
                gpus <- new_mutex!(KVec::new(), "ProcessesFolder::gpus"),
                folder,
                _device: device,
            }),
            GFP_KERNEL,
        )
    }

    /// Creates the folder of the process `pid`, which has none yet, without files of GPUs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(self: &Arc<Self>, pid: i32, pasid: u16) -> Result<Arc<ProcessFolder>> {
        let name = CString::try_from_fmt(fmt!("{pid}"))?;
        ProcessFolder::new(self, None, &name, pasid)
    }

    /// Processes that are added from now on show the GPU `gpu`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn show(&self, gpu: GpuId) -> Result {
        Ok(self.gpus.lock().push(gpu, GFP_KERNEL)?)
    }

    /// Processes that are added from now on do not show the GPU any more.
    pub(super) fn hide(&self, gpu: GpuId) {
        self.gpus.lock().retain(|&mut other| other != gpu);
    }
}

/// A change that a process's folder needs to show the present GPUs.
#[derive(Clone, Copy)]
pub(super) enum FolderChange {
    /// It has no files of this GPU.
    Lacks(GpuId),
    /// It has files of this GPU, which is not shown any more.
    Keeps(GpuId),
}

impl ProcessFolder {
    /// Creates the folder `name` of a process, without files of GPUs: in that of its primary
    /// process, or else in `all`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(
        all: &Arc<ProcessesFolder>,
        primary: Option<&Arc<Self>>,
        name: &CStr,
        pasid: u16,
    ) -> Result<Arc<Self>> {
        let parent = primary.map_or(&all.folder, |primary| &primary.folder);
        let files = SysfsFiles::new().with(&PASID, &DecimalFile(pasid.into()))?;
        let folder = parent.folder(name, files)?;
        let queues = folder.folder(c"queues", SysfsFiles::new())?;
        Arc::pin_init(
            pin_init!(Self {
                gpus <- new_mutex!(KVec::new(), "ProcessFolder::gpus"),
                queues,
                folder,
                all: all.clone(),
                _primary: primary.cloned(),
            }),
            GFP_KERNEL,
        )
    }

    /// Creates the folder of the secondary process `context` of this primary one, without files of
    /// GPUs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(self: &Arc<Self>, context: ContextId, pasid: u16) -> Result<Arc<Self>> {
        let name = CString::try_from_fmt(fmt!("context_{}", context.get()))?;
        Self::new(&self.all, Some(self), &name, pasid)
    }

    /// A difference between the GPUs that the folder shows and those to be shown, if there is any.
    /// Allocates nothing.
    pub(super) fn differs(&self) -> Option<FolderChange> {
        let (wanted, has) = (self.all.gpus.lock(), self.gpus.lock());
        let lacks = |gpu: &&GpuId| !has.iter().any(|files| files.gpu == **gpu);
        if let Some(&gpu) = wanted.iter().find(lacks) {
            return Some(FolderChange::Lacks(gpu));
        }
        let keeps = |files: &&ProcessGpuFiles| !wanted.contains(&files.gpu);
        Some(FolderChange::Keeps(has.iter().find(keeps)?.gpu))
    }

    /// Creates or removes the files in question.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn adjust(&self, differs: FolderChange) -> Result {
        match differs {
            FolderChange::Lacks(gpu) => self.add_gpu(gpu),
            FolderChange::Keeps(gpu) => {
                self.remove_gpu(gpu);
                Ok(())
            }
        }
    }

    /// Adds the files of the GPU `gpu`, which has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_gpu(&self, gpu: GpuId) -> Result {
        let number = gpu.get();
        let counted = Arc::new(ProcessCounters(SetOnce::new()), GFP_KERNEL)?;
        let vram = Arc::new(VramFile(counted.clone()), GFP_KERNEL)?;
        let vram_name = CString::try_from_fmt(fmt!("vram_{number}"))?;
        let mut files = SysfsFiles::new().with_live_as(&VRAM, vram_name, vram)?;
        if SdmaMode::get().has_jobs() {
            let sdma = Arc::new(SdmaFile(counted.clone()), GFP_KERNEL)?;
            let name = CString::try_from_fmt(fmt!("sdma_{number}"))?;
            files = files.with_live_as(&SDMA, name, sdma)?;
        }
        let evicted = Arc::new(EvictedMs(counted.clone()), GFP_KERNEL)?;
        let stats = SysfsFiles::new().with_live(&EVICTED_MS, evicted)?;
        let stats_name = CString::try_from_fmt(fmt!("stats_{number}"))?;
        let mut gpus = self.gpus.lock();
        gpus.push(
            ProcessGpuFiles {
                gpu,
                counted,
                _stats: self.folder.folder(&stats_name, stats)?,
                _files: self.folder.add(files)?,
            },
            GFP_KERNEL,
        )?;
        Ok(())
    }

    /// The process has acquired `vm` on the GPU `gpu`: its counters are shown from now on. Further
    /// calls have no effect while files of that GPU exist.
    pub(super) fn acquired(&self, gpu: GpuId, vm: &Vm) {
        let gpus = self.gpus.lock();
        if let Some(files) = gpus.iter().find(|files| files.gpu == gpu) {
            let counted = (vm.client().clone(), vm.group().clone());
            let _ = files.counted.0.populate(counted);
        }
    }

    /// Removes the files of the GPU `gpu`, if there are any, and waits for their readers.
    pub(super) fn remove_gpu(&self, gpu: GpuId) {
        let mut gpus = self.gpus.lock();
        gpus.retain(|files| files.gpu != gpu);
    }

    /// Creates the folder of the queue `id`, of `kind` on the GPU `gpu`, with a ring of `size`
    /// bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_queue(
        self: &Arc<Self>,
        id: u32,
        kind: QueueType,
        gpu: GpuId,
        size: u64,
    ) -> Result<QueueFolder> {
        let size = Arc::new(RingSizeFile(Atomic::new(size)), GFP_KERNEL)?;
        let files = SysfsFiles::with_capacity(3)?
            .with_live(&SIZE, size.clone())?
            .with_number(&TYPE, kind as u64)?
            .with_number(&GPUID, gpu.get().into())?;
        let name = CString::try_from_fmt(fmt!("{id}"))?;
        Ok(QueueFolder {
            _folder: self.queues.folder(&name, files)?,
            size,
            _process: self.clone(),
        })
    }
}

impl QueueFolder {
    /// The queue has a new ring of `size` bytes.
    pub(super) fn resize(&self, size: u64) {
        self.size.0.store(size, Relaxed);
    }
}
