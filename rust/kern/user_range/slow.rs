// SPDX-License-Identifier: GPL-2.0
//! Memory whose pages a program has to bring, which may take it for ever: a file of FUSE, or page faults that are handled in
//! user space. HMM would wait for them with the mmap lock, and could not be killed.

use super::{Extent, Stamp, Watch, Watcher};
use crate::{
    ffi,
    kern::{errno, mm_exit::AddressSpace, task},
};
use kernel::{mm::MmWithUser, page::PAGE_SIZE, prelude::*};

/// How often pages are looked at that go again at once.
const TRIES: u32 = 3;
/// Pages that are waited for in one go.
const BATCH: usize = 512;

/// Waits until the pages from `start` to `end` of `space` have come for which a program may have to be waited, to be read. What cannot be
/// had is left out, and they may go again. Called with no lock that anybody else needs. EINTR when the caller is killed, ESRCH when
/// the address space is at its end. Takes the mmap lock, and does not keep it while it waits.
pub(crate) fn await_pages(space: &AddressSpace, start: usize, end: usize) -> Result {
    let mm = space.user().ok_or(ESRCH)?;
    let mut at = start;
    loop {
        if task::is_killed() {
            return Err(EINTR);
        }
        let vma = {
            let _lock = mm.mmap_read_lock();
            // SAFETY: The mmap lock is held.
            unsafe { Extent::next(&mm, at, end) }
        };
        let Some(vma) = vma else {
            return Ok(());
        };
        if !vma.may_wait || !vma.is_readable() {
            at = vma.to;
            continue;
        }
        let pages = BATCH.min((vma.to - vma.from) / PAGE_SIZE);
        // SAFETY: The address space has a user, and nobody of this thread's its lock.
        let come = unsafe { ffi::rkfd_fault_in_killable(mm.as_raw(), vma.from, pages) };
        // At least one is done with, or cannot be had.
        at = vma.from + (come.max(1) as usize) * PAGE_SIZE;
    }
}

impl<T: Watcher> Watch<T> {
    /// As [`Watch::fault_in`], for memory of one VMA that may be written if `write` is asked, and without waiting for a program:
    /// [`errno::in_progress`] when it would have to.
    ///
    /// # Safety
    ///
    /// The caller holds the mmap lock of `mm`.
    pub(super) unsafe fn fault_in_nowait(
        &self,
        mm: &MmWithUser,
        stamp: Stamp,
        from: usize,
        frames: &mut [usize],
        write: bool,
    ) -> Result<Option<bool>> {
        let mut wanted = ffi::hmm_pfn_flags_HMM_PFN_VALID;
        if write {
            wanted |= ffi::hmm_pfn_flags_HMM_PFN_WRITE;
        }
        for _ in 0..TRIES {
            frames.fill(0);
            self.look(stamp, from, frames, 0)?;
            let mut whole = true;
            for (index, frame) in frames.iter().enumerate() {
                if frame & wanted == wanted {
                    continue;
                }
                whole = false;
                let address = from + index * PAGE_SIZE;
                // SAFETY: The mmap lock is held, and is not given up.
                let come = unsafe { ffi::rkfd_fault_in_nowait(mm.as_raw(), address, write) };
                match come {
                    1.. => {}
                    0 => return Err(errno::in_progress()),
                    // Whatever it is, there is no such page.
                    _ => return Ok(None),
                }
            }
            if whole {
                return Ok(Some(write));
            }
        }
        Err(errno::in_progress())
    }
}
