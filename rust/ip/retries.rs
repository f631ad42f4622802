// SPDX-License-Identifier: GPL-2.0
//! Accesses that are tried again and again until there is a translation: what they raise, and how they end.
//!
//! A user context retries what it finds no valid entry for, or may not do (RETRY_PERMISSION_OR_INVALID_PAGE_FAULT, which 9.4.2 wants).
//! Shaders are told not to (SH_MEM_CONFIG.RETRY_DISABLE); an SDMA engine does, and stands there with all its queues. Each try raises an
//! entry. The IH's retry CAM lets one through of those of a page and process, until that is acknowledged (amdgpu: vega20_ih_irq_init,
//! amdgpu_gmc_handle_retry_fault).
//!
//! Nobody maps what a process has not mapped, so the first such fault of a process is its last: its address space is barred
//! ([`Gmc::bar`]), in which the access ends, its queues stop, and the VMID goes back, so that what is made of the process later has its own
//! tables again.

use kernel::prelude::*;
use kernel::sync::Arc;

use hw::doorbell::{Doorbell, SliceIndex, Slot};
use hw::ih::{CamPlace, FaultStatus, Hub, VmFault};
use hw::ip::{Block, Ip};

use super::gmc::Gmc;
use super::ih::InterruptSink;
use super::vmid::{Vmid, Vmids};
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::mmio::Mmio;
use crate::regs::osssys::{self as regs, ih_doorbell_rptr, ih_retry_int_cam_cntl};
use crate::regs::Window;

/// The CAM, and what is done about faults.
pub(super) struct Retries {
    regs: Window,
    doorbells: Arc<DoorbellMap>,
    gmc: Arc<Gmc>,
    vmids: Arc<Vmids>,
}

impl Retries {
    /// The CAM of the ASIC whose blocks are `ips`, off; ENODEV if it has none.
    pub(super) fn new(
        mmio: &Arc<Mmio>,
        ips: &'static [Ip],
        doorbells: &Arc<DoorbellMap>,
        gmc: &Arc<Gmc>,
        vmids: &Arc<Vmids>,
    ) -> Result<Self> {
        Ok(Self {
            regs: Window::new(mmio, ips, Block::Osssys, 0)?,
            doorbells: doorbells.clone(),
            gmc: gmc.clone(),
            vmids: vmids.clone(),
        })
    }

    /// Turns the CAM on.
    pub(super) fn start(&self) {
        self.regs.write(
            regs::IH_DOORBELL_RETRY_CAM,
            ih_doorbell_rptr::OFFSET.put(doorbell().dword()) | ih_doorbell_rptr::ENABLE.flag(true),
        );
        enable(&self.regs, true);
    }

    /// Entries were lost, and nobody knows which places they had: whatever is still retried is raised again.
    pub(super) fn forget(&self) {
        CamPlace::all().for_each(|place| self.acknowledge(place));
    }

    fn acknowledge(&self, place: CamPlace) {
        self.doorbells
            .ring32(doorbell().byte() as u32, place.acknowledgement());
    }

    /// Ends the access that `fault` tells of, if it is one that is retried, and tells `sink`. Sleeps.
    pub(super) fn fault(&self, fault: &VmFault, sink: &dyn InterruptSink) {
        let status = self.gmc.take_fault(fault.hub);
        match (fault.hub, Vmid::new(fault.vmid)) {
            (Hub::Mm, Some(vmid)) if vmid != Vmid::KERNEL => {
                // What follows the first has been caused by that, for then every address of the process faults, also if it is told when
                // the process has already lost the VMID.
                if !self.gmc.is_barred(vmid, fault.pasid) {
                    self.first(vmid, fault, status, sink);
                }
            }
            // Shaders have given up by themselves.
            _ => sink.vm_fault(fault, status),
        }
        if let Some(place) = fault.retry {
            self.acknowledge(place);
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
            self.gmc.set_told(vmid, fault.pasid);
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

/// Turns the CAM of the block of `regs` off.
pub(super) fn turn_off(regs: &Window) {
    enable(regs, false);
    regs.write(regs::IH_DOORBELL_RETRY_CAM, 0);
}

fn enable(regs: &Window, on: bool) {
    regs.update(
        regs::IH_RETRY_INT_CAM_CNTL,
        &[(ih_retry_int_cam_cntl::ENABLE, on.into())],
    );
}

/// The CAM's doorbell.
const fn doorbell() -> Doorbell {
    SliceIndex::KERNEL.doorbell(Slot::IH_RETRY_CAM)
}
