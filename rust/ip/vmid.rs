// SPDX-License-Identifier: GPL-2.0
//! VMIDs: the sixteen address spaces that the hubs know at a time.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::ledger::{Hold, Kind, Ledger};

/// The first VMID of compute on gfx 9.4.2; 0 is the kernel's, 1 and 2 graphics'.
const FIRST: u8 = 3;
/// The last VMID.
const LAST: u8 = 15;

/// A VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vmid(u8);

impl Vmid {
    /// The kernel's.
    pub(crate) const KERNEL: Self = Self(0);

    /// The number, 0 to 15.
    pub(crate) const fn get(self) -> u8 {
        self.0
    }
}

/// Which of the compute VMIDs are leased.
#[pin_data]
pub(crate) struct Vmids {
    ledger: Arc<Ledger>,
    #[pin]
    leased: SpinLock<[bool; LAST as usize + 1]>,
}

impl Vmids {
    /// None leased. ENOMEM.
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Result<Arc<Self>> {
        let ledger = ledger.clone();
        Arc::pin_init(
            pin_init!(Self {
                ledger,
                leased <- new_spinlock!([false; LAST as usize + 1]),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases a VMID. ENOSPC when all are leased.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<VmidLease> {
        let mut leased = self.leased.lock();
        for n in FIRST..=LAST {
            let taken = &mut leased[usize::from(n)];
            if !*taken {
                *taken = true;
                drop(leased);
                return Ok(VmidLease {
                    vmid: Vmid(n),
                    _held: self.ledger.hold(Kind::Vmids, 1),
                    vmids: self.clone(),
                });
            }
        }
        Err(ENOSPC)
    }
}

/// A VMID that is its owner's until dropped. The owner unbinds it from its page tables first.
pub(crate) struct VmidLease {
    vmid: Vmid,
    _held: Hold,
    vmids: Arc<Vmids>,
}

impl VmidLease {
    /// The VMID.
    pub(crate) fn vmid(&self) -> Vmid {
        self.vmid
    }
}

impl Drop for VmidLease {
    fn drop(&mut self) {
        self.vmids.leased.lock()[usize::from(self.vmid.0)] = false;
    }
}
