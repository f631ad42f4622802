// SPDX-License-Identifier: GPL-2.0
//! PASIDs: the numbers by which GPUs tell processes apart.

use kernel::bitmap::BitmapVec;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

/// The number of PASIDs, which have 16 bits. 0 is not used.
const COUNT: usize = 1 << 16;

/// The PASIDs in use.
#[pin_data]
pub(crate) struct PasidPool {
    #[pin]
    state: Mutex<PasidState>,
}

struct PasidState {
    used: BitmapVec,
    next: usize,
}

/// A leased PASID.
pub(crate) struct Pasid {
    value: u16,
    pasids: Arc<PasidPool>,
}

impl PasidPool {
    /// An empty pool.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut used = BitmapVec::new(COUNT, GFP_KERNEL)?;
        used.set_bit(0);
        Arc::pin_init(
            pin_init!(Self {
                state <- kernel::new_mutex!(PasidState { used, next: 1 }, "PasidPool::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases the PASID that has been free for the longest time: interrupts of the previous owner
    /// may still be pending.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all are in use.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<Pasid> {
        let mut state = self.state.lock();
        let found = state.used.next_zero_bit(state.next);
        let free = found
            .or_else(|| state.used.next_zero_bit(0))
            .ok_or(ENOSPC)?;
        let value = u16::try_from(free)?;
        state.used.set_bit(free);
        state.next = (free + 1) % COUNT;
        Ok(Pasid {
            value,
            pasids: self.clone(),
        })
    }
}

impl Pasid {
    /// The number.
    pub(crate) fn get(&self) -> u16 {
        self.value
    }
}

impl Drop for Pasid {
    fn drop(&mut self) {
        let mut state = self.pasids.state.lock();
        state.used.clear_bit(self.value.into());
    }
}
