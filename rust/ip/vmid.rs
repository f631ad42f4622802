// SPDX-License-Identifier: GPL-2.0
//! VMIDs: the sixteen address spaces that the hubs know at a time.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use crate::kern::params::Sched;
use crate::ledger::{Hold, Kind, Ledger};

/// The first VMID of compute on gfx 9.4.2; 0 is the kernel's, 1 and 2 graphics'.
const FIRST: u8 = 3;
/// The last VMID.
const LAST: u8 = 15;
/// The first of those that the firmware gives to processes, where it schedules. The driver's are more: a process keeps
/// one as long as it has an SDMA queue, and there is no other way than to refuse the next process; those of the firmware
/// go round.
const FIRST_OF_FIRMWARE: u8 = 10;

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

    /// Those that the firmware gives to processes, where it schedules.
    pub(crate) fn of_firmware() -> impl Iterator<Item = Self> + Clone {
        (FIRST_OF_FIRMWARE..=LAST).map(Self)
    }
}

/// Which of the driver's compute VMIDs are leased.
#[pin_data]
pub(crate) struct Vmids {
    last: u8,
    ledger: Arc<Ledger>,
    #[pin]
    leased: SpinLock<[bool; LAST as usize + 1]>,
}

impl Vmids {
    /// None leased. Some are the firmware's if `sched` says that it schedules. ENOMEM.
    pub(crate) fn new(ledger: &Arc<Ledger>, sched: Sched) -> Result<Arc<Self>> {
        let ledger = ledger.clone();
        let last = match sched {
            Sched::Direct => LAST,
            Sched::Hws => FIRST_OF_FIRMWARE - 1,
        };
        Arc::pin_init(
            pin_init!(Self {
                last,
                ledger,
                leased <- new_spinlock!([false; LAST as usize + 1]),
            }),
            GFP_KERNEL,
        )
    }

    /// Leases a VMID. ENOSPC when all are leased.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<VmidLease> {
        let mut leased = self.leased.lock();
        for n in FIRST..=self.last {
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
