// SPDX-License-Identifier: GPL-2.0
//! Buffer objects: reference counted, and mapped into processes through an open DRM file.

mod mmap;

use core::{
    ops::Deref,
    ptr::{self, NonNull},
};

use kernel::{
    device,
    error::to_result,
    page::PAGE_SIZE,
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
        dma_buf::{DmaBuf, DmaBufAttachment, DmaBufImporter},
        drm::{
            exported::ExportedBuffers,
            file::{self, DrmFileRef},
            in_place::InPlaceShare,
            objects::ObjectList,
            share::GemFunctions,
            DrmDevice,
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
pub(crate) trait GemDriverObject: Send + Sync + Sized + 'static {
    /// Private data of the device that such objects belong to.
    type Data: Send + Sync + 'static;

    /// What keeps the object's memory in its place.
    type Steady<'a>
    where
        Self: 'a;

    /// Keeps the object's memory in its place while pages are mapped; waits for the end if it is on its way. Who moves it
    /// calls [`GemObject::zap`] when this waits already. `None` when a signal came first: the access is made again. The same locks are held as
    /// for [`GemDriverObject::fault`].
    fn steady(obj: &GemObject<Self>) -> Option<Self::Steady<'_>>;

    /// Whether [`GemDriverObject::steady`] would have to wait now.
    fn is_moving(obj: &GemObject<Self>) -> bool;

    /// What backs page `page` of the object. Called with the caller's mmap or VMA lock held, so it takes no
    /// lock under which user memory is touched or memory is allocated.
    fn fault(obj: &GemObject<Self>, page: usize) -> FaultPage;

    /// The number of its owner, which never changes, and by which it is found in the list of the device's objects; 0 if it is
    /// not to be found by its owner.
    fn owner(&self) -> usize;

    /// The list of the device's objects.
    fn objects(data: &Self::Data) -> &ObjectList<Self>;

    /// Whether the object may be exported. The error is what exporting fails with.
    fn check_export(obj: &GemObject<Self>) -> Result;

    /// Another device wants to use the object; whether that `reaches` this one's memory, and gives it back when asked. EBUSY when it is
    /// where that cannot reach it, and has to stay there.
    fn attach(obj: &GemObject<Self>, reaches: bool) -> Result;

    /// Shares the object with `dev` where it is in the device's own memory, and keeps it there. `None` when it is not to be had so. The
    /// reservation's lock is held.
    fn share_in_place(
        obj: &GemObject<Self>,
        dev: &ARef<device::Device>,
    ) -> Result<Option<InPlaceShare>>;

    /// Whether anybody has it so.
    fn is_shared_in_place(obj: &GemObject<Self>) -> bool;

    /// Brings the object to where other devices reach it, if it is not there, and shares it with one. Counted. One that `stays`
    /// is not moved until it is given back; before the others are moved, [`GemObject::reclaim`] is called. EBUSY when it has to
    /// be elsewhere. The reservation's lock is held.
    fn share(obj: &GemObject<Self>, stays: bool) -> Result;

    /// Takes one [`GemDriverObject::share`] back. The reservation's lock is held.
    fn unshare(obj: &GemObject<Self>, stays: bool);

    /// Calls `f` with the pages of an object that is shared. The reservation's lock is held.
    fn with_pages<R>(obj: &GemObject<Self>, f: impl FnOnce(&PageList) -> R) -> Option<R>;

    /// The CPU begins to access the object through its dma-buf, or has ended.
    fn cpu_access(obj: &GemObject<Self>);

    /// Makes an object of another exporter's memory, by [`GemObject::imported`].
    fn import(dev: &ARef<DrmDevice<Self::Data>>, buf: &DmaBuf) -> Result<ARef<GemObject<Self>>>;
}

/// A buffer object.
///
/// # Invariants
///
/// `obj` is an initialized `struct drm_gem_object` of the device `dev`, with [`GemObject::FUNCS`]; the whole is in
/// a `KBox` that the object's last reference frees.
#[pin_data]
#[repr(C)]
pub(crate) struct GemObject<T: GemDriverObject> {
    #[pin]
    obj: Opaque<ffi::drm_gem_object>,
    #[pin]
    exported: Mutex<ExportedBuffers>,
    #[pin]
    inner: T,
    // Last: the object may outlive every open file, and its offset belongs to the device.
    dev: ARef<DrmDevice<T::Data>>,
}

impl<T: GemDriverObject> GemObject<T> {
    const FUNCS: GemFunctions = Self::functions(ffi::drm_gem_object_funcs {
        free: Some(Self::free_callback),
        open: Some(file::open_object_callback),
        close: Some(file::close_object_callback),
        mmap: Some(Self::mmap_callback),
        vm_ops: &Self::VM_OPS,
        ..pin_init::zeroed()
    });

    /// Makes an object of `size` bytes, which must be whole pages and not zero (`EINVAL`).
    pub(crate) fn new(
        dev: &ARef<DrmDevice<T::Data>>,
        size: usize,
        inner: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        Self::make(dev, size, ptr::null_mut(), inner)
    }

    /// Makes an object of memory that is imported by `attachment`, which `inner` keeps.
    pub(crate) fn imported<I: DmaBufImporter>(
        dev: &ARef<DrmDevice<T::Data>>,
        attachment: DmaBufAttachment<I>,
        inner: impl FnOnce(DmaBufAttachment<I>) -> T,
    ) -> Result<ARef<Self>> {
        let (raw, size) = (attachment.as_raw(), attachment.dma_buf().size());
        Self::make(dev, size, raw, Ok(inner(attachment)))
    }

    /// Makes an object; `import` is its attachment, held by `inner`, or null.
    fn make(
        dev: &ARef<DrmDevice<T::Data>>,
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
                exported <- kernel::new_mutex!(ExportedBuffers::NONE, "Object::exported"),
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

    /// The object's dma-buf. The lock is inside the reservation's.
    pub(super) fn exported(&self) -> &Mutex<ExportedBuffers> {
        &self.exported
    }

    /// Whether it is an object of `dev`.
    pub(super) fn is_of(&self, dev: &ARef<DrmDevice<T::Data>>) -> bool {
        ptr::eq(&*self.dev, &**dev)
    }

    /// Whether no device that had it by a dma-buf is still at work on it, as far as can be seen now.
    pub(crate) fn is_idle(&self) -> bool {
        let usage = ffi::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP;
        // SAFETY: Valid by the type invariant, and the reservation lives as long as the object.
        unsafe { ffi::dma_resv_test_signaled((*self.as_gem()).resv, usage) }
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

    /// Lets `file` map the object. Counted: each call wants one [`GemObject::revoke`], while `file` is still held.
    pub(crate) fn allow<F: Send + Sync + 'static>(&self, file: &DrmFileRef<F>) -> Result {
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

    /// Takes one [`GemObject::allow`] back. What is mapped stays mapped.
    pub(crate) fn revoke<F: Send + Sync + 'static>(&self, file: &DrmFileRef<F>) {
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
}

impl<T: GemDriverObject> Deref for GemObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

// SAFETY: The count is the GEM object's, whose `free` drops the whole.
unsafe impl<T: GemDriverObject> AlwaysRefCounted for GemObject<T> {
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
unsafe impl<T: GemDriverObject> Send for GemObject<T> {}

// SAFETY: As above.
unsafe impl<T: GemDriverObject> Sync for GemObject<T> {}
