// SPDX-License-Identifier: GPL-2.0
//! Text files in sysfs: their names and their contents, fixed or generated on each read.

use core::fmt::{self, Write};

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::ffi;
use crate::kern::render_node::RenderNode;

/// The largest size of a file in bytes: sysfs reads a page.
const PAGE: usize = 4096;

/// The name of a file, or of all files of one kind. A static: it tells lockdep which files are
/// alike.
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

/// The content of a file that is generated on each read. It must not need a lock under which its
/// file is removed: the removal waits for readers.
pub(crate) trait SysfsShow: Send + Sync {
    /// Writes the content to `page`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFBIG` if the page is full. The reader gets all errors.
    fn show(&self, page: &mut SysfsPage<'_>) -> Result;
}

impl<T: fmt::Display + Send + Sync> SysfsShow for T {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        write!(page, "{self}").map_err(|_| EFBIG)
    }
}

/// The content of a file that root may write.
pub(crate) trait SysfsStore: SysfsShow {
    /// Takes `text`, all that one write has. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a text without meaning here. The writer gets all errors.
    fn store(&self, text: &[u8]) -> Result;
}

/// A shared [`SysfsShow`].
pub(crate) type Live = Arc<dyn SysfsShow>;

/// The content of a file.
enum FileContent {
    Text(KVec<u8>),
    /// In decimal, without a line end.
    Number(u64),
    Live(Live),
    Setting(Arc<dyn SysfsStore>),
}

/// A world-readable file in a folder of ours or in that of a device; root may write a setting.
/// sysfs keeps the address of its attribute until it is removed.
#[repr(C)]
pub(super) struct SysfsFile {
    attribute: ffi::device_attribute,
    content: FileContent,
    /// The render node without which the file cannot be read.
    node: Option<RenderNode>,
    /// The name, if it differs from that of the kind.
    _name: Option<CString>,
}

impl SysfsFile {
    fn new(kind: &'static SysfsName, name: Option<CString>, content: FileContent) -> Self {
        let mut attribute: ffi::device_attribute = pin_init::zeroed();
        attribute.attr.name = name.as_deref().unwrap_or(kind.name).as_char_ptr();
        attribute.attr.mode = 0o444;
        if let FileContent::Setting(_) = content {
            attribute.attr.mode = 0o644;
            attribute.__bindgen_anon_2.store = Some(store_of_device);
        }
        #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
        {
            attribute.attr.key = (&raw const kind.class.0).cast_mut();
        }
        attribute.__bindgen_anon_1.show = Some(show_of_device);
        Self {
            attribute,
            content,
            node: None,
            _name: name,
        }
    }

    /// The attribute, through which sysfs finds the whole file.
    fn as_attribute(&self) -> *const ffi::attribute {
        core::ptr::from_ref(self).cast()
    }
}

/// The text of a file during its construction.
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

/// The page for a reader, and the number of bytes written so far.
pub(crate) struct SysfsPage<'a>(&'a mut [u8], usize);

impl SysfsPage<'_> {
    /// Adds bytes, which need not be text.
    ///
    /// # Errors
    ///
    /// `EFBIG` if they do not fit.
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

/// The files for a folder.
pub(crate) struct SysfsFiles {
    pub(super) files: KVec<SysfsFile>,
    node: Option<RenderNode>,
}

// SAFETY: Any thread only reads the attributes; the rest may move between threads.
unsafe impl Send for SysfsFiles {}
// SAFETY: As above.
unsafe impl Sync for SysfsFiles {}

impl SysfsFiles {
    /// The attributes with a null at the end, as attribute groups need them. They are valid as long
    /// as the files, if no file is added any more.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(in crate::kern) fn attributes(&self) -> Result<KVec<*mut ffi::attribute>> {
        let mut attributes = KVec::with_capacity(self.files.len() + 1, GFP_KERNEL)?;
        for file in &self.files {
            attributes.push(file.as_attribute().cast_mut(), GFP_KERNEL)?;
        }
        attributes.push(core::ptr::null_mut(), GFP_KERNEL)?;
        Ok(attributes)
    }

    /// An empty list.
    pub(crate) fn new() -> Self {
        Self::of_node(None)
    }

    /// An empty list for files that only processes can read to which their cgroups grant `node`:
    /// others get `EPERM`, as from amdkfd.
    pub(crate) fn of_node(node: Option<RenderNode>) -> Self {
        Self {
            files: KVec::new(),
            node,
        }
    }

    /// An empty list with room for `count` files.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn with_capacity(count: usize) -> Result<Self> {
        Ok(Self {
            files: KVec::with_capacity(count, GFP_KERNEL)?,
            node: None,
        })
    }

    /// Adds file `name` with the text that `content` displays now.
    ///
    /// # Errors
    ///
    /// `EFBIG` if the text is not shorter than a page; `ENOMEM` if there is no memory.
    pub(crate) fn with(self, name: &'static SysfsName, content: &dyn fmt::Display) -> Result<Self> {
        let mut text = SysfsText(KVec::with_capacity(64, GFP_KERNEL)?);
        write!(text, "{content}").map_err(|_| EFBIG)?;
        self.with_file(SysfsFile::new(name, None, FileContent::Text(text.0)))
    }

    /// Adds file `name` with a number, without a line end.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn with_number(self, name: &'static SysfsName, number: u64) -> Result<Self> {
        self.with_file(SysfsFile::new(name, None, FileContent::Number(number)))
    }

    /// Adds file `name`, whose content comes from `content` on each read. The reader gets `EFBIG`
    /// if it is not shorter than a page.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn with_live(self, name: &'static SysfsName, content: Live) -> Result<Self> {
        self.with_file(SysfsFile::new(name, None, FileContent::Live(content)))
    }

    /// Adds file `name`, which root may write, to a list for the folder of a device.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn with_setting(
        self,
        name: &'static SysfsName,
        setting: Arc<dyn SysfsStore>,
    ) -> Result<Self> {
        self.with_file(SysfsFile::new(name, None, FileContent::Setting(setting)))
    }

    /// The same for a file with the name `name`, of the kind `kind`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn with_live_as(
        self,
        kind: &'static SysfsName,
        name: CString,
        content: Live,
    ) -> Result<Self> {
        self.with_file(SysfsFile::new(kind, Some(name), FileContent::Live(content)))
    }

    fn with_file(mut self, mut file: SysfsFile) -> Result<Self> {
        file.node = self.node;
        self.files.push(file, GFP_KERNEL)?;
        Ok(self)
    }
}

/// Creates all files in the folder of `kobject`, or none of them.
///
/// # Safety
///
/// `kobject` was added. The files must stay at their addresses until they are removed, or the
/// folder is.
pub(super) unsafe fn create_files(kobject: *mut ffi::kobject, files: &[SysfsFile]) -> Result {
    for (index, file) in files.iter().enumerate() {
        // SAFETY: By this function's contract.
        let made = to_result(unsafe {
            ffi::sysfs_create_file_ns(kobject, file.as_attribute(), core::ptr::null())
        });
        if made.is_err() {
            // SAFETY: By this function's contract; these files were created.
            unsafe { remove_files(kobject, files.get(..index).unwrap_or(&[])) };
            return made;
        }
    }
    Ok(())
}

/// Removes files from the folder of `kobject`; waits for their readers.
///
/// # Safety
///
/// `kobject` was added, and the files are in its folder.
pub(super) unsafe fn remove_files(kobject: *mut ffi::kobject, files: &[SysfsFile]) {
    for file in files {
        // SAFETY: By this function's contract.
        unsafe { ffi::sysfs_remove_file_ns(kobject, file.as_attribute(), core::ptr::null()) };
    }
}

/// `device_attribute::show`.
///
/// # Safety
///
/// The driver core calls it with a file of
/// [`AddedFiles::of_device`](super::AddedFiles::of_device), which stays during the call, and a page
/// to write to.
unsafe extern "C" fn show_of_device(
    _device: *mut ffi::device,
    attribute: *mut ffi::device_attribute,
    page: *mut kernel::ffi::c_char,
) -> isize {
    // SAFETY: Attributes with this function are the first member of a `SysfsFile`, which stays
    // until the file is removed.
    unsafe { display(attribute.cast(), page) }
}

/// `device_attribute::store`.
///
/// # Safety
///
/// The driver core calls it with a file of
/// [`AddedFiles::of_device`](super::AddedFiles::of_device), which stays during the call, and with
/// `count` bytes to read.
unsafe extern "C" fn store_of_device(
    _device: *mut ffi::device,
    attribute: *mut ffi::device_attribute,
    text: *const kernel::ffi::c_char,
    count: usize,
) -> isize {
    // SAFETY: Attributes with this function are the first member of a `SysfsFile`, which stays
    // until the file is removed; the text is by this function's contract.
    let (file, text) = unsafe {
        (
            &*attribute.cast::<SysfsFile>(),
            core::slice::from_raw_parts(text.cast::<u8>(), count),
        )
    };
    let FileContent::Setting(setting) = &file.content else {
        return EIO.to_errno() as isize;
    };
    match setting.store(text) {
        Ok(()) => count as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// Writes the content of a file to `page`; returns the number of bytes, or the errno.
///
/// # Safety
///
/// The file stays during the call; `page` has no other user.
pub(super) unsafe fn display(file: *const SysfsFile, page: *mut kernel::ffi::c_char) -> isize {
    // SAFETY: By this function's contract.
    let (file, page) = unsafe {
        (
            &*file,
            core::slice::from_raw_parts_mut(page.cast::<u8>(), PAGE),
        )
    };
    if file.node.is_some_and(|node| !node.is_granted()) {
        return EPERM.to_errno() as isize;
    }
    let mut page = SysfsPage(page, 0);
    let written = match &file.content {
        FileContent::Text(text) => page.write_bytes(text),
        FileContent::Number(number) => number.show(&mut page),
        FileContent::Live(content) => content.show(&mut page),
        FileContent::Setting(setting) => setting.show(&mut page),
    };
    match written {
        // sysfs requires less than the whole page.
        Ok(()) if page.1 < PAGE => page.1 as isize,
        Ok(()) => EFBIG.to_errno() as isize,
        Err(error) => error.to_errno() as isize,
    }
}
