// SPDX-License-Identifier: GPL-2.0
//! Faults of a hub: the one that it has latched, and their interrupts.

use super::{Hub, HubId};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::ih::Iv;
use crate::memory::Access;
use crate::regs::gc::{
    self, sh_mem_config, vm_context0_cntl as context_cntl,
    vm_l2_protection_fault_cntl as fault_cntl, vm_l2_protection_fault_status as status,
};
use crate::regs::{Field, Store};
use crate::walk::{Miss, PAGE_SHIFT};

/// Clients with a bit of their own in CLIENT_ID_NO_RETRY_FAULT_INTERRUPT.
const OWN_BITS: u32 = 16;
const CLIENT_VMC: u8 = 0x12;
const CLIENT_UTCL2: u8 = 0x1b;

/// A fault, to be reported once the translation's locks are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Address space.
    pub vmid: u8,
    /// First byte that faulted.
    pub va: u64,
    /// The reason.
    pub miss: Miss,
    /// The attempted access.
    pub access: Access,
    /// The hub's number of the client (FAULT_STATUS.CID).
    pub cid: u32,
    /// The access is retried until there is a translation, or one that forbids retries.
    pub retry: bool,
}

impl Hub {
    /// Returns whether an access with that miss is retried, or given up: then it reads zero or
    /// writes nothing, and the client goes on. Waves give up, whatever the context says, where
    /// SH_MEM_CONFIG.RETRY_DISABLE is set for the VMID.
    pub fn retries(&self, gpu: &Gpu, vmid: u8, miss: Miss) -> bool {
        let context = gc::VM_CONTEXT0_CNTL.nth(u32::from(vmid), 1);
        let control = gpu.regs.get(self.id.reg(context));
        let disabled = || {
            let config = gpu.grbm.of_bank(gc::SH_MEM_CONFIG, vmid.into());
            self.id == HubId::Gfx && sh_mem_config::RETRY_DISABLE.is_set(config)
        };
        vmid != 0
            && matches!(miss, Miss::Directory(_) | Miss::Invalid | Miss::Permission)
            && context_cntl::RETRY_PERMISSION_OR_INVALID_PAGE_FAULT.is_set(control)
            && !disabled()
    }

    /// Records a fault and, if the context has it enabled, sends its interrupt.
    pub fn raise(&self, gpu: &Gpu, fault: Fault) -> Result<()> {
        if fault.vmid == 0 {
            return Err(ModelError::KernelFault {
                hub: self.id.name(),
                access: fault.access.name(),
                va: fault.va,
                reason: format!("{:?}", fault.miss),
            });
        }
        if fault.retry {
            gpu.summary.retry_faults.bump();
        } else {
            gpu.summary.faults.bump();
        }
        let write = fault.access.writes();
        let execute = fault.access == Access::Execute;
        let page = fault.va >> PAGE_SHIFT;
        let enable: Field = match fault.miss {
            Miss::Hole | Miss::Range => context_cntl::RANGE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            Miss::Directory(_) => context_cntl::PDE0_PROTECTION_FAULT_ENABLE_INTERRUPT,
            Miss::Invalid | Miss::NoRetry => context_cntl::VALID_PROTECTION_FAULT_ENABLE_INTERRUPT,
            Miss::Permission if write => context_cntl::WRITE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            Miss::Permission if execute => context_cntl::EXECUTE_PROTECTION_FAULT_ENABLE_INTERRUPT,
            Miss::Permission => context_cntl::READ_PROTECTION_FAULT_ENABLE_INTERRUPT,
        };
        let walker = match fault.miss {
            Miss::Hole | Miss::Range => 1,
            Miss::Directory(level) => 2 + u32::from(level),
            Miss::Invalid | Miss::NoRetry | Miss::Permission => 0,
        };
        // PERMISSION_FAULTS: bit 0 not valid, 1 read, 2 write, 3 execute; the ring id of the IV has
        // the same three from bit 3 on.
        let invalid = u32::from(fault.miss != Miss::Permission);
        let permission = invalid | 1 << if execute { 3 } else { 1 + u32::from(write) };
        let regs = &gpu.regs;
        let status_reg = self.id.reg(gc::VM_L2_PROTECTION_FAULT_STATUS);
        if regs.get(status_reg) == 0 {
            regs.set(
                self.id.reg(gc::VM_L2_PROTECTION_FAULT_ADDR_LO32),
                page as u32,
            );
            regs.set(
                self.id.reg(gc::VM_L2_PROTECTION_FAULT_ADDR_HI32),
                (page >> 32) as u32 & 0xf,
            );
            regs.set(
                status_reg,
                status::WALKER_ERROR.of(walker)
                    | status::PERMISSION_FAULTS.of(permission)
                    | status::MAPPING_ERROR.of(u32::from(walker != 0))
                    | status::CID.of(fault.cid)
                    | status::RW.of(u32::from(write))
                    | status::ATOMIC.of(u32::from(fault.access == Access::Atomic))
                    | status::VMID.of(fault.vmid.into()),
            );
        } else {
            regs.or(status_reg, status::MORE_FAULTS.of(1));
        }
        let control = regs.get(
            self.id
                .reg(gc::VM_CONTEXT0_CNTL.nth(u32::from(fault.vmid), 1)),
        );
        let told = fault.retry || self.tells_of(regs, fault.cid);
        if !enable.is_set(control) || !told {
            return Ok(());
        }
        let how = u32::from(fault.retry) << 7 | 1 << if write { 5 } else { 6 };
        let mmhub = self.id == HubId::Mm;
        gpu.ih.push(
            gpu,
            Iv {
                client: if mmhub { CLIENT_VMC } else { CLIENT_UTCL2 },
                source: 0,
                ring: (permission << 3) as u8,
                vmid: fault.vmid,
                mmhub,
                data: [page as u32, (page >> 32) as u32 & 0xf | how, 0, 0],
                retry: fault.retry,
            },
        )
    }

    /// Returns whether faults of client `cid` that are not retried interrupt: the first sixteen
    /// have a bit each, the others one.
    fn tells_of(&self, regs: &Store, cid: u32) -> bool {
        let control = regs.get(self.id.reg(gc::VM_L2_PROTECTION_FAULT_CNTL));
        match 1u32.checked_shl(cid).filter(|_| cid < OWN_BITS) {
            Some(bit) => fault_cntl::CLIENT_ID_NO_RETRY_FAULT_INTERRUPT.get(control) & bit != 0,
            None => fault_cntl::OTHER_CLIENT_ID_NO_RETRY_FAULT_INTERRUPT.is_set(control),
        }
    }

    pub(super) fn clear_fault(&self, regs: &Store) {
        for reg in [
            gc::VM_L2_PROTECTION_FAULT_STATUS,
            gc::VM_L2_PROTECTION_FAULT_ADDR_LO32,
            gc::VM_L2_PROTECTION_FAULT_ADDR_HI32,
        ] {
            regs.set(self.id.reg(reg), 0);
        }
    }
}
