// SPDX-License-Identifier: GPL-2.0
//! The memory of a process on one GPU: the address space that it acquired, and its buffers by handle.

use hw::pte::Access;
use hw::va::VaRange;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use super::handles::Handles;
use crate::gpu::Gpu;
use crate::kern::drm::file::FileRef;
use crate::ledger::{Hold, Kind};
use crate::mem::account::Client;
use crate::mem::bo::Bo;
use crate::mem::vm::{Part, Vm};
use crate::render::file::{File, Owner};

/// An acquired address space, and the open render file that it is of.
struct Acquired {
    // Queues and buffers are gone by then.
    vm: Arc<Vm>,
    file: FileRef<File>,
    _owner: Owner,
}

/// A buffer, and its place in the address space if it has one. Dropping it unmaps it.
struct Buffer {
    bo: ARef<Bo>,
    range: Option<VaRange>,
    access: Access,
    mapped: bool,
    vm: Arc<Vm>,
    /// The file that may map it for the CPU, if one may.
    file: Option<FileRef<File>>,
}

/// See the module. Dropped in this order.
pub(crate) struct Memory {
    buffers: Handles<Buffer>,
    acquired: Option<Acquired>,
    counted: Option<Hold>,
    ended: bool,
}

impl Memory {
    /// Nothing.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        Self {
            buffers: Handles::new(),
            acquired: None,
            counted: Some(gpu.hw.ledger.hold(Kind::Processes, 1)),
            ended: false,
        }
    }

    /// Whether nothing may come in any more.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Lets nothing in any more.
    pub(super) fn close(&mut self) {
        self.ended = true;
    }

    /// Gives everything back. Bounded: one TLB flush a buffer.
    pub(super) fn release(&mut self) {
        self.ended = true;
        for mut buffer in self.buffers.take_all() {
            buffer.unmap();
        }
        if let Some(acquired) = &self.acquired {
            acquired.vm.settle();
        }
        self.acquired = None;
        self.counted = None;
    }

    /// The address space. ENODEV if none is acquired.
    pub(super) fn vm(&self) -> Result<&Arc<Vm>> {
        self.acquired
            .as_ref()
            .map(|acquired| &acquired.vm)
            .ok_or(ENODEV)
    }

    /// The number of the acquired render file, and what is counted under it. ENODEV if none is acquired.
    pub(super) fn client(&self) -> Result<(u64, Arc<Client>)> {
        let acquired = self.acquired.as_ref().ok_or(ENODEV)?;
        Ok((acquired.file.client_id(), acquired.vm.client().clone()))
    }

    /// Takes the address space of `file` for the process. EBUSY if it has that of another file, or if another process
    /// has this one; ENOMEM, ENODEV when the GPU goes, EINTR when the caller is killed.
    pub(crate) fn acquire(&mut self, file: FileRef<File>) -> Result {
        if let Some(acquired) = &self.acquired {
            return if acquired.file.is_same(&file) {
                Ok(())
            } else {
                Err(EBUSY)
            };
        }
        let owner = file.data().own()?;
        file.data().take_part()?;
        self.acquired = Some(Acquired {
            vm: file.data().vm().clone(),
            file,
            _owner: owner,
        });
        Ok(())
    }

    /// Places a new buffer, made by `make` for whom it is given, at `range` if it is to have a place, without mapping it, and
    /// gives its handle and the offset at which the render file maps it. ENODEV without an address space, ENOMEM, and what `make` says.
    pub(crate) fn insert(
        &mut self,
        range: Option<VaRange>,
        make: impl FnOnce(&Arc<Client>) -> Result<ARef<Bo>>,
    ) -> Result<(u32, u64)> {
        self.add(|client| {
            let bo = make(client)?;
            let access = bo.access();
            Ok((bo, range, access, true))
        })
    }

    /// Adds what `import` gives: a buffer that may be another process's too, and its place, if it is to have one. The
    /// process may read and execute it, and write if `writable` and the buffer is; the CPU too, but not by the render
    /// file if it may only read. The rest as [`Memory::insert`].
    pub(crate) fn import(
        &mut self,
        writable: bool,
        import: impl FnOnce() -> Result<(ARef<Bo>, Option<VaRange>)>,
    ) -> Result<u32> {
        let added = self.add(|_| {
            let (bo, range) = import()?;
            let access = Access {
                write: writable && bo.access().write,
                ..Access::READ_WRITE.executable()
            };
            Ok((bo, range, access, access.write))
        });
        added.map(|(handle, _)| handle)
    }

    /// Adds what `make` gives: a buffer, its place if it has one, what the process may do with it, and whether the CPU
    /// may map it.
    fn add(
        &mut self,
        make: impl FnOnce(&Arc<Client>) -> Result<(ARef<Bo>, Option<VaRange>, Access, bool)>,
    ) -> Result<(u32, u64)> {
        let acquired = self.acquired.as_ref().ok_or(ENODEV)?;
        self.buffers.next()?;
        let (bo, range, access, cpu) = make(acquired.vm.client())?;
        let offset = bo.mmap_offset()?;
        let file = cpu.then(|| acquired.file.clone());
        if let Some(file) = &file {
            bo.allow(file)?;
        }
        let buffer = Buffer {
            bo,
            range,
            access,
            mapped: false,
            vm: acquired.vm.clone(),
            file,
        };
        Ok((self.buffers.insert(buffer)?, offset))
    }

    /// The buffer of a handle, and what the process may do with it. EINVAL for an unknown one.
    pub(crate) fn bo(&mut self, handle: u32) -> Result<(ARef<Bo>, Access)> {
        let buffer = self.buffer(handle)?;
        Ok((buffer.bo.clone(), buffer.access))
    }

    /// Lets go of a buffer. EINVAL for an unknown handle, EBUSY while it is mapped.
    pub(crate) fn remove(&mut self, handle: u32) -> Result {
        if self.buffer(handle)?.mapped {
            return Err(EBUSY);
        }
        drop(self.buffers.take(handle));
        Ok(())
    }

    /// Maps a buffer to the GPU; one that is mapped stays so. EINVAL for an unknown handle or a buffer without a
    /// place, EEXIST or EINVAL where something else is mapped.
    pub(crate) fn map(&mut self, handle: u32) -> Result {
        let buffer = self.buffer(handle)?;
        let range = buffer.range.ok_or(EINVAL)?;
        if !buffer.mapped {
            let part = Part {
                bo: buffer.bo.clone(),
                offset: 0,
                access: buffer.access,
            };
            buffer.vm.map(range, part)?;
            buffer.mapped = true;
        }
        Ok(())
    }

    /// Unmaps a buffer; one that is not mapped stays so. EINVAL for an unknown handle, EBUSY if a queue uses it.
    pub(crate) fn unmap(&mut self, handle: u32) -> Result {
        let buffer = self.buffer(handle)?;
        if let Some(range) = buffer.range.filter(|_| buffer.mapped) {
            buffer.vm.unmap(range)?;
            buffer.mapped = false;
        }
        Ok(())
    }

    fn buffer(&mut self, handle: u32) -> Result<&mut Buffer> {
        self.buffers.get_mut(handle).ok_or(EINVAL)
    }
}

impl Buffer {
    /// At the end of the process, whatever comes.
    fn unmap(&mut self) {
        let mapped = core::mem::take(&mut self.mapped);
        if let Some(range) = self.range.filter(|_| mapped) {
            // What a queue that hangs holds goes with that.
            if let Err(error) = self.vm.abandon(range) {
                let start = range.start();
                pr_warn!(
                    "the buffer at {start:#x} of a process that ended stays mapped: {error:?}\n"
                );
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.unmap();
        if let Some(file) = &self.file {
            self.bo.revoke(file);
        }
    }
}
