// SPDX-License-Identifier: GPL-2.0
//! What the PCI core asks of a driver beside probe and unbind, for which the kernel crate's adapter has no place.

use core::marker::PhantomData;
use core::mem::offset_of;

use kernel::container_of;
use kernel::device::{Core, CoreInternal};
use kernel::driver::{DriverLayout, RegistrationOps};
use kernel::pci;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::ffi;

/// A PCI driver that is asked these things, too, for a device that it has bound: after probe has succeeded, before unbind, and never at the
/// same time as either or as one another, since the device's lock is held. All may sleep.
pub(crate) trait PciDriver: pci::Driver {
    /// The machine goes down, or another kernel is about to run: the device may not do anything by itself when this returns. Processes are
    /// still there. What remains of the driver's data stays, and unbind may follow or not.
    fn shutdown(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The machine is about to sleep, or to be written to disk, or what was is about to take the place of what runs: processes and freezable
    /// workqueues are frozen, but no device is touched yet. An error keeps it awake.
    fn prepare_sleep(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// After that: the device does nothing by itself any more when this returns, and may lose all that it has. It is as if this had not been called
    /// after an error, which keeps the machine awake.
    fn suspend(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// After a [`PciDriver::suspend`] that went well: the device answers, and its configuration space is as it was then. Whatever else there was
    /// of it may be lost.
    fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// The same, where only an image of the machine has been made, or could not be: it is about to be written to disk, with processes frozen, and nothing that
    /// changes from now on is in it.
    fn thaw(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result;

    /// The end of what [`PciDriver::prepare_sleep`] began, whatever came of it; processes are still frozen.
    fn complete_sleep(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// Somebody is about to reset the device (`reset` in sysfs): it forgets what it was told. It answers now, and not any more when this has
    /// returned.
    fn before_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// That is over, and its configuration space is as it was.
    fn after_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);

    /// The way to the device has failed (AER, DPC): it is not to be reached any more, also where a reset brings it back.
    fn lost(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>);
}

/// The kernel crate's adapter, and the places that it leaves empty.
pub(crate) struct PciAdapter<T: PciDriver>(PhantomData<T>);

// SAFETY: It is that of the kernel crate's adapter: its registration, probe and remove are what runs.
unsafe impl<T: PciDriver> DriverLayout for PciAdapter<T> {
    type DriverType = ffi::pci_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = offset_of!(Self::DriverType, driver);
}

// SAFETY: As for the kernel crate's adapter, which does either.
unsafe impl<T: PciDriver> RegistrationOps for PciAdapter<T> {
    unsafe fn register(
        driver: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let raw = driver.get();
        // SAFETY: Nobody else knows the driver before it is registered.
        unsafe {
            (*raw).shutdown = Some(shutdown::<T>);
            (*raw).driver.pm = &PciOps::<T>::SLEEP;
            (*raw).err_handler = &PciOps::<T>::ERRORS;
        }
        // SAFETY: The caller keeps the driver until `unregister`. What is filled in there are other fields.
        unsafe { <pci::Adapter<T> as RegistrationOps>::register(driver, name, module) }
    }

    unsafe fn unregister(driver: &Opaque<Self::DriverType>) {
        // SAFETY: `register` has registered it there.
        unsafe { <pci::Adapter<T> as RegistrationOps>::unregister(driver) }
    }
}

/// Gives static tables of operations for each driver.
struct PciOps<T>(PhantomData<T>);

impl<T: PciDriver> PciOps<T> {
    const SLEEP: ffi::dev_pm_ops = {
        let mut table: ffi::dev_pm_ops = pin_init::zeroed();
        table.prepare = Some(prepare::<T>);
        // To disk: frozen and thawed while the image is made, and off when it is written. From disk: frozen before the image comes, and restored
        // by what is in it.
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
/// The kernel calls it with a device that the driver of an [`PciAdapter`] of `T` has bound, its lock held.
unsafe extern "C" fn shutdown<T: PciDriver>(pdev: *mut ffi::pci_dev) {
    // SAFETY: The caller has the device, its lock is held, and `pci::DrmDevice` is a transparent wrapper of it.
    let pdev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
    // SAFETY: The device has this driver only after its probe has succeeded, which the adapter's has done with such data, and until remove.
    let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
    T::shutdown(pdev, data);
}

/// Calls `hook` with the device of `dev`, and with the driver's data of it.
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
    // SAFETY: The caller's.
    errno(unsafe { with_device::<T, _>(dev, T::prepare_sleep) })
}

/// `dev_pm_ops::suspend`, and others that come to the same.
///
/// # Safety
///
/// As [`prepare`].
unsafe extern "C" fn suspend<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: The caller's.
    errno(unsafe { with_device::<T, _>(dev, T::suspend) })
}

/// `dev_pm_ops::resume`, and others that come to the same.
///
/// # Safety
///
/// As [`prepare`].
unsafe extern "C" fn resume<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: The caller's.
    errno(unsafe { with_device::<T, _>(dev, T::resume) })
}

/// `dev_pm_ops::thaw`.
///
/// # Safety
///
/// As [`prepare`].
unsafe extern "C" fn thaw<T: PciDriver>(dev: *mut ffi::device) -> kernel::ffi::c_int {
    // SAFETY: The caller's.
    errno(unsafe { with_device::<T, _>(dev, T::thaw) })
}

/// `dev_pm_ops::complete`.
///
/// # Safety
///
/// As [`prepare`].
unsafe extern "C" fn complete<T: PciDriver>(dev: *mut ffi::device) {
    // SAFETY: The caller's.
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
    // One transaction has failed, perhaps another device's: the way is there.
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

/// `pci_error_handlers::slot_reset`: what is there after the reset of the link is another device, as far as the driver is concerned.
///
/// # Safety
///
/// None.
unsafe extern "C" fn slot_reset(_pdev: *mut ffi::pci_dev) -> ffi::pci_ers_result_t {
    ffi::pci_ers_result_PCI_ERS_RESULT_DISCONNECT
}
