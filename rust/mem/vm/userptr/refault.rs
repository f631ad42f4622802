// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory where page faults are retried (XNACK): it is mapped for the GPU when the
//! GPU accesses it, and unmapped without quiescing the queues.

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
    /// Whether the memory may be unmapped from the GPU without quiescing the queues: a missing page
    /// is mapped when the GPU accesses it.
    pub(in crate::mem::vm) fn refaults(&self) -> bool {
        !self.always && self.vm.retries()
    }

    /// Notifies watchers that the GPU loses the changed part of the range, if it is shared virtual
    /// memory and the queues are not quiesced for that. A range that is unmapped may just have been
    /// detached by a thread that was notified earlier.
    pub(super) fn notify_unmapped(&self, change: &RangeChange, state: &UserptrState) {
        let trigger = match (state.binding, change.kind()) {
            (GpuBinding::In | GpuBinding::Invalid, ChangeKind::Unmapped) => UnmapTrigger::Unmapped,
            (GpuBinding::Out, ChangeKind::Unmapped) if state.final_binding != GpuBinding::Out => {
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

    /// Whether the GPU may access all of `part`, and write it if `write`, through its current
    /// pages. `None` if it has none now.
    pub(in crate::mem::vm) fn reaches(&self, part: VaRange, write: bool) -> Option<bool> {
        let state = self.state.lock();
        if state.binding != GpuBinding::In {
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

    /// Unmaps the range from the GPU, which has accessed a page that is missing in it. Returns
    /// false while the queues wait for the range.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the device does not answer a flush: then the pages are never freed.
    fn refetch(&self) -> Result<bool> {
        let mut state = self.state.lock();
        match state.binding {
            GpuBinding::Out => return Ok(true),
            GpuBinding::In => {}
            GpuBinding::Invalid | GpuBinding::Pending => return Ok(false),
        }
        state.binding = GpuBinding::Out;
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
    /// Returns the chunk of shared virtual memory that covers `page`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none: it is being mapped.
    fn chunk_at(&self, page: VaRange) -> Result<Arc<BoMapping>> {
        let found = self.state.lock().covering(page);
        found
            .filter(|mapping| mapping.shared().is_some())
            .ok_or(EAGAIN)
    }

    /// Whether the GPU may access `page` of a chunk of shared virtual memory now, and write it if
    /// `write`.
    pub(crate) fn is_reached(&self, page: VaRange, write: bool) -> bool {
        self.chunk_at(page).is_ok_and(|mapping| {
            let shared = mapping.shared();
            shared.is_some_and(|userptr| userptr.reaches(page, write) == Some(true))
        })
    }

    /// Maps the process's current pages in the chunk of shared virtual memory that covers `page`,
    /// which the GPU has accessed, to write if `write`. Returns false if the process does not have
    /// the page, or may not access it in that way.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the caller is to try again soon;
    /// [`errno::in_progress`](crate::kern::errno::in_progress) while a program has not provided
    /// pages; those of [`Vm::map`].
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
        // It may have been unmapped again.
        userptr.reaches(page, write).ok_or(EAGAIN)
    }

    /// Requests the process's pages in the chunk that covers `page` from the program that has to
    /// provide them, as long as the returned value exists.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EAGAIN` if there is no chunk.
    pub(crate) fn request_pages(&self, page: VaRange, write: bool) -> Result<FetchRequest> {
        let mapping = self.chunk_at(page)?;
        mapping.shared().ok_or(EAGAIN)?.fetch(write)
    }
}
