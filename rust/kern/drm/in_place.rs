// SPDX-License-Identifier: GPL-2.0
//! An object that another device accesses in its place in a BAR: the scatter list of a dma-buf that
//! has addresses and no pages.

use core::ops::Range;

use kernel::{error::to_result, page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    ffi,
    kern::{dma_map::DmaRun, dma_resource::DmaResource},
};

/// The longest piece of the list, in bytes: whole pages.
const MAX_SEGMENT: u64 = u32::MAX as u64 / PAGE_SIZE as u64 * PAGE_SIZE as u64;

/// The parts that another device reaches, and the object that keeps them there; dropped in this
/// order.
pub(crate) struct InPlaceShare {
    parts: KVVec<DmaResource>,
    _kept: Arc<dyn Send + Sync>,
}

/// The same with its scatter list.
#[repr(C)]
struct ListedShare {
    /// First: the importer has a pointer to it.
    table: ffi::sg_table,
    _in_place: InPlaceShare,
}

impl Drop for ListedShare {
    fn drop(&mut self) {
        // SAFETY: The table was made by `InPlaceShare::into_table`, and is freed only here.
        unsafe { ffi::sg_free_table(&mut self.table) };
    }
}

/// Cuts `run` into pieces that fit an entry; returns the addresses of each.
fn pieces(run: DmaRun) -> impl Iterator<Item = Range<u64>> {
    let end = run.address.saturating_add(run.size);
    let mut at = run.address;
    core::iter::from_fn(move || {
        let first = at;
        at = end.min(first.saturating_add(MAX_SEGMENT));
        (first < end).then_some(first..at)
    })
}

impl InPlaceShare {
    /// A share of `parts`, in the order of the object's memory, which stays in its place as long as
    /// `kept` exists.
    pub(crate) fn new(parts: KVVec<DmaResource>, kept: Arc<dyn Send + Sync>) -> Self {
        Self { parts, _kept: kept }
    }

    /// The scatter list of it for an importer, freed by [`InPlaceShare::from_table`].
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn into_table(self) -> Result<*mut ffi::sg_table> {
        let count = self
            .parts
            .iter()
            .map(|part| pieces(part.run()).count())
            .sum::<usize>();
        let count = u32::try_from(count).map_err(|_| E2BIG)?;
        let mut listed = KBox::new(
            ListedShare {
                table: ffi::sg_table::default(),
                _in_place: self,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        // SAFETY: The table may be filled, and on failure it stays empty.
        to_result(unsafe {
            ffi::sg_alloc_table(
                &mut listed.table,
                count,
                ffi::GFP_KERNEL | ffi::__GFP_ACCOUNT,
            )
        })?;
        let mut entry = listed.table.sgl;
        for part in &listed._in_place.parts {
            for piece in pieces(part.run()) {
                if entry.is_null() {
                    return Err(EINVAL);
                }
                let length =
                    u32::try_from(piece.end.saturating_sub(piece.start)).map_err(|_| EINVAL)?;
                // SAFETY: `entry` is one of the table's entries, of which there is one for each
                // piece; the end of the list gives NULL.
                entry = unsafe {
                    ffi::rkfd_sg_set_dma(entry, piece.start, length);
                    ffi::sg_next(entry)
                };
            }
        }
        Ok(KBox::into_raw(listed).cast())
    }

    /// Whether `table` is such a list: no other list has an entry without a page.
    ///
    /// # Safety
    ///
    /// `table` must be a list that is not empty.
    pub(super) unsafe fn is_table(table: *mut ffi::sg_table) -> bool {
        // SAFETY: By this function's contract.
        unsafe { !ffi::rkfd_sg_has_page((*table).sgl) }
    }

    /// Takes back the result of [`InPlaceShare::into_table`].
    ///
    /// # Safety
    ///
    /// `table` must be such a list, and no longer in use.
    pub(super) unsafe fn from_table(table: *mut ffi::sg_table) -> impl Sized {
        // SAFETY: By this function's contract: the list is the first part of the boxed structure.
        unsafe { KBox::from_raw(table.cast::<ListedShare>()) }
    }
}
