// SPDX-License-Identifier: GPL-2.0
//! The memory of a process on one GPU: the acquired address space, and the buffers by handle.

use hw::pte::PageAccess;
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use crate::gpu::Gpu;
use crate::kern::drm::file::DrmFileRef;
use crate::kern::handles::HandleTable;
use crate::kern::ratelimit::dev_warn_ratelimited;
use crate::kern::uapi::alloc_flag as flag;
use crate::ledger::{LedgerHold, LedgerKind};
use crate::mem;
use crate::mem::account::MemoryClient;
use crate::mem::bo::{self, Bo, BoHandle, BoUsage, DrmDevice, RegisterRange};
use crate::mem::user_memory::UserMemoryTime;
use crate::mem::vm::{MapRequest, MappedPart, Vm};
use crate::render::file::{RenderFile, VmOwner};

/// The end of the handles that a saved buffer can have.
const MOST_NUMBERS: u32 = 1 << 20;

/// An acquired address space, and the open render file that it belongs to.
struct AcquiredVm {
    // Queues and buffers are gone when this is dropped.
    vm: Arc<Vm>,
    file: DrmFileRef<RenderFile>,
    _owner: VmOwner,
}

/// A buffer, and its range in all address spaces of the process if it has one. Dropping it unmaps
/// it.
struct ProcessBuffer {
    bo: BoHandle,
    range: Option<VaRange>,
    access: PageAccess,
    /// The flags with which ALLOC_MEMORY_OF_GPU makes such a buffer.
    flags: u32,
    mapped: bool,
    vm: Arc<Vm>,
    /// The address spaces on other GPUs in which it is mapped.
    peers: KVec<Arc<Vm>>,
    /// The render file through which the CPU may map it, if it may.
    file: Option<DrmFileRef<RenderFile>>,
}

/// The memory of a new buffer.
pub(crate) enum BufferSource {
    /// VRAM, in one run if it is to be contiguous and there is one.
    Vram { contiguous: bool },
    /// System memory.
    Gtt,
    /// The process's own memory from an address on, and when it has that.
    User(u64, UserMemoryTime),
    /// Registers of the GPU.
    Registers(RegisterRange),
}

/// A buffer to create.
pub(crate) struct NewBuffer {
    /// Its memory.
    pub(crate) source: BufferSource,
    /// Bytes.
    pub(crate) size: u64,
    /// Its range in the address spaces of the process, if it is to have one.
    pub(crate) range: Option<VaRange>,
    /// How the GPU uses it.
    pub(crate) usage: BoUsage,
    /// The flags of ALLOC_MEMORY_OF_GPU.
    pub(crate) flags: u32,
    /// The handle that it is to have on the GPU; otherwise a free one.
    pub(crate) number: Option<u32>,
}

/// A buffer in a list of all.
pub(super) struct ListedBuffer {
    /// Its handle on the GPU.
    pub(super) number: u32,
    /// The buffer.
    pub(super) bo: ARef<Bo>,
    /// Its range in the address spaces of the process, if it has one.
    pub(super) range: Option<VaRange>,
    /// The flags with which ALLOC_MEMORY_OF_GPU makes such a buffer.
    pub(super) flags: u32,
    /// Whether it is mapped on its GPU.
    pub(super) mapped: bool,
    /// The address spaces on other GPUs in which it is mapped.
    pub(super) peers: KVec<Arc<Vm>>,
    /// The offset for mapping it through the render file.
    pub(super) mmap_offset: u64,
}

/// A buffer to add, and the access of the process to it.
struct BufferRights {
    bo: BoHandle,
    /// Its range in the address spaces of the process, if it has one.
    range: Option<VaRange>,
    access: PageAccess,
    /// The flags of ALLOC_MEMORY_OF_GPU.
    flags: u32,
    /// The CPU may map it, through the render file.
    on_cpu: bool,
}

/// A buffer of a process, as the process names it.
pub(crate) struct AddedBuffer {
    /// Its handle on the GPU.
    pub(crate) number: u32,
    /// The offset for mapping it through the render file.
    pub(crate) mmap_offset: u64,
}

/// The buffers of a process on one GPU, and its address space there. Fields are dropped in this
/// order.
pub(crate) struct ProcessBuffers {
    buffers: HandleTable<ProcessBuffer>,
    acquired: Option<AcquiredVm>,
    counted: Option<LedgerHold>,
    ended: bool,
}

impl ProcessBuffers {
    /// No address space and no buffers.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        Self {
            buffers: HandleTable::new(),
            acquired: None,
            counted: Some(gpu.hw.ledger.hold(LedgerKind::Processes, 1)),
            ended: false,
        }
    }

    /// Whether no address space or buffer may be added any more.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Allows no further address space or buffer.
    pub(super) fn close(&mut self) {
        self.ended = true;
    }

    /// Unmaps the buffers, of this GPU or of another, from the process's address space on `gpu`,
    /// whose queues are gone. Bounded: one TLB flush per buffer.
    pub(super) fn unmap_on(&mut self, gpu: &Arc<mem::GpuMemory>) {
        for buffer in self.buffers.iter_mut() {
            if Arc::ptr_eq(buffer.vm.gpu(), gpu) {
                buffer.unmap_own();
            } else {
                buffer.unmap_peers(|vm| Arc::ptr_eq(vm.gpu(), gpu));
            }
        }
    }

    /// Releases everything. Bounded: one TLB flush per buffer and GPU.
    pub(super) fn release(&mut self) {
        self.ended = true;
        for mut buffer in self.buffers.remove_all() {
            buffer.unmap();
        }
        if let Some(acquired) = &self.acquired {
            acquired.vm.forget_range();
        }
        self.acquired = None;
        self.counted = None;
    }

    /// Acquires the address space of `file` for the process.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the process has that of another file, or if another process has this one;
    /// `ENOMEM` if there is no memory; `ENODEV` if the GPU is about to be removed; `EINTR` if the
    /// caller is killed.
    pub(crate) fn acquire(&mut self, file: DrmFileRef<RenderFile>) -> Result {
        if let Some(acquired) = &self.acquired {
            return if acquired.file.is_same(&file) {
                Ok(())
            } else {
                Err(EBUSY)
            };
        }
        let owner = file.data().own()?;
        file.data().join_evictor()?;
        self.acquired = Some(AcquiredVm {
            vm: file.data().vm().clone(),
            file,
            _owner: owner,
        });
        Ok(())
    }

    /// Creates the buffer `new` on the GPU of `drm`, with its address range if it is to have one,
    /// without mapping it.
    ///
    /// # Errors
    ///
    /// `ENODEV` if no address space is acquired; `ENOMEM` if there is no memory; those of
    /// [`bo::create`].
    pub(crate) fn alloc(&mut self, drm: &ARef<DrmDevice>, new: &NewBuffer) -> Result<AddedBuffer> {
        let (size, usage) = (new.size, new.usage);
        self.add(new.number, |client| {
            let bo = match &new.source {
                BufferSource::Vram { contiguous } => {
                    bo::create::vram(drm, client, size, usage, *contiguous)
                }
                BufferSource::Gtt => bo::create::gtt(drm, client, size, usage),
                &BufferSource::User(address, time) => {
                    bo::create::user(drm, client, (address, time), size, usage)
                }
                BufferSource::Registers(registers) => {
                    bo::create::registers(drm, client, size, registers.clone(), usage.access)
                }
            };
            let bo = BoHandle::new(bo?);
            let access = bo.access();
            Ok(BufferRights {
                bo,
                range: new.range,
                access,
                flags: new.flags,
                on_cpu: true,
            })
        })
    }

    /// Adds the result of `import`: a buffer that another process may have too, and its range if it
    /// is to have one. The process may read and execute the buffer, and write it if `writable` is
    /// set and the buffer is writable. The same holds for the CPU, except that
    /// it cannot map the buffer through the render file without write access.
    ///
    /// # Errors
    ///
    /// `ENODEV` and `ENOMEM` as for [`ProcessBuffers::alloc`]; those of `import`.
    pub(crate) fn import(
        &mut self,
        writable: bool,
        import: impl FnOnce() -> Result<(BoHandle, Option<VaRange>)>,
    ) -> Result<u32> {
        let added = self.add(None, |client| {
            let (bo, range) = import()?;
            bo.pay(client)?;
            let access = PageAccess {
                write: writable && bo.access().write,
                ..PageAccess::READ_WRITE.executable()
            };
            let is_vram = bo.is_vram() || bo.original().is_some();
            let kind = if is_vram { flag::VRAM } else { flag::GTT };
            let writable = if access.write { flag::WRITABLE } else { 0 };
            Ok(BufferRights {
                bo,
                range,
                access,
                flags: kind | writable | flag::EXECUTABLE,
                on_cpu: access.write,
            })
        });
        added.map(|added| added.number)
    }

    /// Adds the result of `make`, under the handle `wanted` or a free one.
    ///
    /// # Errors
    ///
    /// `ENODEV` if no address space is acquired; `ENOMEM` if there is no memory, or the handle is
    /// taken or too large; those of `make`.
    fn add(
        &mut self,
        wanted: Option<u32>,
        make: impl FnOnce(&Arc<MemoryClient>) -> Result<BufferRights>,
    ) -> Result<AddedBuffer> {
        let acquired = self.acquired.as_ref().ok_or(ENODEV)?;
        match wanted {
            Some(number) if number > MOST_NUMBERS || self.buffers.get(number).is_some() => {
                return Err(ENOMEM);
            }
            Some(_) => (),
            None => self.buffers.next().map(|_| ())?,
        }
        let BufferRights {
            bo,
            range,
            access,
            flags,
            on_cpu,
        } = make(acquired.vm.client())?;
        let mmap_offset = bo.mmap_offset()?;
        let file = on_cpu.then(|| acquired.file.clone());
        if let Some(file) = &file {
            bo.allow(file)?;
        }
        let buffer = ProcessBuffer {
            bo,
            range,
            access,
            flags,
            mapped: false,
            vm: acquired.vm.clone(),
            peers: KVec::new(),
            file,
        };
        let number = match wanted {
            Some(number) => {
                self.buffers.reserve_at(number).map_err(|_| ENOMEM)?;
                self.buffers.fill(number, buffer);
                number
            }
            None => self.buffers.insert(buffer)?,
        };
        Ok(AddedBuffer {
            number,
            mmap_offset,
        })
    }

    /// All buffers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn list(&self) -> Result<KVVec<ListedBuffer>> {
        let mut all = KVVec::new();
        for (number, buffer) in self.buffers.numbered() {
            let mut peers = KVec::new();
            for vm in &buffer.peers {
                peers.push(vm.clone(), GFP_KERNEL_ACCOUNT)?;
            }
            let listed = ListedBuffer {
                number,
                bo: (*buffer.bo).clone(),
                range: buffer.range,
                flags: buffer.flags,
                mapped: buffer.mapped,
                peers,
                mmap_offset: buffer.bo.mmap_offset()?,
            };
            all.push(listed, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(all)
    }

    /// The buffer of a handle, and the access of the process to it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown handle.
    pub(crate) fn bo(&mut self, handle: u32) -> Result<(ARef<Bo>, PageAccess)> {
        let buffer = self.buffer(handle)?;
        Ok(((*buffer.bo).clone(), buffer.access))
    }

    /// Removes a buffer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown handle; `EBUSY` while the buffer is mapped on any GPU.
    pub(crate) fn remove(&mut self, handle: u32) -> Result {
        let buffer = self.buffer(handle)?;
        if buffer.mapped || !buffer.peers.is_empty() {
            return Err(EBUSY);
        }
        drop(self.buffers.remove(handle));
        Ok(())
    }

    /// Maps a buffer on its GPU, for as long as `go_on` succeeds. No effect on a buffer that is
    /// mapped.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown handle or a buffer without a range; `EEXIST` or `EINVAL` if
    /// something else is mapped there; those of [`Vm::map_as`].
    pub(super) fn map(&mut self, handle: u32, request: &MapRequest<'_>) -> Result {
        let buffer = self.buffer(handle)?;
        let range = buffer.range.ok_or(EINVAL)?;
        if !buffer.mapped {
            let part = buffer.part((*buffer.bo).clone());
            buffer.vm.map_as(range, part, request)?;
            buffer.mapped = true;
        }
        Ok(())
    }

    /// Does the same for `vm`, the process's address space on another GPU, which stays bound for as
    /// long as the caller holds the lock of this memory.
    ///
    /// # Errors
    ///
    /// Those of [`ProcessBuffers::map`] and [`Bo::for_peer`].
    pub(super) fn map_peer(
        &mut self,
        handle: u32,
        vm: &Arc<Vm>,
        request: &MapRequest<'_>,
    ) -> Result {
        let buffer = self.buffer(handle)?;
        let range = buffer.range.ok_or(EINVAL)?;
        if !buffer.peers.iter().any(|peer| Arc::ptr_eq(peer, vm)) {
            buffer.peers.reserve(1, GFP_KERNEL_ACCOUNT)?;
            let bo = buffer.bo.for_peer(vm.drm(), vm.client())?;
            vm.map_as(range, buffer.part(bo), request)?;
            buffer.peers.push(vm.clone(), GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// Unmaps a buffer from its GPU. No effect on a buffer that is not mapped.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown handle; `EBUSY` if a queue uses the buffer.
    pub(super) fn unmap(&mut self, handle: u32) -> Result {
        let buffer = self.buffer(handle)?;
        if let Some(range) = buffer.range.filter(|_| buffer.mapped) {
            buffer.vm.unmap(range)?;
            buffer.mapped = false;
        }
        Ok(())
    }

    /// Does the same for `vm`, the process's address space on another GPU.
    ///
    /// # Errors
    ///
    /// Those of [`ProcessBuffers::unmap`].
    pub(super) fn unmap_peer(&mut self, handle: u32, vm: &Arc<Vm>) -> Result {
        let buffer = self.buffer(handle)?;
        let mapped = buffer.peers.iter().position(|peer| Arc::ptr_eq(peer, vm));
        if let Some((range, place)) = buffer.range.zip(mapped) {
            vm.unmap(range)?;
            let _ = buffer.peers.remove(place);
        }
        Ok(())
    }

    fn buffer(&mut self, handle: u32) -> Result<&mut ProcessBuffer> {
        self.buffers.get_mut(handle).ok_or(EINVAL)
    }
}

impl ProcessBuffer {
    /// The whole buffer, in the form in which `bo` gives access to it.
    fn part(&self, bo: ARef<Bo>) -> MappedPart {
        MappedPart {
            bo,
            offset: 0,
            access: self.access,
        }
    }

    /// Unmaps the buffer everywhere at the end of the process, whether or not this fails.
    fn unmap(&mut self) {
        self.unmap_own();
        self.unmap_peers(|_| true);
    }

    fn unmap_own(&mut self) {
        if core::mem::take(&mut self.mapped) {
            self.abandon(&self.vm);
        }
    }

    /// Unmaps the buffer from those address spaces on other GPUs that `which` selects.
    fn unmap_peers(&mut self, which: impl Fn(&Arc<Vm>) -> bool) {
        while let Some(place) = self.peers.iter().position(&which) {
            if let Ok(vm) = self.peers.remove(place) {
                self.abandon(&vm);
            }
        }
    }

    /// Unmaps the buffer from `vm`. Memory that a hung queue holds is released together with the
    /// queue.
    fn abandon(&self, vm: &Vm) {
        let Some(range) = self.range else { return };
        if let Err(error) = vm.abandon(range) {
            let start = range.start();
            dev_warn_ratelimited!(
                process vm.group().pid(),
                vm.gpu().hw.dev,
                "the buffer at {start:#x} of process {}, which ended, stays mapped until the GPU \
                 is unbound: {error:?}\n",
                vm.group().pid()
            );
        }
    }
}

impl Drop for ProcessBuffer {
    fn drop(&mut self) {
        self.unmap();
        if let Some(file) = &self.file {
            self.bo.revoke(file);
        }
    }
}
