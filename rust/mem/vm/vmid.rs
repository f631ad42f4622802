// SPDX-License-Identifier: GPL-2.0
//! The VMID of an address space: leased while queues run in it that the driver itself puts on the
//! hardware, and assigned by the firmware for the time slice of queues on its runlist. A VM can
//! have one of each kind at a time.

use super::Vm;
use crate::ip::hub::TlbFlush;
use crate::ip::vmid::{Vmid, VmidLease};
use hw::trap::TrapHandler;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{Instant, Monotonic},
};

/// A VMID that is bound to the VM's page tables.
pub(super) struct BoundVmid {
    lease: VmidLease,
    pasid: u16,
    /// The trap handler that its shaders have.
    trap: TrapHandler,
    /// Whether its shaders wait for missing pages.
    retries: bool,
    /// 0 if the VMID has lost the page tables, and the hardware has yet to confirm that no
    /// translation remains.
    users: usize,
}

impl BoundVmid {
    pub(super) fn vmid(&self) -> Vmid {
        self.lease.vmid()
    }

    /// Whether queues may run in it.
    pub(super) fn is_used(&self) -> bool {
        self.users > 0
    }
}

/// The right to run in a VM, which has a VMID as long as one of these exists. Dropped where
/// sleeping is allowed, after the queue that ran has stopped.
pub(crate) struct VmidUse {
    vmid: Vmid,
    vm: Arc<Vm>,
}

impl VmidUse {
    /// Returns the VMID.
    pub(crate) fn vmid(&self) -> Vmid {
        self.vmid
    }

    /// Sets the trap handler of shaders in the VMID. Its pages are mapped as long as the VM has the
    /// VMID.
    pub(crate) fn set_trap_handler(&self, trap: TrapHandler) {
        if let Some(bound) = &mut *self.vm.bound.lock() {
            if bound.trap != trap {
                self.vm.gpu.hw.gfx.set_trap_handler(self.vmid, trap);
                bound.trap = trap;
            }
        }
    }

    /// Makes shaders in the VMID wait for missing pages, if the process wants that. No shader has
    /// started yet.
    pub(crate) fn set_retries(&self) {
        let wanted = self.vm.retries();
        if let Some(bound) = &mut *self.vm.bound.lock() {
            if bound.retries != wanted {
                self.vm.gpu.hw.gfx.set_retries(self.vmid, wanted);
                bound.retries = wanted;
            }
        }
    }

    /// Whether a process that waits for the VMID has a right to it by now. Then the running queue
    /// has to be stopped, and this dropped.
    pub(crate) fn is_recalled(&self) -> bool {
        self.vm.gpu.hw.vmids.is_recalled(self.vmid)
    }
}

impl Vm {
    /// Returns the VMID of the VM, and leases one if it has none; interrupts report it as process
    /// `pasid`. Allocates no memory.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if it is not the process's turn, see
    /// [`VmidPool::ask`](crate::ip::vmid::VmidPool::ask); `EBUSY` if the VM has a VMID for
    /// another process; `ETIMEDOUT` if the hardware does not answer.
    pub(crate) fn use_vmid(self: &Arc<Self>, pasid: u16) -> Result<VmidUse> {
        let mut slot = self.bound.lock();
        if slot.as_ref().is_some_and(|bound| !bound.is_used()) {
            self.unbind(&mut slot)?;
        }
        let bound = match &mut *slot {
            Some(bound) if bound.pasid != pasid => return Err(EBUSY),
            Some(bound) if self.gpu.hw.vmids.is_recalled(bound.vmid()) => return Err(ENOSPC),
            Some(bound) => bound,
            none => {
                let hw = &self.gpu.hw;
                let lease = hw.vmids.lease(pasid)?;
                let began = Instant::<Monotonic>::now();
                hw.ih.set_owner(lease.vmid(), pasid);
                let bound = none.insert(BoundVmid {
                    lease,
                    pasid,
                    trap: TrapHandler::default(),
                    retries: false,
                    users: 0,
                });
                if let Err(error) = hw.gmc.bind(bound.vmid(), pasid, self.root) {
                    // If this fails, too, a later flush does it.
                    let _ = self.unbind(none);
                    return Err(error);
                }
                hw.vmids.has_taken(began.elapsed());
                bound
            }
        };
        bound.users = bound.users.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(VmidUse {
            vmid: bound.vmid(),
            vm: self.clone(),
        })
    }

    /// Removes the page tables from the VMID in `slot`, which has no users, and releases it. Until
    /// the hardware confirms that, the VMID stays there: it is not leased to another process, and
    /// no flush of the VM succeeds.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hardware does not confirm.
    pub(super) fn unbind(&self, slot: &mut Option<BoundVmid>) -> Result {
        if let Some(bound) = slot {
            let began = Instant::<Monotonic>::now();
            self.gpu.hw.gmc.unbind(bound.vmid())?;
            self.gpu.hw.vmids.has_taken(began.elapsed());
        }
        *slot = None;
        Ok(())
    }
}

/// The process that owns the VM, while queues of it may be on a runlist, and until their entries in
/// TLBs are flushed.
pub(super) struct ListedProcess {
    pasid: u16,
    users: usize,
}

impl ListedProcess {
    pub(super) fn pasid(&self) -> u16 {
        self.pasid
    }
}

/// The right of the firmware to assign a VMID to the VM, as long as one of these exists. Dropped
/// where sleeping is allowed, after the queue is off the runlist: the drop of the last one flushes
/// the TLB entries of the queues.
pub(crate) struct ListedUse {
    vm: Arc<Vm>,
}

impl Vm {
    /// Lets the firmware assign a VMID to the VM for process `pasid` from now on: changes of page
    /// tables are flushed there. Those of before are visible to it. Allocates no memory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it may do so for another process.
    pub(crate) fn list(self: &Arc<Self>, pasid: u16) -> Result<ListedUse> {
        let mut listed = self.listed.lock();
        let listed = listed.get_or_insert(ListedProcess { pasid, users: 0 });
        if listed.pasid != pasid {
            return Err(EBUSY);
        }
        if listed.users == 0 {
            // Nothing else makes the CPU's stores to the tables visible: the list itself is in
            // system memory, and the firmware's VMID is flushed by the firmware.
            self.gpu.hw.hdp.flush();
        }
        listed.users = listed.users.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(ListedUse { vm: self.clone() })
    }
}

impl Drop for ListedUse {
    fn drop(&mut self) {
        let mut slot = self.vm.listed.lock();
        if let Some(listed) = &mut *slot {
            listed.users = listed.users.saturating_sub(1);
            // Changes from now on are not flushed for this process. After an error they still are:
            // until a flush is answered, the memory stays.
            let gmc = &self.vm.gpu.hw.gmc;
            if listed.users == 0
                && gmc
                    .flush_process(listed.pasid, TlbFlush::Heavyweight)
                    .is_ok()
            {
                *slot = None;
            }
        }
    }
}

impl Drop for VmidUse {
    fn drop(&mut self) {
        let mut slot = self.vm.bound.lock();
        let Some(bound) = &mut *slot else {
            return;
        };
        bound.users = bound.users.saturating_sub(1);
        if bound.users == 0 {
            let gfx = &self.vm.gpu.hw.gfx;
            if bound.trap != TrapHandler::default() {
                gfx.set_trap_handler(bound.vmid(), TrapHandler::default());
            }
            if bound.retries {
                gfx.set_retries(bound.vmid(), false);
            }
            // After an error a later flush does it.
            let _ = self.vm.unbind(&mut slot);
        }
    }
}
