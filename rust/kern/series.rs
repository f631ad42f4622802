// SPDX-License-Identifier: GPL-2.0
//! What the kernel crates of the supported series spell differently: the same names for each, from a file of its own.
//! `rust/Kbuild` says which kernel it is. The older series goes with its file.

#[cfg(linux_7_2)]
mod linux_7_2;
#[cfg(linux_7_2)]
pub(crate) use linux_7_2::*;

#[cfg(not(linux_7_2))]
mod linux_7_3;
#[cfg(not(linux_7_2))]
pub(crate) use linux_7_3::*;

/// Who takes a device's interrupts.
pub(crate) trait IrqHandler: Send + Sync + 'static {
    /// An interrupt has come. Runs in a thread and may sleep; the line is masked until it returns.
    fn handle(&self);
}
