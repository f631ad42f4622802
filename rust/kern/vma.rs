// SPDX-License-Identifier: GPL-2.0
//! Mappings into user space whose pages come one by one as they are touched, and can be taken away again.

use crate::ffi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::mm::virt::VmaNew;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow, SetOnce};
use kernel::types::ForeignOwnable;

/// What is behind a page of a mapping.
pub(crate) enum VmaPage {
    /// A page of a device's BAR, mapped uncached.
    Io {
        /// Its page frame number.
        pfn: usize,
    },
    /// A page of memory.
    Ram {
        /// Its page frame number.
        pfn: usize,
    },
    /// Nothing: the access gives SIGBUS.
    Nothing,
}

/// What can be mapped page by page.
pub(crate) trait Mappable: Send + Sync + 'static {
    /// What is behind page `index` of the mapping. It must stay as long as the object exists, or until the page
    /// was taken away by [`VmaZapper::zap`] while this already answers otherwise.
    fn page(&self, index: usize) -> VmaPage;

    /// Page `index` is mapped: from now on accesses are not seen. Called after the page was inserted, with the
    /// mapping's lock held: no user memory may be touched.
    fn mapped(this: ArcBorrow<'_, Self>, index: usize);
}

/// Maps `object` at `vma`, which must be shared, and have `pages` pages. The mapping cannot be split, grown, or
/// inherited by a child process. From `pgoff` on, in pages, its offsets in the file's address space must
/// be the object's own, so that [`VmaZapper::zap`] meets it alone. EINVAL for a mapping of another shape.
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
    // SAFETY: The mapping is being set up by this thread alone. Frames of any kind are inserted only with
    // VM_PFNMAP. The reference that is given away is taken back by `close`.
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
        // SAFETY: Called for a copy of a mapping made by `map`: the copied pointer gets a reference of its own.
        let object = Arc::from(unsafe { Self::object(vma) });
        let _ = object.into_foreign();
    }

    /// `vm_operations_struct::close`.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping made by [`map`] for `T`, or a copy that `open` was called for, which is going.
    unsafe extern "C" fn close(vma: *mut ffi::vm_area_struct) {
        // SAFETY: The mapping's reference, which nobody uses after this.
        drop(unsafe { Arc::<T>::from_foreign((*vma).vm_private_data.cast()) });
    }

    /// `vm_operations_struct::may_split`.
    ///
    /// # Safety
    ///
    /// None: it looks at nothing.
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
        // SAFETY: The kernel gives a fault of a mapping that stays during the call; `start` is its first address
        // and `address` inside it.
        let (vma, address, start, prot) = unsafe {
            let place = &(*vmf).__bindgen_anon_1;
            let vma = place.vma;
            (
                vma,
                place.address,
                (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start,
                (*vma).vm_page_prot,
            )
        };
        // SAFETY: As above; `map` made the mapping.
        let object = unsafe { Self::object(vma) };
        let index = (address - start) / PAGE_SIZE;
        let (pfn, prot) = match object.page(index) {
            // SAFETY: Makes a value from a value.
            VmaPage::Io { pfn } => (pfn, unsafe { ffi::rkfd_pgprot_noncached(prot) }),
            VmaPage::Ram { pfn } => (pfn, prot),
            VmaPage::Nothing => return ffi::vm_fault_reason_VM_FAULT_SIGBUS,
        };
        // SAFETY: The frame stays as `Mappable::page` promises; the mapping has VM_PFNMAP.
        let result = unsafe { ffi::vmf_insert_pfn_prot(vma, address, pfn, prot) };
        // After the insertion: what happens later to the page may happen unseen.
        T::mapped(object, index);
        result
    }
}

/// The address space of a file through which an object is mapped: takes pages of it away from everybody.
pub(crate) struct VmaZapper {
    inode: NonNull<ffi::inode>,
    pgoff: usize,
}

// SAFETY: The address space has locks of its own; the inode is referenced.
unsafe impl Send for VmaZapper {}
// SAFETY: As above.
unsafe impl Sync for VmaZapper {}

impl VmaZapper {
    /// Notes in `slot` that its object is mapped through `vma`'s file, from page `pgoff` on. All files through which it is
    /// mapped have one address space, see [`AnonInode`](super::anon_file::AnonInode), so that one zapper meets all of its
    /// mappings. ENODEV for a mapping without file.
    pub(crate) fn claim(slot: &SetOnce<Self>, vma: &VmaNew, pgoff: usize) -> Result {
        if slot.as_ref().is_none() {
            // It stays empty-handed when another comes this moment.
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

    /// Takes `count` pages from `first` on out of every mapping; the next access to them faults. Stores that were
    /// made before are visible to the caller, all later ones fault. Sleeps.
    pub(crate) fn zap(&self, first: usize, count: usize) {
        // SAFETY: The inode and so its address space is referenced.
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

/// A zeroed page of memory whose content is shared with user space, so that each access is one volatile load or
/// store.
pub(crate) struct SharedPage(NonNull<u64>);

// SAFETY: The page is only accessed as the type says.
unsafe impl Send for SharedPage {}
// SAFETY: As above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// ENOMEM.
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

    /// The 64-bit value at byte `offset`, cut to a multiple of 8 within the page.
    pub(crate) fn read64(&self, offset: usize) -> u64 {
        // SAFETY: The index is below the values of a page.
        unsafe { self.0.add(offset % PAGE_SIZE / 8).read_volatile() }
    }

    /// Writes the 64-bit value at byte `offset`, cut to a multiple of 8 within the page.
    pub(crate) fn write64(&self, offset: usize, value: u64) {
        // SAFETY: The index is below the values of a page.
        unsafe { self.0.add(offset % PAGE_SIZE / 8).write_volatile(value) };
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: The page is ours, of order 0.
        unsafe { ffi::free_pages(self.0.as_ptr() as usize, 0) };
    }
}
