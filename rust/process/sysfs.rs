// SPDX-License-Identifier: GPL-2.0
//! `/sys/class/kfd/kfd/proc/<PID>/`: what amdkfd shows there of a process, as far as it is known. From the first open of /dev/kfd
//! to the end of what the process has; a GPU's files from ACQUIRE_VM on.
//!
//! A folder or file that goes waits for those who read it, so what they display takes spinlocks at most.

use core::fmt;

use hw::queue::QueueType;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

use crate::kern::class::ClassDevice;
use crate::kern::kobject::{FileName, Files, Folder, MoreFiles};
use crate::kern::params;
use crate::mem::account::{Client, Region};
use crate::mem::group::Group;
use crate::mem::vm::Vm;

static PASID: FileName = FileName::new(c"pasid");
static VRAM: FileName = FileName::new(c"vram");
static SDMA: FileName = FileName::new(c"sdma");
static EVICTED_MS: FileName = FileName::new(c"evicted_ms");
static SIZE: FileName = FileName::new(c"size");
static TYPE: FileName = FileName::new(c"type");
static GPUID: FileName = FileName::new(c"gpuid");

/// `proc`: the folder of the processes' folders.
pub(crate) struct Processes {
    folder: Folder,
    _device: Arc<ClassDevice>,
}

/// `proc/<PID>`.
pub(super) struct ProcessFolder {
    queues: Folder,
    folder: Folder,
    _all: Arc<Processes>,
}

/// The files of a GPU in a process's folder.
pub(super) struct GpuFiles {
    _stats: Folder,
    _files: MoreFiles,
    _process: Arc<ProcessFolder>,
}

/// `proc/<PID>/queues/<queue>`.
pub(super) struct QueueFolder {
    _folder: Folder,
    size: Arc<Size>,
    _process: Arc<ProcessFolder>,
}

/// A number as most files have it.
struct Number(u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// Bytes of VRAM that a process asked for.
struct Vram(Arc<Client>);

impl fmt::Display for Vram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Number(self.0.bytes(Region::Vram)).fmt(f)
    }
}

/// Microseconds for which engines of SDMA had packets of a process to do.
struct Sdma(Arc<Group>);

impl fmt::Display for Sdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.sdma().total().as_nanos() / 1000)
    }
}

/// Milliseconds for which a process's queues were kept off the hardware.
struct EvictedMs(Arc<Group>);

impl fmt::Display for EvictedMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.evicted().as_millis())
    }
}

/// Bytes of a queue's ring. Like all files of a queue without the end of a line, as amdkfd has them.
struct Size(Atomic<u64>);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.load(Relaxed))
    }
}

impl Processes {
    /// The folder, without processes, in that of `device`. ENOMEM.
    pub(crate) fn new(device: Arc<ClassDevice>) -> Result<Arc<Self>> {
        let all = Self {
            folder: Folder::under_device(&device, c"proc", Files::new())?,
            _device: device,
        };
        Ok(Arc::new(all, GFP_KERNEL)?)
    }

    /// The folder of the process `pid`, which has none yet. ENOMEM.
    pub(super) fn add(self: &Arc<Self>, pid: i32, pasid: u16) -> Result<Arc<ProcessFolder>> {
        let name = CString::try_from_fmt(fmt!("{pid}"))?;
        let files = Files::new().with(&PASID, &Number(pasid.into()))?;
        let folder = self.folder.folder(&name, files)?;
        let process = ProcessFolder {
            queues: folder.folder(c"queues", Files::new())?,
            folder,
            _all: self.clone(),
        };
        Ok(Arc::new(process, GFP_KERNEL)?)
    }
}

impl ProcessFolder {
    /// The files of the GPU `gpu`, of which the process has acquired `vm`. ENOMEM.
    pub(super) fn add_gpu(self: &Arc<Self>, gpu: GpuId, vm: &Vm) -> Result<GpuFiles> {
        let gpu = gpu.get();
        let vram = Arc::new(Vram(vm.client().clone()), GFP_KERNEL)?;
        let vram_name = CString::try_from_fmt(fmt!("vram_{gpu}"))?;
        let mut files = Files::new().with_live_as(&VRAM, vram_name, vram)?;
        if params::is_sdma_scheduled() {
            let sdma = Arc::new(Sdma(vm.group().clone()), GFP_KERNEL)?;
            let name = CString::try_from_fmt(fmt!("sdma_{gpu}"))?;
            files = files.with_live_as(&SDMA, name, sdma)?;
        }
        let evicted = Arc::new(EvictedMs(vm.group().clone()), GFP_KERNEL)?;
        let stats = Files::new().with_live(&EVICTED_MS, evicted)?;
        let stats_name = CString::try_from_fmt(fmt!("stats_{gpu}"))?;
        Ok(GpuFiles {
            _stats: self.folder.folder(&stats_name, stats)?,
            _files: self.folder.add(files)?,
            _process: self.clone(),
        })
    }

    /// The folder of the queue `id`, of `kind` on the GPU `gpu`, with a ring of `size` bytes. ENOMEM.
    pub(super) fn add_queue(
        self: &Arc<Self>,
        id: u32,
        kind: QueueType,
        gpu: GpuId,
        size: u64,
    ) -> Result<QueueFolder> {
        let size = Arc::new(Size(Atomic::new(size)), GFP_KERNEL)?;
        let files = Files::with_capacity(3)?
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
    /// The queue has another ring, of `size` bytes.
    pub(super) fn resize(&self, size: u64) {
        self.size.0.store(size, Relaxed);
    }
}
