// SPDX-License-Identifier: GPL-2.0
//! Folders in sysfs with files of fixed text.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::class::ClassDevice;
use crate::ffi;

/// Bytes that a file may have: sysfs reads a page.
const PAGE: usize = 4096;

/// The name of a file, which all may read. A static, since sysfs and lockdep keep its address.
#[repr(transparent)]
pub(crate) struct FileName(ffi::attribute);

// SAFETY: sysfs only reads it.
unsafe impl Sync for FileName {}

impl FileName {
    /// The file name `name`.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        let mut attribute: ffi::attribute = pin_init::zeroed();
        attribute.name = kernel::str::as_char_ptr_in_const_context(name);
        attribute.mode = 0o444;
        Self(attribute)
    }
}

/// A file: its name and its text.
struct File {
    name: &'static FileName,
    text: KVec<u8>,
}

/// What the kobject's memory is; the kobject owns it.
#[repr(C)]
struct Inner {
    kobject: Opaque<ffi::kobject>,
    files: KVec<File>,
}

/// Text that is being written to a file.
struct Text(KVec<u8>);

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() >= PAGE {
            return Err(fmt::Error);
        }
        self.0
            .extend_from_slice(s.as_bytes(), GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

/// The files that a folder will have.
pub(crate) struct Files(KVec<File>);

impl Files {
    /// No files.
    pub(crate) fn new() -> Self {
        Self(KVec::new())
    }

    /// Adds file `name` with what `content` displays as. EFBIG if that does not stay below a page, ENOMEM.
    pub(crate) fn with(
        mut self,
        name: &'static FileName,
        content: &dyn fmt::Display,
    ) -> Result<Self> {
        let mut text = Text(KVec::with_capacity(64, GFP_KERNEL)?);
        write!(text, "{content}").map_err(|_| EFBIG)?;
        self.0.push(File { name, text: text.0 }, GFP_KERNEL)?;
        Ok(self)
    }
}

/// A folder. Those below it have to be dropped before it.
pub(crate) struct Folder(NonNull<Inner>);

// SAFETY: The kobject is reference counted and its files never change.
unsafe impl Send for Folder {}
// SAFETY: As above.
unsafe impl Sync for Folder {}

static OPS: ffi::sysfs_ops = ffi::sysfs_ops {
    show: Some(show),
    store: None,
};

/// Gives `kobj_type`s the `Sync` that a static needs.
#[repr(transparent)]
struct Type(ffi::kobj_type);

// SAFETY: The kernel only reads it.
unsafe impl Sync for Type {}

static TYPE: Type = {
    let mut ty: ffi::kobj_type = pin_init::zeroed();
    ty.release = Some(release);
    ty.sysfs_ops = &OPS;
    Type(ty)
};

/// `sysfs_ops::show`.
///
/// # Safety
///
/// sysfs calls it with the kobject of a [`Folder`], which is there meanwhile, and a page to write to.
unsafe extern "C" fn show(
    kobject: *mut ffi::kobject,
    attribute: *mut ffi::attribute,
    page: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: sysfs calls this with a kobject of `TYPE`, the first member of an `Inner`, which it keeps alive
    // until the file is gone.
    let inner = unsafe { &*kobject.cast::<Inner>() };
    let wanted: *const ffi::attribute = attribute;
    let Some(file) = inner
        .files
        .iter()
        .find(|file| core::ptr::eq(&file.name.0, wanted))
    else {
        return EIO.to_errno() as isize;
    };
    // SAFETY: sysfs passes a page, and `Text` kept the file's text below one.
    unsafe { core::ptr::copy_nonoverlapping(file.text.as_ptr(), page.cast(), file.text.len()) };
    file.text.len() as isize
}

/// `kobj_type::release`.
///
/// # Safety
///
/// The kernel calls it once, with the kobject of a [`Folder`] that nobody uses any more.
unsafe extern "C" fn release(kobject: *mut ffi::kobject) {
    // SAFETY: The kernel calls this once, with the last reference gone; `create` leaked the box to it.
    drop(unsafe { KBox::from_raw(kobject.cast::<Inner>()) });
}

impl Folder {
    /// A folder `name` under `device`.
    pub(crate) fn under_device(device: &ClassDevice, name: &CStr, files: Files) -> Result<Self> {
        Self::create(device.kobject(), core::ptr::null_mut(), name, files)
    }

    /// A folder `name` under `self`.
    pub(crate) fn folder(&self, name: &CStr, files: Files) -> Result<Self> {
        // SAFETY: The folder lives as long as `self`.
        let parent = unsafe { (*self.0.as_ptr()).kobject.get() };
        Self::create(parent, core::ptr::null_mut(), name, files)
    }

    /// A folder `name` under `/sys/module`, beside that of `module`. EBUSY if a module of that name is loaded.
    pub(crate) fn under_module_set(
        module: &'static ThisModule,
        name: &CStr,
        files: Files,
    ) -> Result<Self> {
        // SAFETY: The module is loaded, so its kobject is in the set of modules.
        let set = unsafe { (*module.as_ptr()).mkobj.kobj.kset };
        if set.is_null() {
            return Err(ENODEV);
        }
        // SAFETY: The set and the name are valid; a reference is given where one is found.
        let other = unsafe { ffi::kset_find_obj(set, name.as_char_ptr()) };
        if !other.is_null() {
            // SAFETY: The reference was given to us.
            unsafe { ffi::kobject_put(other) };
            return Err(EBUSY);
        }
        Self::create(core::ptr::null_mut(), set, name, files)
    }

    fn create(
        parent: *mut ffi::kobject,
        set: *mut ffi::kset,
        name: &CStr,
        files: Files,
    ) -> Result<Self> {
        let inner = KBox::new(
            Inner {
                kobject: Opaque::zeroed(),
                files: files.0,
            },
            GFP_KERNEL,
        )?;
        let inner = NonNull::from(&mut *KBox::leak(inner));
        // SAFETY: We own the memory just leaked, and nobody else knows it.
        let kobject = unsafe { (*inner.as_ptr()).kobject.get() };
        // SAFETY: As above; the set outlives the module.
        unsafe { (*kobject).kset = set };
        // SAFETY: The kobject is zeroed, of `TYPE` it is the first member, the parent is alive or null, and the
        // format takes one string, which is copied.
        let added = to_result(unsafe {
            ffi::kobject_init_and_add(
                kobject,
                (&raw const TYPE.0).cast_mut(),
                parent,
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        });
        // From here on the kobject owns the memory, also when it could not be added.
        if let Err(error) = added {
            // SAFETY: The reference is ours. It has left its set by itself, so it must not be taken out once more.
            unsafe { ffi::kobject_put(kobject) };
            return Err(error);
        }
        let folder = Self(inner);
        // SAFETY: The files live in the kobject's own memory and are not changed any more.
        let files = unsafe { &(*inner.as_ptr()).files };
        for file in files {
            // SAFETY: The kobject was added; the attribute is a static.
            to_result(unsafe {
                ffi::sysfs_create_file_ns(kobject, &file.name.0, core::ptr::null())
            })?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: We hold a reference of the kobject. Only folders below hold others, and they are gone; the files
        // go with it, after their readers.
        unsafe {
            let kobject = (*self.0.as_ptr()).kobject.get();
            ffi::kobject_del(kobject);
            ffi::kobject_put(kobject);
        }
    }
}
