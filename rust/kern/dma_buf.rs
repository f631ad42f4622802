// SPDX-License-Identifier: GPL-2.0
//! dma-bufs: memory that devices and processes share as an open file.

use core::{ops::Deref, ptr::NonNull};

use kernel::{
    dma::DataDirection,
    error::from_err_ptr,
    fs::File,
    new_spinlock,
    prelude::*,
    sync::{
        aref::{ARef, AlwaysRefCounted},
        atomic::{Acquire, AtomicFlag, Release},
        Arc, SpinLock,
    },
    types::Opaque,
};

use crate::{ffi, kern::device, kern::dma_map::DmaRun};

/// How long an import waits for the exporter's own work on the memory, in jiffies: ten seconds.
const WAIT_JIFFIES: usize = 10 * ffi::HZ as usize;
/// How long an exporter that moves memory waits for the importers' work on it, in jiffies: some 20
/// milliseconds. Others wait during that time, too.
const MOVE_JIFFIES: c_long = (ffi::HZ as c_long + 49) / 50;
/// How long an importer lets its own jobs end before its queues are quiesced: three seconds, more
/// than a job may take. The exporter waits for them, and while they are quiesced they do not end.
const JOB_JIFFIES: c_long = 3 * ffi::HZ as c_long;

/// A reference-counted dma-buf.
///
/// # Invariants
///
/// It is an initialized `struct dma_buf`, whose count is that of its file.
#[repr(transparent)]
pub(crate) struct DmaBuf(Opaque<ffi::dma_buf>);

// SAFETY: The structure may be used from any thread.
unsafe impl Send for DmaBuf {}
// SAFETY: As above.
unsafe impl Sync for DmaBuf {}

// SAFETY: The count is the file's, whose last reference frees the dma-buf.
unsafe impl AlwaysRefCounted for DmaBuf {
    fn inc_ref(&self) {
        // SAFETY: A shared reference proves that the count is not zero.
        unsafe { ffi::rkfd_get_dma_buf(self.as_raw()) };
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: The caller gives up a reference.
        unsafe { ffi::dma_buf_put(this.as_ptr().cast()) };
    }
}

impl DmaBuf {
    /// The dma-buf of the calling task's descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such descriptor; `EINVAL` if it is not a dma-buf.
    pub(crate) fn from_fd(fd: u32) -> Result<ARef<Self>> {
        let fd = i32::try_from(fd).map_err(|_| EBADF)?;
        // SAFETY: Any number may be passed.
        let raw = from_err_ptr(unsafe { ffi::dma_buf_get(fd) })?;
        // SAFETY: It is a dma-buf, and the reference is ours.
        unsafe { Self::owned(raw) }
    }

    /// The file of the dma-buf, which descriptors can refer to.
    pub(crate) fn into_file(this: ARef<Self>) -> Result<ARef<File>> {
        // SAFETY: Valid by the type invariant, and a dma-buf always has a file.
        let file = unsafe { (*this.as_raw()).file };
        let file = NonNull::new(file.cast::<File>()).ok_or(EINVAL)?;
        // The dma-buf's reference becomes the file's.
        let _ = ARef::into_raw(this);
        // SAFETY: As above. `fdget_pos` does not share the positions of dma-bufs: they are not
        // regular files.
        Ok(unsafe { ARef::from_raw(file) })
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: Valid by the type invariant, and the size does not change.
        unsafe { (*self.as_raw()).size }
    }

    /// Whether the holder of a descriptor may write: the exporter chose that.
    pub(crate) fn is_writable(&self) -> bool {
        // SAFETY: Valid by the type invariant, and so is its file, whose mode does not change.
        unsafe { ffi::rkfd_dma_buf_writable(self.as_raw()) }
    }

    /// The accesses that an importing device may make: read, and write if it was exported for that.
    fn direction(&self) -> ffi::dma_data_direction {
        if self.is_writable() {
            DataDirection::Bidirectional.into()
        } else {
            DataDirection::ToDevice.into()
        }
    }

    /// Makes all importers that support it drop their mappings, and waits some milliseconds for the
    /// end of their work with it; jobs of `dev`, the exporter, are none of it. The reservation's
    /// lock is held.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if that work goes on: the importers may still use the memory.
    pub(super) fn invalidate_locked(&self, dev: &kernel::device::Device) -> Result {
        // SAFETY: The dma-buf and its reservation are valid, and the lock is held.
        let remaining = unsafe {
            ffi::dma_buf_invalidate_mappings(self.as_raw());
            ffi::rkfd_dma_resv_wait_others((*self.as_raw()).resv, device::as_raw(dev), MOVE_JIFFIES)
        };
        if remaining > 0 {
            Ok(())
        } else {
            Err(ETIMEDOUT)
        }
    }

    /// The `dma_buf` inside.
    pub(super) fn as_raw(&self) -> *mut ffi::dma_buf {
        self.0.get()
    }

    /// The `DmaBuf` of a C dma-buf.
    ///
    /// # Safety
    ///
    /// `raw` must be a dma-buf that lives for `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut ffi::dma_buf) -> &'a Self {
        // SAFETY: By this function's contract.
        unsafe { &*raw.cast() }
    }

    /// Takes over the reference that comes with `raw`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `raw` is null.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or a dma-buf of which the caller gives up a reference.
    pub(super) unsafe fn owned(raw: *mut ffi::dma_buf) -> Result<ARef<Self>> {
        let raw = NonNull::new(raw.cast::<Self>()).ok_or(EINVAL)?;
        // SAFETY: By this function's contract.
        Ok(unsafe { ARef::from_raw(raw) })
    }

    /// Runs `f` with the lock of the memory's reservation held, a sleeping lock.
    fn locked<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: A dma-buf has a reservation as long as it lives.
        let resv = unsafe { (*self.as_raw()).resv };
        // SAFETY: As above; without an acquire context the lock cannot fail.
        unsafe { ffi::rkfd_dma_resv_lock(resv) };
        let out = f();
        // SAFETY: It was just locked.
        unsafe { ffi::rkfd_dma_resv_unlock(resv) };
        out
    }
}

/// A user of a dma-buf that is mapped for a device.
pub(crate) trait DmaBufImporter: Send + Sync + 'static {
    /// The exporter is about to move the memory. When this returns, the device no longer uses the
    /// addresses; the importer maps the dma-buf again later if it needs it. The reservation's lock
    /// is held. Takes a bounded time; may sleep.
    fn invalidate(&self);
}

/// The mapping of the memory for the device.
struct MappedAttachment {
    table: NonNull<ffi::sg_table>,
    runs: KVVec<DmaRun>,
}

// SAFETY: The table is only stored; the code that takes the structure out of its place unmaps it.
unsafe impl Send for MappedAttachment {}
// SAFETY: As above.
unsafe impl Sync for MappedAttachment {}

/// The DMA addresses of a [`DmaBufAttachment`]. They may be stale by now, but then the importer was
/// notified before.
pub(crate) struct AttachmentRuns(Arc<MappedAttachment>);

impl Deref for AttachmentRuns {
    type Target = [DmaRun];

    /// In the order of the memory; adjacent ones are merged.
    fn deref(&self) -> &[DmaRun] {
        &self.0.runs
    }
}

/// The part of a [`DmaBufAttachment`] that the callback uses.
#[pin_data]
struct AttachmentInner<I> {
    #[pin]
    importer: I,
    /// Changed under the reservation's lock only.
    #[pin]
    mapped: SpinLock<Option<Arc<MappedAttachment>>>,
    /// Set when the device must not get any more addresses.
    closed: AtomicFlag,
}

/// Memory of another exporter, attached to a device. Nothing is pinned: the GPU has no page faults
/// to wait in, so its queues are quiesced when the memory moves, and resume when it has the new
/// addresses. Dropping this detaches the memory.
///
/// # Invariants
///
/// `raw` is an attachment of `buf` with `inner` as its private data. The mapping in `inner` was
/// made by `raw`.
pub(crate) struct DmaBufAttachment<I: DmaBufImporter> {
    raw: NonNull<ffi::dma_buf_attachment>,
    inner: Arc<AttachmentInner<I>>,
    buf: ARef<DmaBuf>,
    _dev: ARef<kernel::device::Device>,
}

// SAFETY: The attachment may be used from any thread, under the reservation's lock.
unsafe impl<I: DmaBufImporter> Send for DmaBufAttachment<I> {}
// SAFETY: As above.
unsafe impl<I: DmaBufImporter> Sync for DmaBufAttachment<I> {}

impl<I: DmaBufImporter> DmaBufAttachment<I> {
    /// The importer accepts addresses without pages behind them: another device's memory.
    const OPERATIONS: ffi::dma_buf_attach_ops = ffi::dma_buf_attach_ops {
        allow_peer2peer: true,
        invalidate_mappings: Some(Self::invalidate_callback),
    };

    /// Attaches `dev`, which must be bound. Nothing is mapped yet.
    ///
    /// # Errors
    ///
    /// The exporter's error; `ENOMEM` if there is no memory.
    pub(crate) fn new(
        dev: &ARef<kernel::device::Device>,
        buf: &DmaBuf,
        importer: impl PinInit<I>,
    ) -> Result<Self> {
        let inner = Arc::pin_init(
            pin_init!(AttachmentInner {
                importer <- importer,
                mapped <- new_spinlock!(None, "DmaBufAttachment::mapped"),
                closed: AtomicFlag::new(false),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // SAFETY: All are valid and are referenced; the operations are a constant with static
        // lifetime.
        let raw = from_err_ptr(unsafe {
            ffi::dma_buf_dynamic_attach(
                buf.as_raw(),
                device::as_raw(dev),
                const { &Self::OPERATIONS },
                Arc::as_ptr(&inner).cast_mut().cast(),
            )
        })?;
        Ok(Self {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            inner,
            buf: buf.into(),
            _dev: dev.clone(),
        })
    }

    /// `dma_buf_attach_ops::invalidate_mappings`.
    ///
    /// # Safety
    ///
    /// The exporter calls it with an attachment of this type, and with the reservation's lock held.
    unsafe extern "C" fn invalidate_callback(raw: *mut ffi::dma_buf_attachment) {
        // SAFETY: The private data is an `AttachmentInner`, which lives as long as the attachment.
        let inner = unsafe { &*(*raw).importer_priv.cast::<AttachmentInner<I>>() };
        let mapped = inner.mapped.lock().take();
        if let Some(mapped) = mapped {
            // SAFETY: The attachment, its dma-buf and its device are valid, and the lock is held.
            unsafe { ffi::rkfd_dma_resv_wait_jobs((*(*raw).dmabuf).resv, (*raw).dev, JOB_JIFFIES) };
            inner.importer.invalidate();
            // SAFETY: This attachment mapped it, and it was taken out; the lock is held.
            unsafe { unmap(raw, mapped.table) };
        }
    }

    /// The importer.
    pub(crate) fn importer(&self) -> &I {
        &self.inner.importer
    }

    /// The dma-buf.
    pub(crate) fn dma_buf(&self) -> &ARef<DmaBuf> {
        &self.buf
    }

    /// The DMA addresses, while it is mapped.
    pub(crate) fn runs(&self) -> Option<AttachmentRuns> {
        self.inner.mapped.lock().clone().map(AttachmentRuns)
    }

    /// The attachment inside.
    pub(super) fn as_raw(&self) -> *mut ffi::dma_buf_attachment {
        self.raw.as_ptr()
    }

    /// Runs `f` with the reservation's lock held: the memory does not move during that time. May
    /// sleep.
    pub(crate) fn locked<R>(&self, f: impl FnOnce(&LockedAttachment<'_, I>) -> R) -> R {
        self.buf.locked(|| f(&LockedAttachment(self)))
    }

    /// Takes the memory away from the device for good. The caller has ensured that nothing on the
    /// device uses it any more, and that the device is still bound.
    pub(crate) fn close(&self) {
        self.inner.closed.store(true, Release);
        self.locked(|this| this.unmap());
    }
}

impl<I: DmaBufImporter> Drop for DmaBufAttachment<I> {
    fn drop(&mut self) {
        self.locked(|this| this.unmap());
        // SAFETY: The attachment is that of the dma-buf, and its mapping is gone.
        unsafe { ffi::dma_buf_detach(self.buf.as_raw(), self.raw.as_ptr()) };
    }
}

/// An attachment with its reservation's lock held.
pub(crate) struct LockedAttachment<'a, I: DmaBufImporter>(&'a DmaBufAttachment<I>);

impl<I: DmaBufImporter> LockedAttachment<'_, I> {
    /// Maps the memory, if it is not mapped.
    ///
    /// # Errors
    ///
    /// The exporter's error; `ETIMEDOUT` if the exporter's own work on the memory does not end;
    /// `EINTR` on a signal; `EIO` if the exporter returns anything but the pages of the dma-buf;
    /// `ENOMEM` if there is no memory; `ENODEV` after [`DmaBufAttachment::close`].
    pub(crate) fn map(&self) -> Result {
        let Self(DmaBufAttachment {
            raw, inner, buf, ..
        }) = self;
        if inner.closed.load(Acquire) {
            return Err(ENODEV);
        }
        if inner.mapped.lock().is_some() {
            return Ok(());
        }
        // SAFETY: The dma-buf and its reservation are valid.
        let waited = unsafe {
            ffi::dma_resv_wait_timeout(
                (*buf.as_raw()).resv,
                ffi::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
                true,
                WAIT_JIFFIES,
            )
        };
        match waited {
            0 => return Err(ETIMEDOUT),
            ..0 => return Err(EINTR),
            1.. => (),
        }
        // SAFETY: The attachment is valid, and the lock is held.
        let table = unsafe { ffi::dma_buf_map_attachment(raw.as_ptr(), buf.direction()) };
        let table = NonNull::new(from_err_ptr(table)?).ok_or(ENOMEM)?;
        let collect = || {
            // SAFETY: The table is mapped.
            let runs = unsafe { DmaRun::collect(table.as_ptr(), buf.size() as u64)? };
            Ok(Arc::new(
                MappedAttachment { table, runs },
                GFP_KERNEL_ACCOUNT,
            )?)
        };
        match collect() {
            Ok(mapped) => {
                *inner.mapped.lock() = Some(mapped);
                Ok(())
            }
            Err(error) => {
                // SAFETY: It was just mapped, and has no other user; the lock is held.
                unsafe { unmap(raw.as_ptr(), table) };
                Err(error)
            }
        }
    }

    /// Unmaps the memory, if it is mapped. The caller has ensured that nothing on the device uses
    /// it any more.
    pub(crate) fn unmap(&self) {
        let mapped = self.0.inner.mapped.lock().take();
        if let Some(mapped) = mapped {
            // SAFETY: This attachment mapped it, and it was taken out; the lock is held.
            unsafe { unmap(self.0.raw.as_ptr(), mapped.table) };
        }
    }
}

/// Unmaps `table`.
///
/// # Safety
///
/// `table` must have been mapped by `raw` and not be unmapped yet; the reservation's lock is held.
unsafe fn unmap(raw: *mut ffi::dma_buf_attachment, table: NonNull<ffi::sg_table>) {
    // SAFETY: By this function's contract; an attachment holds its dma-buf.
    unsafe {
        let direction = DmaBuf::from_raw((*raw).dmabuf).direction();
        ffi::dma_buf_unmap_attachment(raw, table.as_ptr(), direction);
    }
}
