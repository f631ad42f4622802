// SPDX-License-Identifier: GPL-2.0
//! The last page fault in an address space, which its user can ask for.

use hw::ih::HubKind;

use super::Vm;

/// A page fault.
#[derive(Clone, Copy)]
pub(crate) struct LastFault {
    /// The address, of which the lower 12 bits are 0.
    pub(crate) address: u64,
    /// `VM_L2_PROTECTION_FAULT_STATUS` of the hub.
    pub(crate) status: u32,
    /// The hub.
    pub(crate) hub: HubKind,
}

impl Vm {
    /// Remembers `fault` as the last one.
    pub(crate) fn set_last_fault(&self, fault: LastFault) {
        *self.last_fault.lock() = Some(fault);
    }

    /// The last one; `None` if there was none.
    pub(crate) fn last_fault(&self) -> Option<LastFault> {
        *self.last_fault.lock()
    }
}
