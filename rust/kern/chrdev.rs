// SPDX-License-Identifier: GPL-2.0
//! Character devices with one minor number.

use core::marker::PhantomData;

use kernel::container_of;
use kernel::error::to_result;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::types::{ForeignOwnable, Opaque};

use super::anon_file::AnonInode;
use super::task;
use crate::ffi;

/// The operations of a character device's files.
pub(crate) trait CharFile: Sized + 'static {
    /// The data of an open file; dropped with the last reference to the file.
    type Data: ForeignOwnable + Send + Sync;

    /// Opens a file, in the context of the opening process.
    fn open() -> Result<Self::Data>;

    /// Handles an ioctl: `cmd` and its argument as passed.
    fn ioctl(
        data: <Self::Data as ForeignOwnable>::Borrowed<'_>,
        cmd: u32,
        arg: usize,
    ) -> Result<isize>;

    /// Maps the file at byte `offset`. The caller holds the mmap lock for writing.
    fn mmap(
        data: <Self::Data as ForeignOwnable>::Borrowed<'_>,
        vma: &VmaNew,
        offset: u64,
    ) -> Result;

    /// The calling process has the file open, and exits. Mappings of the file, and other processes,
    /// may keep it.
    fn exiting(data: <Self::Data as ForeignOwnable>::Borrowed<'_>);
}

/// The memory of a registered device.
#[repr(C)]
struct CharDeviceInner {
    cdev: Opaque<ffi::cdev>,
    operations: ffi::file_operations,
    /// All files map through the address space of this inode, wherever they were opened.
    mappings: AnonInode,
}

/// A registered character device.
pub(crate) struct CharDevice<T> {
    inner: KBox<CharDeviceInner>,
    number: ffi::dev_t,
    _file: PhantomData<T>,
}

// SAFETY: No field changes until the drop; the kernel serialises its own use.
unsafe impl<T> Send for CharDevice<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for CharDevice<T> {}

impl<T: CharFile> CharDevice<T> {
    /// Registers a device under a major number that the kernel chooses. Open files reference
    /// `module`.
    pub(crate) fn new(name: &'static CStr, module: &'static ThisModule) -> Result<Self> {
        let mut operations: ffi::file_operations = pin_init::zeroed();
        operations.owner = module.as_ptr();
        operations.open = Some(open::<T>);
        operations.release = Some(release::<T>);
        operations.unlocked_ioctl = Some(ioctl::<T>);
        // The structures are the same for 32-bit callers; only the pointer needs widening.
        operations.compat_ioctl = ffi::compat_ptr_ioctl;
        operations.mmap = Some(mmap::<T>);
        operations.flush = Some(flush::<T>);
        operations.llseek = Some(ffi::noop_llseek);
        let inner = KBox::new(
            CharDeviceInner {
                cdev: Opaque::zeroed(),
                operations,
                mappings: AnonInode::new(name)?,
            },
            GFP_KERNEL,
        )?;
        let mut number = 0;
        // SAFETY: The name is a string; the call writes the number.
        to_result(unsafe { ffi::alloc_chrdev_region(&mut number, 0, 1, name.as_char_ptr()) })?;
        let cdev = inner.cdev.get();
        // SAFETY: The box keeps both in place until the cdev is deleted in `drop`.
        let added = to_result(unsafe {
            ffi::cdev_init(cdev, &inner.operations);
            (*cdev).owner = module.as_ptr();
            ffi::cdev_add(cdev, number, 1)
        });
        if let Err(error) = added {
            // SAFETY: We own the region.
            unsafe { ffi::unregister_chrdev_region(number, 1) };
            return Err(error);
        }
        Ok(Self {
            inner,
            number,
            _file: PhantomData,
        })
    }

    /// The major and minor number.
    pub(crate) fn number(&self) -> ffi::dev_t {
        self.number
    }
}

impl<T> Drop for CharDevice<T> {
    fn drop(&mut self) {
        // SAFETY: Both are registered. Open files reference the module, so no file is left that
        // uses the memory.
        unsafe {
            ffi::cdev_del(self.inner.cdev.get());
            ffi::unregister_chrdev_region(self.number, 1);
        }
    }
}

/// The errno of a result, in the form that file operations return.
fn status(result: Result<()>) -> kernel::ffi::c_int {
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

/// `file_operations::open`.
///
/// # Safety
///
/// The kernel calls it for a file of a [`CharDevice`] of `T` that is being opened, with its inode.
unsafe extern "C" fn open<T: CharFile>(
    inode: *mut ffi::inode,
    file: *mut ffi::file,
) -> kernel::ffi::c_int {
    // SAFETY: Both are those of the file being opened.
    let opened = to_result(unsafe { ffi::nonseekable_open(inode, file) });
    status(opened.and_then(|()| {
        let data = T::open()?;
        // SAFETY: While the file is being opened, its private data and its mapping are ours. Its
        // operations are those of a `CharDeviceInner`, which the module keeps as long as there are
        // files.
        unsafe {
            let operations = (*file).f_op;
            let inner = container_of!(operations, CharDeviceInner, operations);
            (*file).f_mapping = (*inner).mappings.mapping();
            (*file).private_data = data.into_foreign();
        }
        Ok(())
    }))
}

/// `file_operations::release`.
///
/// # Safety
///
/// The kernel calls it once for a file for which `open` succeeded, after the last use of the file.
unsafe extern "C" fn release<T: CharFile>(
    _inode: *mut ffi::inode,
    file: *mut ffi::file,
) -> kernel::ffi::c_int {
    // SAFETY: `open` set the private data, and the file's last reference is gone.
    drop(unsafe { T::Data::from_foreign((*file).private_data) });
    0
}

/// `file_operations::flush`: a process closes a descriptor of the file.
///
/// # Safety
///
/// The kernel calls it for a file for which `open` succeeded, and holds a reference during the
/// call.
unsafe extern "C" fn flush<T: CharFile>(
    file: *mut ffi::file,
    _owner: ffi::fl_owner_t,
) -> kernel::ffi::c_int {
    if task::is_exiting() {
        // SAFETY: `open` set the private data, and the caller holds the file.
        T::exiting(unsafe { T::Data::borrow((*file).private_data) });
    }
    0
}

/// `file_operations::unlocked_ioctl`.
///
/// # Safety
///
/// The kernel calls it for a file for which `open` succeeded, and holds a reference during the
/// call.
unsafe extern "C" fn ioctl<T: CharFile>(
    file: *mut ffi::file,
    cmd: kernel::ffi::c_uint,
    arg: kernel::ffi::c_ulong,
) -> kernel::ffi::c_long {
    // SAFETY: `open` set the private data, and the caller holds the file.
    let data = unsafe { T::Data::borrow((*file).private_data) };
    T::ioctl(data, cmd, arg).unwrap_or_else(|error| error.to_errno() as isize)
}

/// `file_operations::mmap`.
///
/// # Safety
///
/// The kernel calls it for a file for which `open` succeeded, with an area that is being set up and
/// its mmap lock held for writing.
unsafe extern "C" fn mmap<T: CharFile>(
    file: *mut ffi::file,
    vma: *mut ffi::vm_area_struct,
) -> kernel::ffi::c_int {
    // SAFETY: `open` set the private data, and the caller holds the file.
    let data = unsafe { T::Data::borrow((*file).private_data) };
    // SAFETY: The area is being set up by the caller, with the mmap lock held for writing.
    let (area, pages) = unsafe { (VmaNew::from_raw(vma), (*vma).vm_pgoff) };
    // Offsets above 2^63 are legal here, and their upper bits are lost: page offsets carry 52 bits.
    status(T::mmap(data, area, (pages as u64) << 12))
}
