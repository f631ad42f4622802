// SPDX-License-Identifier: GPL-2.0
//! The PCI core's callbacks beside probe and unbind, which the kernel crate's adapter does not
//! offer.

use core::marker::PhantomData;
use core::mem::offset_of;

use kernel::container_of;
use kernel::device::{Core, CoreInternal};
use kernel::driver::{DriverLayout, RegistrationOps};
use kernel::pci;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::ffi;

/// A PCI driver with these callbacks for the devices that it has bound. They run after a successful
/// probe and before unbind. They never run at the same time as these or as one another, since the
/// device's lock is held. All may sleep.
pub(crate) trait PciDriver: pci::Driver {
    /// The machine is about to power off or reboot, or another kernel is about to start. When this
    /// returns, the device must do nothing by itself. Processes still exist. The rest of the
    /// driver's data stays; unbind may or may not follow.
    fn shutdown(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The machine is about to sleep, or to be written to disk, or an image from disk is about to
    /// replace the running system. Processes and freezable workqueues are frozen, but no device is
    /// suspended yet. An error cancels the sleep.
    fn prepare_sleep(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// Follows [`PciDriver::prepare_sleep`]. When this returns, the device does nothing by itself
    /// any more, and may lose all of its state. After an error, which cancels the sleep, the state
    /// is as if this had not been called.
    fn suspend(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// Follows a successful [`PciDriver::suspend`]. The device responds, and its configuration
    /// space is restored. The rest of its state may be lost.
    fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// As [`PciDriver::resume`], but after the image of the machine was made, or could not be made.
    /// The image is about to be written to disk, with processes frozen, and no change from now on
    /// is in it.
    fn thaw(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// Ends the section that [`PciDriver::prepare_sleep`] began, whatever its outcome; processes
    /// are still frozen.
    fn complete_sleep(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The device is about to be reset (`reset` in sysfs) and loses its configuration. It responds
    /// now, and no longer when this has returned.
    fn before_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The reset is over, and the configuration space is restored.
    fn after_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The connection to the device has failed (AER, DPC): it must not be accessed any more, even
    /// if a reset brings it back.
    fn lost(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);
}

/// The kernel crate's adapter with the additional callbacks.
pub(crate) struct PciAdapter<T: PciDriver>(PhantomData<T>);

// SAFETY: It is that of the kernel crate's adapter: its registration, probe and remove are what
// runs.
unsafe impl<T: PciDriver> DriverLayout for PciAdapter<T> {
    type DriverType = ffi::pci_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = offset_of!(Self::DriverType, driver);
}

// SAFETY: As for the kernel crate's adapter, which does both.
unsafe impl<T: PciDriver> RegistrationOps for PciAdapter<T> {
    unsafe fn register(
        driver: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let raw = driver.get();
        // SAFETY: The driver has no other user before it is registered.
        unsafe {
            (*raw).shutdown = Some(shutdown::<T>);
            (*raw).driver.pm = &PciOps::<T>::SLEEP;
            (*raw).err_handler = &PciOps::<T>::ERRORS;
        }
        // SAFETY: The caller keeps the driver until `unregister`. The adapter fills in other
        // fields.
        unsafe { <pci::Adapter<T> as RegistrationOps>::register(driver, name, module) }
    }

    unsafe fn unregister(driver: &Opaque<Self::DriverType>) {
        // SAFETY: `register` has registered it there.
        unsafe { <pci::Adapter<T> as RegistrationOps>::unregister(driver) }
    }
}

/// Provides static tables of operations for each driver.
struct PciOps<T>(PhantomData<T>);

impl<T: PciDriver> PciOps<T> {
    const SLEEP: ffi::dev_pm_ops = {
        let mut table: ffi::dev_pm_ops = pin_init::zeroed();
        table.prepare = Some(prepare::<T>);
        // To disk: frozen and thawed while the image is made, and powered off when it is written.
        // From disk: frozen before the image is loaded, and restored by the code in the image.
        table.suspend = Some(suspend::<T>);
        table.freeze = Some(suspend::<T>);
        table.poweroff = Some(suspend::<T>);
        table.resume = Some(resume::<T>);
        table.restore = Some(resume::<T>);
        table.thaw = Some(thaw::<T>);
        table.complete = Some(complete::<T>);
        table
    };

    const ERRORS: ffi::pci_error_handlers = {
        let mut table: ffi::pci_error_handlers = pin_init::zeroed();
        table.error_detected = Some(error_detected::<T>);
        table.slot_reset = Some(slot_reset);
        table.reset_prepare = Some(reset_prepare::<T>);
        table.reset_done = Some(reset_done::<T>);
        table
    };
}

/// `pci_driver::shutdown`.
///
/// # Safety
///
/// The kernel calls it with a device that the driver of a [`PciAdapter`] of `T` has bound, with its
/// lock held.
unsafe extern "C" fn shutdown<T: PciDriver>(pdev: *mut ffi::pci_dev) {
    // SAFETY: The caller holds the device and its lock, and `pci::Device` is a transparent wrapper
    // of it.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: The device has this driver only after a successful probe of the adapter, which has
    // set such data, and until remove.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    T::shutdown(pdev, data);
}

/// Calls `hook` with the device of `dev` and the driver's data of it.
///
/// # Safety
///
/// `dev` is part of a device as for [`shutdown`], whose lock is held.
unsafe fn with_device<T: PciDriver, R>(
    dev: *mut ffi::device,
    hook: impl FnOnce(&pci::Device<Core<'_>>, Pin<&T::Data<'_>>) -> R,
) -> R {
    // SAFETY: It is part of a PCI device, as the driver is one of the PCI bus.
    let pdev = unsafe { container_of!(dev, ffi::pci_dev, dev) };
    // SAFETY: As for `shutdown`.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: As for `shutdown`.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    hook(pdev, data)
}

fn errno(result: Result) -> kernel::ffi::c_int {
    result.map_or_else(|error| error.to_errno(), |()| 0)
}

/// `dev_pm_ops::prepare`.
///
/// # Safety
///
/// The kernel calls it with the `dev` of a device as for [`shutdown`].
unsafe extern "C" fn prepare<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: By this function's contract.
    errno(unsafe { with_device::<T, _>(dev, T::prepare_sleep) })
}

/// `dev_pm_ops::suspend`, and others with the same effect.
///
/// # Safety
///
/// As for [`prepare`].
unsafe extern "C" fn suspend<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: By this function's contract.
    errno(unsafe { with_device::<T, _>(dev, T::suspend) })
}

/// `dev_pm_ops::resume`, and others with the same effect.
///
/// # Safety
///
/// As for [`prepare`].
unsafe extern "C" fn resume<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: By this function's contract.
    errno(unsafe { with_device::<T, _>(dev, T::resume) })
}

/// `dev_pm_ops::thaw`.
///
/// # Safety
///
/// As for [`prepare`].
unsafe extern "C" fn thaw<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: By this function's contract.
    errno(unsafe { with_device::<T, _>(dev, T::thaw) })
}

/// `dev_pm_ops::complete`.
///
/// # Safety
///
/// As for [`prepare`].
unsafe extern "C" fn complete<T: PciDriver>(dev: *mut ffi::device) {
    // SAFETY: By this function's contract.
    unsafe { with_device::<T, _>(dev, T::complete_sleep) }
}

/// `pci_error_handlers::error_detected`.
///
/// # Safety
///
/// The kernel calls it with a device as for [`shutdown`].
unsafe extern "C" fn error_detected<T: PciDriver>(
    pdev: *mut ffi::pci_dev,
    state: ffi::pci_channel_state_t,
) -> ffi::pci_ers_result_t {
    // One transaction has failed, perhaps of another device: the connection works.
    if state == ffi::pci_channel_io_normal {
        return ffi::pci_ers_result_PCI_ERS_RESULT_CAN_RECOVER;
    }
    // SAFETY: As for `shutdown`.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: As for `shutdown`.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    T::lost(pdev, data);
    ffi::pci_ers_result_PCI_ERS_RESULT_DISCONNECT
}

/// `pci_error_handlers::reset_prepare`.
///
/// # Safety
///
/// The kernel calls it with a device as for [`shutdown`].
unsafe extern "C" fn reset_prepare<T: PciDriver>(pdev: *mut ffi::pci_dev) {
    // SAFETY: As for `shutdown`.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: As for `shutdown`.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    T::before_reset(pdev, data);
}

/// `pci_error_handlers::reset_done`.
///
/// # Safety
///
/// The kernel calls it with a device as for [`shutdown`].
unsafe extern "C" fn reset_done<T: PciDriver>(pdev: *mut ffi::pci_dev) {
    // SAFETY: As for `shutdown`.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: As for `shutdown`.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    T::after_reset(pdev, data);
}

/// `pci_error_handlers::slot_reset`: to the driver, the device after a reset of the link is a
/// different device.
///
/// # Safety
///
/// None.
unsafe extern "C" fn slot_reset(_pdev: *mut ffi::pci_dev) -> ffi::pci_ers_result_t {
    ffi::pci_ers_result_PCI_ERS_RESULT_DISCONNECT
}
