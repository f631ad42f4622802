// SPDX-License-Identifier: GPL-2.0
//! The differences between the kernel crates of the supported series: the same names for each, from
//! a file of its own. `rust/Kbuild` selects the kernel's file. The support of the older series ends
//! with the removal of its file.

use kernel::pci;

#[cfg(linux_7_2)]
mod linux_7_2;
#[cfg(linux_7_2)]
pub(crate) use linux_7_2::*;

#[cfg(not(linux_7_2))]
mod linux_7_3;
#[cfg(not(linux_7_2))]
pub(crate) use linux_7_3::*;

/// The vectors to choose from, in the kernel's order: MSI-X, MSI. INTx is not among them, since
/// other devices may share its line, and the handler takes each interrupt for its own.
fn vector_types() -> pci::IrqTypes {
    let message = pci::IrqTypes::default().with(pci::IrqType::MsiX);
    message.with(pci::IrqType::Msi)
}

/// The handler of a device's interrupts.
pub(crate) trait IrqHandler: Send + Sync + 'static {
    /// An interrupt has arrived. Runs in a thread and may sleep; the line is masked until it
    /// returns.
    fn handle(&self);
}
