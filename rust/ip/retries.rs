// SPDX-License-Identifier: GPL-2.0
//! Accesses that are tried again and again until there is a translation: what they raise, and how they end.
//!
//! A user context retries what it finds no valid entry for, or may not do (RETRY_PERMISSION_OR_INVALID_PAGE_FAULT, which 9.4.2 wants).
//! Shaders are told not to (SH_MEM_CONFIG.RETRY_DISABLE); an SDMA engine does, and stands there with all its queues. Each try raises an
//! entry. The IH's retry CAM lets one through of those of a page and process, until that is acknowledged (amdgpu: vega20_ih_irq_init,
//! amdgpu_gmc_handle_retry_fault).
//!
//! Where somebody maps what a process has of it when the GPU comes there (XNACK), the fault waits for that ([`PageFaults`]). Of a process for
//! which nobody does, and at a bad address, the first such fault is the last: its address space is barred ([`Gmc::bar`]), in which the access
//! ends, its queues stop, and the VMID goes back, so that what is made of the process later has its own tables again. GFXHUB's tables stay: waves
//! are saved by way of them, also such as wait for a page, and end where their queues are taken off the hardware.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::ih::{CamEntry, FaultStatus, HubKind, VmFault};
use hw::ip::{IpBlock, IpInfo};

use super::gmc::Gmc;
use super::ih::registers::start_cam;
use super::ih::{FaultPolicy, InterruptSink};
use super::page_faults::PageFaults;
use super::vmid::{Vmid, VmidPool};
use crate::kern::mmio::Mmio;
use crate::regs::RegisterWindow;

/// The CAM, and what is done about faults.
pub(super) struct RetryFaults {
    regs: RegisterWindow,
    waiting: Arc<PageFaults>,
    gmc: Arc<Gmc>,
    vmids: Arc<VmidPool>,
}

impl RetryFaults {
    /// The CAM of the ASIC whose blocks are `ips`, off; ENODEV if it has none. What waits for its page is in `waiting`.
    pub(super) fn new(
        mmio: &Arc<Mmio>,
        ips: &'static [IpInfo],
        waiting: &Arc<PageFaults>,
        gmc: &Arc<Gmc>,
        vmids: &Arc<VmidPool>,
    ) -> Result<Self> {
        Ok(Self {
            regs: RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?,
            waiting: waiting.clone(),
            gmc: gmc.clone(),
            vmids: vmids.clone(),
        })
    }

    /// Turns the CAM on.
    pub(super) fn start(&self) {
        start_cam(&self.regs);
    }

    /// Entries were lost, and nobody knows which places they had: whatever is still retried is raised again.
    pub(super) fn drop_all(&self) {
        CamEntry::all().for_each(|place| self.waiting.acknowledge(place));
    }

    /// Has the access that `fault` tells of, which was at `position` of the interrupt ring, wait for its page if it is one that is retried and
    /// `sink` cares for that. Ends it otherwise, and tells `sink`. Sleeps.
    pub(super) fn fault(&self, fault: &VmFault, position: u64, sink: &dyn InterruptSink) {
        let status = self.gmc.take_fault(fault.hub);
        if let Some(place) = fault.retry {
            match sink.care(fault.pasid) {
                FaultPolicy::Nobody => {}
                FaultPolicy::Maps if self.is_barred(fault) => {}
                FaultPolicy::Maps => {
                    self.waiting.put(place, *fault, position);
                    sink.page_fault(fault.pasid);
                    return;
                }
                FaultPolicy::Ends => {
                    self.end(fault);
                    self.waiting.acknowledge(place);
                    return;
                }
            }
        }
        self.refuse(fault, status, sink);
        if let Some(place) = fault.retry {
            self.waiting.acknowledge(place);
        }
    }

    /// Whether the process has had a fault for which it has lost its address space, until it is given another.
    fn is_barred(&self, fault: &VmFault) -> bool {
        let vmid = Vmid::new(fault.vmid).filter(|_| fault.hub == HubKind::Mm);
        vmid.is_some_and(|vmid| self.gmc.is_barred(vmid, fault.pasid))
    }

    /// Ends the access that `fault` tells of without telling anybody: its queue is about to go. Sleeps.
    pub(super) fn end(&self, fault: &VmFault) {
        if self.is_barred(fault) {
            return;
        }
        let vmid = Vmid::new(fault.vmid).filter(|_| fault.hub == HubKind::Mm);
        if let Some(vmid) = vmid.filter(|vmid| self.vmids.recall(*vmid, fault.pasid)) {
            // If the hub does not answer the GPU is down.
            let _ = self.gmc.bar(vmid, fault.pasid);
        }
    }

    /// Ends the access that `fault` tells of, and tells `sink`. Sleeps.
    pub(super) fn refuse(
        &self,
        fault: &VmFault,
        status: Option<FaultStatus>,
        sink: &dyn InterruptSink,
    ) {
        match (fault.hub, Vmid::new(fault.vmid)) {
            (HubKind::Mm, Some(vmid)) if vmid != Vmid::KERNEL => {
                // What follows the first has been caused by that, for then every address of the process faults, also if it is told when
                // the process has already lost the VMID.
                if !self.gmc.is_barred(vmid, fault.pasid) {
                    self.first(vmid, fault, status, sink);
                }
            }
            // Shaders have given up by themselves, or wait, and may be saved meanwhile.
            _ => sink.vm_fault(fault, status),
        }
    }

    /// The first fault of a process in `vmid`: sees to it that nothing of it is retried.
    fn first(
        &self,
        vmid: Vmid,
        fault: &VmFault,
        status: Option<FaultStatus>,
        sink: &dyn InterruptSink,
    ) {
        if fault.retry.is_none() {
            sink.vm_fault(fault, status);
            return;
        }
        // Nobody comes in who has not failed: not one of the process's next queues.
        let had_it = self.vmids.recall(vmid, fault.pasid);
        if !had_it {
            self.gmc.set_reported(vmid, fault.pasid);
        }
        // While the access stands the VMID cannot go back. Once it has ended it does, and were the process's queues not stopped by then, they
        // would be given a VMID again, in which what this fault has caused would be taken for another one.
        sink.vm_fault(fault, status);
        if had_it {
            // If the hub does not answer the GPU is down.
            let _ = self.gmc.bar(vmid, fault.pasid);
        }
    }
}
