// SPDX-License-Identifier: GPL-2.0
//! The process that raised an interrupt entry without a PASID: the one that had the entry's VMID
//! when the entry came.
//!
//! A VMID goes from one process to the next within milliseconds, and an entry can wait in the ring
//! for longer. The process that has the VMID when the entry is handled may have nothing to do with
//! it. So each binding of a VMID is recorded with the end of the ring at that time, and an entry is
//! named by its position. This is exact for two reasons. The queues of the previous process have
//! left before a VMID is bound again, and their entries have come. The queues of the next process
//! are loaded later, and so their entries come later. An entry that comes while no process has the
//! VMID can only be a late one of the last.
//!
//! Where the owner is not known for certain, an entry has none: an error that is not reported costs
//! less than an error that is reported to another process.

use core::ops::DerefMut;

/// Bindings of a VMID that are remembered. A VMID changes hands every 20 ms at most, and the driver
/// examines the ring every 500 ms, even if an interrupt is lost.
pub const VMID_BINDINGS: usize = 32;

/// From a position of the ring on, entries of a VMID are of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmidBinding {
    /// Bytes, as the driver counts entries.
    from: u64,
    /// 0 for none.
    pasid: u16,
}

/// The processes that have had VMIDs, in a memory `S` of [`VMID_BINDINGS`] bindings a VMID, the
/// last one first.
#[derive(Clone, Debug)]
pub struct VmidOwners<S> {
    bindings: S,
}

impl<S: DerefMut<Target = [VmidBinding]>> VmidOwners<S> {
    /// No process has had a VMID: `bindings` holds the default in each place. VMIDs for which there
    /// is no room have no owners.
    #[inline]
    pub fn new(bindings: S) -> Self {
        Self { bindings }
    }

    fn of(&mut self, vmid: u8) -> &mut [VmidBinding] {
        let mut all = self.bindings.chunks_exact_mut(VMID_BINDINGS);
        all.nth(vmid.into()).unwrap_or_default()
    }

    /// Process `pasid` is about to get `vmid`, and the end of the ring is at `position`.
    #[inline]
    pub fn bind(&mut self, vmid: u8, pasid: u16, position: u64) {
        let bindings = self.of(vmid);
        let Some(last) = bindings.first().copied() else {
            return;
        };
        if last.pasid == pasid {
            return;
        }
        // The last process has raised no entry: there is nothing to remember.
        if last.from != position {
            bindings.rotate_right(1);
        }
        if let Some(last) = bindings.first_mut() {
            *last = VmidBinding {
                from: position,
                pasid,
            };
        }
    }

    /// The process that raised the entry of `vmid` at `position`; 0 if that is not known.
    #[inline]
    pub fn owner(&mut self, vmid: u8, position: u64) -> u16 {
        let mut bindings = self.of(vmid).iter();
        let found = bindings.find(|binding| binding.from <= position);
        found.map_or(0, |binding| binding.pasid)
    }

    /// Forgets the owners of all entries before `position`, the end of the ring: after an overflow,
    /// positions that were recorded before it may be those of other entries.
    #[inline]
    pub fn forget_before(&mut self, position: u64) {
        for bindings in self.bindings.chunks_exact_mut(VMID_BINDINGS) {
            if let Some((last, others)) = bindings.split_first_mut() {
                last.from = position;
                others.fill(VmidBinding {
                    from: u64::MAX,
                    pasid: 0,
                });
            }
        }
    }
}
