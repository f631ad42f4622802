// SPDX-License-Identifier: GPL-2.0
//! Files mapped into the process: the only module with `unsafe`.
//!
//! The memory is shared with the guest's CPUs, which may read and write it at any moment, so bytes
//! are copied through raw pointers and single words through atomics; no reference to plain data is
//! ever made.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Bytes of a page of the host's.
const PAGE: usize = 4096;
/// From this size on memory is not filled with zeros, but given back.
const LARGE: usize = 1 << 20;

/// A file mapped shared, readable and writeable, for as long as this lives.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all accesses go through raw pointer
// copies and atomics, which carry no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent access is what shared memory is for, and no reference to its bytes
// exists.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of the file.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> std::io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other object.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `offset` on. Panics if they are not all inside.
    pub fn span(&self, offset: usize, len: usize) -> Span<'_> {
        assert!(offset <= self.len && len <= self.len - offset);
        Span {
            // SAFETY: `offset` was checked to lie inside the mapping.
            start: unsafe { self.start.as_ptr().add(offset) },
            len,
            life: PhantomData,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that mmap gave; spans borrow the mapping, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// A stretch of mapped memory that is contiguous for this process.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    start: *mut u8,
    len: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> Span<'a> {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rest after the first `skip` bytes. Panics if there are fewer.
    pub fn tail(&self, skip: usize) -> Span<'a> {
        assert!(skip <= self.len);
        Span {
            // SAFETY: `skip` was checked to lie inside the span.
            start: unsafe { self.start.add(skip) },
            len: self.len - skip,
            life: PhantomData,
        }
    }

    /// Copies the first bytes out. Panics if there are fewer than the length of `out`.
    pub fn read(&self, out: &mut [u8]) {
        assert!(out.len() <= self.len);
        // SAFETY: the span covers `out.len()` mapped bytes and `out` is this process's own memory.
        unsafe { std::ptr::copy_nonoverlapping(self.start, out.as_mut_ptr(), out.len()) }
    }

    /// Copies `data` to the first bytes. Panics if it does not fit.
    pub fn write(&self, data: &[u8]) {
        assert!(data.len() <= self.len);
        // SAFETY: the span covers `data.len()` mapped bytes and `data` is this process's own
        // memory.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start, data.len()) }
    }

    /// Copies `len` bytes to `to`, which may overlap. Panics if either is shorter.
    pub fn copy_to(&self, to: &Span<'_>, len: usize) {
        assert!(len <= self.len && len <= to.len);
        // SAFETY: both spans cover `len` mapped bytes; `copy` allows them to overlap.
        unsafe { std::ptr::copy(self.start, to.start, len) }
    }

    /// Fills with zeros.
    pub fn zero(&self) {
        let first = self.start.align_offset(PAGE).min(self.len);
        let whole = (self.len - first) / PAGE * PAGE;
        let last = first + whole;
        if whole >= LARGE && self.remove(first, whole) {
            // SAFETY: both parts are of the span's mapped bytes.
            unsafe {
                std::ptr::write_bytes(self.start, 0, first);
                std::ptr::write_bytes(self.start.add(last), 0, self.len - last);
            }
        } else {
            // SAFETY: the span covers `self.len` mapped bytes.
            unsafe { std::ptr::write_bytes(self.start, 0, self.len) }
        }
    }

    /// Gives the memory of whole pages back to the host, after which they read as zeros. Returns
    /// whether that is possible.
    fn remove(&self, at: usize, len: usize) -> bool {
        // SAFETY: the pages are of the span's, which is mapped shared from a file in memory.
        unsafe { rustix::mm::madvise(self.start.add(at).cast(), len, Advice::LinuxRemove).is_ok() }
    }

    /// The first four bytes as an atomic, if there are that many and they are aligned.
    pub fn atomic32(&self) -> Option<&'a AtomicU32> {
        let start = self.start.cast::<u32>();
        (self.len >= 4 && start.is_aligned())
            // SAFETY: mapped for 'a, aligned, and only ever accessed atomically or by raw copies.
            .then(|| unsafe { AtomicU32::from_ptr(start) })
    }

    /// The first eight bytes as an atomic, if there are that many and they are aligned.
    pub fn atomic64(&self) -> Option<&'a AtomicU64> {
        let start = self.start.cast::<u64>();
        (self.len >= 8 && start.is_aligned())
            // SAFETY: mapped for 'a, aligned, and only ever accessed atomically or by raw copies.
            .then(|| unsafe { AtomicU64::from_ptr(start) })
    }
}
