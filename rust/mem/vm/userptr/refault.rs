// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory where page faults are retried (XNACK): the GPU has it when it has come there, and loses it without its queues
//! being quiesced.

use super::{GpuBinding, Userptr, UserptrState};
use crate::{
    ip::hub::TlbFlush,
    kern::user_range::{ChangeKind, FetchRequest, LockWait, RangeChange},
    mem::vm::{mapping::BoMapping, Vm},
    smi::{SmiEvent, UnmapTrigger},
};
use hw::va::VaRange;
use kernel::{prelude::*, sync::Arc};

impl Userptr {
    /// Whether the GPU may lose it without its queues being quiesced: what is not there is mapped when it comes there.
    pub(in crate::mem::vm) fn refaults(&self) -> bool {
        !self.always && self.vm.retries()
    }

    /// Tells watchers that the GPU loses what changes of it, if it is shared virtual memory and its queues are not quiesced for that. What is unmapped may
    /// just have been taken out for that by who heard of it first.
    pub(super) fn notify_unmapped(&self, change: &RangeChange, state: &UserptrState) {
        let trigger = match (state.now, change.kind()) {
            (GpuBinding::In | GpuBinding::Invalid, ChangeKind::Unmapped) => UnmapTrigger::Unmapped,
            (GpuBinding::Out, ChangeKind::Unmapped) if state.at_last != GpuBinding::Out => {
                UnmapTrigger::Unmapped
            }
            (GpuBinding::In, ChangeKind::Moves) if self.refaults() => UnmapTrigger::Moves,
            (GpuBinding::In, ChangeKind::Other) if self.refaults() => UnmapTrigger::Changed,
            _ => return,
        };
        let changed = VaRange::of_process(change.range());
        let part = changed.and_then(|changed| changed.intersection(self.range));
        if let Some(part) = part.filter(|_| self.shared) {
            let event = SmiEvent::Unmapped(self.vm.group.owner(), part, trigger);
            self.vm.gpu.hw.smi.notify(&event);
        }
    }

    /// Whether the GPU may access all of `part`, and write it where `write` is asked, by what it has. None when it has nothing now.
    pub(in crate::mem::vm) fn reaches(&self, part: VaRange, write: bool) -> Option<bool> {
        let state = self.state.lock();
        if state.now != GpuBinding::In {
            return None;
        }
        let offset = part.start().checked_sub(self.range.start())?;
        let end = offset + part.size();
        let reaches = state.pages.parts().any(|found| {
            let size: u64 = found.runs.iter().map(|run| run.size).sum();
            let covers = found.offset <= offset && end <= found.offset + size;
            covers && (found.writable || !write)
        });
        Some(reaches)
    }

    /// Takes what the GPU has of it, which lacks something to which it has come; false while the queues wait for it. `ETIMEDOUT` when the device does not answer a flush: then the pages are
    /// never freed.
    fn refetch(&self) -> Result<bool> {
        let mut state = self.state.lock();
        match state.now {
            GpuBinding::Out => return Ok(true),
            GpuBinding::In => {}
            GpuBinding::Invalid => return Ok(false),
        }
        state.now = GpuBinding::Out;
        state.reserved.clear(&self.vm.gpu);
        let flushed = self.vm.flush(TlbFlush::Heavyweight);
        if flushed.is_err() {
            state.pages.leak();
        }
        state.pages.unmap_device();
        flushed.map(|()| true)
    }
}

impl Vm {
    /// The chunk of shared virtual memory that covers `page`. `EAGAIN` without one: it is on its way.
    fn chunk_at(&self, page: VaRange) -> Result<Arc<BoMapping>> {
        let found = self.state.lock().covering(page);
        found
            .filter(|mapping| mapping.shared().is_some())
            .ok_or(EAGAIN)
    }

    /// Whether the GPU may access `page` of a chunk of shared virtual memory now, and write it where `write` is asked.
    pub(crate) fn is_reached(&self, page: VaRange, write: bool) -> bool {
        self.chunk_at(page).is_ok_and(|mapping| {
            let shared = mapping.shared();
            shared.is_some_and(|userptr| userptr.reaches(page, write) == Some(true))
        })
    }

    /// Gives the GPU what the process has now in the chunk of shared virtual memory that covers `page`, to which it has come, to write if `write`
    /// is asked. False when the process does not have the page, or may not do that; `EAGAIN` when it is to be asked again soon,
    /// [`errno::in_progress`] while a program has not brought pages; the rest as [`Vm::map`].
    pub(crate) fn fault_in(
        &self,
        page: VaRange,
        write: bool,
        go_on: &dyn Fn() -> Result,
    ) -> Result<bool> {
        let mapping = self.chunk_at(page)?;
        let userptr = mapping.shared().ok_or(EAGAIN)?;
        if userptr.reaches(page, write) == Some(true) {
            return Ok(true);
        }
        if !userptr.refetch()? {
            // The queues wait for it.
            return Err(EAGAIN);
        }
        self.validate(&mapping, false, LockWait::Long, go_on)?;
        // It may have lost it again.
        userptr.reaches(page, write).ok_or(EAGAIN)
    }

    /// Has a program that has to bring what the process has in the chunk that covers `page` do that, as long as what is returned is there.
    /// `ENOMEM`; `EAGAIN` without a chunk.
    pub(crate) fn request_pages(&self, page: VaRange, write: bool) -> Result<FetchRequest> {
        let mapping = self.chunk_at(page)?;
        mapping.shared().ok_or(EAGAIN)?.fetch(write)
    }
}
