// SPDX-License-Identifier: GPL-2.0
//! The driver's own buffers in a process's address space, at addresses that user space cannot ask
//! for.

use super::Vm;
use crate::{
    ip::hub::TlbFlush,
    kern::{
        addresses::AddressAllocator,
        pages::{DmaRun, SystemPages},
    },
};
use hw::{
    pte::{Coherence, MemoryResidence, PageAccess},
    va::{canonical, TableLevel, VaRange, USER_VA_END},
};
use kernel::{prelude::*, sync::Arc};

/// Returns the allocator of these addresses: the span of the first entry of the root's upper half.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn addresses() -> Result<AddressAllocator> {
    AddressAllocator::new(USER_VA_END..USER_VA_END + TableLevel::Pdb2.entry_span())
}

/// Pages of the driver, mapped in a VM until this is dropped. It is dropped after the GPU has
/// stopped using them, where sleeping is allowed.
pub(crate) struct KernelMapping {
    range: VaRange,
    pages: Arc<SystemPages>,
    vm: Arc<Vm>,
}

impl KernelMapping {
    /// Returns the address of the first byte, in the form that engines take.
    pub(crate) fn va(&self) -> u64 {
        canonical(self.range.start())
    }
}

impl Vm {
    /// Maps `pages` for the engines that run in the VM, uncached. The process's own programs on the
    /// GPU can access them, too, if they guess the address, as far as `access` allows. When this
    /// returns `Ok`, the GPU sees them.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are no addresses left; those of [`Vm::map`].
    pub(crate) fn kernel_map(
        self: &Arc<Self>,
        pages: Arc<SystemPages>,
        access: PageAccess,
    ) -> Result<KernelMapping> {
        let start = self.state.lock().upper.alloc(pages.size())?;
        self.kernel_map_taken(start, pages, access)
    }

    /// Like [`Vm::kernel_map`], at `start` in the upper half.
    ///
    /// # Errors
    ///
    /// Also `EEXIST` if the driver has mapped pages there.
    pub(crate) fn kernel_map_at(
        self: &Arc<Self>,
        start: u64,
        pages: Arc<SystemPages>,
        access: PageAccess,
    ) -> Result<KernelMapping> {
        self.state.lock().upper.alloc_at(start, pages.size())?;
        self.kernel_map_taken(start, pages, access)
    }

    /// Maps the pages at addresses that were just allocated.
    fn kernel_map_taken(
        self: &Arc<Self>,
        start: u64,
        pages: Arc<SystemPages>,
        access: PageAccess,
    ) -> Result<KernelMapping> {
        let coherence = Coherence {
            coherent: true,
            uncached: true,
            ..Coherence::default()
        };
        let flags = self
            .gpu
            .hw
            .asic
            .pte
            .flags(MemoryResidence::Host, access, coherence);
        let mut state = self.state.lock();
        let range = match VaRange::upper(start, pages.size()) {
            Ok(range) => range,
            Err(_) => {
                state.upper.free(start);
                return Err(EINVAL);
            }
        };
        // From here on dropping the mapping undoes a failure.
        let mapping = KernelMapping {
            range,
            pages,
            vm: self.clone(),
        };
        let (mut at, mut written) = (0, 0);
        let mut map = |run: &DmaRun| {
            let part = range.slice(at, run.size).map_err(|_| EINVAL)?;
            at += run.size;
            state.tree.map(part, run.address, flags, None, &mut written)
        };
        let mapped = match mapping.pages.is_mapped() {
            true => mapping.pages.dma_runs().iter().try_for_each(&mut map),
            false => Err(ENODEV),
        };
        let done = mapped.and_then(|()| self.flush(TlbFlush::Legacy));
        // Dropping the mapping takes the lock.
        drop(state);
        done.map(|()| mapping)
    }
}

impl Drop for KernelMapping {
    fn drop(&mut self) {
        let mut state = self.vm.state.lock();
        let idle = state.tree.clear(self.range, &mut 0);
        match self.vm.flush(TlbFlush::Heavyweight) {
            Ok(()) => {
                state.upper.free(self.range.start());
                let idle = self.vm.recycle(&mut state, idle);
                drop(state);
                drop(idle);
            }
            Err(_) => {
                drop(state);
                self.vm.leak((idle, self.pages.clone()));
            }
        }
    }
}
