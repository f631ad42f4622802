// SPDX-License-Identifier: GPL-2.0
//! The state of a process on one GPU: address space, buffers, doorbells.

use hw::debug::{DebugControls, WatchPoint, WaveControls, WATCH_POINTS};
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
use crate::mem::pasid::Pasid;
use crate::mem::user_memory::UserMemoryTime;
use crate::mem::vm::{MapRequest, Vm};
use crate::queue::compute::TrapPage;
use crate::queue::resources::QueueResources;
use crate::queue::watch_points::WatchPointHold;
use crate::render::file::RenderFile;

/// A process's context on a GPU.
#[pin_data]
pub(crate) struct GpuContext {
    gpu: Arc<Gpu>,
    pid: i32,
    pasid: Arc<Pasid>,
    space: AddressSpace,
    /// No further mappings on the GPU are allowed: a copy of the flag in `memory`, for code that
    /// holds another context's memory.
    closed: AtomicFlag,
    /// Held while buffers are created and mapped; outside the mmap lock.
    #[pin]
    memory: KillableMutex<ProcessBuffers>,
    /// The acquired address space, for code that must not wait for `memory`: a thread that
    /// allocates VRAM holds that for as long as other processes have their time slices there.
    vm: SetOnce<Arc<Vm>>,
    /// Inside the mmap lock, since mmap takes it.
    #[pin]
    resources: Mutex<LazyState<Arc<QueueResources>>>,
    /// The trap handler of its shaders. Held while that is created and changed; outside
    /// `Vm::state`.
    #[pin]
    trap: Mutex<LazyState<Arc<TrapPage>>>,
    /// What the debugger has set; inside `trap`.
    #[pin]
    debug: Mutex<DebugState>,
    registers: Arc<RegisterPage>,
}

/// What the debugger of the process has set on the GPU.
struct DebugState {
    /// The trap handler is to know of it.
    is_shown: bool,
    controls: DebugControls,
    /// The watch points that it has.
    holds: [Option<WatchPointHold>; WATCH_POINTS],
}

/// A value that is made on first use.
enum LazyState<T> {
    /// Not made yet.
    Not,
    Has(T),
    /// The process ended.
    Ended,
}

impl<T: Clone> LazyState<T> {
    /// The value, made by `make` on first use.
    ///
    /// # Errors
    ///
    /// `ENODEV` at the end; errors of `make`.
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

    /// Ends the value's use, and returns it if it was made.
    fn end(&mut self) -> Option<T> {
        match core::mem::replace(self, Self::Ended) {
            Self::Has(has) => Some(has),
            Self::Not | Self::Ended => None,
        }
    }
}

impl GpuContext {
    /// An empty context on `gpu` of the process `pid`, `pasid`, of `space`. Whether its
    /// trap handler is to know of a debugger, and what that has set of waves, is `debug`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        pid: i32,
        pasid: &Arc<Pasid>,
        space: &AddressSpace,
        debug: (bool, WaveControls),
    ) -> Result<Arc<Self>> {
        let (is_shown, waves) = debug;
        let debug = DebugState {
            is_shown,
            controls: DebugControls {
                waves,
                ..DebugControls::default()
            },
            holds: Default::default(),
        };
        let registers = RegisterPage::new(gpu, pasid.get())?;
        Arc::pin_init(
            pin_init!(Self {
                gpu: gpu.clone(),
                pid,
                pasid: pasid.clone(),
                space: space.clone(),
                closed: AtomicFlag::new(false),
                memory <- KillableMutex::new(
                    ProcessBuffers::new(gpu),
                    c"GpuContext::memory",
                    kernel::static_lock_class!()
                ),
                vm: SetOnce::new(),
                resources <- kernel::new_mutex!(LazyState::Not, "GpuContext::resources"),
                trap <- kernel::new_mutex!(LazyState::Not, "GpuContext::trap"),
                debug <- kernel::new_mutex!(debug, "GpuContext::debug"),
                registers,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The GPU.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Whether this is a context on `gpu`.
    pub(super) fn is_on(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    /// Runs `f` on the memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the process or the GPU is at its end; `EINTR` when the caller is killed while
    /// another thread holds the memory: that may take as long as a search for buffer space.
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

    /// Maps a buffer of this GPU to the GPU of `on`, of the same process, which has memory of its
    /// own at that `time`.
    ///
    /// # Errors
    ///
    /// `ENODEV` before ACQUIRE_VM of either, or at the end; see [`ProcessBuffers::map`] and
    /// [`ProcessBuffers::map_peer`].
    pub(crate) fn map(&self, handle: u32, on: &Self, time: UserMemoryTime) -> Result {
        if core::ptr::eq(self, on) {
            let go_on = &|| self.check_alive();
            return self.with_memory(|memory| memory.map(handle, &MapRequest { time, go_on }));
        }
        let vm = on.vm()?;
        self.with_memory(|memory| {
            // The thread that closes `on` looks for its mappings after that, here too: until then
            // the GPU stays.
            let go_on = || self.check_alive().and(on.check_alive());
            go_on()?;
            let go_on = &go_on;
            memory.map_peer(handle, &vm, &MapRequest { time, go_on })
        })
    }

    /// Unmaps a buffer of this GPU from the GPU of `on`, of the same process.
    ///
    /// # Errors
    ///
    /// `ENODEV` as [`GpuContext::map`]; see [`ProcessBuffers::unmap`].
    pub(crate) fn unmap(&self, handle: u32, on: &Self) -> Result {
        if core::ptr::eq(self, on) {
            return self.with_memory(|memory| memory.unmap(handle));
        }
        let vm = on.vm()?;
        self.with_memory(|memory| memory.unmap_peer(handle, &vm))
    }

    /// ACQUIRE_VM: see [`ProcessBuffers::acquire`]. From then on `folder` shows its counters.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a file of another GPU.
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
            // While the GPU stays: after it went and came back, files of the same name may exist.
            if let Some(folder) = folder {
                folder.acquired(self.gpu.hw.id, &vm);
            }
            Ok(())
        })?;
        // Each call that gets here would set the same value.
        let _ = self.vm.populate(vm.clone());
        vm.client().belongs_to(self.pasid.get());
        vm.group().belongs_to(self.pid, &self.pasid, &self.space);
        Ok(())
    }

    /// The counters of the address space, if one was acquired.
    pub(crate) fn client(&self) -> Option<&MemoryClient> {
        self.vm.as_ref().map(|vm| &**vm.client())
    }

    /// The address space. Waits for nothing.
    ///
    /// # Errors
    ///
    /// `ENODEV` before ACQUIRE_VM, and when the process or the GPU is at its end.
    pub(crate) fn vm(&self) -> Result<Arc<Vm>> {
        self.check_alive()?;
        self.vm.as_ref().cloned().ok_or(ENODEV)
    }

    /// The doorbells and other resources of the process's queues, created by the first call.
    ///
    /// # Errors
    ///
    /// `ENODEV` at the end; `ENOMEM`.
    pub(crate) fn queue_resources(&self) -> Result<Arc<QueueResources>> {
        let open = || self.gpu.queues.open(self.pid, self.pasid.get());
        self.resources.lock().get(open)
    }

    /// The trap handler of the process's shaders, created by the first call.
    ///
    /// # Errors
    ///
    /// `ENODEV` before ACQUIRE_VM and at the end; `ENOMEM`.
    pub(crate) fn trap(&self) -> Result<Arc<TrapPage>> {
        let vm = self.vm()?;
        let mut trap = self.trap.lock();
        trap.get(|| self.new_trap(&vm))
    }

    /// A trap handler for `vm`. The caller holds `trap`.
    fn new_trap(&self, vm: &Arc<Vm>) -> Result<Arc<TrapPage>> {
        let page = TrapPage::new(vm)?;
        let debug = self.debug.lock();
        page.show_debugger(debug.is_shown)?;
        page.set_debug_controls(debug.controls);
        Ok(page)
    }

    /// Lets the trap handler, also one that is made later, know whether there is a debugger.
    pub(super) fn show_debugger(&self, on: bool) {
        let trap = self.trap.lock();
        self.debug.lock().is_shown = on;
        if let LazyState::Has(page) = &*trap {
            // A page that is there has the word.
            let _ = page.show_debugger(on);
        }
    }

    /// Sets how waves are launched, from when the queues come to the hardware the next time.
    pub(super) fn set_wave_controls(&self, waves: WaveControls) {
        self.change_controls(|debug| debug.controls.waves = waves);
    }

    /// Watches memory, from when the queues come to the hardware the next time. Returns the number
    /// of the point.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if processes have all of them.
    pub(super) fn watch(&self, point: WatchPoint) -> Result<u32> {
        let hold = self.gpu.queues.watch_points.take()?;
        let number = hold.number();
        self.gpu.hw.gfx.set_watch_address(number, point);
        let control = point.control(self.gpu.hw.asic.gfx.watch);
        self.change_controls(|debug| {
            if let (Some(word), Some(place)) = (
                debug.controls.watches.get_mut(number),
                debug.holds.get_mut(number),
            ) {
                *word = control;
                *place = Some(hold);
            }
        });
        Ok(u32::try_from(number)?)
    }

    /// Does not watch memory at point `number` any more. What is returned has to be kept until the
    /// queues have come to the hardware without it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process does not have the point.
    pub(super) fn unwatch(&self, number: usize) -> Result<WatchPointHold> {
        let mut hold = None;
        self.change_controls(|debug| {
            if let (Some(word), Some(place)) = (
                debug.controls.watches.get_mut(number),
                debug.holds.get_mut(number),
            ) {
                *word = 0;
                hold = place.take();
            }
        });
        hold.ok_or(EINVAL)
    }

    fn change_controls(&self, change: impl FnOnce(&mut DebugState)) {
        let trap = self.trap.lock();
        let mut debug = self.debug.lock();
        change(&mut debug);
        if let LazyState::Has(page) = &*trap {
            page.set_debug_controls(debug.controls);
        }
    }

    /// SET_TRAP_HANDLER: sets the address of the process's own handler.
    ///
    /// # Errors
    ///
    /// `ENODEV` before ACQUIRE_VM and at the end; `ENOMEM`.
    pub(crate) fn set_trap_handler(&self, second: SecondLevelTrap) -> Result {
        let vm = self.vm()?;
        let mut trap = self.trap.lock();
        trap.get(|| self.new_trap(&vm))?.set_second_level(second)
    }

    /// The address of the process's own handler.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn trap_handler(&self) -> Result<SecondLevelTrap> {
        match &*self.trap.lock() {
            LazyState::Has(page) => page.second_level(),
            LazyState::Not | LazyState::Ended => Ok(SecondLevelTrap::default()),
        }
    }

    /// The offset of the page of flush registers in the file of KFD.
    pub(crate) fn registers_offset(&self) -> u64 {
        self.registers.mmap_offset()
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

    /// Refuses new use. Existing state stays until [`GpuContext::release`].
    pub(super) fn close(&self) {
        self.closed.store(true, Release);
        self.memory.lock().close();
    }

    /// Whether the process is losing the GPU: nothing can be added any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Checks that the process is not losing the GPU: the thread that closes the context waits for
    /// the holder of its memory.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is.
    fn check_alive(&self) -> Result {
        if self.is_closed() {
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Unmaps the process's buffers of this GPU from its address space on the GPU of `on`, which is
    /// closed. The process's queues there must be gone.
    pub(super) fn unmap_on(&self, on: &Self) {
        self.memory.lock().unmap_on(&on.gpu.memory);
    }

    /// Releases everything. The process's queues on this GPU must be gone, and so must the mappings
    /// of other GPUs' buffers here.
    pub(super) fn release(&self) {
        // The address space outlives its VMIDs.
        self.gpu.queues.slots.wait_settled(Some(self.pasid.get()));
        let trap = self.trap.lock().end();
        drop(trap);
        let holds = core::mem::take(&mut self.debug.lock().holds);
        drop(holds);
        self.memory.lock().release();
        let resources = self.resources.lock().end();
        if let Some(resources) = resources {
            resources.close();
        }
        self.registers.close();
    }
}
