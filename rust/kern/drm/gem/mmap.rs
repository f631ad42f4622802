// SPDX-License-Identifier: GPL-2.0
//! CPU mappings of buffer objects. A mapping starts without pages; faults add them. Also the
//! accesses of debuggers.

use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::aref::ARef,
};

use super::{FaultPage, GemDriverObject, GemObject};
use crate::{ffi, kern::drm::share};

/// The most pages that one fault maps, if the mapping covers them: a fault costs far more than a
/// page table entry.
const FAULT_AROUND: usize = 64;

impl<T: GemDriverObject> GemObject<T> {
    pub(super) const VM_OPS: ffi::vm_operations_struct = ffi::vm_operations_struct {
        // These count references, so a child after fork and each half of a split mapping hold the
        // object.
        open: Some(ffi::drm_gem_vm_open),
        close: Some(ffi::drm_gem_vm_close),
        fault: Some(Self::fault_callback),
        access: Some(Self::access_callback),
        ..pin_init::zeroed()
    };

    /// `drm_gem_object_funcs::mmap`: sets the flags of the mapping. Faults add its pages.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping that is being made, and belong to the caller alone.
    pub(super) unsafe extern "C" fn mmap_callback(
        obj: *mut ffi::drm_gem_object,
        vma: *mut ffi::vm_area_struct,
    ) -> c_int {
        // SAFETY: The object is one of this type, and valid during the call.
        if !unsafe { (*obj).import_attach }.is_null() {
            // SAFETY: It is imported, as the condition shows, and `vma` is a mapping of it.
            let done = unsafe { share::mmap_imported(obj, vma) };
            return done.map_or_else(|error| error.to_errno(), |()| 0);
        }
        // SAFETY: The mapping is being made and belongs to the caller alone.
        let flags = unsafe { ffi::rkfd_vma_flags(vma) };
        if flags & (ffi::VM_SHARED | ffi::VM_MAYWRITE) == ffi::VM_MAYWRITE {
            // A private copy of device memory makes no sense. libhsakmt reserves with private
            // mappings without access rights. They are harmless once they cannot become writable.
            if flags & (ffi::VM_READ | ffi::VM_WRITE | ffi::VM_EXEC) != 0 {
                return EINVAL.to_errno();
            }
            // SAFETY: As above.
            unsafe { ffi::rkfd_vm_flags_clear(vma, ffi::VM_MAYWRITE) };
        }
        let set = ffi::VM_PFNMAP | ffi::VM_IO | ffi::VM_DONTEXPAND | ffi::VM_DONTDUMP;
        // SAFETY: As above.
        unsafe { ffi::rkfd_vm_flags_set(vma, set) };
        0
    }

    /// `vm_operations_struct::fault`.
    ///
    /// # Safety
    ///
    /// `vmf` must be a fault, being handled, of a mapping that holds an object of this type.
    unsafe extern "C" fn fault_callback(vmf: *mut ffi::vm_fault) -> ffi::vm_fault_t {
        // SAFETY: The kernel passes a valid fault, whose mapping holds the object in
        // `vm_private_data`.
        let (vma, address, pgoff, obj) = unsafe {
            let info = &(*vmf).__bindgen_anon_1;
            let obj = (*info.vma).vm_private_data.cast();
            (info.vma, info.address, info.pgoff, obj)
        };
        // SAFETY: Only mappings of objects of this type have this callback, and they hold a
        // reference.
        let this = unsafe { &*Self::container(obj) };

        // SAFETY: As above.
        if T::is_moving(this) && unsafe { ffi::rkfd_fault_may_be_left(vmf) } {
            // Wait without the mapping's lock: other threads want to map and fault during that
            // time. The mapping may go away then, and with it its reference.
            let this: ARef<Self> = this.into();
            // SAFETY: The fault's lock is held, and nothing of the fault is used after this.
            unsafe { ffi::rkfd_release_fault_lock(vmf) };
            drop(T::steady(&this));
            return ffi::vm_fault_reason_VM_FAULT_RETRY;
        }
        let plugged = this.dev.while_plugged(|| {
            // SAFETY: The mapping was made through the node, and the lock that guards it is held.
            unsafe { this.insert(vma, address, pgoff, true) }
        });
        // After an unplug, pages in system memory can still be mapped. SAFETY: As above.
        plugged.unwrap_or_else(|| unsafe { this.insert(vma, address, pgoff, false) })
    }

    /// `vm_operations_struct::access`: an access by a debugger, which is not a fault. It may write
    /// if the process could make the mapping writable: libhsakmt maps VRAM that the CPU is not
    /// meant to access without any permission, for debuggers alone.
    ///
    /// # Safety
    ///
    /// `vma` must be a locked mapping that holds an object of this type and contains `address`;
    /// `buffer` must have `size` bytes.
    unsafe extern "C" fn access_callback(
        vma: *mut ffi::vm_area_struct,
        address: usize,
        buffer: *mut c_void,
        size: c_int,
        write: c_int,
    ) -> c_int {
        // SAFETY: By this function's contract; the flags do not change while the mapping is locked.
        let (obj, pgoff, start, flags) = unsafe {
            let area = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
            let obj = (*vma).vm_private_data.cast();
            (
                obj,
                (*vma).vm_pgoff,
                area.vm_start,
                ffi::rkfd_vma_flags(vma),
            )
        };
        if write != 0 && flags & ffi::VM_MAYWRITE == 0 {
            return EACCES.to_errno();
        }
        // SAFETY: Only mappings of objects of this type have this callback, and they hold a
        // reference.
        let this = unsafe { &*Self::container(obj) };
        // SAFETY: The node is valid, and has a place because it was mapped.
        let node = unsafe { (*this.node()).vm_node.start as usize };
        let first = pgoff.checked_sub(node).map(|pages| pages << PAGE_SHIFT);
        let offset = first.and_then(|first| first.checked_add(address.checked_sub(start)?));
        let done = this.dev.while_plugged(|| {
            // SAFETY: The buffer is the caller's, of that size.
            unsafe {
                this.access(
                    offset?,
                    buffer.cast(),
                    usize::try_from(size).ok()?,
                    write != 0,
                )
            }
        });
        match done.flatten() {
            Some(done) => done as c_int,
            None => EFAULT.to_errno(),
        }
    }

    /// Copies between the object, from byte `offset` on, and `buffer`. Returns the number of bytes,
    /// or `None` if the CPU cannot reach them.
    ///
    /// # Safety
    ///
    /// `buffer` must have `size` bytes.
    unsafe fn access(
        &self,
        offset: usize,
        buffer: *mut u8,
        size: usize,
        write: bool,
    ) -> Option<usize> {
        let size = size.min(self.size().checked_sub(offset)?);
        let _steady = T::steady(self)?;
        let mut done = 0;
        while done < size {
            let at = offset + done;
            let (page, within) = (at >> PAGE_SHIFT, at & (PAGE_SIZE - 1));
            let count = (size - done).min(PAGE_SIZE - within);
            let memory = KernelPageView::new(T::fault(self, page))?;
            // SAFETY: The piece is in the page, and the rest of the buffer is as large.
            unsafe { memory.copy(within, buffer.wrapping_add(done), count, write) };
            done += count;
        }
        Some(done)
    }

    /// Maps the page at `address`, which has the offset `pgoff` (pages) in the file, and some after
    /// it. Without `device`, only pages in system memory.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping of this object, in its fault handler.
    unsafe fn insert(
        &self,
        vma: *mut ffi::vm_area_struct,
        address: usize,
        pgoff: usize,
        device: bool,
    ) -> ffi::vm_fault_t {
        // SAFETY: The node is valid, and has a place because it was mapped. The mapping is locked.
        let (start, end) = unsafe {
            let start = (*self.node()).vm_node.start as usize;
            (start, (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_end)
        };
        let Some(first) = pgoff.checked_sub(start) else {
            return ffi::vm_fault_reason_VM_FAULT_SIGBUS;
        };
        let address = address & !(PAGE_SIZE - 1);
        let of_object = (self.size() >> PAGE_SHIFT).saturating_sub(first);
        let of_mapping = end.saturating_sub(address) >> PAGE_SHIFT;

        let Some(_steady) = T::steady(self) else {
            return ffi::vm_fault_reason_VM_FAULT_NOPAGE;
        };
        let mut out = ffi::vm_fault_reason_VM_FAULT_SIGBUS;
        for i in 0..of_object.min(of_mapping).min(FAULT_AROUND) {
            // SAFETY: `vma` is a mapping in its fault handler.
            let prot = unsafe { (*vma).vm_page_prot };
            let (pfn, prot) = match T::fault(self, first + i) {
                FaultPage::Io { .. } if !device => break,
                FaultPage::Io { pfn, wc: true } => {
                    // SAFETY: Computes a value from a value.
                    (pfn, unsafe { ffi::rkfd_pgprot_writecombine(prot) })
                }
                FaultPage::Io { pfn, wc: false } => {
                    // SAFETY: Computes a value from a value.
                    (pfn, unsafe { ffi::rkfd_pgprot_noncached(prot) })
                }
                FaultPage::Ram { pfn } => (pfn, prot),
                FaultPage::Sigbus => break,
            };
            // SAFETY: The address is in the mapping, which is `VM_PFNMAP` and not copy-on-write.
            // The page belongs to the object, which the mapping holds.
            let one =
                unsafe { ffi::vmf_insert_pfn_prot(vma, address + (i << PAGE_SHIFT), pfn, prot) };
            // The first page decides the result: it is the one that faulted. The others are
            // optional.
            if i == 0 {
                out = one;
            }
            if one != ffi::vm_fault_reason_VM_FAULT_NOPAGE {
                break;
            }
        }
        out
    }
}

/// The kernel's view of a page of an object.
enum KernelPageView {
    Io(*mut c_void),
    Ram(*mut u8),
}

impl KernelPageView {
    /// The view of `page`; `None` if the CPU cannot reach it.
    fn new(page: FaultPage) -> Option<Self> {
        match page {
            FaultPage::Io { pfn, .. } => {
                // SAFETY: The page is in a BAR of the device, which is bound.
                let base = unsafe { ffi::ioremap_wc((pfn << PAGE_SHIFT) as u64, PAGE_SIZE) };
                // Not `then_some`, which would make the view of no mapping and drop it.
                (!base.is_null()).then(|| Self::Io(base))
            }
            // SAFETY: It is a page of memory, which the kernel has mapped.
            FaultPage::Ram { pfn } => Some(Self::Ram(unsafe { ffi::rkfd_pfn_address(pfn) }.cast())),
            FaultPage::Sigbus => None,
        }
    }

    /// Copies `count` bytes from byte `at` on to `buffer`, or in the other direction if `write`.
    ///
    /// # Safety
    ///
    /// The bytes must be in the page and in `buffer`, and these must not overlap.
    unsafe fn copy(&self, at: usize, buffer: *mut u8, count: usize, write: bool) {
        // SAFETY: By this function's contract.
        unsafe {
            match *self {
                Self::Io(base) if write => {
                    ffi::memcpy_toio(base.wrapping_byte_add(at), buffer.cast(), count);
                }
                Self::Io(base) => {
                    ffi::memcpy_fromio(buffer.cast(), base.wrapping_byte_add(at), count)
                }
                Self::Ram(base) if write => buffer.copy_to(base.wrapping_add(at), count),
                Self::Ram(base) => buffer.copy_from(base.wrapping_add(at), count),
            }
        }
    }
}

impl Drop for KernelPageView {
    fn drop(&mut self) {
        if let Self::Io(base) = *self {
            // SAFETY: `new` mapped it.
            unsafe { ffi::iounmap(base) };
        }
    }
}
