// SPDX-License-Identifier: GPL-2.0
//! Open files of a DRM device.

use core::{any::TypeId, ptr::NonNull};

use kernel::{
    error::to_result,
    fs::{self, LocalFile},
    prelude::*,
    sync::aref::ARef,
    sync::Arc,
};

use crate::{
    ffi,
    kern::drm::{gem::GemObject, DrmDevice, DrmDriver},
};

/// The file operations of every DRM device of this module.
pub(super) struct DrmFileOps(ffi::file_operations);

// SAFETY: The structure is never written.
unsafe impl Sync for DrmFileOps {}

impl DrmFileOps {
    /// The C structure.
    pub(super) const fn as_ptr(&self) -> *const ffi::file_operations {
        &self.0
    }
}

/// There is only one of them, so a file that has it is a file of a device made by
/// [`DrmDevice::new`].
pub(super) static FOPS: DrmFileOps = DrmFileOps(ffi::file_operations {
    owner: (&raw const ffi::__this_module).cast_mut(),
    open: Some(ffi::drm_open),
    release: Some(release_callback),
    unlocked_ioctl: Some(ffi::drm_ioctl),
    #[cfg(CONFIG_COMPAT)]
    compat_ioctl: Some(ffi::drm_compat_ioctl),
    poll: Some(ffi::drm_poll),
    read: Some(ffi::drm_read),
    llseek: Some(ffi::noop_llseek),
    mmap: Some(ffi::drm_gem_mmap),
    show_fdinfo: Some(ffi::drm_show_fdinfo),
    fop_flags: ffi::FOP_UNSIGNED_OFFSET,
    ..pin_init::zeroed()
});

/// The beginning of the data of every open file.
#[derive(Clone, Copy)]
struct FileHeader {
    /// The type of the driver's part.
    of: TypeId,
    /// The driver's function for the first handle of an object.
    open_object: unsafe fn(*mut ffi::drm_file, *mut ffi::drm_gem_object) -> Result,
    /// The driver's function for a file that is about to be closed.
    closing: unsafe fn(*mut ffi::drm_file),
    /// The driver's function for closing the last handle of an object.
    close_object: unsafe fn(*mut ffi::drm_file, *mut ffi::drm_gem_object),
}

/// The target of `driver_priv` of a `drm_file`.
#[repr(C)]
struct FilePrivate<F> {
    header: FileHeader,
    file: Arc<F>,
}

/// `drm_driver::open`.
pub(super) extern "C" fn open_callback<D: DrmDriver>(
    drm: *mut ffi::drm_device,
    raw: *mut ffi::drm_file,
) -> c_int {
    // SAFETY: Only devices of `D` have this callback, and DRM holds a reference to the device
    // during the call.
    let dev = unsafe { DrmDevice::<D::Data>::from_raw(drm) };
    let private = D::open(dev).and_then(|file| {
        let header = FileHeader {
            of: TypeId::of::<D::File>(),
            open_object: open_object::<D>,
            closing: closing::<D>,
            close_object: close_object::<D>,
        };
        Ok(KBox::new(FilePrivate { header, file }, GFP_KERNEL_ACCOUNT)?)
    });
    match private {
        // SAFETY: The file is being opened and has no other user.
        Ok(private) => unsafe { (*raw).driver_priv = KBox::into_raw(private).cast() },
        Err(e) => return e.to_errno(),
    }
    0
}

/// `file_operations::release`.
///
/// # Safety
///
/// `file` must be a file with [`FOPS`] that is being closed.
unsafe extern "C" fn release_callback(inode: *mut ffi::inode, file: *mut ffi::file) -> c_int {
    // SAFETY: By this function's contract `private_data` is a `drm_file`, which `open_callback` of
    // its driver has opened. Only `drm_release` below ends that.
    unsafe {
        let raw = (*file).private_data.cast::<ffi::drm_file>();
        let header = *(*raw).driver_priv.cast::<FileHeader>();
        (header.closing)(raw);
        ffi::drm_release(inode, file)
    }
}

/// Tells the driver that a file is about to be closed.
///
/// # Safety
///
/// `raw` must be an open file of a device of `D`.
unsafe fn closing<D: DrmDriver>(raw: *mut ffi::drm_file) {
    // SAFETY: By this function's contract.
    D::closing(unsafe { private::<D>(raw) });
}

/// `drm_driver::postclose`.
pub(super) extern "C" fn postclose_callback<D: DrmDriver>(
    _drm: *mut ffi::drm_device,
    raw: *mut ffi::drm_file,
) {
    // SAFETY: `open_callback` put it there, and the file is no longer used.
    drop(unsafe { KBox::<FilePrivate<D::File>>::from_raw((*raw).driver_priv.cast()) });
}

/// `drm_gem_object_funcs::open`.
///
/// # Safety
///
/// DRM calls it with an open file, and with an object of its device to which the file gets a
/// handle.
pub(super) unsafe extern "C" fn open_object_callback(
    obj: *mut ffi::drm_gem_object,
    raw: *mut ffi::drm_file,
) -> c_int {
    // SAFETY: `open_callback` of the file's driver put it there, and `postclose` runs later.
    let header = unsafe { *(*raw).driver_priv.cast::<FileHeader>() };
    // SAFETY: It is the function of the file's driver, whose objects are those of its device.
    let opened = unsafe { (header.open_object)(raw, obj) };
    opened.map_or_else(|error| error.to_errno(), |()| 0)
}

/// Calls the driver for the first handle of `obj` in the file.
///
/// # Safety
///
/// `raw` must be an open file of a device of `D`, and `obj` an object of that device.
unsafe fn open_object<D: DrmDriver>(
    raw: *mut ffi::drm_file,
    obj: *mut ffi::drm_gem_object,
) -> Result {
    // SAFETY: By this function's contract.
    let (file, object) = unsafe { (private::<D>(raw), &*GemObject::<D::Object>::container(obj)) };
    D::open_object(file, object)?;
    object.handle_made();
    Ok(())
}

/// `drm_gem_object_funcs::close`.
///
/// # Safety
///
/// DRM calls it with an open file, and with an object of its device to which the file has had a
/// handle.
pub(super) unsafe extern "C" fn close_object_callback(
    obj: *mut ffi::drm_gem_object,
    raw: *mut ffi::drm_file,
) {
    // SAFETY: `open_callback` of the file's driver put it there, and `postclose` runs later.
    let header = unsafe { *(*raw).driver_priv.cast::<FileHeader>() };
    // SAFETY: It is the function of the file's driver, whose objects are those of its device.
    unsafe { (header.close_object)(raw, obj) };
}

/// Calls the driver for the last handle of `obj` in the file.
///
/// # Safety
///
/// `raw` must be an open file of a device of `D`, and `obj` an object of that device.
unsafe fn close_object<D: DrmDriver>(raw: *mut ffi::drm_file, obj: *mut ffi::drm_gem_object) {
    // SAFETY: By this function's contract.
    let (file, object) = unsafe { (private::<D>(raw), &*GemObject::<D::Object>::container(obj)) };
    D::close_object(file, object);
    object.handle_closed();
}

/// An open file of a device of `D`, during one of its calls.
pub(crate) struct OpenDrmFile<'a, D: DrmDriver> {
    raw: *mut ffi::drm_file,
    data: &'a Arc<D::File>,
    dev: &'a DrmDevice<D::Data>,
}

impl<'a, D: DrmDriver> OpenDrmFile<'a, D> {
    /// The open file `raw`.
    ///
    /// # Safety
    ///
    /// `raw` must be an open file of `dev`, which is a device of `D`, and stay open for `'a`.
    pub(super) unsafe fn new(dev: &'a DrmDevice<D::Data>, raw: *mut ffi::drm_file) -> Self {
        Self {
            raw,
            // SAFETY: By this function's contract.
            data: unsafe { private::<D>(raw) },
            dev,
        }
    }

    /// The `drm_file`.
    pub(super) fn as_raw(&self) -> *mut ffi::drm_file {
        self.raw
    }

    /// The private data.
    pub(crate) fn data(&self) -> &'a Arc<D::File> {
        self.data
    }

    /// The device.
    pub(crate) fn device(&self) -> &'a DrmDevice<D::Data> {
        self.dev
    }

    /// Whether the file is the master of its device's primary node.
    pub(crate) fn is_master(&self) -> bool {
        // SAFETY: The file is open.
        unsafe { ffi::drm_is_current_master(self.raw) }
    }

    /// The object behind `handle`.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such handle.
    pub(crate) fn object(&self, handle: u32) -> Result<ARef<GemObject<D::Object>>> {
        // SAFETY: The file is open.
        let raw = unsafe { ffi::drm_gem_object_lookup(self.raw, handle) };
        if raw.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: Handles of the file refer to objects of its device.
        let object = unsafe { GemObject::<D::Object>::container(raw) };
        // SAFETY: It is not null, and the reference that came with it becomes the `ARef`'s.
        Ok(unsafe { ARef::from_raw(NonNull::new_unchecked(object)) })
    }

    /// The handles of all objects.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EAGAIN` if other threads make handles all the time.
    pub(crate) fn handles(&self) -> Result<KVVec<u32>> {
        /// How often the table is looked at.
        const TRIES: u32 = 8;
        let mut handles: KVVec<u32> = KVVec::new();
        for _ in 0..TRIES {
            let room = u32::try_from(handles.len()).unwrap_or(u32::MAX);
            // SAFETY: The file is open, and there is room for as many.
            let count = unsafe { ffi::rkfd_drm_file_handles(self.raw, handles.as_mut_ptr(), room) };
            if count <= room {
                handles.truncate(count as usize);
                return Ok(handles);
            }
            handles.resize(count as usize, 0, GFP_KERNEL_ACCOUNT)?;
        }
        Err(EAGAIN)
    }

    /// Creates a new handle to `object`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `ENOSPC` if there is no free handle; errors of
    /// [`DrmDriver::open_object`].
    pub(crate) fn create_handle(&self, object: &GemObject<D::Object>) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: The file is open, the object valid and of the file's device; the handle takes a
        // reference.
        to_result(unsafe { ffi::drm_gem_handle_create(self.raw, object.as_gem(), &mut handle) })?;
        Ok(handle)
    }
}

/// The private data of an open file.
///
/// # Safety
///
/// `raw` must be an open file of a device of `D`, which stays open for `'a`.
pub(super) unsafe fn private<'a, D: DrmDriver>(raw: *mut ffi::drm_file) -> &'a Arc<D::File> {
    // SAFETY: `open_callback::<D>` put it there, and it stays until the file is closed.
    unsafe { &(*(*raw).driver_priv.cast::<FilePrivate<D::File>>()).file }
}

/// A reference to an open file with private data `F`: the file stays open while this exists.
pub(crate) struct DrmFileRef<F> {
    inner: Arc<F>,
    // Last, so that it is still open when `inner` is dropped.
    file: ARef<fs::File>,
}

impl<F: Send + Sync + 'static> DrmFileRef<F> {
    /// The file behind the calling task's descriptor `fd`.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is none; `EINVAL` if it is not such a file.
    pub(crate) fn from_fd(fd: i32) -> Result<Self> {
        let file = LocalFile::fget(u32::try_from(fd).map_err(|_| EBADF)?)?;
        // SAFETY: There is no `fdget_pos` on this thread: ioctl, the only source of these
        // descriptors, has none.
        let file = unsafe { LocalFile::assume_no_fdget_pos(file) };

        // SAFETY: The file is valid; these fields do not change once it is open.
        let (fops, raw) = unsafe {
            let raw = file.as_ptr();
            ((*raw).f_op, (*raw).private_data.cast::<ffi::drm_file>())
        };
        if !core::ptr::eq(fops, FOPS.as_ptr()) {
            return Err(EINVAL);
        }

        // SAFETY: The operations prove that `private_data` is a `drm_file` which `open_callback` of
        // some driver opened, so `driver_priv` begins with a header.
        let private = unsafe { (*raw).driver_priv };
        // SAFETY: As above: `FilePrivate<_>` is `repr(C)` and begins with it.
        if unsafe { *private.cast::<FileHeader>() }.of != TypeId::of::<F>() {
            return Err(EINVAL);
        }
        // SAFETY: The type was just compared.
        let inner = unsafe { &(*private.cast::<FilePrivate<F>>()).file }.clone();
        Ok(Self { inner, file })
    }

    /// The private data.
    pub(crate) fn data(&self) -> &Arc<F> {
        &self.inner
    }

    /// Whether this is the same open file. Descriptors may differ: `dup` makes another one of the
    /// same file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.file.as_ptr(), other.file.as_ptr())
    }

    /// The `drm_file` of the open file.
    pub(super) fn as_drm_file(&self) -> *mut ffi::drm_file {
        // SAFETY: `from_fd` saw that this is a DRM file, and it is open.
        unsafe { (*self.file.as_ptr()).private_data.cast() }
    }
}

impl<F> Clone for DrmFileRef<F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            file: self.file.clone(),
        }
    }
}
