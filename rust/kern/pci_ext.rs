// SPDX-License-Identifier: GPL-2.0
//! PCI: what the kernel crate leaves out.

use kernel::device::{Core, Device};
use kernel::dma::{Device as _, DmaMask};
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use super::device;
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

fn raw(pdev: &pci::Device) -> *mut ffi::pci_dev {
    core::ptr::from_ref(pdev).cast_mut().cast()
}

/// A device that answers at its BARs. It is disabled when this is dropped, after all else that is the driver's.
pub(crate) struct EnabledDevice(ARef<pci::Device>);

impl EnabledDevice {
    /// Enables `pdev`. The kernel's own errors.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        pdev.enable_device_mem()?;
        let plain: &pci::Device = pdev;
        Ok(Self(plain.into()))
    }
}

impl Drop for EnabledDevice {
    fn drop(&mut self) {
        // SAFETY: The device is a valid one, and was enabled once.
        unsafe { ffi::pci_disable_device(raw(&self.0)) };
    }
}

/// A device that may read and write memory and send interrupts. When this has been dropped it may not any more,
/// whatever it is at (PCI_COMMAND, Bus Master Enable): before memory that it has used is given away.
pub(crate) struct BusMastering(ARef<pci::Device>);

impl BusMastering {
    /// Allows `pdev` to. What it is to do then is set up, and what others have left in it is stopped.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Self {
        pdev.set_master();
        let plain: &pci::Device = pdev;
        Self(plain.into())
    }
}

impl Drop for BusMastering {
    fn drop(&mut self) {
        end_mastering(&self.0);
    }
}

/// Forbids `pdev` to, before its [`BusMastering`] is dropped. Any context.
pub(crate) fn end_mastering(pdev: &pci::Device) {
    // SAFETY: The device is a valid one. That it is enabled does not matter: that is in the same register, which nobody else writes meanwhile but
    // to the same end.
    unsafe { ffi::pci_clear_master(raw(pdev)) };
}

/// What the configuration space of a device had, to be written back when it has lost that.
pub(crate) struct SavedConfig(ARef<pci::Device>);

impl SavedConfig {
    /// Notes what `pdev` has now. The kernel's own errors.
    pub(crate) fn save(pdev: &ARef<pci::Device>) -> Result<Self> {
        // SAFETY: The device is valid, and its driver's: nobody else saves or restores meanwhile.
        to_result(unsafe { ffi::pci_save_state(raw(pdev)) })?;
        Ok(Self(pdev.clone()))
    }

    /// Writes it back.
    pub(crate) fn restore(self) {
        // SAFETY: As above; the state was saved.
        unsafe { ffi::pci_restore_state(raw(&self.0)) };
    }
}

/// Whether the device is on the bus: its configuration space answers.
pub(crate) fn is_present(pdev: &pci::Device) -> bool {
    // SAFETY: `pci::DrmDevice` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::pci_device_is_present(raw(pdev)) }
}

/// The PCI domain of the device.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    // SAFETY: `pci::DrmDevice` is a transparent wrapper of a valid `struct pci_dev`, whose bus outlives it.
    unsafe { ffi::rkfd_pci_domain_nr(raw(pdev)) as u32 }
}

/// Whether `dev` reaches the BARs of `other`, as far as the kernel knows the way: there is a switch above both, or their host bridge is
/// known to pass such accesses on. An IOMMU that has to see them stands in the way. Sleeps.
pub(crate) fn reaches(dev: &Device, other: &Device) -> bool {
    // SAFETY: Both are valid; what is no PCI device is seen there.
    unsafe { ffi::rkfd_pci_reaches(device::as_raw(dev), device::as_raw(other)) }
}

/// The bus address at which `dev` finds the `size` bytes at CPU address `start`, which are in a BAR of `other`, if a switch leads there and
/// nothing sends the access up to the host bridge, and so to an IOMMU, first (`Documentation/driver-api/pci/p2pdma.rst` of the kernel:
/// such an access is not to be mapped). `None` where it goes by the host bridge. ENOMEM for more than `dev` can address.
pub(super) fn switched(dev: &Device, other: &Device, start: u64, size: u64) -> Result<Option<u64>> {
    let (dev, other) = (device::as_raw(dev), device::as_raw(other));
    // SAFETY: Both are valid; what is no PCI device is seen there.
    if !unsafe { ffi::rkfd_pci_is_switched(dev, other) } {
        return Ok(None);
    }
    // SAFETY: Both are valid, and PCI devices.
    let (address, mask) = unsafe {
        (
            ffi::rkfd_pci_bus_address(other, start),
            ffi::rkfd_dma_get_mask(dev),
        )
    };
    let end = address.checked_add(size).ok_or(ENOMEM)?;
    if end.saturating_sub(1) > mask {
        return Err(ENOMEM);
    }
    Ok(Some(address))
}

/// Lets the device do atomic operations on memory, of 32 and of 64 bits; whether the way there carries them.
pub(crate) fn enable_atomics(pdev: &pci::Device<Core<'_>>) -> bool {
    let sizes = ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    // SAFETY: `pci::DrmDevice` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::pci_enable_atomic_ops_to_root(raw(pdev), sizes) == 0 }
}
