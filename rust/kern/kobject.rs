// SPDX-License-Identifier: GPL-2.0
//! Folders and links in sysfs, with the text files in them.

mod files;

use core::ptr::NonNull;

use kernel::device::{Bound, Device};
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use super::class::ClassDevice;
use super::device::as_raw;
use crate::ffi;

use self::files::{create_files, display, remove_files, SysfsFile};
pub(crate) use self::files::{SysfsFiles, SysfsName, SysfsPage, SysfsShow, SysfsStore};

/// The memory of a kobject, which owns it.
#[repr(C)]
struct KobjectInner {
    kobject: Opaque<ffi::kobject>,
    files: KVec<SysfsFile>,
}

/// A folder. Folders below it have to be dropped before it.
pub(crate) struct SysfsFolder(NonNull<KobjectInner>);

// SAFETY: The kobject is reference counted and its files never change.
unsafe impl Send for SysfsFolder {}
// SAFETY: As above.
unsafe impl Sync for SysfsFolder {}

static OPS: ffi::sysfs_ops = ffi::sysfs_ops {
    show: Some(show),
    store: None,
};

/// Makes a `kobj_type` `Sync`, as a static requires.
#[repr(transparent)]
struct KobjectType(ffi::kobj_type);

// SAFETY: The kernel only reads it.
unsafe impl Sync for KobjectType {}

static TYPE: KobjectType = {
    let mut ty: ffi::kobj_type = pin_init::zeroed();
    ty.release = Some(release);
    ty.sysfs_ops = &OPS;
    KobjectType(ty)
};

/// `sysfs_ops::show`.
///
/// # Safety
///
/// sysfs calls it with a file of a [`SysfsFolder`], which stays during the call, and a page to
/// write to.
unsafe extern "C" fn show(
    _kobject: *mut ffi::kobject,
    attribute: *mut ffi::attribute,
    page: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: Files of kobjects of `TYPE` are made by `create_files` alone, of attributes that are
    // the first member of a `SysfsFile`, which stays until the file is removed.
    unsafe { display(attribute.cast(), page) }
}

/// `kobj_type::release`.
///
/// # Safety
///
/// The kernel calls it once, with the kobject of a [`SysfsFolder`] after its last use.
unsafe extern "C" fn release(kobject: *mut ffi::kobject) {
    // SAFETY: The kernel calls this once, with the last reference gone; `create` leaked the box to
    // it.
    drop(unsafe { KBox::from_raw(kobject.cast::<KobjectInner>()) });
}

impl SysfsFolder {
    /// Creates a folder `name` under `device`.
    pub(crate) fn under_device(
        device: &ClassDevice,
        name: &CStr,
        files: SysfsFiles,
    ) -> Result<Self> {
        Self::create(device.kobject(), core::ptr::null_mut(), name, files)
    }

    /// Creates a folder `name` under the bound device `device`. Its driver drops it before the
    /// unbind ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EEXIST` if the name is in use.
    pub(crate) fn under_bound(
        device: &Device<Bound>,
        name: &CStr,
        files: SysfsFiles,
    ) -> Result<Self> {
        // SAFETY: A bound device is valid; only the address of its kobject is taken.
        let parent = unsafe { &raw mut (*as_raw(device)).kobj };
        Self::create(parent, core::ptr::null_mut(), name, files)
    }

    /// Creates a folder `name` under `self`.
    pub(crate) fn folder(&self, name: &CStr, files: SysfsFiles) -> Result<Self> {
        Self::create(self.kobject(), core::ptr::null_mut(), name, files)
    }

    /// Adds more files to `self`. They have to be dropped before it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn add(&self, files: SysfsFiles) -> Result<AddedFiles> {
        // SAFETY: The folder was added.
        unsafe { AddedFiles::new(self.kobject(), files) }
    }

    /// Creates a link `name` in `self` to the folder of `device`. It has to be dropped before
    /// `self`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EEXIST` if the name is in use.
    pub(crate) fn link(&self, device: &Device, name: &CStr) -> Result<SysfsLink> {
        // SAFETY: The device is valid, and stays so during the call.
        unsafe { self.link_to(&raw mut (*as_raw(device)).kobj, name) }
    }

    /// Creates a link `name` in `self` to `folder`. It has to be dropped before both.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EEXIST` if the name is in use.
    pub(crate) fn link_folder(&self, folder: &Self, name: &CStr) -> Result<SysfsLink> {
        // SAFETY: The folder was added and stays during the call.
        unsafe { self.link_to(folder.kobject(), name) }
    }

    /// Creates a link `name` in `self` to the folder of `target`.
    ///
    /// # Safety
    ///
    /// `target` is valid during the call.
    unsafe fn link_to(&self, target: *mut ffi::kobject, name: &CStr) -> Result<SysfsLink> {
        let name = CString::try_from(name)?;
        let kobject = self.kobject();
        // SAFETY: The folder was added, the target is valid by this function's contract, and the
        // name is copied.
        to_result(unsafe { ffi::sysfs_create_link(kobject, target, name.as_char_ptr()) })?;
        // SAFETY: `self` holds a reference to the folder.
        unsafe { ffi::kobject_get(kobject) };
        Ok(SysfsLink { kobject, name })
    }

    fn kobject(&self) -> *mut ffi::kobject {
        // SAFETY: The folder lives as long as `self`.
        unsafe { (*self.0.as_ptr()).kobject.get() }
    }

    /// Creates a folder `name` under `/sys/module`, next to that of `module`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a module of that name is loaded.
    pub(crate) fn under_module_set(
        module: &'static ThisModule,
        name: &CStr,
        files: SysfsFiles,
    ) -> Result<Self> {
        if Self::is_module(module, name)? {
            return Err(EBUSY);
        }
        Self::create(core::ptr::null_mut(), Self::modules(module)?, name, files)
    }

    /// Returns whether a module called `name` is loaded, beside `module`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if `module` is in no set.
    pub(crate) fn is_module(module: &'static ThisModule, name: &CStr) -> Result<bool> {
        let set = Self::modules(module)?;
        // SAFETY: The set and the name are valid; the call returns a reference if it finds an
        // object.
        let other = unsafe { ffi::kset_find_obj(set, name.as_char_ptr()) };
        if other.is_null() {
            return Ok(false);
        }
        // SAFETY: The call returned the reference to us.
        unsafe { ffi::kobject_put(other) };
        Ok(true)
    }

    /// The set of modules, which outlives the module.
    fn modules(module: &'static ThisModule) -> Result<*mut ffi::kset> {
        // SAFETY: The module is loaded, so its kobject is in the set of modules.
        let set = unsafe { (*module.as_ptr()).mkobj.kobj.kset };
        if set.is_null() {
            return Err(ENODEV);
        }
        Ok(set)
    }

    fn create(
        parent: *mut ffi::kobject,
        set: *mut ffi::kset,
        name: &CStr,
        files: SysfsFiles,
    ) -> Result<Self> {
        let inner = KBox::new(
            KobjectInner {
                kobject: Opaque::zeroed(),
                files: files.files,
            },
            GFP_KERNEL,
        )?;
        let inner = NonNull::from(&mut *KBox::leak(inner));
        // SAFETY: We own the leaked memory, which has no other user.
        let kobject = unsafe { (*inner.as_ptr()).kobject.get() };
        // SAFETY: As above; the set outlives the module.
        unsafe { (*kobject).kset = set };
        // SAFETY: The kobject is zeroed, of `TYPE` it is the first member, the parent is alive or
        // null, and the format takes one string, which is copied.
        let added = to_result(unsafe {
            ffi::kobject_init_and_add(
                kobject,
                (&raw const TYPE.0).cast_mut(),
                parent,
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        });
        // From here on the kobject owns the memory, also if it could not be added.
        if let Err(error) = added {
            // SAFETY: The reference is ours. The kobject has left its set by itself, so it must not
            // be removed from it again.
            unsafe { ffi::kobject_put(kobject) };
            return Err(error);
        }
        let folder = Self(inner);
        // SAFETY: The files live in the kobject's own memory, and neither they nor their list
        // change any more.
        let files = unsafe { &(*inner.as_ptr()).files };
        // SAFETY: The kobject was added, and is removed before the files are freed.
        unsafe { create_files(kobject, files) }?;
        Ok(folder)
    }
}

impl Drop for SysfsFolder {
    fn drop(&mut self) {
        // SAFETY: We hold a reference to the kobject. Only folders below hold others, and they are
        // gone. The files are removed with it, after their readers.
        unsafe {
            let kobject = (*self.0.as_ptr()).kobject.get();
            ffi::kobject_del(kobject);
            ffi::kobject_put(kobject);
        }
    }
}

/// Files that were added later to a folder or to that of a device. They have to be dropped before
/// it.
pub(crate) struct AddedFiles {
    kobject: *mut ffi::kobject,
    files: KVec<SysfsFile>,
}

// SAFETY: As for `SysfsFolder`.
unsafe impl Send for AddedFiles {}
// SAFETY: As for `SysfsFolder`.
unsafe impl Sync for AddedFiles {}

impl AddedFiles {
    /// Adds files to the folder of `device`. The device's driver makes them, and drops them before
    /// the unbind ends.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EEXIST` if there is a file of that name.
    pub(crate) fn of_device(device: &Device<Bound>, files: SysfsFiles) -> Result<Self> {
        // SAFETY: A bound device has been added, and its attributes are shown by `dev_attr_show`,
        // which they are made for.
        unsafe { Self::new(&raw mut (*as_raw(device)).kobj, files) }
    }

    /// Adds files to the folder of `kobject`.
    ///
    /// # Safety
    ///
    /// `kobject` was added, and shows attributes of `SysfsFile`s.
    unsafe fn new(kobject: *mut ffi::kobject, files: SysfsFiles) -> Result<Self> {
        // SAFETY: By this function's contract; the result keeps the files, in a list that no longer
        // changes.
        unsafe { create_files(kobject, &files.files) }?;
        // SAFETY: The folder exists, so the kobject has a reference.
        unsafe { ffi::kobject_get(kobject) };
        Ok(Self {
            kobject,
            files: files.files,
        })
    }
}

impl Drop for AddedFiles {
    fn drop(&mut self) {
        // SAFETY: We hold a reference to the kobject, to whose folder the files were added.
        unsafe {
            remove_files(self.kobject, &self.files);
            ffi::kobject_put(self.kobject);
        }
    }
}

/// A link in a folder.
pub(crate) struct SysfsLink {
    kobject: *mut ffi::kobject,
    name: CString,
}

// SAFETY: As for `SysfsFolder`.
unsafe impl Send for SysfsLink {}
// SAFETY: As for `SysfsFolder`.
unsafe impl Sync for SysfsLink {}

impl Drop for SysfsLink {
    fn drop(&mut self) {
        // SAFETY: We hold a reference to the kobject, in whose folder the link was made.
        unsafe {
            ffi::sysfs_remove_link(self.kobject, self.name.as_char_ptr());
            ffi::kobject_put(self.kobject);
        }
    }
}
