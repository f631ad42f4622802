// SPDX-License-Identifier: GPL-2.0
//! The VMID of an address space: leased while anything runs in it that the driver itself puts on the hardware, and given
//! by the firmware while what is on its runlist has its turn. A VM can have one of each at a time.

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
    /// What its shaders' trap handler was set to.
    trap: TrapHandler,
    /// Whether its shaders wait for pages that are not there.
    retries: bool,
    users: usize,
}

impl BoundVmid {
    pub(super) fn vmid(&self) -> Vmid {
        self.lease.vmid()
    }
}

/// The right to run in a VM: it has a VMID as long as one of these lives. Dropped where sleeping is allowed,
/// after what ran has stopped.
pub(crate) struct VmidUse {
    vmid: Vmid,
    vm: Arc<Vm>,
}

impl VmidUse {
    /// The VMID.
    pub(crate) fn vmid(&self) -> Vmid {
        self.vmid
    }

    /// Sees to it that shaders there have this trap handler, whose pages are mapped as long as the VM has the VMID.
    pub(crate) fn set_trap_handler(&self, trap: TrapHandler) {
        if let Some(bound) = &mut *self.vm.bound.lock() {
            if bound.trap != trap {
                self.vm.gpu.hw.gfx.set_trap_handler(self.vmid, trap);
                bound.trap = trap;
            }
        }
    }

    /// Sees to it that shaders there wait for pages that are not there, if the process wants that. None has begun yet.
    pub(crate) fn set_retries(&self) {
        let wanted = self.vm.retries();
        if let Some(bound) = &mut *self.vm.bound.lock() {
            if bound.retries != wanted {
                self.vm.gpu.hw.gfx.set_retries(self.vmid, wanted);
                bound.retries = wanted;
            }
        }
    }

    /// Whether others wait for it, who have a right to it by now: what runs is to be stopped, and this dropped.
    pub(crate) fn is_recalled(&self) -> bool {
        self.vm.gpu.hw.vmids.is_recalled(self.vmid)
    }
}

impl Vm {
    /// Makes sure that the VM has a VMID, which is process `pasid`'s for interrupts. `ENOSPC` when it is not its turn, see
    /// [`VmidPool::turn`](crate::ip::vmid::VmidPool::turn); `EBUSY` when the VM has one for another process, `ETIMEDOUT` when
    /// the hardware does not answer. Allocates nothing.
    pub(crate) fn use_vmid(self: &Arc<Self>, pasid: u16) -> Result<VmidUse> {
        let mut bound = self.bound.lock();
        let bound = match &mut *bound {
            Some(bound) if bound.pasid != pasid => return Err(EBUSY),
            Some(bound) if self.gpu.hw.vmids.is_recalled(bound.vmid()) => return Err(ENOSPC),
            Some(bound) => bound,
            none => {
                let hw = &self.gpu.hw;
                let lease = hw.vmids.lease(pasid)?;
                let began = Instant::<Monotonic>::now();
                if let Err(error) = hw.gmc.bind(lease.vmid(), pasid, self.root) {
                    self.unbind(lease);
                    return Err(error);
                }
                hw.vmids.has_taken(began.elapsed());
                none.insert(BoundVmid {
                    lease,
                    pasid,
                    trap: TrapHandler::default(),
                    retries: false,
                    users: 0,
                })
            }
        };
        bound.users = bound.users.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(VmidUse {
            vmid: bound.vmid(),
            vm: self.clone(),
        })
    }

    /// Takes the page tables from the VMID and gives it back; nobody gets it again when the hardware does not
    /// confirm.
    fn unbind(&self, lease: VmidLease) {
        let began = Instant::<Monotonic>::now();
        match self.gpu.hw.gmc.unbind(lease.vmid()) {
            Ok(()) => {
                self.gpu.hw.vmids.has_taken(began.elapsed());
                drop(lease);
            }
            Err(_) => self.leak((lease, self.gpu.clone())),
        }
    }
}

/// The process whose VM it is, while queues of it may be on a runlist, and until what they have left in TLBs is gone.
pub(super) struct ListedProcess {
    pasid: u16,
    users: usize,
}

impl ListedProcess {
    pub(super) fn pasid(&self) -> u16 {
        self.pasid
    }
}

/// The right of the firmware to give the VM a VMID, as long as one of these lives. Dropped where sleeping is allowed,
/// after the queue is off the runlist: the last one flushes what queues have left.
pub(crate) struct ListedUse {
    vm: Arc<Vm>,
}

impl Vm {
    /// From now on the firmware may give the VM a VMID for process `pasid`: changes of page tables reach it there.
    /// `EBUSY` when it may do so for another process. Allocates nothing.
    pub(crate) fn list(self: &Arc<Self>, pasid: u16) -> Result<ListedUse> {
        let mut listed = self.listed.lock();
        let listed = listed.get_or_insert(ListedProcess { pasid, users: 0 });
        if listed.pasid != pasid {
            return Err(EBUSY);
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
            // Changes from now on are flushed nowhere. After an error they are: until that is answered, the memory stays.
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
            if let Some(bound) = slot.take() {
                let gfx = &self.vm.gpu.hw.gfx;
                if bound.trap != TrapHandler::default() {
                    gfx.set_trap_handler(bound.vmid(), TrapHandler::default());
                }
                if bound.retries {
                    gfx.set_retries(bound.vmid(), false);
                }
                self.vm.unbind(bound.lease);
            }
        }
    }
}
