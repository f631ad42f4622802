// SPDX-License-Identifier: GPL-2.0
//! The dma-buf of a buffer object, and the handles that keep it.
//!
//! Exporting an object again returns the dma-buf that it already has. The dma-buf alone does not
//! show whether its file still exists: an open with `O_PATH` keeps the one without the other. So
//! the dma-buf is referenced, as DRM does for its own handles, as long as there is a handle of the
//! object by which it can be exported. A process that imports the object has a handle, too.

use core::ops::Deref;

use kernel::{prelude::*, sync::aref::ARef};

use crate::{
    ffi,
    kern::{
        dma_buf::DmaBuf,
        drm::gem::{GemDriverObject, GemObject},
    },
};

/// The state of a buffer object's export. See the module.
pub(super) struct ExportedBuffers {
    /// The dma-buf, until it is freed: it removes itself before.
    buf: *mut ffi::dma_buf,
    /// A reference to it, while there are handles.
    kept: Option<ARef<DmaBuf>>,
    handles: usize,
}

// SAFETY: A dma-buf may be used from any thread.
unsafe impl Send for ExportedBuffers {}

impl ExportedBuffers {
    /// No dma-buf and no handles.
    pub(super) const NONE: Self = Self {
        buf: core::ptr::null_mut(),
        kept: None,
        handles: 0,
    };

    /// The dma-buf, or the new one from `make`.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the last handle is gone; the error of `make`.
    pub(super) fn get_or(
        &mut self,
        make: impl FnOnce() -> Result<ARef<DmaBuf>>,
    ) -> Result<ARef<DmaBuf>> {
        if let Some(buf) = &self.kept {
            return Ok(buf.clone());
        }
        if self.handles == 0 {
            return Err(ENOENT);
        }
        let buf = make()?;
        self.buf = buf.as_raw();
        Ok(self.kept.insert(buf).clone())
    }

    /// Counts one more handle; for an imported object, `from` is its dma-buf.
    fn add_handle(&mut self, from: Option<&DmaBuf>) {
        self.handles += 1;
        if self.kept.is_none() {
            self.kept = from
                .filter(|from| core::ptr::eq(from.as_raw(), self.buf))
                .map(Into::into);
        }
    }

    /// Counts one handle less. The caller drops the returned reference without the lock.
    fn remove_handle(&mut self) -> Option<ARef<DmaBuf>> {
        self.handles = self.handles.saturating_sub(1);
        if self.handles == 0 {
            self.kept.take()
        } else {
            None
        }
    }

    /// Removes `buf`, which is about to be freed.
    pub(super) fn unlist(&mut self, buf: *mut ffi::dma_buf) {
        if core::ptr::eq(self.buf, buf) {
            self.buf = core::ptr::null_mut();
        }
    }

    /// See [`DmaBuf::invalidate_locked`]; does nothing without a dma-buf.
    pub(super) fn invalidate_locked(&self, dev: &kernel::device::Device) -> Result {
        if self.buf.is_null() {
            return Ok(());
        }
        // SAFETY: It is valid, with or without its file, as it cannot remove itself while the
        // caller has this locked.
        unsafe { DmaBuf::from_raw(self.buf) }.invalidate_locked(dev)
    }
}

/// A handle of an object.
pub(crate) struct ObjectHandle<T: GemDriverObject>(ARef<GemObject<T>>);

impl<T: GemDriverObject> ObjectHandle<T> {
    /// The first handle of a new object.
    pub(crate) fn new(object: ARef<GemObject<T>>) -> Self {
        object.exported().lock().add_handle(None);
        Self(object)
    }

    /// One more handle of an object that [`GemObject::import`] returned for `buf`.
    pub(crate) fn of_import(object: ARef<GemObject<T>>, buf: &DmaBuf) -> Self {
        object.exported().lock().add_handle(Some(buf));
        Self(object)
    }
}

impl<T: GemDriverObject> Deref for ObjectHandle<T> {
    type Target = ARef<GemObject<T>>;

    fn deref(&self) -> &ARef<GemObject<T>> {
        &self.0
    }
}

impl<T: GemDriverObject> Drop for ObjectHandle<T> {
    fn drop(&mut self) {
        self.0.handle_closed();
    }
}

impl<T: GemDriverObject> GemObject<T> {
    /// DRM has made a handle of the object.
    pub(super) fn handle_made(&self) {
        // SAFETY: Valid by the type invariant. Others may write to the pointer, but never another
        // dma-buf as long as there are handles.
        let raw = unsafe { (&raw const (*self.as_gem()).dma_buf).read_volatile() };
        let buf = if raw.is_null() {
            None
        } else {
            // SAFETY: DRM keeps it as long as there are handles, and has counted this one.
            Some(unsafe { DmaBuf::from_raw(raw) })
        };
        self.exported().lock().add_handle(buf);
    }

    /// A handle of the object was closed.
    pub(super) fn handle_closed(&self) {
        let unused = self.exported().lock().remove_handle();
        drop(unused);
    }
}
