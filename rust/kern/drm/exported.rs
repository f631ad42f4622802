// SPDX-License-Identifier: GPL-2.0
//! The dma-buf of a buffer object, and the handles that keep it.
//!
//! Whoever exports an object again is given the dma-buf that it has. From the dma-buf alone there is no telling whether its
//! file is still there: an open with `O_PATH` keeps the one without the other. So it is kept, as DRM does for its own handles, as long as
//! anybody has a handle of the object, and so can export it; who imports it has a handle, too.

use core::ops::Deref;

use kernel::{prelude::*, sync::aref::ARef};

use crate::{
    ffi,
    kern::{
        dma_buf::DmaBuf,
        drm::gem::{GemDriverObject, GemObject},
    },
};

/// See the module.
pub(super) struct ExportedBuffers {
    /// The dma-buf, until it is freed: it takes itself out before.
    buf: *mut ffi::dma_buf,
    /// The same, while there are handles.
    kept: Option<ARef<DmaBuf>>,
    handles: usize,
}

// SAFETY: A dma-buf may be used from any thread.
unsafe impl Send for ExportedBuffers {}

impl ExportedBuffers {
    /// None, and no handles.
    pub(super) const NONE: Self = Self {
        buf: core::ptr::null_mut(),
        kept: None,
        handles: 0,
    };

    /// It, or the new one that `make` gives. ENOENT if the last handle is gone; what `make` says.
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

    /// There is a handle more; of an import it is `from`.
    fn add_handle(&mut self, from: Option<&DmaBuf>) {
        self.handles += 1;
        if self.kept.is_none() {
            self.kept = from
                .filter(|from| core::ptr::eq(from.as_raw(), self.buf))
                .map(Into::into);
        }
    }

    /// There is one less. What it gives is dropped without the lock.
    fn remove_handle(&mut self) -> Option<ARef<DmaBuf>> {
        self.handles = self.handles.saturating_sub(1);
        if self.handles == 0 {
            self.kept.take()
        } else {
            None
        }
    }

    /// `buf` is about to be freed.
    pub(super) fn unlist(&mut self, buf: *mut ffi::dma_buf) {
        if core::ptr::eq(self.buf, buf) {
            self.buf = core::ptr::null_mut();
        }
    }

    /// See [`DmaBuf::invalidate_locked`]; nothing is done if there is none.
    pub(super) fn invalidate_locked(&self) -> Result {
        if self.buf.is_null() {
            return Ok(());
        }
        // SAFETY: It is valid, with or without its file, as it cannot take itself out while the caller has this locked.
        unsafe { DmaBuf::from_raw(self.buf) }.invalidate_locked()
    }
}

/// A handle of an object.
pub(crate) struct ObjectHandle<T: GemDriverObject>(ARef<GemObject<T>>);

impl<T: GemDriverObject> ObjectHandle<T> {
    /// The first of a new object.
    pub(crate) fn new(object: ARef<GemObject<T>>) -> Self {
        object.exported().lock().add_handle(None);
        Self(object)
    }

    /// One more of an object, of what [`GemObject::import`] gave for `buf`.
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
        // SAFETY: Valid by the type invariant. Others may write to the pointer, but never another dma-buf as long as there are handles.
        let raw = unsafe { (&raw const (*self.as_gem()).dma_buf).read_volatile() };
        let buf = if raw.is_null() {
            None
        } else {
            // SAFETY: DRM keeps it as long as there are handles, and has counted this one.
            Some(unsafe { DmaBuf::from_raw(raw) })
        };
        self.exported().lock().add_handle(buf);
    }

    /// A handle of the object is gone.
    pub(super) fn handle_closed(&self) {
        let unused = self.exported().lock().remove_handle();
        drop(unused);
    }
}
