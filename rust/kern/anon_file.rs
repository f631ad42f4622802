// SPDX-License-Identifier: GPL-2.0
//! Anonymous files, which user space knows by descriptor only. They support read, write and poll.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::fs::File;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::poll::{PollCondVar, PollTable};
use kernel::types::ForeignOwnable;
use kernel::uaccess::{UserPtr, UserSlice, UserSliceReader, UserSliceWriter};

use crate::ffi;

/// An inode of the kernel's anonymous file system, whose address space all files of a device share.
/// The inode of the device's file in a directory does not serve: it belongs to the file system of
/// that directory, which may be unmounted.
pub(crate) struct AnonInode(NonNull<ffi::inode>);

// SAFETY: An inode is reference counted and has locks of its own.
unsafe impl Send for AnonInode {}
// SAFETY: As above.
unsafe impl Sync for AnonInode {}

impl AnonInode {
    /// A new inode.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `ENFILE` if the system has too many open files.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        const NONE: ffi::file_operations = pin_init::zeroed();
        // SAFETY: The name and the operations are static.
        let file = from_err_ptr(unsafe {
            ffi::anon_inode_create_getfile(
                name.as_char_ptr(),
                const { &NONE },
                core::ptr::null_mut(),
                ffi::O_RDWR as i32,
                core::ptr::null(),
            )
        })?;
        // SAFETY: The file is ours alone and has an inode, which gets a reference of its own. The
        // last use of the file ends before this returns, so the file does not outlive the module,
        // which holds its operations.
        let inode = unsafe {
            let inode = (*file).f_inode;
            ffi::ihold(inode);
            ffi::__fput_sync(file);
            inode
        };
        NonNull::new(inode).map(Self).ok_or(ENOMEM)
    }

    /// The address space; valid as long as the inode is referenced.
    pub(super) fn mapping(&self) -> *mut ffi::address_space {
        // SAFETY: The inode is referenced, and its address space does not change.
        unsafe { (*self.0.as_ptr()).i_mapping }
    }
}

impl Drop for AnonInode {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ffi::iput(self.0.as_ptr()) };
    }
}

/// `EPOLLIN | EPOLLRDNORM`.
const READABLE: ffi::__poll_t = 0x1 | 0x40;

/// The operations of an anonymous file.
pub(crate) trait AnonFile: Sized + 'static {
    /// The data of an open file; dropped with the last reference to the file.
    type Data: ForeignOwnable + Send + Sync;
    /// The module, which open files reference.
    const MODULE: &'static ThisModule;

    /// Reads into `to`, which may have no room at all, and returns the number of bytes read.
    fn read(
        data: <Self::Data as ForeignOwnable>::Borrowed<'_>,
        to: &mut UserSliceWriter,
    ) -> Result<usize>;

    /// Writes from `from` and returns the number of bytes consumed.
    fn write(
        data: <Self::Data as ForeignOwnable>::Borrowed<'_>,
        from: &mut UserSliceReader,
    ) -> Result<usize>;

    /// Whether the file is readable. First calls `wait` with the condition variable that is
    /// notified when this may have changed.
    fn poll(
        data: <Self::Data as ForeignOwnable>::Borrowed<'_>,
        wait: impl FnOnce(&PollCondVar),
    ) -> bool;
}

/// Opens a new file that holds `data`, under the name `name`.
///
/// # Errors
///
/// `ENFILE` if the system has too many open files; `ENOMEM` if there is no memory.
pub(crate) fn open<T: AnonFile>(name: &'static CStr, data: T::Data) -> Result<ARef<File>> {
    let data = data.into_foreign();
    let operations: *const ffi::file_operations = &AnonFileOps::<T>::TABLE;
    // SAFETY: The name and the table are static. The reference in `data` goes to the file, whose
    // `release` takes it back.
    let file = unsafe {
        ffi::anon_inode_getfile(
            name.as_char_ptr(),
            operations,
            data,
            (ffi::O_RDWR | ffi::O_CLOEXEC) as i32,
        )
    };
    let file = from_err_ptr(file).inspect_err(|_| {
        // SAFETY: No file was made, so the reference is still ours.
        drop(unsafe { T::Data::from_foreign(data) });
    })?;
    let file = NonNull::new(file.cast::<File>()).ok_or(ENOMEM)?;
    // SAFETY: A new file comes with a reference, which has no other owner yet.
    Ok(unsafe { ARef::from_raw(file) })
}

struct AnonFileOps<T>(PhantomData<T>);

impl<T: AnonFile> AnonFileOps<T> {
    const TABLE: ffi::file_operations = ffi::file_operations {
        owner: T::MODULE.as_ptr(),
        read: Some(Self::read),
        write: Some(Self::write),
        poll: Some(Self::poll),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// `file_operations::release`.
    ///
    /// # Safety
    ///
    /// The kernel calls it once for a file made by [`open`] for `T`, after the last use of the
    /// file.
    unsafe extern "C" fn release(
        _inode: *mut ffi::inode,
        file: *mut ffi::file,
    ) -> kernel::ffi::c_int {
        // SAFETY: `open` put the reference there.
        drop(unsafe { T::Data::from_foreign((*file).private_data) });
        0
    }

    /// `file_operations::read`.
    ///
    /// # Safety
    ///
    /// The kernel calls it for a file made by [`open`] for `T`, and holds a reference during the
    /// call.
    unsafe extern "C" fn read(
        file: *mut ffi::file,
        buffer: *mut kernel::ffi::c_char,
        size: usize,
        _offset: *mut ffi::loff_t,
    ) -> isize {
        // SAFETY: `open` put the reference there, and the caller holds the file.
        let data = unsafe { T::Data::borrow((*file).private_data) };
        let mut to = UserSlice::new(UserPtr::from_ptr(buffer.cast()), size).writer();
        count(T::read(data, &mut to))
    }

    /// `file_operations::write`.
    ///
    /// # Safety
    ///
    /// As for `read`.
    unsafe extern "C" fn write(
        file: *mut ffi::file,
        buffer: *const kernel::ffi::c_char,
        size: usize,
        _offset: *mut ffi::loff_t,
    ) -> isize {
        // SAFETY: As in `read`.
        let data = unsafe { T::Data::borrow((*file).private_data) };
        let mut from = UserSlice::new(UserPtr::from_ptr(buffer.cast_mut().cast()), size).reader();
        count(T::write(data, &mut from))
    }

    /// `file_operations::poll`.
    ///
    /// # Safety
    ///
    /// As for `read`; `table` may be null.
    unsafe extern "C" fn poll(
        file: *mut ffi::file,
        table: *mut ffi::poll_table_struct,
    ) -> ffi::__poll_t {
        // SAFETY: As in `read`; polling does not use the file's position.
        let (file, data) = unsafe {
            (
                File::from_raw_file(file),
                T::Data::borrow((*file).private_data),
            )
        };
        // SAFETY: Null or valid during the call, as the kernel gives it.
        let table = unsafe { PollTable::from_raw(table) };
        if T::poll(data, |changed| table.register_wait(file, changed)) {
            READABLE
        } else {
            0
        }
    }
}

/// A byte count or an errno, in the form that file operations return.
fn count(result: Result<usize>) -> isize {
    result.map_or_else(
        |error| error.to_errno() as isize,
        |count| count.min(isize::MAX as usize) as isize,
    )
}
