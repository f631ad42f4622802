// SPDX-License-Identifier: GPL-2.0
//! Mappings into user space whose pages are inserted one by one on access, and can be removed
//! again.

use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::mm::virt::VmaNew;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow, SetOnce};
use kernel::types::ForeignOwnable;

/// The backing of a page of a mapping.
pub(crate) enum VmaPage {
    /// A page of a device's BAR, mapped uncached.
    Io {
        /// The page frame number.
        pfn: usize,
    },
    /// A page of memory.
    Ram {
        /// The page frame number.
        pfn: usize,
    },
    /// None: the access is a SIGBUS.
    Nothing,
}

/// An object that can be mapped page by page.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// The backing of page `index` of the mapping. It must stay valid as long as the object exists,
    /// or until [`VmaZapper::zap`] has removed the page, during which this already returns the new
    /// backing.
    fn page(&self, index: usize) -> VmaPage;

    /// Page `index` is mapped, for an access to its byte `offset`: from now on accesses are not
    /// noticed. Called after the page was inserted, with the mapping's lock held: must not access
    /// user memory.
    fn mapped(this: ArcBorrow<'_, Self>, index: usize, offset: usize);
}

/// Maps `object` at `vma`, which must be shared, and have `pages` pages. The mapping cannot be
/// split, grown, or inherited by a child process. `pgoff` is its offset in the file's address space
/// in pages. The offsets from there on must belong to the object alone, so that [`VmaZapper::zap`]
/// affects only it.
///
/// # Errors
///
/// `EINVAL` if the mapping has another shape.
pub(crate) fn map<T: Mappable>(vma: &VmaNew, object: Arc<T>, pages: usize, pgoff: usize) -> Result {
    let raw = vma.as_ptr();
    if vma.end() - vma.start() != pages * PAGE_SIZE {
        return Err(EINVAL);
    }
    // A private mapping would copy pages on write.
    if vma.flags() & kernel::mm::virt::flags::SHARED == 0 {
        return Err(EINVAL);
    }
    vma.set_io();
    vma.set_dontexpand();
    vma.set_dontcopy();
    vma.set_dontdump();
    // SAFETY: The mapping is being set up by this thread alone. VM_PFNMAP allows frames of any kind
    // to be inserted. `close` takes back the reference that is handed over here.
    unsafe {
        ffi::rkfd_vm_flags_set(raw, ffi::VM_PFNMAP);
        (*raw).vm_pgoff = pgoff;
        (*raw).vm_private_data = object.into_foreign().cast();
        (*raw).vm_ops = &VmaOps::<T>::TABLE;
    }
    Ok(())
}

struct VmaOps<T>(PhantomData<T>);

impl<T: Mappable> VmaOps<T> {
    const TABLE: ffi::vm_operations_struct = ffi::vm_operations_struct {
        open: Some(Self::open),
        close: Some(Self::close),
        may_split: Some(Self::may_split),
        fault: Some(Self::fault),
        ..pin_init::zeroed()
    };

    /// The object of a mapping.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping made by [`map`] for `T`.
    unsafe fn object<'a>(vma: *mut ffi::vm_area_struct) -> ArcBorrow<'a, T> {
        // SAFETY: `map` put the reference there, which lives as long as the mapping.
        unsafe { Arc::<T>::borrow((*vma).vm_private_data.cast()) }
    }

    /// `vm_operations_struct::open`.
    ///
    /// # Safety
    ///
    /// `vma` must be a fresh copy of a mapping made by [`map`] for `T`.
    unsafe extern "C" fn open(vma: *mut ffi::vm_area_struct) {
        // SAFETY: The kernel calls this for a copy of a mapping made by `map`: the copied pointer
        // gets a reference of its own.
        let object = Arc::from(unsafe { Self::object(vma) });
        let _ = object.into_foreign();
    }

    /// `vm_operations_struct::close`.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping made by [`map`] for `T`, or a copy that `open` was called for, and
    /// be about to end.
    unsafe extern "C" fn close(vma: *mut ffi::vm_area_struct) {
        // SAFETY: It is the mapping's reference, which is not used after this.
        drop(unsafe { Arc::<T>::from_foreign((*vma).vm_private_data.cast()) });
    }

    /// `vm_operations_struct::may_split`.
    ///
    /// # Safety
    ///
    /// None: it accesses nothing.
    unsafe extern "C" fn may_split(
        _vma: *mut ffi::vm_area_struct,
        _address: kernel::ffi::c_ulong,
    ) -> kernel::ffi::c_int {
        EINVAL.to_errno()
    }

    /// `vm_operations_struct::fault`.
    ///
    /// # Safety
    ///
    /// `vmf` must be a fault, being handled, of a mapping made by [`map`] for `T`.
    unsafe extern "C" fn fault(vmf: *mut ffi::vm_fault) -> ffi::vm_fault_t {
        // SAFETY: The kernel passes a fault of a mapping that stays during the call; `start` is its
        // first address and `address` is inside it. `byte` is that of the access itself.
        let (vma, address, byte, start, prot) = unsafe {
            let access = &(*vmf).__bindgen_anon_1;
            let vma = access.vma;
            (
                vma,
                access.address,
                access.real_address,
                (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start,
                (*vma).vm_page_prot,
            )
        };
        // SAFETY: As above; `map` made the mapping.
        let object = unsafe { Self::object(vma) };
        let index = (address - start) / PAGE_SIZE;
        let (pfn, prot) = match object.page(index) {
            // SAFETY: Computes a value from a value.
            VmaPage::Io { pfn } => (pfn, unsafe { ffi::rkfd_pgprot_noncached(prot) }),
            VmaPage::Ram { pfn } => (pfn, prot),
            VmaPage::Nothing => return ffi::vm_fault_reason_VM_FAULT_SIGBUS,
        };
        // SAFETY: The frame stays valid as `Mappable::page` promises; the mapping has VM_PFNMAP.
        let result = unsafe { ffi::vmf_insert_pfn_prot(vma, address, pfn, prot) };
        // After the insertion: from then on accesses to the page are not noticed.
        T::mapped(object, index, byte % PAGE_SIZE);
        result
    }
}

/// The address space of a file through which an object is mapped. It removes pages of the object
/// from all mappings.
pub(crate) struct VmaZapper {
    inode: NonNull<ffi::inode>,
    pgoff: usize,
}

// SAFETY: The address space has locks of its own; the inode is referenced.
unsafe impl Send for VmaZapper {}
// SAFETY: As above.
unsafe impl Sync for VmaZapper {}

impl VmaZapper {
    /// Stores in `slot` that its object is mapped through `vma`'s file, from page `pgoff` on. All
    /// files through which it is mapped have one address space, see
    /// [`AnonInode`](super::anon_file::AnonInode), so one zapper reaches all of its mappings.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the mapping has no file.
    pub(crate) fn claim(slot: &SetOnce<Self>, vma: &VmaNew, pgoff: usize) -> Result {
        if slot.as_ref().is_none() {
            // If another thread fills the slot first, this one is dropped.
            slot.populate(Self::new(vma, pgoff)?);
        }
        Ok(())
    }

    fn new(vma: &VmaNew, pgoff: usize) -> Result<Self> {
        // SAFETY: The mapping, its file and the file's address space exist during the call.
        unsafe {
            let file = (*vma.as_ptr()).vm_file;
            if file.is_null() {
                return Err(ENODEV);
            }
            let inode = NonNull::new((*(*file).f_mapping).host).ok_or(ENODEV)?;
            ffi::ihold(inode.as_ptr());
            Ok(Self { inode, pgoff })
        }
    }

    /// Removes `count` pages from `first` on from every mapping; the next access to them faults.
    /// Earlier stores are visible to the caller, and all later ones fault. May sleep.
    pub(crate) fn zap(&self, first: usize, count: usize) {
        // SAFETY: The inode is referenced, and with it its address space.
        unsafe {
            ffi::unmap_mapping_pages(
                (*self.inode.as_ptr()).i_mapping,
                self.pgoff + first,
                count,
                true,
            )
        };
    }
}

impl Drop for VmaZapper {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ffi::iput(self.inode.as_ptr()) };
    }
}

/// A zeroed page of memory whose content is shared with user space, so that each access is one
/// volatile load or store.
pub(crate) struct SharedPage(NonNull<u64>);

// SAFETY: The page is only accessed as the type says.
unsafe impl Send for SharedPage {}
// SAFETY: As above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Allocates the page.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: May be called wherever sleeping is allowed.
        let page = unsafe { ffi::get_zeroed_page_noprof(ffi::GFP_KERNEL | ffi::__GFP_ACCOUNT) };
        NonNull::new(page as *mut u64).map(Self).ok_or(ENOMEM)
    }

    /// The page frame number.
    pub(crate) fn pfn(&self) -> usize {
        // SAFETY: The page is in the direct map.
        unsafe { ffi::rkfd_virt_to_pfn(self.0.as_ptr().cast()) }
    }

    /// The 64-bit value at byte `offset`, rounded down to a multiple of 8 within the page.
    pub(crate) fn read64(&self, offset: usize) -> u64 {
        // SAFETY: The index is below the number of values in a page.
        unsafe { self.0.add(offset % PAGE_SIZE / 8).read_volatile() }
    }

    /// Writes the 64-bit value at byte `offset`, rounded down to a multiple of 8 within the page.
    pub(crate) fn write64(&self, offset: usize, value: u64) {
        // SAFETY: The index is below the number of values in a page.
        unsafe { self.0.add(offset % PAGE_SIZE / 8).write_volatile(value) };
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: The page is ours, of order 0.
        unsafe { ffi::free_pages(self.0.as_ptr() as usize, 0) };
    }
}
