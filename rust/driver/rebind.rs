// SPDX-License-Identifier: GPL-2.0
//! A device that somebody else has reset is taken from the driver and given to it again, as an administrator does by sysfs: it is as it was when
//! it was found.
//!
//! That is a work item of the module's, since the device's lock is held over a reset.

use kernel::device;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use super::reset;
use crate::kern::{rebind, workqueue};

/// Has a device bound anew. Once this is dropped, with what the driver has of the device, nothing of that happens any more.
pub(super) struct RebindGuard(Arc<RebindWork>);

#[pin_data]
struct RebindWork {
    pdev: ARef<pci::Device>,
    /// The driver does not have it any more. It becomes so under the device's lock.
    gone: AtomicFlag,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for RebindWork { self.work }
}

impl RebindGuard {
    /// For `pdev`. ENOMEM.
    pub(super) fn new(pdev: &pci::Device) -> Result<Self> {
        let rebind = Arc::pin_init(
            pin_init!(RebindWork {
                pdev: pdev.into(),
                gone: AtomicFlag::new(false),
                work <- new_work!("Rebind::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(rebind))
    }

    /// Has it bound anew, soon. Any context.
    pub(super) fn bind(&self) {
        // It may be about to, after another reset.
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
        // Whoever has taken it meanwhile may have given it to another driver.
        let was_ours = rebind::release(dev, || !this.gone.load(Relaxed));
        if was_ours && reset::may_rebind() {
            rebind::attach(dev);
        }
    }
}
