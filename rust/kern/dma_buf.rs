// SPDX-License-Identifier: GPL-2.0
//! dma-bufs: memory that devices and processes share as an open file.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    sync::atomic::{ordering::Full, AtomicFlag},
    types::Opaque,
};

use crate::{ffi, kern::device, kern::dma_map::DmaRun};

/// How long an import waits for the exporter's own work on the memory, jiffies: some seconds.
const WAIT_JIFFIES: usize = 10 * ffi::HZ as usize;

/// A dma-buf, reference counted.
///
/// # Invariants
///
/// It is an initialized `struct dma_buf`, whose count is that of its file.
#[repr(transparent)]
pub(crate) struct DmaBuf(Opaque<ffi::dma_buf>);

// SAFETY: The structure is made to be used from any thread.
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
    /// The dma-buf behind the calling task's descriptor. EBADF if there is no such descriptor, EINVAL if it is no
    /// dma-buf.
    pub(crate) fn from_fd(fd: u32) -> Result<ARef<Self>> {
        let fd = i32::try_from(fd).map_err(|_| EBADF)?;
        // SAFETY: Any number may be asked for.
        let raw = from_err_ptr(unsafe { ffi::dma_buf_get(fd) })?;
        // SAFETY: It is a dma-buf, and the reference is ours.
        unsafe { Self::owned(raw) }
    }

    /// A new descriptor of the calling task for it, close-on-exec if `cloexec`. EMFILE, ENFILE, ENOMEM.
    pub(crate) fn into_fd(this: ARef<Self>, cloexec: bool) -> Result<u32> {
        let flags = if cloexec { ffi::O_CLOEXEC } else { 0 };
        // SAFETY: The dma-buf is valid; the descriptor takes the reference unless there is an error.
        let fd = unsafe { ffi::dma_buf_fd(this.as_raw(), flags as i32) };
        let fd = u32::try_from(fd).map_err(|_| Error::from_errno(fd))?;
        // Now the descriptor's.
        let _ = ARef::into_raw(this);
        Ok(fd)
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: Valid by the type invariant, and the size does not change.
        unsafe { (*self.as_raw()).size }
    }

    /// The `dma_buf` inside.
    pub(super) fn as_raw(&self) -> *mut ffi::dma_buf {
        self.0.get()
    }

    /// # Safety
    ///
    /// `raw` must be a dma-buf that lives for `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut ffi::dma_buf) -> &'a Self {
        // SAFETY: By this function's contract.
        unsafe { &*raw.cast() }
    }

    /// Takes over the reference that comes with `raw`. EINVAL for null.
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
        // SAFETY: As above; there is no way to fail without a context.
        unsafe { ffi::rkfd_dma_resv_lock(resv) };
        let out = f();
        // SAFETY: It was just locked.
        unsafe { ffi::rkfd_dma_resv_unlock(resv) };
        out
    }
}

/// `dma_buf_attach_ops`, in a static that may be shared.
struct ImportOperations(ffi::dma_buf_attach_ops);

// SAFETY: The structure is never written.
unsafe impl Sync for ImportOperations {}

/// The GPU has no page faults to wait in, so what it is given is pinned; that is what an attachment without a
/// way to be told of moves does. It takes addresses without pages behind them: another device's memory.
static IMPORT: ImportOperations = ImportOperations(ffi::dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: None,
});

/// Somebody else's memory, mapped for a device. Dropping it gives it back.
///
/// # Invariants
///
/// `raw` is an attachment of `buf`, `table` what mapping it gave as long as `mapped` says so.
pub(crate) struct Attachment {
    runs: KVVec<DmaRun>,
    mapped: AtomicFlag,
    table: NonNull<ffi::sg_table>,
    attached: Attached,
}

/// An attachment, mapped or not.
struct Attached {
    raw: NonNull<ffi::dma_buf_attachment>,
    buf: ARef<DmaBuf>,
    _dev: ARef<kernel::device::Device>,
}

// SAFETY: The attachment may be used from any thread, under the reservation's lock.
unsafe impl Send for Attachment {}
// SAFETY: As above; what is not under that lock does not change after `new`.
unsafe impl Sync for Attachment {}

impl Attached {
    fn new(dev: &ARef<kernel::device::Device>, buf: &DmaBuf) -> Result<Self> {
        // SAFETY: Both are valid and are held; the operations are a static.
        let raw = from_err_ptr(unsafe {
            ffi::dma_buf_dynamic_attach(
                buf.as_raw(),
                device::as_raw(dev),
                &IMPORT.0,
                core::ptr::null_mut(),
            )
        })?;
        Ok(Self {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            buf: buf.into(),
            _dev: dev.clone(),
        })
    }

    /// Pins and maps. The reservation's lock is held.
    fn map(&self) -> Result<NonNull<ffi::sg_table>> {
        let raw = self.raw.as_ptr();
        // SAFETY: The attachment is valid, and the lock is held.
        to_result(unsafe { ffi::dma_buf_pin(raw) })?;
        let unpin = |error| {
            // SAFETY: As above; it was just pinned.
            unsafe { ffi::dma_buf_unpin(raw) };
            error
        };
        // SAFETY: The dma-buf and its reservation are valid.
        let waited = unsafe {
            ffi::dma_resv_wait_timeout(
                (*self.buf.as_raw()).resv,
                ffi::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
                true,
                WAIT_JIFFIES,
            )
        };
        match waited {
            0 => return Err(unpin(ETIMEDOUT)),
            ..0 => return Err(unpin(EINTR)),
            1.. => (),
        }
        // SAFETY: The attachment is valid, pinned, and the lock is held.
        let table = from_err_ptr(unsafe {
            ffi::dma_buf_map_attachment(raw, ffi::dma_data_direction_DMA_BIDIRECTIONAL)
        })
        .map_err(unpin)?;
        NonNull::new(table).ok_or_else(|| unpin(ENOMEM))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: The attachment is that of the dma-buf, and nothing is mapped by it any more.
        unsafe { ffi::dma_buf_detach(self.buf.as_raw(), self.raw.as_ptr()) };
    }
}

impl Attachment {
    /// Maps all of `buf` for `dev`, which must be bound, and pins it there.
    ///
    /// What the exporter says, ETIMEDOUT if it does not come to an end with the memory, EINTR on a signal, EIO if
    /// it gives something else than its pages.
    pub(crate) fn new(dev: &ARef<kernel::device::Device>, buf: &DmaBuf) -> Result<Self> {
        let attached = Attached::new(dev, buf)?;
        let table = buf.locked(|| attached.map())?;
        // From here on a failure unmaps.
        let mut this = Self {
            runs: KVVec::new(),
            mapped: AtomicFlag::new(true),
            table,
            attached,
        };
        // SAFETY: The table is mapped.
        this.runs = unsafe { DmaRun::collect(table.as_ptr(), buf.size() as u64)? };
        Ok(this)
    }

    /// The dma-buf.
    pub(crate) fn dma_buf(&self) -> &ARef<DmaBuf> {
        &self.attached.buf
    }

    /// The DMA addresses, adjacent ones merged, in the order of the memory.
    pub(crate) fn runs(&self) -> &[DmaRun] {
        &self.runs
    }

    /// Whether the addresses still lead to the memory.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.load(kernel::sync::atomic::Relaxed)
    }

    /// The attachment inside.
    pub(super) fn as_raw(&self) -> *mut ffi::dma_buf_attachment {
        self.attached.raw.as_ptr()
    }

    /// Takes the memory away from the device, once. The caller has seen to it that nothing on the device uses it any
    /// more, and that the device is still bound.
    pub(crate) fn unmap(&self) {
        if !self.mapped.xchg(false, Full) {
            return;
        }
        let raw = self.attached.raw.as_ptr();
        self.attached.buf.locked(|| {
            // SAFETY: It was mapped and pinned by `new`, the exchange lets one caller through, and the lock is held.
            unsafe {
                ffi::dma_buf_unmap_attachment(
                    raw,
                    self.table.as_ptr(),
                    ffi::dma_data_direction_DMA_BIDIRECTIONAL,
                );
                ffi::dma_buf_unpin(raw);
            }
        });
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.unmap();
    }
}
