// SPDX-License-Identifier: GPL-2.0
//! Memory that another device has exported, and may move.
//!
//! It is mapped for the GPU as long as any address space maps it. Before the exporter moves it, the
//! queues of those address spaces are quiesced and the entries cleared. The queues resume when the
//! memory is mapped again at its new place: see [`super::vm`].

use super::{bo::Bo, hive_view::HiveView, vm::Vm};
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

impl ImportUsers {
    /// No address space.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "ImportUsers::list"),
            unavailable: AtomicFlag::new(false),
        })
    }

    /// Adds a mapping of the buffer at address `buffer` in `vm`. Returns whether there was none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(&self, vm: &Arc<Vm>, buffer: usize) -> Result<bool> {
        let mut list = self.list.lock();
        if let Some(user) = list.iter_mut().find(|user| user.is(vm, buffer)) {
            user.mappings += 1;
            return Ok(false);
        }
        let is_first = list.is_empty();
        let user = ImportUser {
            vm: vm.clone(),
            buffer,
            mappings: 1,
        };
        list.push(user, GFP_KERNEL_ACCOUNT)?;
        Ok(is_first)
    }

    /// Removes one mapping. Returns whether there is none any more.
    pub(super) fn remove(&self, vm: &Arc<Vm>, buffer: usize) -> bool {
        let mut list = self.list.lock();
        let Some(place) = list.iter().position(|user| user.is(vm, buffer)) else {
            return false;
        };
        if let Some(user) = list.get_mut(place) {
            user.mappings -= 1;
            if user.mappings != 0 {
                return false;
            }
        }
        // This is not the last reference to the address space.
        let _ = list.remove(place);
        list.is_empty()
    }

    /// Whether no address space maps the memory.
    fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }

    /// Whether the memory could not be mapped again.
    pub(super) fn is_unavailable(&self) -> bool {
        self.unavailable.load(Relaxed)
    }

    /// Records that the memory cannot be mapped, until it moves again.
    pub(super) fn set_unavailable(&self) {
        self.unavailable.store(true, Relaxed);
    }
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
        DmaBufAttachment::new(dev, buf, ImportUsers::new())
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

    /// Those that map it.
    pub(super) fn users(&self) -> &ImportUsers {
        self.0.importer()
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

/// Memory that moves, by which address spaces are told.
pub(super) enum MovingMemory<'a> {
    /// Another device has exported it.
    Imported(&'a ImportedMemory),
    /// Another GPU of the hive has it in its VRAM.
    Hive(&'a HiveView),
}

impl MovingMemory<'_> {
    fn users(&self) -> &ImportUsers {
        match self {
            Self::Imported(import) => import.users(),
            Self::Hive(view) => view.users(),
        }
    }

    /// Whether it could not be mapped again.
    pub(super) fn is_unavailable(&self) -> bool {
        self.users().is_unavailable()
    }

    /// Records that it cannot be mapped, until it moves again.
    pub(super) fn set_unavailable(&self) {
        self.users().set_unavailable();
    }

    /// Maps the memory again where it is now, and calls `show` while it stays there.
    ///
    /// # Errors
    ///
    /// Those of [`ImportedMemory::validate`] and [`HiveView::validate`].
    pub(super) fn validate(&self, show: impl FnOnce() -> Result) -> Result {
        match self {
            Self::Imported(import) => import.validate(show),
            Self::Hive(view) => view.validate(show),
        }
    }
}

/// A use of memory that moves by an address space, which maps it once, as long as this exists.
/// Created and dropped without locks of the address space.
pub(super) struct ImportUse {
    vm: Arc<Vm>,
    bo: ARef<Bo>,
}

impl ImportUse {
    /// Records that `vm` is about to map `bo`; `None` if that is not moved by others. Maps the
    /// memory for the GPU. If the memory moves, `vm` is notified.
    ///
    /// # Errors
    ///
    /// Those of [`crate::kern::dma_buf::LockedAttachment::map`]; `ENOMEM`.
    pub(super) fn new(vm: &Arc<Vm>, bo: &ARef<Bo>) -> Result<Option<Self>> {
        let buffer = bo.address();
        match bo.moving() {
            None => return Ok(None),
            Some(MovingMemory::Hive(view)) => view.start_use(vm, buffer)?,
            Some(MovingMemory::Imported(ImportedMemory(attachment))) => {
                attachment.locked(|this| {
                    this.map()?;
                    let users = attachment.importer();
                    let added = users.add(vm, buffer);
                    if added.is_err() && users.is_empty() {
                        this.unmap();
                    }
                    added
                })?;
            }
        }
        Ok(Some(Self {
            vm: vm.clone(),
            bo: bo.clone(),
        }))
    }
}

impl Drop for ImportUse {
    fn drop(&mut self) {
        let buffer = self.bo.address();
        match self.bo.moving() {
            None => (),
            Some(MovingMemory::Hive(view)) => {
                view.users().remove(&self.vm, buffer);
            }
            Some(MovingMemory::Imported(ImportedMemory(attachment))) => {
                attachment.locked(|this| {
                    if attachment.importer().remove(&self.vm, buffer) {
                        this.unmap();
                    }
                });
            }
        }
    }
}

impl ImportUser {
    fn is(&self, vm: &Arc<Vm>, buffer: usize) -> bool {
        Arc::ptr_eq(&self.vm, vm) && self.buffer == buffer
    }
}
