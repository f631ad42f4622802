// SPDX-License-Identifier: GPL-2.0
//! Folders in sysfs, and files of text there: fixed, or made when it is read.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use kernel::device::{Bound, Device};
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::types::Opaque;

use super::class::ClassDevice;
use super::device::as_raw;
use crate::ffi;

/// Bytes that a file may have: sysfs reads a page.
const PAGE: usize = 4096;

/// The name of a file, or of all files of one kind. A static: it tells lockdep which files are alike.
pub(crate) struct SysfsName {
    name: &'static CStr,
    #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
    class: LockClass,
}

#[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
struct LockClass(ffi::lock_class_key);

#[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
// SAFETY: Only its address is used.
unsafe impl Sync for LockClass {}

impl SysfsName {
    /// The file name `name`.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
            class: LockClass(pin_init::zeroed()),
        }
    }
}

/// What a file says that is made when somebody reads it. No lock may be needed for it under which its file is removed: that
/// waits for who reads.
pub(crate) trait SysfsShow: Send + Sync {
    /// Writes it to `page`. EFBIG where that is full; other errors are the reader's, too. Sleeps, if it likes.
    fn show(&self, page: &mut SysfsPage<'_>) -> Result;
}

impl<T: fmt::Display + Send + Sync> SysfsShow for T {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        write!(page, "{self}").map_err(|_| EFBIG)
    }
}

/// One of these, shared.
pub(crate) type Live = Arc<dyn SysfsShow>;

/// What a file says.
enum FileContent {
    Text(KVec<u8>),
    /// In decimal, without the end of a line.
    Number(u64),
    Live(Live),
}

/// A file, which all may read, in a folder of ours or in that of a device. sysfs keeps the address of its attribute
/// until it is removed.
#[repr(C)]
struct SysfsFile {
    attribute: ffi::device_attribute,
    content: FileContent,
    /// The name, if it is not the kind's.
    _name: Option<CString>,
}

impl SysfsFile {
    fn new(kind: &'static SysfsName, name: Option<CString>, content: FileContent) -> Self {
        let mut attribute: ffi::device_attribute = pin_init::zeroed();
        attribute.attr.name = name.as_deref().unwrap_or(kind.name).as_char_ptr();
        attribute.attr.mode = 0o444;
        #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
        {
            attribute.attr.key = (&raw const kind.class.0).cast_mut();
        }
        attribute.__bindgen_anon_1.show = Some(show_of_device);
        Self {
            attribute,
            content,
            _name: name,
        }
    }

    /// The attribute, by which all of the file is found again.
    fn as_attribute(&self) -> *const ffi::attribute {
        core::ptr::from_ref(self).cast()
    }
}

/// What the kobject's memory is; the kobject owns it.
#[repr(C)]
struct KobjectInner {
    kobject: Opaque<ffi::kobject>,
    files: KVec<SysfsFile>,
}

/// Text that is being written to a file.
struct SysfsText(KVec<u8>);

impl Write for SysfsText {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() >= PAGE {
            return Err(fmt::Error);
        }
        self.0
            .extend_from_slice(s.as_bytes(), GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

/// The page that a reader gets, and how much of it is written.
pub(crate) struct SysfsPage<'a>(&'a mut [u8], usize);

impl SysfsPage<'_> {
    /// Adds bytes, which need not be text. EFBIG if they do not fit.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result {
        let end = self.1.checked_add(bytes.len()).ok_or(EFBIG)?;
        let place = self.0.get_mut(self.1..end).ok_or(EFBIG)?;
        place.copy_from_slice(bytes);
        self.1 = end;
        Ok(())
    }
}

impl Write for SysfsPage<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.write_bytes(s.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// The files that a folder will have.
pub(crate) struct SysfsFiles(KVec<SysfsFile>);

// SAFETY: Attributes are only read, by whoever; what is beside them may go anywhere.
unsafe impl Send for SysfsFiles {}
// SAFETY: As above.
unsafe impl Sync for SysfsFiles {}

impl SysfsFiles {
    /// Their attributes, and a null behind them: what groups of attributes are made of. They are there as long as the files, if none is
    /// added any more. ENOMEM.
    pub(super) fn attributes(&self) -> Result<KVec<*mut ffi::attribute>> {
        let mut attributes = KVec::with_capacity(self.0.len() + 1, GFP_KERNEL)?;
        for file in &self.0 {
            attributes.push(file.as_attribute().cast_mut(), GFP_KERNEL)?;
        }
        attributes.push(core::ptr::null_mut(), GFP_KERNEL)?;
        Ok(attributes)
    }

    /// No files.
    pub(crate) fn new() -> Self {
        Self(KVec::new())
    }

    /// Room for `count` files, of which there are none yet. ENOMEM.
    pub(crate) fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self(KVec::with_capacity(count, GFP_KERNEL)?))
    }

    /// Adds file `name` with what `content` displays as now. EFBIG if that does not stay below a page, ENOMEM.
    pub(crate) fn with(self, name: &'static SysfsName, content: &dyn fmt::Display) -> Result<Self> {
        let mut text = SysfsText(KVec::with_capacity(64, GFP_KERNEL)?);
        write!(text, "{content}").map_err(|_| EFBIG)?;
        self.and(SysfsFile::new(name, None, FileContent::Text(text.0)))
    }

    /// Adds file `name` with a number, without the end of a line. ENOMEM.
    pub(crate) fn with_number(self, name: &'static SysfsName, number: u64) -> Result<Self> {
        self.and(SysfsFile::new(name, None, FileContent::Number(number)))
    }

    /// Adds file `name` with what `content` shows when it is read. Who reads gets EFBIG if that does not stay below a page. ENOMEM.
    pub(crate) fn with_live(self, name: &'static SysfsName, content: Live) -> Result<Self> {
        self.and(SysfsFile::new(name, None, FileContent::Live(content)))
    }

    /// The same for a file that is called `name`, one of the kind `kind`. ENOMEM.
    pub(crate) fn with_live_as(
        self,
        kind: &'static SysfsName,
        name: CString,
        content: Live,
    ) -> Result<Self> {
        self.and(SysfsFile::new(kind, Some(name), FileContent::Live(content)))
    }

    fn and(mut self, file: SysfsFile) -> Result<Self> {
        self.0.push(file, GFP_KERNEL)?;
        Ok(self)
    }
}

/// Makes files in the folder of `kobject`, or none of them.
///
/// # Safety
///
/// `kobject` was added, and the files stay, and stay where they are, until they are removed, or its folder is.
unsafe fn create_files(kobject: *mut ffi::kobject, files: &[SysfsFile]) -> Result {
    for (index, file) in files.iter().enumerate() {
        // SAFETY: By this function's contract.
        let made = to_result(unsafe {
            ffi::sysfs_create_file_ns(kobject, file.as_attribute(), core::ptr::null())
        });
        if made.is_err() {
            // SAFETY: By this function's contract; those were made.
            unsafe { remove_files(kobject, files.get(..index).unwrap_or(&[])) };
            return made;
        }
    }
    Ok(())
}

/// Removes files from the folder of `kobject`, after their readers.
///
/// # Safety
///
/// `kobject` was added, and they are files in it.
unsafe fn remove_files(kobject: *mut ffi::kobject, files: &[SysfsFile]) {
    for file in files {
        // SAFETY: By this function's contract.
        unsafe { ffi::sysfs_remove_file_ns(kobject, file.as_attribute(), core::ptr::null()) };
    }
}

/// A folder. Those below it have to be dropped before it.
pub(crate) struct SysfsFolder(NonNull<KobjectInner>);

// SAFETY: The kobject is reference counted and its files never change.
unsafe impl Send for SysfsFolder {}
// SAFETY: As above.
unsafe impl Sync for SysfsFolder {}

static OPS: ffi::sysfs_ops = ffi::sysfs_ops {
    show: Some(show),
    store: None,
};

/// Gives `kobj_type`s the `Sync` that a static needs.
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
/// sysfs calls it with a file of a [`SysfsFolder`], which is there meanwhile, and a page to write to.
unsafe extern "C" fn show(
    _kobject: *mut ffi::kobject,
    attribute: *mut ffi::attribute,
    page: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: Files of kobjects of `TYPE` are made by `create_files` alone, of attributes that are the first member of a
    // `SysfsFile`, which is there until the file is removed.
    unsafe { display(attribute.cast(), page) }
}

/// `device_attribute::show`.
///
/// # Safety
///
/// The driver core calls it with a file of [`AddedFiles::of_device`], which is there meanwhile, and a page to write to.
unsafe extern "C" fn show_of_device(
    _device: *mut ffi::device,
    attribute: *mut ffi::device_attribute,
    page: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: Attributes with this function are the first member of a `SysfsFile`, which is there until the file is removed.
    unsafe { display(attribute.cast(), page) }
}

/// Writes what a file says to `page`; the bytes, or the errno.
///
/// # Safety
///
/// The file is there meanwhile; `page` is one that nobody else has.
unsafe fn display(file: *const SysfsFile, page: *mut kernel::ffi::c_char) -> isize {
    // SAFETY: By this function's contract.
    let (file, page) = unsafe {
        (
            &*file,
            core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE),
        )
    };
    let mut page = SysfsPage(page, 0);
    let written = match &file.content {
        FileContent::Text(text) => page.write_bytes(text),
        FileContent::Number(number) => number.show(&mut page),
        FileContent::Live(content) => content.show(&mut page),
    };
    match written {
        // sysfs wants less than the whole page.
        Ok(()) if page.1 < PAGE => page.1 as isize,
        Ok(()) => EFBIG.to_errno() as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// `kobj_type::release`.
///
/// # Safety
///
/// The kernel calls it once, with the kobject of a [`SysfsFolder`] that nobody uses any more.
unsafe extern "C" fn release(kobject: *mut ffi::kobject) {
    // SAFETY: The kernel calls this once, with the last reference gone; `create` leaked the box to it.
    drop(unsafe { KBox::from_raw(kobject.cast::<KobjectInner>()) });
}

impl SysfsFolder {
    /// A folder `name` under `device`.
    pub(crate) fn under_device(
        device: &ClassDevice,
        name: &CStr,
        files: SysfsFiles,
    ) -> Result<Self> {
        Self::create(device.kobject(), core::ptr::null_mut(), name, files)
    }

    /// A folder `name` under `self`.
    pub(crate) fn folder(&self, name: &CStr, files: SysfsFiles) -> Result<Self> {
        Self::create(self.kobject(), core::ptr::null_mut(), name, files)
    }

    /// More files in `self`. They have to be dropped before it. ENOMEM.
    pub(crate) fn add(&self, files: SysfsFiles) -> Result<AddedFiles> {
        // SAFETY: The folder was added.
        unsafe { AddedFiles::new(self.kobject(), files) }
    }

    /// A link `name` in `self` to the folder of `device`. It has to be dropped before `self`. ENOMEM, EEXIST.
    pub(crate) fn link(&self, device: &Device, name: &CStr) -> Result<SysfsLink> {
        let name = CString::try_from(name)?;
        let kobject = self.kobject();
        // SAFETY: The folder was added, the device is there, and the name is copied.
        to_result(unsafe {
            ffi::sysfs_create_link(kobject, &raw mut (*as_raw(device)).kobj, name.as_char_ptr())
        })?;
        // SAFETY: The folder has a reference.
        unsafe { ffi::kobject_get(kobject) };
        Ok(SysfsLink { kobject, name })
    }

    fn kobject(&self) -> *mut ffi::kobject {
        // SAFETY: The folder lives as long as `self`.
        unsafe { (*self.0.as_ptr()).kobject.get() }
    }

    /// A folder `name` under `/sys/module`, beside that of `module`. EBUSY if a module of that name is loaded.
    pub(crate) fn under_module_set(
        module: &'static ThisModule,
        name: &CStr,
        files: SysfsFiles,
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
        files: SysfsFiles,
    ) -> Result<Self> {
        let inner = KBox::new(
            KobjectInner {
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
        // SAFETY: The files live in memory of the kobject's own, and neither they nor their list are changed any more.
        let files = unsafe { &(*inner.as_ptr()).files };
        // SAFETY: The kobject was added, and goes before the files do.
        unsafe { create_files(kobject, files) }?;
        Ok(folder)
    }
}

impl Drop for SysfsFolder {
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

/// Files that were added to a folder later, or to that of a device; they have to be dropped before it.
pub(crate) struct AddedFiles {
    kobject: *mut ffi::kobject,
    files: KVec<SysfsFile>,
}

// SAFETY: As for `SysfsFolder`.
unsafe impl Send for AddedFiles {}
// SAFETY: As for `SysfsFolder`.
unsafe impl Sync for AddedFiles {}

impl AddedFiles {
    /// Files in the folder of `device`, which its driver makes, until it is unbound at the latest. ENOMEM; EEXIST where there is a file of
    /// that name.
    pub(crate) fn of_device(device: &Device<Bound>, files: SysfsFiles) -> Result<Self> {
        // SAFETY: A bound device is there, and its attributes are shown by `dev_attr_show`, for which they are made.
        unsafe { Self::new(&raw mut (*as_raw(device)).kobj, files) }
    }

    /// # Safety
    ///
    /// `kobject` was added, and shows attributes of `SysfsFile`s.
    unsafe fn new(kobject: *mut ffi::kobject, files: SysfsFiles) -> Result<Self> {
        // SAFETY: By this function's contract; the answer keeps the files, in a list that is not changed any more.
        unsafe { create_files(kobject, &files.0) }?;
        // SAFETY: The kobject has a reference.
        unsafe { ffi::kobject_get(kobject) };
        Ok(Self {
            kobject,
            files: files.0,
        })
    }
}

impl Drop for AddedFiles {
    fn drop(&mut self) {
        // SAFETY: We hold a reference of the kobject, to whose folder the files were added.
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
        // SAFETY: We hold a reference of the kobject, in whose folder the link was made.
        unsafe {
            ffi::sysfs_remove_link(self.kobject, self.name.as_char_ptr());
            ffi::kobject_put(self.kobject);
        }
    }
}
