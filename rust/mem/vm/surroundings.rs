// SPDX-License-Identifier: GPL-2.0
//! What an address space has, and had, around an address.

use super::{Vm, VmState};
use crate::kern::host;
use hw::surroundings::{FreedBuffer, FreedBuffers, PlacedBuffer, Surroundings};
use kernel::{prelude::*, sync::atomic::Acquire};

/// How many of the last unmapped buffers an address space knows: 6 KiB.
const MOST_FREED: usize = 256;

/// The last unmapped buffers.
pub(super) type FreedList = FreedBuffers<KVec<FreedBuffer>>;

/// An empty list with all its memory, so that nothing is allocated when a buffer is freed.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn freed_list() -> Result<FreedList> {
    let places = KVec::from_elem(FreedBuffer::NONE, MOST_FREED, GFP_KERNEL_ACCOUNT)?;
    Ok(FreedBuffers::new(places))
}

impl VmState {
    /// Remembers that `buffer` is not mapped any more.
    pub(super) fn note_freed(&mut self, buffer: PlacedBuffer) {
        self.freed.add(FreedBuffer::new(buffer, host::boot_ns()));
    }
}

impl Vm {
    /// Whether it is the address space of process `pasid`, which has not released it.
    pub(in crate::mem) fn is_of(&self, pasid: u16) -> bool {
        self.group.pasid() == pasid.into() && !self.retired.load(Acquire)
    }

    /// Returns what is around `address`, which the GPU could not access at `at_ns` nanoseconds
    /// since boot. May sleep.
    pub(crate) fn surroundings(&self, address: u64, at_ns: u64) -> Surroundings {
        let state = self.state.lock();
        let (mut holder, mut below, mut above) = (None, None, None);
        if let Some(at) = state.mappings.cursor_lower_bound(&address) {
            let (_, found) = at.current();
            if found.range().start() <= address {
                holder = Some((found.placed(), found.part().access));
            } else {
                above = Some(found.placed());
                below = at.peek_prev().map(|(_, mapping)| mapping.placed());
            }
        } else if let Some(last) = state.mappings.cursor_back() {
            below = Some(last.current().1.placed());
        }
        Surroundings {
            address,
            at_ns,
            holder,
            below,
            above,
            freed: state.freed.last_at(address),
        }
    }
}
