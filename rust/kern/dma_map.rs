// SPDX-License-Identifier: GPL-2.0
//! Pages mapped for a device: the streaming DMA API over a scatter list.

use super::device;
use crate::ffi;
use core::{cell::UnsafeCell, ptr::NonNull};
use kernel::{
    device::Device,
    dma::DataDirection,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{ordering::Full, AtomicFlag},
    },
};

/// The longest piece of a scatter list, in bytes: a whole number of large pages.
const MAX_SEGMENT: u32 = 1 << 31;

/// The most pages of a piece.
pub(super) const MAX_PIECE: usize = MAX_SEGMENT as usize / PAGE_SIZE;

/// A run of addresses that the device sees as contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DmaRun {
    /// The first DMA address.
    pub(crate) address: u64,
    /// The number of bytes: a multiple of the page size.
    pub(crate) size: u64,
}

impl DmaRun {
    /// The addresses of a mapped table; adjacent ones are merged.
    ///
    /// # Errors
    ///
    /// `EIO` if they are not `size` bytes of whole pages; `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// `table` must be mapped for a device.
    pub(super) unsafe fn collect(table: *mut ffi::sg_table, size: u64) -> Result<KVVec<Self>> {
        let mut runs = KVVec::<Self>::new();
        let mut total = 0u64;
        // SAFETY: By this function's contract.
        let (mut entry, count) = unsafe { ((*table).sgl, (*table).nents) };
        for _ in 0..count {
            if entry.is_null() {
                return Err(EIO);
            }
            // SAFETY: `entry` is one of the `nents` entries that mapping has filled.
            let (address, bytes) = unsafe {
                (
                    ffi::sg_dma_address(entry),
                    u64::from(ffi::sg_dma_len(entry)),
                )
            };
            total = total.checked_add(bytes).ok_or(EIO)?;
            match runs.last_mut() {
                Some(last) if last.address.checked_add(last.size) == Some(address) => {
                    last.size += bytes;
                }
                _ => runs.push(
                    Self {
                        address,
                        size: bytes,
                    },
                    GFP_KERNEL_ACCOUNT,
                )?,
            }
            // SAFETY: `entry` is a valid entry; the end of the list gives NULL.
            entry = unsafe { ffi::sg_next(entry) };
        }
        let aligned = runs
            .iter()
            .all(|run| (run.address | run.size) % PAGE_SIZE as u64 == 0);
        if total == size && aligned {
            Ok(runs)
        } else {
            Err(EIO)
        }
    }
}

/// Owns the scatter list; its pages belong to the caller.
struct ScatterTable(UnsafeCell<ffi::sg_table>);

impl Drop for ScatterTable {
    fn drop(&mut self) {
        // SAFETY: The table was made by `DmaMap::new`, and is freed only here.
        unsafe { ffi::sg_free_table(self.0.get()) };
    }
}

/// Pages mapped for a device in both directions, coherent: neither side needs to synchronise.
///
/// The addresses are whole pages, in the order of the pages. The mapping ends when this is dropped,
/// or before that by [`DmaMap::unmap`], which the unbinding of a device needs.
pub(super) struct DmaMap {
    runs: KVVec<DmaRun>,
    mapped: AtomicFlag,
    table: ScatterTable,
    dev: ARef<Device>,
}

// SAFETY: The DMA API may be called from any thread; only the one caller that clears `mapped` uses
// the scatter list again.
unsafe impl Send for DmaMap {}
// SAFETY: As above; all else does not change once it is made.
unsafe impl Sync for DmaMap {}

impl DmaMap {
    /// Maps pages for `dev`, which must be bound. Each piece is a first page and the number of
    /// consecutive pages from there, at most [`MAX_PIECE`].
    ///
    /// # Errors
    ///
    /// `EINVAL` without any pieces; `E2BIG` if there are too many pieces, or one has 4 GiB or more;
    /// `ENOMEM` without memory or addresses; `EIO` or `EREMOTEIO` if the device cannot reach a
    /// page.
    pub(super) fn new(
        dev: &ARef<Device>,
        pieces: impl ExactSizeIterator<Item = (NonNull<ffi::page>, usize)>,
    ) -> Result<Self> {
        let count = u32::try_from(pieces.len()).map_err(|_| E2BIG)?;
        let mut table = ffi::sg_table::default();
        // SAFETY: The table may be filled, and on failure it stays empty.
        to_result(unsafe {
            ffi::sg_alloc_table(&mut table, count, ffi::GFP_KERNEL | ffi::__GFP_ACCOUNT)
        })?;
        let mut entry = table.sgl;
        let table = ScatterTable(UnsafeCell::new(table));
        let mut size = 0usize;
        for (first, pages) in pieces {
            if entry.is_null() {
                return Err(EINVAL);
            }
            let bytes = pages.checked_mul(PAGE_SIZE).ok_or(E2BIG)?;
            let length = u32::try_from(bytes).map_err(|_| E2BIG)?;
            size = size.checked_add(bytes).ok_or(E2BIG)?;
            // SAFETY: `entry` is one of the table's entries, of which there is one for each piece;
            // the end of the list gives NULL. The caller owns the piece.
            entry = unsafe {
                ffi::rkfd_sg_set_page(entry, first.as_ptr(), length);
                ffi::sg_next(entry)
            };
        }
        Self::map(dev, table, size)
    }

    /// Maps the pages in `table`, `size` bytes.
    fn map(dev: &ARef<Device>, table: ScatterTable, size: usize) -> Result<Self> {
        let mut map = Self {
            runs: KVVec::new(),
            mapped: AtomicFlag::new(false),
            table,
            dev: dev.clone(),
        };
        // SAFETY: The device is a valid one, and the table is filled and has no other user.
        to_result(unsafe {
            ffi::dma_map_sgtable(
                device::as_raw(dev),
                map.table.0.get(),
                DataDirection::Bidirectional.into(),
                ffi::DMA_ATTR_REQUIRE_COHERENT as usize,
            )
        })?;
        // From here on a failure unmaps.
        map.mapped.store(true, kernel::sync::atomic::Relaxed);
        // SAFETY: The table was just mapped.
        map.runs = unsafe { DmaRun::collect(map.table.0.get(), size as u64)? };
        Ok(map)
    }

    /// The addresses, in the order of the pages; adjacent ones are merged.
    pub(super) fn runs(&self) -> &[DmaRun] {
        &self.runs
    }

    /// Whether the addresses are still mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(kernel::sync::atomic::Relaxed)
    }

    /// Calls `f` for each run of pages whose structures are consecutive, in the order of the pages,
    /// with the first page and the number of pages.
    pub(super) fn for_each_run(&self, mut f: impl FnMut(NonNull<ffi::page>, usize)) {
        // SAFETY: The table was filled by `new`; the part that holds the pages does not change.
        let (mut entry, count) =
            unsafe { ((*self.table.0.get()).sgl, (*self.table.0.get()).orig_nents) };
        for _ in 0..count {
            // SAFETY: `entry` is one of the `orig_nents` entries that were filled; the end of the
            // list gives NULL.
            let (first, bytes, next) = unsafe {
                let bytes = (*entry).length as usize;
                (ffi::rkfd_sg_page(entry), bytes, ffi::sg_next(entry))
            };
            if let Some(first) = NonNull::new(first) {
                f(first, bytes / PAGE_SIZE);
            }
            entry = next;
        }
    }

    /// Takes the pages away from the device, once. The caller has ensured that nothing on the
    /// device uses them any more, and that the device is still bound.
    pub(super) fn unmap(&self) {
        if !self.mapped.xchg(false, Full) {
            return;
        }
        // SAFETY: The list was mapped by `map` with the same arguments; the exchange lets one
        // caller through.
        unsafe {
            ffi::dma_unmap_sgtable(
                device::as_raw(&self.dev),
                self.table.0.get(),
                DataDirection::Bidirectional.into(),
                ffi::DMA_ATTR_REQUIRE_COHERENT as usize,
            )
        };
    }
}

impl Drop for DmaMap {
    fn drop(&mut self) {
        self.unmap();
    }
}
