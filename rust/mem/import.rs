// SPDX-License-Identifier: GPL-2.0
//! Memory that another device has exported, and may move.
//!
//! It is mapped for the GPU as long as any address space maps it. Before the exporter moves it, the
//! queues of those address spaces are quiesced and the entries cleared. The queues resume when the
//! memory is mapped again at its new place: see [`super::vm`].

use super::{bo::Bo, vm::Vm};
use crate::kern::dma_buf::{AttachmentRuns, DmaBuf, DmaBufAttachment, DmaBufImporter};
use kernel::{
    device::Device,
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{AtomicFlag, Relaxed},
        Arc, Mutex,
    },
};

/// An address space that maps the memory.
struct ImportUser {
    vm: Arc<Vm>,
    /// The buffer's address, which tells it apart from other buffers in that address space.
    buffer: usize,
    mappings: usize,
}

/// All address spaces that map the memory.
#[pin_data]
pub(crate) struct ImportUsers {
    /// Its lock is inside the reservation's lock, and outside those of the address spaces.
    #[pin]
    list: Mutex<KVec<ImportUser>>,
    /// The memory could not be mapped again.
    unavailable: AtomicFlag,
}

impl DmaBufImporter for ImportUsers {
    fn invalidate(&self) {
        self.unavailable.store(false, Relaxed);
        for user in &*self.list.lock() {
            user.vm.evict_import(user.buffer);
        }
    }
}

/// Imported memory.
pub(crate) struct ImportedMemory(DmaBufAttachment<ImportUsers>);

impl ImportedMemory {
    /// Attaches `dev` to `buf`; see [`DmaBufAttachment::new`].
    pub(super) fn attach(
        dev: &ARef<Device>,
        buf: &DmaBuf,
    ) -> Result<DmaBufAttachment<ImportUsers>> {
        let users = pin_init!(ImportUsers {
            list <- new_mutex!(KVec::new(), "ImportUsers::list"),
            unavailable: AtomicFlag::new(false),
        });
        DmaBufAttachment::new(dev, buf, users)
    }

    /// Wraps an attachment.
    pub(super) fn new(attachment: DmaBufAttachment<ImportUsers>) -> Self {
        Self(attachment)
    }

    /// Returns the DMA addresses, while the memory is mapped.
    pub(super) fn runs(&self) -> Option<AttachmentRuns> {
        self.0.runs()
    }

    /// Whether the GPU may be given the memory's addresses.
    pub(super) fn is_mapped(&self) -> bool {
        self.0.runs().is_some()
    }

    /// Whether the memory could not be mapped again.
    pub(super) fn is_unavailable(&self) -> bool {
        self.0.importer().unavailable.load(Relaxed)
    }

    /// Records that the memory cannot be mapped, until the exporter moves it again.
    pub(super) fn set_unavailable(&self) {
        self.0.importer().unavailable.store(true, Relaxed);
    }

    /// Maps the memory again where it is now, and calls `show` while it stays there. See
    /// [`crate::kern::dma_buf::LockedAttachment::map`].
    pub(super) fn validate(&self, show: impl FnOnce() -> Result) -> Result {
        self.0.locked(|this| {
            this.map()?;
            show()
        })
    }

    /// Detaches the memory from the device, which is about to be removed. No address space maps it
    /// any more.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// A use of imported memory by an address space, which maps it once, as long as this exists.
/// Created and dropped without locks of the address space.
pub(super) struct ImportUse {
    vm: Arc<Vm>,
    bo: ARef<Bo>,
}

impl ImportUse {
    /// Records that `vm` is about to map `bo`; `None` if that is not imported. Maps the memory for
    /// the GPU. If the memory moves, `vm` is notified.
    ///
    /// # Errors
    ///
    /// Those of [`crate::kern::dma_buf::LockedAttachment::map`]; `ENOMEM`.
    pub(super) fn new(vm: &Arc<Vm>, bo: &ARef<Bo>) -> Result<Option<Self>> {
        let Some(ImportedMemory(attachment)) = bo.import() else {
            return Ok(None);
        };
        let buffer = bo.address();
        attachment.locked(|this| {
            this.map()?;
            let mut list = attachment.importer().list.lock();
            let known = list.iter_mut().find(|user| user.is(vm, buffer));
            let done = match known {
                Some(user) => {
                    user.mappings += 1;
                    Ok(())
                }
                None => {
                    let user = ImportUser {
                        vm: vm.clone(),
                        buffer,
                        mappings: 1,
                    };
                    list.push(user, GFP_KERNEL_ACCOUNT)
                }
            };
            if done.is_err() && list.is_empty() {
                this.unmap();
            }
            Ok::<_, Error>(done?)
        })?;
        Ok(Some(Self {
            vm: vm.clone(),
            bo: bo.clone(),
        }))
    }
}

impl Drop for ImportUse {
    fn drop(&mut self) {
        let Some(ImportedMemory(attachment)) = self.bo.import() else {
            return;
        };
        let buffer = self.bo.address();
        attachment.locked(|this| {
            let mut list = attachment.importer().list.lock();
            let Some(place) = list.iter().position(|user| user.is(&self.vm, buffer)) else {
                return;
            };
            if let Some(user) = list.get_mut(place) {
                user.mappings -= 1;
                if user.mappings != 0 {
                    return;
                }
            }
            // This is not the last reference to the address space.
            let _ = list.remove(place);
            if list.is_empty() {
                this.unmap();
            }
        });
    }
}

impl ImportUser {
    fn is(&self, vm: &Arc<Vm>, buffer: usize) -> bool {
        Arc::ptr_eq(&self.vm, vm) && self.buffer == buffer
    }
}
