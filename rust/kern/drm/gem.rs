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
        self,
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

/// The CPU's backing of a page of an object.
pub(crate) enum FaultPage {
    /// A page of a BAR, mapped write-combined if `wc`, else uncached.
    Io {
        /// The page frame number.
        pfn: usize,
        /// Whether it is mapped write-combined.
        wc: bool,
    },
    /// A page of memory, cached.
    Ram {
        /// The page frame number.
        pfn: usize,
    },
    /// None: the CPU cannot reach the page, and the access is a `SIGBUS`.
    Sigbus,
}

/// A driver's type of buffer object.
pub(crate) trait GemDriverObject: Send + Sync + Sized + 'static {
    /// The private data of the device that such objects belong to.
    type Data: Send + Sync + 'static;

    /// A guard that keeps the object's memory in its place.
    type Steady<'a>
    where
        Self: 'a;

    /// Keeps the object's memory in its place while pages are mapped. Waits for the end of a move.
    /// The code that moves the object calls [`GemObject::zap`] once this waits. Returns `None` if a
    /// signal came first: the access is made again. The same locks are held as for
    /// [`GemDriverObject::fault`].
    fn steady(obj: &GemObject<Self>) -> Option<Self::Steady<'_>>;

    /// Whether [`GemDriverObject::steady`] would have to wait now.
    fn is_moving(obj: &GemObject<Self>) -> bool;

    /// The backing of page `page` of the object. Called with the caller's mmap or VMA lock held, so
    /// it takes no lock under which user memory is accessed or memory is allocated.
    fn fault(obj: &GemObject<Self>, page: usize) -> FaultPage;

    /// The number of its owner, which never changes, and by which it is found in the list of the
    /// device's objects; 0 if it is not to be found by its owner.
    fn owner(&self) -> usize;

    /// The list of the device's objects.
    fn objects(data: &Self::Data) -> &ObjectList<Self>;

    /// Whether the users of the object synchronize by themselves, so that jobs wait for none.
    fn is_explicit(obj: &GemObject<Self>) -> bool;

    /// Checks whether the object may be exported.
    ///
    /// # Errors
    ///
    /// Exporting fails with the error.
    fn check_export(obj: &GemObject<Self>) -> Result;

    /// Another device is about to use the object. `reaches` tells whether that device reaches this
    /// one's memory and can drop its mappings on request.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the object is in memory that the other device cannot reach, and has to stay
    /// there.
    fn attach(obj: &GemObject<Self>, reaches: bool) -> Result;

    /// Shares the object with `dev` in its place in the device's own memory, and keeps it there.
    /// Returns `None` if it cannot be shared like this. The reservation's lock is held.
    fn share_in_place(
        obj: &GemObject<Self>,
        dev: &ARef<device::Device>,
    ) -> Result<Option<InPlaceShare>>;

    /// Whether it is shared in place at the moment.
    fn is_shared_in_place(obj: &GemObject<Self>) -> bool;

    /// Moves the object to memory that other devices reach, if it is not there, and shares it with
    /// one device. Counted. With `stays` the object does not move until it is unshared. Before a
    /// move of an object that is only shared without `stays`, [`GemObject::reclaim`] is called. The
    /// reservation's lock is held.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the object has to be elsewhere.
    fn share(obj: &GemObject<Self>, stays: bool) -> Result;

    /// Undoes one [`GemDriverObject::share`]. The reservation's lock is held.
    fn unshare(obj: &GemObject<Self>, stays: bool);

    /// Calls `f` with the pages of an object that is shared. The reservation's lock is held.
    fn with_pages<R>(obj: &GemObject<Self>, f: impl FnOnce(&PageList) -> R) -> Option<R>;

    /// The CPU begins or has ended access to the object through its dma-buf.
    fn cpu_access(obj: &GemObject<Self>);

    /// Makes an object from the memory of another exporter, with [`GemObject::imported`].
    fn import(dev: &ARef<DrmDevice<Self::Data>>, buf: &DmaBuf) -> Result<ARef<GemObject<Self>>>;
}

/// A buffer object.
///
/// # Invariants
///
/// `obj` is an initialized `struct drm_gem_object` of the device `dev`, with [`GemObject::FUNCS`];
/// the whole is in a `KBox` that the object's last reference frees.
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

    /// Makes an object of `size` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `size` is 0 or not a multiple of the page size; `ENOMEM` if there is no memory;
    /// errors of `inner`.
    pub(crate) fn new(
        dev: &ARef<DrmDevice<T::Data>>,
        size: usize,
        inner: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        Self::make(dev, size, ptr::null_mut(), inner)
    }

    /// Makes an object from memory that `attachment` imports; `inner` keeps the attachment.
    ///
    /// # Errors
    ///
    /// Those of [`GemObject::new`].
    pub(crate) fn imported<I: DmaBufImporter>(
        dev: &ARef<DrmDevice<T::Data>>,
        attachment: DmaBufAttachment<I>,
        inner: impl FnOnce(DmaBufAttachment<I>) -> T,
    ) -> Result<ARef<Self>> {
        let (raw, size) = (attachment.as_raw(), attachment.dma_buf().size());
        Self::make(dev, size, raw, Ok(inner(attachment)))
    }

    /// Makes an object; `import` is its attachment, which `inner` holds, or null.
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
                exported <- kernel::new_mutex!(ExportedBuffers::NONE, "GemObject::exported"),
                inner <- inner,
                dev: dev.clone(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;

        // SAFETY: The device is alive. The object is ours alone, zeroed, and does not move; the
        // size is whole pages. An attachment keeps the dma-buf, whose reservation becomes the
        // object's.
        unsafe {
            (*this.obj.get()).funcs = ptr::from_ref(const { &Self::FUNCS }).cast();
            if let Some(attachment) = import.as_ref() {
                (*this.obj.get()).import_attach = import;
                (*this.obj.get()).resv = (*attachment.dmabuf).resv;
            }
            ffi::drm_gem_private_object_init(dev.as_raw(), this.obj.get(), size);
        }

        // SAFETY: Only shared references to it are ever handed out, so it does not move.
        let this = KBox::into_raw(unsafe { Pin::into_inner_unchecked(this) });
        // INVARIANT: Just initialized, boxed, and counted once. SAFETY: `into_raw` never returns
        // null, and the first reference becomes the `ARef`'s.
        let this = unsafe { ARef::from_raw(NonNull::new_unchecked(this)) };
        T::objects(dev).add(&this)?;
        Ok(this)
    }

    /// The `drm_gem_object` inside.
    pub(super) fn as_gem(&self) -> *mut ffi::drm_gem_object {
        self.obj.get()
    }

    /// The export state of the object. The lock is inside the reservation's.
    pub(super) fn exported(&self) -> &Mutex<ExportedBuffers> {
        &self.exported
    }

    /// Whether the object belongs to `dev`.
    pub(super) fn is_of(&self, dev: &ARef<DrmDevice<T::Data>>) -> bool {
        ptr::eq(&*self.dev, &**dev)
    }

    /// The bus's device that it belongs to.
    pub(super) fn parent(&self) -> &device::Device {
        // SAFETY: The object holds its DRM device, which holds the other one.
        unsafe { kern::device::from_raw((*self.dev.as_raw()).dev) }
    }

    /// Whether no other device that has the object through a dma-buf is still working on it, as far
    /// as can be seen now.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: Valid by the type invariant; the reservation lives as long as the object, and the
        // device is that of the object's, which it holds.
        unsafe { ffi::rkfd_dma_resv_is_idle((*self.as_gem()).resv, (*self.dev.as_raw()).dev) }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: Valid by the type invariant, and the size does not change.
        unsafe { (*self.obj.get()).size }
    }

    fn node(&self) -> *mut ffi::drm_vma_offset_node {
        // SAFETY: Valid by the type invariant.
        unsafe { &raw mut (*self.obj.get()).vma_node }
    }

    /// The offset at which `mmap` of the device's files finds the object; the first call allocates
    /// it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `ENOSPC` if there is no offset.
    pub(crate) fn mmap_offset(&self) -> Result<u64> {
        // SAFETY: The object is valid by the type invariant.
        to_result(unsafe { ffi::drm_gem_create_mmap_offset(self.obj.get()) })?;
        // SAFETY: As above.
        Ok(unsafe { ffi::rkfd_drm_vma_node_offset_addr(self.node()) })
    }

    /// Allows `file` to map the object. Counted: each call needs one [`GemObject::revoke`], while
    /// `file` is still referenced.
    pub(crate) fn allow<F: Send + Sync + 'static>(&self, file: &DrmFileRef<F>) -> Result {
        // SAFETY: The node is valid; the file serves as a tag only.
        to_result(unsafe { ffi::drm_vma_node_allow(self.node(), file.as_drm_file()) })
    }

    /// Removes the object's pages from every mapping: the next access faults. Earlier stores have
    /// reached the memory or are on their way to the device. No [`GemDriverObject::steady`] guard
    /// exists. May sleep.
    pub(crate) fn zap(&self) {
        // SAFETY: The device has its inode as long as it exists, and the node has its place as long
        // as the object.
        unsafe {
            let inode = (*self.dev.as_raw()).anon_inode;
            ffi::rkfd_drm_vma_node_unmap(self.node(), (*inode).i_mapping);
        }
    }

    /// Undoes one [`GemObject::allow`]. Existing mappings stay.
    pub(crate) fn revoke<F: Send + Sync + 'static>(&self, file: &DrmFileRef<F>) {
        // SAFETY: The node is valid; a tag that is not there is ignored.
        unsafe { ffi::drm_vma_node_revoke(self.node(), file.as_drm_file()) };
    }

    /// The `GemObject` around `obj`.
    ///
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
    /// `obj` must be the `obj` of a `Self` that `new` made, and is no longer used.
    unsafe extern "C" fn free_callback(obj: *mut ffi::drm_gem_object) {
        // SAFETY: Only objects of this type have this callback.
        let this = unsafe { Self::container(obj) };
        // SAFETY: As above: it was initialized, and all of it is still there.
        T::objects(unsafe { &(*this).dev }).remove(unsafe { NonNull::new_unchecked(this) });
        // SAFETY: The object was initialized and is no longer used; its device is still referenced.
        unsafe { ffi::drm_gem_object_release(obj) };
        // SAFETY: It came from a `KBox`, and has no other user.
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

// SAFETY: DRM's own structure may be used from any thread, and the rest is `Send` and `Sync`.
unsafe impl<T: GemDriverObject> Send for GemObject<T> {}

// SAFETY: As above.
unsafe impl<T: GemDriverObject> Sync for GemObject<T> {}
