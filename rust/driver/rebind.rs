// SPDX-License-Identifier: GPL-2.0
//! Rebinds a device that was reset from outside the driver, as an administrator does by sysfs: the
//! driver then starts from the state in which it finds the device.
//!
//! This is a work item of the module, since the device's lock is held across a reset.

use kernel::device;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use super::reset;
use crate::kern::{rebind, workqueue};

/// Rebinds a device on request. Once this is dropped, together with the driver's data of the
/// device, no rebind happens any more.
pub(super) struct RebindGuard(Arc<RebindWork>);

#[pin_data]
struct RebindWork {
    pdev: ARef<pci::Device>,
    /// The driver no longer has the device. Set under the device's lock.
    gone: AtomicFlag,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for RebindWork { self.work }
}

impl RebindGuard {
    /// A guard for `pdev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pdev: &pci::Device) -> Result<Self> {
        let rebind = Arc::pin_init(
            pin_init!(RebindWork {
                pdev: pdev.into(),
                gone: AtomicFlag::new(false),
                work <- new_work!("RebindWork::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(rebind))
    }

    /// Schedules the rebind. Any context.
    pub(super) fn bind(&self) {
        // It may already be queued, after another reset.
        let _ = workqueue::reset().enqueue(self.0.clone());
    }
}

impl Drop for RebindGuard {
    fn drop(&mut self) {
        self.0.gone.store(true, Relaxed);
    }
}

impl WorkItem for RebindWork {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let dev: &device::Device = this.pdev.as_ref();
        // The device may meanwhile have been given to another driver.
        let was_ours = rebind::release(dev, || !this.gone.load(Relaxed));
        if was_ours && reset::may_rebind() {
            rebind::attach(dev);
        }
    }
}
