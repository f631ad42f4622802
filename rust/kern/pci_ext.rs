// SPDX-License-Identifier: GPL-2.0
//! PCI: what the kernel crate leaves out.

use kernel::device::Core;
use kernel::dma::{Device as _, DmaMask};
use kernel::pci;
use kernel::prelude::*;

use crate::ffi;

/// Lets the device address `BITS` bits of memory by DMA, coherent and streaming. Called in probe, before any
/// DMA memory of the device exists. EIO if the platform cannot.
pub(crate) fn set_dma_mask<const BITS: u32>(pdev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: probe runs alone, and nothing of the device is mapped or allocated yet.
    unsafe { pdev.dma_set_mask_and_coherent(DmaMask::new::<BITS>()) }?;
    // The GPU's page tables take runs of any length.
    // SAFETY: as above.
    unsafe { pdev.dma_set_max_seg_size(u32::MAX) };
    Ok(())
}

/// The PCI domain of the device.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`, whose bus outlives it.
    unsafe { ffi::rkfd_pci_domain_nr(core::ptr::from_ref(pdev).cast_mut().cast()) as u32 }
}

/// Lets the device do atomic operations on memory, of 32 and of 64 bits; whether the way there carries them.
pub(crate) fn enable_atomics(pdev: &pci::Device<Core<'_>>) -> bool {
    let sizes = ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    let raw = core::ptr::from_ref(pdev).cast_mut().cast();
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::pci_enable_atomic_ops_to_root(raw, sizes) == 0 }
}
