// SPDX-License-Identifier: GPL-2.0
//! Buffer objects: reference counted, and mapped into processes through an open DRM file.

use core::{
    ops::Deref,
    ptr::{self, NonNull},
};

use kernel::{
    error::to_result,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        Mutex,
    },
    types::Opaque,
};

use crate::{
    ffi,
    kern::{
        dma_buf::{Attachment, DmaBuf, Importer},
        drm::{
            file::{self, FileRef},
            objects::Objects,
            share::{self, Exported, Functions},
            Device,
        },
        pages::PageList,
    },
};

/// What backs a page of an object for the CPU.
pub(crate) enum FaultPage {
    /// A page of a BAR, mapped write-combined if `wc`, else uncached.
    Io {
        /// Page frame number.
        pfn: usize,
        /// Write-combined?
        wc: bool,
    },
    /// A page of memory, cached.
    Ram {
        /// Page frame number.
        pfn: usize,
    },
    /// The CPU cannot reach it: the access is a `SIGBUS`.
    Sigbus,
}

/// What a driver's buffer object is.
pub(crate) trait DriverObject: Send + Sync + Sized + 'static {
    /// Private data of the device that such objects belong to.
    type Data: Send + Sync + 'static;

    /// What keeps the object's memory in its place.
    type Steady<'a>
    where
        Self: 'a;

    /// Keeps the object's memory in its place while pages are mapped; waits for the end if it is on its way. Who moves it
    /// calls [`Object::zap`] when this waits already. `None` when a signal came first: the access is made again. The same locks are held as
    /// for [`DriverObject::fault`].
    fn steady(obj: &Object<Self>) -> Option<Self::Steady<'_>>;

    /// Whether [`DriverObject::steady`] would have to wait now.
    fn is_moving(obj: &Object<Self>) -> bool;

    /// What backs page `page` of the object. Called with the caller's mmap or VMA lock held, so it takes no
    /// lock under which user memory is touched or memory is allocated.
    fn fault(obj: &Object<Self>, page: usize) -> FaultPage;

    /// The number of its owner, which never changes, and by which it is found in the list of the device's objects; 0 if it is
    /// not to be found by its owner.
    fn owner(&self) -> usize;

    /// The list of the device's objects.
    fn objects(data: &Self::Data) -> &Objects<Self>;

    /// Whether the object may be exported. The error is what exporting fails with.
    fn check_export(obj: &Object<Self>) -> Result;

    /// Another device wants to use the object. EBUSY when it is where that cannot reach it, and has to stay there.
    fn attach(obj: &Object<Self>) -> Result;

    /// Brings the object to where other devices reach it, if it is not there, and shares it with one. Counted. One that `stays`
    /// is not moved until it is given back; before the others are moved, [`Object::reclaim`] is called. EBUSY when it has to
    /// be elsewhere. The reservation's lock is held.
    fn share(obj: &Object<Self>, stays: bool) -> Result;

    /// Takes one [`DriverObject::share`] back. The reservation's lock is held.
    fn unshare(obj: &Object<Self>, stays: bool);

    /// Calls `f` with the pages of an object that is shared. The reservation's lock is held.
    fn with_pages<R>(obj: &Object<Self>, f: impl FnOnce(&PageList) -> R) -> Option<R>;

    /// The CPU begins to access the object through its dma-buf, or has ended.
    fn cpu_access(obj: &Object<Self>);

    /// Makes an object of another exporter's memory, by [`Object::imported`].
    fn import(dev: &ARef<Device<Self::Data>>, buf: &DmaBuf) -> Result<ARef<Object<Self>>>;
}

/// Pages beside the one that faulted that are mapped with it, if the mapping covers them: a fault costs
/// far more than a page table entry.
const FAULT_AROUND: usize = 64;

/// A buffer object.
///
/// # Invariants
///
/// `obj` is an initialized `struct drm_gem_object` of the device `dev`, with [`Object::FUNCS`]; the whole is in
/// a `KBox` that the object's last reference frees.
#[pin_data]
#[repr(C)]
pub(crate) struct Object<T: DriverObject> {
    #[pin]
    obj: Opaque<ffi::drm_gem_object>,
    #[pin]
    exported: Mutex<Exported>,
    #[pin]
    inner: T,
    // Last: the object may outlive every open file, and its offset belongs to the device.
    dev: ARef<Device<T::Data>>,
}

impl<T: DriverObject> Object<T> {
    const FUNCS: Functions = Self::functions(ffi::drm_gem_object_funcs {
        free: Some(Self::free_callback),
        close: Some(file::close_object_callback),
        mmap: Some(Self::mmap_callback),
        vm_ops: &Self::VM_OPS,
        ..pin_init::zeroed()
    });

    const VM_OPS: ffi::vm_operations_struct = ffi::vm_operations_struct {
        // These count references, so a child after fork and each half of a split mapping hold the object.
        open: Some(ffi::drm_gem_vm_open),
        close: Some(ffi::drm_gem_vm_close),
        fault: Some(Self::fault_callback),
        access: Some(Self::access_callback),
        ..pin_init::zeroed()
    };

    /// Makes an object of `size` bytes, which must be whole pages and not zero (`EINVAL`).
    pub(crate) fn new(
        dev: &ARef<Device<T::Data>>,
        size: usize,
        inner: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        Self::make(dev, size, ptr::null_mut(), inner)
    }

    /// Makes an object of memory that is imported by `attachment`, which `inner` keeps.
    pub(crate) fn imported<I: Importer>(
        dev: &ARef<Device<T::Data>>,
        attachment: Attachment<I>,
        inner: impl FnOnce(Attachment<I>) -> T,
    ) -> Result<ARef<Self>> {
        let (raw, size) = (attachment.as_raw(), attachment.dma_buf().size());
        Self::make(dev, size, raw, Ok(inner(attachment)))
    }

    /// Makes an object; `import` is its attachment, held by `inner`, or null.
    fn make(
        dev: &ARef<Device<T::Data>>,
        size: usize,
        import: *mut ffi::dma_buf_attachment,
        inner: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        if size == 0 || size % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let this = KBox::pin_init(
            try_pin_init!(Self {
                obj: Opaque::zeroed(),
                exported <- kernel::new_mutex!(Exported::NONE, "Object::exported"),
                inner <- inner,
                dev: dev.clone(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        // SAFETY: The device is alive, the object is ours alone, zeroed, and does not move; the size is whole
        // pages. An attachment holds the dma-buf, whose reservation is the object's then.
        unsafe {
            (*this.obj.get()).funcs = ptr::from_ref(const { &Self::FUNCS }).cast();
            if let Some(attachment) = import.as_ref() {
                (*this.obj.get()).import_attach = import;
                (*this.obj.get()).resv = (*attachment.dmabuf).resv;
            }
            ffi::drm_gem_private_object_init(dev.as_raw(), this.obj.get(), size);
        }

        // SAFETY: Only shared references to it are ever given out, so it does not move.
        let this = KBox::into_raw(unsafe { Pin::into_inner_unchecked(this) });
        // INVARIANT: Just initialized, boxed, and counted once.
        // SAFETY: `into_raw` gives no null, and the first reference becomes the `ARef`'s.
        let this = unsafe { ARef::from_raw(NonNull::new_unchecked(this)) };
        T::objects(dev).add(&this)?;
        Ok(this)
    }

    /// The `drm_gem_object` inside.
    pub(super) fn as_gem(&self) -> *mut ffi::drm_gem_object {
        self.obj.get()
    }

    /// The object's dma-buf.
    pub(super) fn exported(&self) -> &Mutex<Exported> {
        &self.exported
    }

    /// Whether it is an object of `dev`.
    pub(super) fn is_of(&self, dev: &ARef<Device<T::Data>>) -> bool {
        ptr::eq(&*self.dev, &**dev)
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: Valid by the type invariant, and the size does not change.
        unsafe { (*self.obj.get()).size }
    }

    fn node(&self) -> *mut ffi::drm_vma_offset_node {
        // SAFETY: Valid by the type invariant.
        unsafe { &raw mut (*self.obj.get()).vma_node }
    }

    /// The offset at which `mmap` of the device's files finds the object, made by the first call.
    ///
    /// Fails with `ENOMEM` or `ENOSPC`.
    pub(crate) fn mmap_offset(&self) -> Result<u64> {
        // SAFETY: The object is valid by the type invariant.
        to_result(unsafe { ffi::drm_gem_create_mmap_offset(self.obj.get()) })?;
        // SAFETY: As above.
        Ok(unsafe { ffi::rkfd_drm_vma_node_offset_addr(self.node()) })
    }

    /// Lets `file` map the object. Counted: each call wants one [`Object::revoke`], while `file` is still held.
    pub(crate) fn allow<F: Send + Sync + 'static>(&self, file: &FileRef<F>) -> Result {
        // SAFETY: The node is valid; the file serves as a tag only.
        to_result(unsafe { ffi::drm_vma_node_allow(self.node(), file.as_drm_file()) })
    }

    /// Takes the object's pages out of every mapping: the next access faults. Stores that were made before have reached
    /// the memory or are on their way to the device. Nobody has the object steady. Sleeps.
    pub(crate) fn zap(&self) {
        // SAFETY: The device has its inode as long as it exists, and the node its place as long as the object.
        unsafe {
            let inode = (*self.dev.as_raw()).anon_inode;
            ffi::rkfd_drm_vma_node_unmap(self.node(), (*inode).i_mapping);
        }
    }

    /// Takes one [`Object::allow`] back. What is mapped stays mapped.
    pub(crate) fn revoke<F: Send + Sync + 'static>(&self, file: &FileRef<F>) {
        // SAFETY: The node is valid; a tag that is not there is ignored.
        unsafe { ffi::drm_vma_node_revoke(self.node(), file.as_drm_file()) };
    }

    /// # Safety
    ///
    /// `obj` must be the `obj` of a `Self`.
    pub(super) unsafe fn container(obj: *mut ffi::drm_gem_object) -> *mut Self {
        let field: *mut Opaque<ffi::drm_gem_object> = obj.cast();
        // SAFETY: By this function's contract.
        unsafe { kernel::container_of!(field, Self, obj) }
    }

    /// `drm_gem_object_funcs::free`: the last reference is gone.
    ///
    /// # Safety
    ///
    /// `obj` must be the `obj` of a `Self` that `new` made, which nobody uses any more.
    unsafe extern "C" fn free_callback(obj: *mut ffi::drm_gem_object) {
        // SAFETY: Only objects of this type have this callback.
        let this = unsafe { Self::container(obj) };
        // SAFETY: As above: it was initialized, and nothing of it is gone.
        T::objects(unsafe { &(*this).dev }).remove(unsafe { NonNull::new_unchecked(this) });
        // SAFETY: The object was initialized and is used no more; its device is still held.
        unsafe { ffi::drm_gem_object_release(obj) };
        // SAFETY: It came from a `KBox`, and nobody else has it.
        drop(unsafe { KBox::from_raw(this) });
    }

    /// `drm_gem_object_funcs::mmap`: the mapping's flags. Its pages come by faults.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping that is being made, the caller's alone.
    unsafe extern "C" fn mmap_callback(
        obj: *mut ffi::drm_gem_object,
        vma: *mut ffi::vm_area_struct,
    ) -> c_int {
        // SAFETY: The object is one of this type, valid meanwhile.
        if !unsafe { (*obj).import_attach }.is_null() {
            // SAFETY: It is imported, as was just seen, and `vma` is a mapping of it.
            let done = unsafe { share::mmap_imported(obj, vma) };
            return done.map_or_else(|error| error.to_errno(), |()| 0);
        }
        // SAFETY: The mapping is being made and is the caller's alone.
        let flags = unsafe { ffi::rkfd_vma_flags(vma) };
        if flags & (ffi::VM_SHARED | ffi::VM_MAYWRITE) == ffi::VM_MAYWRITE {
            // A private copy of device memory makes no sense. libhsakmt reserves with private mappings that
            // nobody can touch, which is harmless once it cannot become writable.
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
        // SAFETY: The kernel gives a valid fault, whose mapping holds the object in `vm_private_data`.
        let (vma, address, pgoff, obj) = unsafe {
            let info = &(*vmf).__bindgen_anon_1;
            let obj = (*info.vma).vm_private_data.cast();
            (info.vma, info.address, info.pgoff, obj)
        };
        // SAFETY: Only mappings of objects of this type have this callback, and they hold a reference.
        let this = unsafe { &*Self::container(obj) };

        // SAFETY: As above.
        if T::is_moving(this) && unsafe { ffi::rkfd_fault_may_be_left(vmf) } {
            // Not with the mapping's lock: other threads want to map and fault meanwhile. The mapping may go then, and
            // with it its reference.
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
        // What is in system memory stays with who has mapped it.
        // SAFETY: As above.
        plugged.unwrap_or_else(|| unsafe { this.insert(vma, address, pgoff, false) })
    }

    /// `vm_operations_struct::access`: a debugger's access, which is no fault. It may write where the process could make the
    /// mapping writable: libhsakmt maps the VRAM that the CPU is not to touch without any permission, for debuggers alone.
    ///
    /// # Safety
    ///
    /// `vma` must be a mapping, locked, that holds an object of this type and has `address`; `buffer` must have `size` bytes.
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
        // SAFETY: Only mappings of objects of this type have this callback, and they hold a reference.
        let this = unsafe { &*Self::container(obj) };
        // SAFETY: The node is valid, and placed, for it was mapped.
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

    /// Copies between the object, from byte `offset` on, and `buffer`; how much. `None` if there is nothing of the object for the
    /// CPU.
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
            let memory = PageAccess::new(T::fault(self, page))?;
            // SAFETY: The piece is in the page, and as much is left of the buffer.
            unsafe { memory.copy(within, buffer.wrapping_add(done), count, write) };
            done += count;
        }
        Some(done)
    }

    /// Maps the page at `address`, which has the offset `pgoff` (pages) in the file, and some after it. Without `device` only system memory.
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
        // SAFETY: The node is valid, and placed, for it was mapped. The mapping is locked.
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
                    // SAFETY: Makes a value from a value.
                    (pfn, unsafe { ffi::rkfd_pgprot_writecombine(prot) })
                }
                FaultPage::Io { pfn, wc: false } => {
                    // SAFETY: Makes a value from a value.
                    (pfn, unsafe { ffi::rkfd_pgprot_noncached(prot) })
                }
                FaultPage::Ram { pfn } => (pfn, prot),
                FaultPage::Sigbus => break,
            };
            // SAFETY: The address is in the mapping, which is `VM_PFNMAP` and not a copy-on-write one. The
            // page is the object's, which the mapping holds.
            let one =
                unsafe { ffi::vmf_insert_pfn_prot(vma, address + (i << PAGE_SHIFT), pfn, prot) };
            // The first page is the one that was asked for; those after it are a favour.
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
enum PageAccess {
    Io(*mut c_void),
    Ram(*mut u8),
}

impl PageAccess {
    /// `None` if the CPU cannot reach it.
    fn new(page: FaultPage) -> Option<Self> {
        match page {
            FaultPage::Io { pfn, .. } => {
                // SAFETY: The page is of a BAR of the device, which is bound.
                let base = unsafe { ffi::ioremap_wc((pfn << PAGE_SHIFT) as u64, PAGE_SIZE) };
                (!base.is_null()).then_some(Self::Io(base))
            }
            // SAFETY: It is a page of memory, which the kernel has mapped.
            FaultPage::Ram { pfn } => Some(Self::Ram(unsafe { ffi::rkfd_pfn_address(pfn) }.cast())),
            FaultPage::Sigbus => None,
        }
    }

    /// Copies `count` bytes from byte `at` on to `buffer`, or from there if `write`.
    ///
    /// # Safety
    ///
    /// The bytes must be in the page, and in `buffer`, which must not overlap.
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

impl Drop for PageAccess {
    fn drop(&mut self) {
        if let Self::Io(base) = *self {
            // SAFETY: `new` mapped it.
            unsafe { ffi::iounmap(base) };
        }
    }
}

impl<T: DriverObject> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

// SAFETY: The count is the GEM object's, whose `free` drops the whole.
unsafe impl<T: DriverObject> AlwaysRefCounted for Object<T> {
    fn inc_ref(&self) {
        // SAFETY: A shared reference proves that the count is not zero.
        unsafe { ffi::rkfd_drm_gem_object_get(self.obj.get()) };
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: The caller gives up a reference, so the object is valid.
        unsafe { ffi::rkfd_drm_gem_object_put(this.as_ref().obj.get()) };
    }
}

// SAFETY: DRM's own structure is made to be used from any thread, and the rest is `Send` and `Sync`.
unsafe impl<T: DriverObject> Send for Object<T> {}

// SAFETY: As above.
unsafe impl<T: DriverObject> Sync for Object<T> {}
