// SPDX-License-Identifier: GPL-2.0
//! What a process has of one GPU: its address space, its buffers, its doorbells.

use hw::trap::SecondLevelTrap;
use hw::va::PAGE_SIZE;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, AtomicFlag, Release};
use kernel::sync::{Arc, Mutex, SetOnce};

use super::memory::ProcessBuffers;
use super::registers::RegisterPage;
use super::sysfs::ProcessFolder;
use crate::gpu::Gpu;
use crate::kern::drm::file::DrmFileRef;
use crate::kern::killable::KillableMutex;
use crate::kern::mm_exit::AddressSpace;
use crate::mem::account::MemoryClient;
use crate::mem::bo;
use crate::mem::vm::Vm;
use crate::queue::compute::TrapPage;
use crate::queue::resources::QueueResources;
use crate::render::file::RenderFile;

/// A process's part of a GPU.
#[pin_data]
pub(crate) struct GpuContext {
    gpu: Arc<Gpu>,
    pid: i32,
    pasid: u16,
    space: AddressSpace,
    /// Nothing may be mapped on the GPU any more: as `memory` says, for who has another context's.
    closed: AtomicFlag,
    /// Held while buffers are made and mapped; outside the mmap lock.
    #[pin]
    memory: KillableMutex<ProcessBuffers>,
    /// What is counted of the acquired address space: for who only looks, and need not wait until memory was found for a buffer.
    client: SetOnce<Arc<MemoryClient>>,
    /// Inside the mmap lock: mmap needs it.
    #[pin]
    resources: Mutex<LazyState<Arc<QueueResources>>>,
    /// The trap handler of its shaders. Held while it is made and changed; outside `Vm::state`.
    #[pin]
    trap: Mutex<LazyState<Arc<TrapPage>>>,
    registers: Arc<RegisterPage>,
}

/// What a process gets when it first needs it.
enum LazyState<T> {
    /// It has not yet.
    Not,
    Has(T),
    /// It ended.
    Ended,
}

impl<T: Clone> LazyState<T> {
    /// What it needs, made by `make` if it is the first time. ENODEV at the end; errors of `make`.
    fn get(&mut self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        match self {
            Self::Has(has) => Ok(has.clone()),
            Self::Ended => Err(ENODEV),
            Self::Not => {
                let made = make()?;
                *self = Self::Has(made.clone());
                Ok(made)
            }
        }
    }

    /// The process ended: it needs nothing any more.
    fn end(&mut self) -> Option<T> {
        match core::mem::replace(self, Self::Ended) {
            Self::Has(has) => Some(has),
            Self::Not | Self::Ended => None,
        }
    }
}

impl GpuContext {
    /// A context of `gpu`, of the process `pid`, `pasid`, of `space`, with nothing in it. ENOMEM.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        pid: i32,
        pasid: u16,
        space: &AddressSpace,
    ) -> Result<Arc<Self>> {
        let registers = RegisterPage::new(gpu, pasid)?;
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                pid,
                pasid,
                space: space.clone(),
                closed: AtomicFlag::new(false),
                memory <- KillableMutex::new(
                    ProcessBuffers::new(gpu),
                    c"Context::memory",
                    kernel::static_lock_class!()
                ),
                client: SetOnce::new(),
                resources <- kernel::new_mutex!(LazyState::Not, "Context::doorbells"),
                trap <- kernel::new_mutex!(LazyState::Not, "Context::trap"),
                registers,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Whether it is `gpu`'s.
    pub(super) fn is_on(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    /// Runs `f` on the memory. ENODEV when the process or the GPU is at its end, EINTR when the caller is killed while another thread has it: that
    /// may take as long as room for a buffer takes to find.
    pub(crate) fn with_memory<T>(
        &self,
        f: impl FnOnce(&mut ProcessBuffers) -> Result<T>,
    ) -> Result<T> {
        let mut memory = self.memory.lock_killable()?;
        if memory.is_ended() {
            return Err(ENODEV);
        }
        f(&mut memory)
    }

    /// Maps a buffer of this GPU's to that of `on`, of the same process. ENODEV before ACQUIRE_VM of either, or at the end; see
    /// [`ProcessBuffers::map`] and [`ProcessBuffers::map_peer`].
    pub(crate) fn map(&self, handle: u32, on: &Self) -> Result {
        if core::ptr::eq(self, on) {
            return self.with_memory(|memory| memory.map(handle, &|| self.check_alive()));
        }
        let vm = on.vm()?;
        self.with_memory(|memory| {
            // Who closes it looks after that for what is mapped on it, here too: until then the GPU stays.
            let go_on = || self.check_alive().and(on.check_alive());
            go_on()?;
            memory.map_peer(handle, &vm, &go_on)
        })
    }

    /// Unmaps a buffer of this GPU's from that of `on`, of the same process. ENODEV as [`GpuContext::map`]; see [`ProcessBuffers::unmap`].
    pub(crate) fn unmap(&self, handle: u32, on: &Self) -> Result {
        if core::ptr::eq(self, on) {
            return self.with_memory(|memory| memory.unmap(handle));
        }
        let vm = on.vm()?;
        self.with_memory(|memory| memory.unmap_peer(handle, &vm))
    }

    /// ACQUIRE_VM: see [`ProcessBuffers::acquire`]. What is counted of it is shown in `folder` from then on. EINVAL for a file of another GPU.
    pub(super) fn acquire(
        &self,
        file: DrmFileRef<RenderFile>,
        folder: Option<Arc<ProcessFolder>>,
    ) -> Result {
        if !Arc::ptr_eq(file.data().vm().gpu(), &self.gpu.memory) {
            return Err(EINVAL);
        }
        let vm = file.data().vm().clone();
        self.with_memory(|memory| {
            memory.acquire(file)?;
            // While the GPU stays: files of the same name may be those of its next time.
            if let Some(folder) = folder {
                folder.acquired(self.gpu.hw.id, &vm);
            }
            Ok(())
        })?;
        // The same for each call that gets here.
        let _ = self.client.populate(vm.client().clone());
        vm.client().belongs_to(self.pasid);
        vm.group().belongs_to(self.pid, self.pasid, &self.space);
        Ok(())
    }

    /// What is counted of the address space, if one was acquired.
    pub(crate) fn client(&self) -> Option<&MemoryClient> {
        self.client.as_ref().map(|client| &**client)
    }

    /// The address space. ENODEV before ACQUIRE_VM.
    pub(crate) fn vm(&self) -> Result<Arc<Vm>> {
        self.with_memory(|memory| memory.vm().cloned())
    }

    /// Returns the process's doorbells and other resources of its queues, made by the first call.
    ///
    /// # Errors
    ///
    /// `ENODEV` at the end; `ENOMEM`.
    pub(crate) fn queue_resources(&self) -> Result<Arc<QueueResources>> {
        let open = || self.gpu.queues.open(self.pid, self.pasid);
        self.resources.lock().get(open)
    }

    /// The trap handler of the process's shaders, made with the first call. ENODEV before ACQUIRE_VM and at the end, ENOMEM.
    pub(crate) fn trap(&self) -> Result<Arc<TrapPage>> {
        let vm = self.vm()?;
        self.trap.lock().get(|| TrapPage::new(&vm))
    }

    /// SET_TRAP_HANDLER: where the process's own handler is. ENODEV before ACQUIRE_VM and at the end, ENOMEM.
    pub(crate) fn set_trap_handler(&self, second: SecondLevelTrap) -> Result {
        let vm = self.vm()?;
        let mut trap = self.trap.lock();
        trap.get(|| TrapPage::new(&vm))?.set_second_level(second)
    }

    /// The page of flush registers as the GPU reaches it.
    pub(crate) fn flush_registers(&self) -> Result<bo::RegisterRange> {
        let bar = self.gpu.hw.hdp.page();
        Ok(bo::RegisterRange {
            bar: bar.clone(),
            run: bar.part(0, PAGE_SIZE)?,
            _owner: None,
        })
    }

    /// Maps the page of flush registers at `vma`, see [`RegisterPage::mmap`].
    pub(crate) fn mmap_registers(&self, vma: &VmaNew) -> Result {
        self.registers.mmap(vma)
    }

    /// Refuses new use; what is there stays until [`GpuContext::release`].
    pub(super) fn close(&self) {
        self.closed.store(true, Release);
        self.memory.lock().close();
    }

    /// Whether the process is losing the GPU: nothing can be added any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// ENODEV when the process is losing the GPU: who closes it waits for who has its memory.
    fn check_alive(&self) -> Result {
        if self.is_closed() {
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Takes the process's buffers of this GPU out of its address space on that of `on`, which is closed. The process's queues there
    /// must be gone.
    pub(super) fn unmap_on(&self, on: &Self) {
        self.memory.lock().unmap_on(&on.gpu.memory);
    }

    /// Gives everything back. The process's queues on this GPU must be gone, and what of other GPUs was mapped here.
    pub(super) fn release(&self) {
        let trap = self.trap.lock().end();
        drop(trap);
        self.memory.lock().release();
        let resources = self.resources.lock().end();
        if let Some(resources) = resources {
            resources.close();
        }
        self.registers.close();
    }
}
