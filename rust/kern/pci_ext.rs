// SPDX-License-Identifier: GPL-2.0
//! PCI functions that the kernel crate lacks.

use kernel::device::{Core, Device};
use kernel::dma::{Device as _, DmaMask};
use kernel::error::to_result;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use super::device;
use crate::ffi;

/// Allows the device to address `BITS` bits of memory by DMA, coherent and streaming. Called in
/// probe, before any DMA memory of the device exists.
///
/// # Errors
///
/// `EIO` if the platform does not support it.
pub(crate) fn set_dma_mask<const BITS: u32>(pdev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: Probe runs alone, and nothing of the device is mapped or allocated yet.
    unsafe { pdev.dma_set_mask_and_coherent(DmaMask::new::<BITS>()) }?;
    // The GPU's page tables support runs of any length. SAFETY: As above.
    unsafe { pdev.dma_set_max_seg_size(u32::MAX) };
    Ok(())
}

fn raw(pdev: &pci::Device) -> *mut ffi::pci_dev {
    core::ptr::from_ref(pdev).cast_mut().cast()
}

/// A device whose BARs are enabled. Dropping this disables it, and must come after the drop of all
/// else of the driver.
pub(crate) struct EnabledDevice(ARef<pci::Device>);

impl EnabledDevice {
    /// Enables `pdev`.
    ///
    /// # Errors
    ///
    /// The kernel's own errors.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        pdev.enable_device_mem()?;
        let plain: &pci::Device = pdev;
        Ok(Self(plain.into()))
    }
}

impl Drop for EnabledDevice {
    fn drop(&mut self) {
        // SAFETY: The device is valid, and was enabled once.
        unsafe { ffi::pci_disable_device(raw(&self.0)) };
    }
}

/// A device that may read and write memory and send interrupts. Dropping this forbids it, whatever
/// the device is doing (PCI_COMMAND, Bus Master Enable). It must happen before memory that the
/// device has used is freed.
pub(crate) struct BusMastering(ARef<pci::Device>);

impl BusMastering {
    /// Allows it for `pdev`. The caller has set up the device's DMA, and has stopped activity that
    /// a previous driver left behind.
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

/// Forbids it for `pdev` before its [`BusMastering`] is dropped. Any context.
pub(crate) fn end_mastering(pdev: &pci::Device) {
    // SAFETY: The device is valid. It does not matter that it is enabled: that bit is in the same
    // register, and all concurrent writers have the same purpose.
    unsafe { ffi::pci_clear_master(raw(pdev)) };
}

/// The saved configuration space of a device, to be restored after the device has lost it.
pub(crate) struct SavedConfig(ARef<pci::Device>);

impl SavedConfig {
    /// Saves the present configuration of `pdev`.
    ///
    /// # Errors
    ///
    /// The kernel's own errors.
    pub(crate) fn save(pdev: &ARef<pci::Device>) -> Result<Self> {
        // SAFETY: The device is valid and bound to this driver: there is no concurrent save or
        // restore.
        to_result(unsafe { ffi::pci_save_state(raw(pdev)) })?;
        Ok(Self(pdev.clone()))
    }

    /// Restores it.
    pub(crate) fn restore(self) {
        // SAFETY: As above; the state was saved.
        unsafe { ffi::pci_restore_state(raw(&self.0)) };
    }
}

/// Whether the device is on the bus: its configuration space responds.
pub(crate) fn is_present(pdev: &pci::Device) -> bool {
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::pci_device_is_present(raw(pdev)) }
}

/// The PCI domain of the device.
pub(crate) fn domain(pdev: &pci::Device) -> u32 {
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`, whose bus
    // outlives it.
    unsafe { ffi::rkfd_pci_domain_nr(raw(pdev)) as u32 }
}

/// Whether the device does atomic operations that processors or other devices send to it.
pub(crate) fn completes_atomics(pdev: &pci::Device) -> bool {
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::rkfd_pci_completes_atomics(raw(pdev)) }
}

/// MB/s that the links between the device and the root of its bus can carry at most; 0 if no link
/// tells its speed and width.
pub(crate) fn link_mbs(pdev: &pci::Device) -> u32 {
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`, and the bridges
    // above a device outlive it.
    unsafe { ffi::rkfd_pci_link_mbs(raw(pdev)) }
}

/// Whether `dev` reaches the BARs of `other`, as far as the kernel knows the topology: there is a
/// switch above both, or their host bridge is known to forward such accesses. An IOMMU that must
/// see them prevents it. May sleep.
pub(crate) fn reaches(dev: &Device, other: &Device) -> bool {
    // SAFETY: Both are valid; the function checks whether they are PCI devices.
    unsafe { ffi::rkfd_pci_reaches(device::as_raw(dev), device::as_raw(other)) }
}

/// The bus address at which `dev` finds the `size` bytes at CPU address `start`, which are in a BAR
/// of `other`, if a switch connects the two and nothing sends the access up to the host bridge
/// first, and so to an IOMMU. Such an access must not be mapped
/// (`Documentation/driver-api/pci/p2pdma.rst` of the kernel). `None` if the access goes through the
/// host bridge.
///
/// # Errors
///
/// `ENOMEM` if the range is beyond the addresses of `dev`.
pub(super) fn switched(dev: &Device, other: &Device, start: u64, size: u64) -> Result<Option<u64>> {
    let (dev, other) = (device::as_raw(dev), device::as_raw(other));
    // SAFETY: Both are valid; the function checks whether they are PCI devices.
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

/// Enables atomic operations of the device on memory, of 32 and of 64 bits. Returns whether the
/// path to memory carries them.
pub(crate) fn enable_atomics(pdev: &pci::Device<Core<'_>>) -> bool {
    let sizes = ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP32 | ffi::PCI_EXP_DEVCAP2_ATOMIC_COMP64;
    // SAFETY: `pci::Device` is a transparent wrapper of a valid `struct pci_dev`.
    unsafe { ffi::pci_enable_atomic_ops_to_root(raw(pdev), sizes) == 0 }
}
