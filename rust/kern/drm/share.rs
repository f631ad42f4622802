// SPDX-License-Identifier: GPL-2.0
//! Buffer objects as dma-bufs, and dma-bufs as buffer objects.
//!
//! An object has at most one dma-buf at a time, whichever process exports it, because DRM's lists
//! of handles are keyed by it.

use core::{any::TypeId, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::aref::ARef,
};

use crate::{
    ffi,
    kern::{
        device,
        dma_buf::DmaBuf,
        drm::{
            gem::{GemDriverObject, GemObject},
            in_place::InPlaceShare,
            DrmDevice, DrmDriver,
        },
        pci_ext,
    },
};

/// `drm_gem_object_funcs` of an object, and the other functions of its type that [`OPERATIONS`]
/// needs.
#[repr(C)]
pub(super) struct GemFunctions {
    /// First: an object's `funcs` points to it.
    pub(super) gem: ffi::drm_gem_object_funcs,
    of: fn() -> TypeId,
    attach: unsafe fn(*mut ffi::drm_gem_object, bool) -> Result,
    share_in_place: unsafe fn(
        *mut ffi::drm_gem_object,
        &ARef<kernel::device::Device>,
    ) -> Result<Option<InPlaceShare>>,
    share: unsafe fn(*mut ffi::drm_gem_object, bool) -> Result,
    unshare: unsafe fn(*mut ffi::drm_gem_object, bool),
    cpu_access: unsafe fn(*mut ffi::drm_gem_object),
    release: unsafe fn(*mut ffi::drm_gem_object, *mut ffi::dma_buf),
}

/// `dma_buf_ops`, in a static that may be shared.
struct DmaBufOps(ffi::dma_buf_ops);

// SAFETY: The structure is never written.
unsafe impl Sync for DmaBufOps {}

/// There is only one of them, so a dma-buf that has it belongs to a [`GemObject`].
static OPERATIONS: DmaBufOps = DmaBufOps(ffi::dma_buf_ops {
    attach: Some(attach),
    pin: Some(pin),
    unpin: Some(unpin),
    map_dma_buf: Some(map),
    unmap_dma_buf: Some(unmap),
    release: Some(release),
    begin_cpu_access: Some(cpu_access),
    end_cpu_access: Some(cpu_access),
    mmap: Some(ffi::drm_gem_dmabuf_mmap),
    ..pin_init::zeroed()
});

/// The object of a dma-buf with [`OPERATIONS`], and the functions of its type.
///
/// # Safety
///
/// `buf` must be such a dma-buf, alive for `'a`.
unsafe fn object<'a>(buf: *mut ffi::dma_buf) -> (*mut ffi::drm_gem_object, &'a GemFunctions) {
    // SAFETY: `dma_buf` made it with an object, whose functions are the first part of a static
    // `GemFunctions`.
    unsafe {
        let obj = (*buf).priv_.cast::<ffi::drm_gem_object>();
        (obj, &*(*obj).funcs.cast::<GemFunctions>())
    }
}

/// The errno of a result.
fn status(result: Result) -> c_int {
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

/// `dma_buf_ops::attach`.
///
/// # Safety
///
/// The kernel calls it with a dma-buf that has it, without the reservation's lock.
unsafe extern "C" fn attach(
    buf: *mut ffi::dma_buf,
    attachment: *mut ffi::dma_buf_attachment,
) -> c_int {
    // SAFETY: By this function's contract: the attachment is new, and has no other user.
    unsafe {
        let (obj, functions) = object(buf);
        // Only importers that accept addresses without pages set this, and they are notified before
        // the addresses become stale.
        (*attachment).peer2peer &= pci_ext::reaches(
            device::from_raw((*attachment).dev),
            device::from_raw((*(*obj).dev).dev),
        );
        status((functions.attach)(obj, (*attachment).peer2peer))
    }
}

/// `dma_buf_ops::pin`.
///
/// # Safety
///
/// The kernel calls it with an attachment to a dma-buf that has it, with the reservation's lock
/// held.
unsafe extern "C" fn pin(attachment: *mut ffi::dma_buf_attachment) -> c_int {
    // SAFETY: By this function's contract.
    unsafe {
        let (obj, functions) = object((*attachment).dmabuf);
        status((functions.share)(obj, true))
    }
}

/// `dma_buf_ops::unpin`.
///
/// # Safety
///
/// As for [`pin`].
unsafe extern "C" fn unpin(attachment: *mut ffi::dma_buf_attachment) {
    // SAFETY: By this function's contract.
    unsafe {
        let (obj, functions) = object((*attachment).dmabuf);
        (functions.unshare)(obj, true);
    }
}

/// `dma_buf_ops::map_dma_buf`. An importer that handles moves has not pinned the memory, but a
/// mapping shares it in any case.
///
/// # Safety
///
/// As for [`pin`].
unsafe extern "C" fn map(
    attachment: *mut ffi::dma_buf_attachment,
    direction: ffi::dma_data_direction,
) -> *mut ffi::sg_table {
    // SAFETY: By this function's contract.
    unsafe {
        let (obj, functions) = object((*attachment).dmabuf);
        if (*attachment).peer2peer {
            let dev = device::from_raw((*attachment).dev).into();
            match (functions.share_in_place)(obj, &dev)
                .map(|shared| shared.map(InPlaceShare::into_table))
            {
                Ok(None) => (),
                Ok(Some(Ok(table))) => return table,
                Ok(Some(Err(error))) | Err(error) => return error.to_ptr(),
            }
        }
        if let Err(error) = (functions.share)(obj, false) {
            return error.to_ptr();
        }
        let table = ffi::drm_gem_map_dma_buf(attachment, direction);
        if from_err_ptr(table).is_err() {
            (functions.unshare)(obj, false);
        }
        table
    }
}

/// `dma_buf_ops::unmap_dma_buf`.
///
/// # Safety
///
/// As for [`pin`], once with each result of [`map`].
unsafe extern "C" fn unmap(
    attachment: *mut ffi::dma_buf_attachment,
    table: *mut ffi::sg_table,
    direction: ffi::dma_data_direction,
) {
    // SAFETY: By this function's contract.
    unsafe {
        let (obj, functions) = object((*attachment).dmabuf);
        if InPlaceShare::is_table(table) {
            return drop(InPlaceShare::from_table(table));
        }
        ffi::drm_gem_unmap_dma_buf(attachment, table, direction);
        (functions.unshare)(obj, false);
    }
}

/// `dma_buf_ops::begin_cpu_access` and `end_cpu_access`.
///
/// # Safety
///
/// As for [`attach`].
unsafe extern "C" fn cpu_access(
    buf: *mut ffi::dma_buf,
    _direction: ffi::dma_data_direction,
) -> c_int {
    // SAFETY: By this function's contract.
    unsafe {
        let (obj, functions) = object(buf);
        (functions.cpu_access)(obj);
    }
    0
}

/// `dma_buf_ops::release`.
///
/// # Safety
///
/// The kernel calls it once for a dma-buf that has it, after its last use.
unsafe extern "C" fn release(buf: *mut ffi::dma_buf) {
    // SAFETY: By this function's contract. The references that are dropped last are those that the
    // export took.
    unsafe {
        let (obj, functions) = object(buf);
        (functions.release)(obj, buf);
        ffi::drm_gem_dmabuf_release(buf);
    }
}

impl<T: GemDriverObject> GemObject<T> {
    /// The functions of objects of this type; DRM calls those in `gem`.
    pub(super) const fn functions(gem: ffi::drm_gem_object_funcs) -> GemFunctions {
        GemFunctions {
            gem: ffi::drm_gem_object_funcs {
                export: Some(Self::export_callback),
                get_sg_table: Some(Self::pages_callback),
                ..gem
            },
            of: TypeId::of::<T>,
            attach: Self::attach_callback,
            share_in_place: Self::share_in_place_callback,
            share: Self::share_callback,
            unshare: Self::unshare_callback,
            cpu_access: Self::cpu_access_callback,
            release: Self::release_callback,
        }
    }

    /// The object's dma-buf: the one it has, or a new one, which may be opened for writing if
    /// `writable`. For an imported object, the dma-buf that it came from. The caller has a handle
    /// of the object.
    ///
    /// # Errors
    ///
    /// The error of [`GemDriverObject::check_export`]; `ENOMEM` or `ENOSPC` without memory or an
    /// offset; `ENOENT` if the handle is closed during the call.
    pub(crate) fn dma_buf(&self, writable: bool) -> Result<ARef<DmaBuf>> {
        // SAFETY: Valid by the type invariant; the attachment is set before the object has any
        // users.
        if let Some(attachment) = unsafe { (*self.as_gem()).import_attach.as_ref() } {
            // SAFETY: The object's attachment holds the dma-buf.
            return Ok(unsafe { DmaBuf::from_raw(attachment.dmabuf) }.into());
        }
        T::check_export(self)?;
        // A mapping of the dma-buf uses the offset of the object, so the offset must exist first.
        self.mmap_offset()?;
        self.exported().lock().get_or(|| {
            // SAFETY: Valid by the type invariant.
            let (dev, resv) = unsafe { ((*self.as_gem()).dev, (*self.as_gem()).resv) };
            let mut info = ffi::dma_buf_export_info {
                exp_name: c"rkfd".as_char_ptr(),
                owner: (&raw const ffi::__this_module).cast_mut(),
                ops: &OPERATIONS.0,
                size: self.size(),
                flags: if writable { ffi::O_RDWR as i32 } else { 0 },
                resv,
                priv_: self.as_gem().cast(),
            };
            // SAFETY: The device is the object's, and the description is complete. The dma-buf
            // takes references to both.
            let raw = from_err_ptr(unsafe { ffi::drm_gem_dmabuf_export(dev, &mut info) })?;
            // SAFETY: A new dma-buf comes with a reference.
            unsafe { DmaBuf::owned(raw) }
        })
    }

    /// The object of `buf`, if it is one of this type, of any device.
    pub(crate) fn of_dma_buf(buf: &DmaBuf) -> Option<ARef<Self>> {
        // SAFETY: The dma-buf is valid, and the operations do not change.
        if !core::ptr::eq(unsafe { (*buf.as_raw()).ops }, &OPERATIONS.0) {
            return None;
        }
        // SAFETY: It has the operations.
        let (obj, functions) = unsafe { object(buf.as_raw()) };
        if (functions.of)() != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: The comparison above proves the type, and the dma-buf holds the object.
        Some(unsafe { &*Self::container(obj) }.into())
    }

    /// The memory of `buf` as an object of `dev`: the exported object itself if it belongs to
    /// `dev`, or else a new one.
    ///
    /// # Errors
    ///
    /// The error of [`GemDriverObject::import`].
    pub(crate) fn import(dev: &ARef<DrmDevice<T::Data>>, buf: &DmaBuf) -> Result<ARef<Self>> {
        if let Some(own) = Self::of_dma_buf(buf).filter(|own| own.is_of(dev)) {
            return Ok(own);
        }
        T::import(dev, buf)
    }

    /// `drm_gem_object_funcs::export`.
    ///
    /// # Safety
    ///
    /// `obj` must be the `obj` of a `Self`.
    unsafe extern "C" fn export_callback(
        obj: *mut ffi::drm_gem_object,
        flags: c_int,
    ) -> *mut ffi::dma_buf {
        // SAFETY: By this function's contract.
        let this = unsafe { &*Self::container(obj) };
        match this.dma_buf(flags & ffi::O_RDWR as i32 != 0) {
            Ok(buf) => ARef::into_raw(buf).as_ptr().cast(),
            Err(error) => error.to_ptr(),
        }
    }

    /// Calls [`GemDriverObject::attach`].
    ///
    /// # Safety
    ///
    /// As for [`GemObject::export_callback`].
    unsafe fn attach_callback(obj: *mut ffi::drm_gem_object, reaches: bool) -> Result {
        // SAFETY: By this function's contract.
        T::attach(unsafe { &*Self::container(obj) }, reaches)
    }

    /// Calls [`GemDriverObject::share_in_place`].
    ///
    /// # Safety
    ///
    /// As for [`GemObject::share_callback`].
    unsafe fn share_in_place_callback(
        obj: *mut ffi::drm_gem_object,
        dev: &ARef<kernel::device::Device>,
    ) -> Result<Option<InPlaceShare>> {
        // SAFETY: By this function's contract.
        T::share_in_place(unsafe { &*Self::container(obj) }, dev)
    }

    /// Calls [`GemDriverObject::cpu_access`].
    ///
    /// # Safety
    ///
    /// As for [`GemObject::export_callback`].
    unsafe fn cpu_access_callback(obj: *mut ffi::drm_gem_object) {
        // SAFETY: By this function's contract.
        T::cpu_access(unsafe { &*Self::container(obj) });
    }

    /// Removes `buf`, which is about to be freed.
    ///
    /// # Safety
    ///
    /// As for [`GemObject::export_callback`].
    unsafe fn release_callback(obj: *mut ffi::drm_gem_object, buf: *mut ffi::dma_buf) {
        // SAFETY: By this function's contract.
        unsafe { &*Self::container(obj) }
            .exported()
            .lock()
            .unlist(buf);
    }

    /// Calls [`GemDriverObject::share`].
    ///
    /// # Safety
    ///
    /// As for [`GemObject::export_callback`]; the reservation's lock is held.
    unsafe fn share_callback(obj: *mut ffi::drm_gem_object, stays: bool) -> Result {
        // SAFETY: By this function's contract.
        let this = unsafe { &*Self::container(obj) };
        // Importers that have the object in place, and can use it elsewhere, map it again.
        if T::is_shared_in_place(this) {
            this.exported().lock().invalidate_locked(this.parent())?;
        }
        T::share(this, stays)
    }

    /// Calls [`GemDriverObject::unshare`].
    ///
    /// # Safety
    ///
    /// As for [`GemObject::share_callback`], which was called before.
    unsafe fn unshare_callback(obj: *mut ffi::drm_gem_object, stays: bool) {
        // SAFETY: By this function's contract.
        T::unshare(unsafe { &*Self::container(obj) }, stays);
    }

    /// `drm_gem_object_funcs::get_sg_table`.
    ///
    /// # Safety
    ///
    /// As for [`GemObject::share_callback`].
    unsafe extern "C" fn pages_callback(obj: *mut ffi::drm_gem_object) -> *mut ffi::sg_table {
        // SAFETY: By this function's contract.
        let this = unsafe { &*Self::container(obj) };
        let table = T::with_pages(this, |list| {
            let pages = list.pages();
            let count = u32::try_from(pages.len()).map_err(|_| E2BIG)?;
            let first = pages.as_ptr().cast::<*mut ffi::page>().cast_mut();
            // SAFETY: `first` is an array of `count` pages, which is only read.
            Ok(unsafe { ffi::drm_prime_pages_to_sg(core::ptr::null_mut(), first, count) })
        });
        table
            .unwrap_or(Err(EBUSY))
            .unwrap_or_else(|error: Error| error.to_ptr())
    }

    /// Makes all importers that have the object mapped drop their mappings, and then calls `f`,
    /// while none can map it again. `f` is not called if another task holds the reservation, or a
    /// device does not end its work with the object. May sleep. Called with locks that sharing
    /// takes, so it does not wait for the reservation's lock.
    pub(crate) fn reclaim(&self, f: impl FnOnce()) {
        // SAFETY: Valid by the type invariant.
        let resv = unsafe { (*self.as_gem()).resv };
        // SAFETY: The object has a reservation as long as it lives.
        if !unsafe { ffi::rkfd_dma_resv_trylock(resv) } {
            return;
        }
        let given_back = self.exported().lock().invalidate_locked(self.parent());
        if given_back.is_ok() {
            f();
        }
        // SAFETY: It was just locked.
        unsafe { ffi::rkfd_dma_resv_unlock(resv) };
    }

    /// Makes all importers that have the object in place drop their mappings, as the object's
    /// device is about to be removed. May sleep.
    pub(crate) fn revoke_all(&self) {
        if !T::is_shared_in_place(self) {
            return;
        }
        // SAFETY: Valid by the type invariant.
        let resv = unsafe { (*self.as_gem()).resv };
        // SAFETY: The object has a reservation as long as it lives.
        unsafe { ffi::rkfd_dma_resv_lock(resv) };
        let given_back = self.exported().lock().invalidate_locked(self.parent());
        // SAFETY: It was just locked.
        unsafe { ffi::rkfd_dma_resv_unlock(resv) };
        if given_back.is_err() || T::is_shared_in_place(self) {
            pr_err!("a device that imports VRAM of a GPU which goes does not give it back\n");
        }
    }
}

/// `drm_driver::gem_prime_import`: imports a dma-buf for a file that has no handle to it yet.
///
/// # Errors
///
/// `EACCES` if the dma-buf is read-only.
///
/// # Safety
///
/// DRM calls it with a device of `D`, and with a dma-buf that the caller holds.
pub(super) unsafe extern "C" fn import_callback<D: DrmDriver>(
    drm: *mut ffi::drm_device,
    buf: *mut ffi::dma_buf,
) -> *mut ffi::drm_gem_object {
    // SAFETY: By this function's contract.
    let (dev, buf) = unsafe { (DrmDevice::<D::Data>::from_raw(drm), DmaBuf::from_raw(buf)) };
    // A handle allows writing too, by the GPU and through mmap.
    if !buf.is_writable() {
        return EACCES.to_ptr();
    }
    // An import that the removal of the device does not wait for would map memory without any user.
    let object = dev
        .while_plugged(|| GemObject::<D::Object>::import(&dev.into(), buf))
        .unwrap_or(Err(ENODEV));
    match object {
        Ok(object) => {
            let object: NonNull<GemObject<D::Object>> = ARef::into_raw(object);
            // SAFETY: It is an object; DRM takes its reference.
            unsafe { object.as_ref() }.as_gem()
        }
        Err(error) => error.to_ptr(),
    }
}

/// Maps the dma-buf of an imported object at `vma` in place of the object. Drops the reference to
/// the object that comes with a mapping.
///
/// # Errors
///
/// The errors of mapping the dma-buf; `EACCES` if it is read-only.
///
/// # Safety
///
/// `obj` must be an imported object, and `vma` a mapping of it that is being made.
pub(super) unsafe fn mmap_imported(
    obj: *mut ffi::drm_gem_object,
    vma: *mut ffi::vm_area_struct,
) -> Result {
    // SAFETY: By this function's contract: the mapping belongs to the caller alone, and the
    // attachment holds the dma-buf. DRM has taken a reference for the mapping, which the exporter's
    // own mapping does not need.
    unsafe {
        let buf = (*(*obj).import_attach).dmabuf;
        if !DmaBuf::from_raw(buf).is_writable() {
            // The mapped file is writable, but the dma-buf's file is not.
            if ffi::rkfd_vma_flags(vma) & (ffi::VM_SHARED | ffi::VM_WRITE)
                == ffi::VM_SHARED | ffi::VM_WRITE
            {
                return Err(EACCES);
            }
            ffi::rkfd_vm_flags_clear(vma, ffi::VM_MAYWRITE);
        }
        (*vma).vm_private_data = core::ptr::null_mut();
        (*vma).vm_ops = core::ptr::null();
        to_result(ffi::dma_buf_mmap(buf, vma, 0))?;
        ffi::rkfd_vm_flags_set(vma, ffi::VM_DONTEXPAND);
        ffi::rkfd_drm_gem_object_put(obj);
    }
    Ok(())
}
