// SPDX-License-Identifier: GPL-2.0
//! How long a GPU is waited for when the machine goes down. Each wait for it is bounded, but how many there are is up to processes, whose queues
//! leave it one after the other. Other than unbind, a reboot is not to depend on that.

use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use crate::gpu::Gpu;
use crate::kern::{pci_ext, workqueue};

/// All waits together, milliseconds: more than those for a GPU of which nothing answers, each of which is waited for once.
const PATIENCE_MS: u32 = 40_000;

/// The end of patience with a GPU; it does not come any more when this has been dropped, which sleeps: while the device is enabled, and after all
/// of which there may be many.
pub(super) struct GpuDeadline(Arc<DeadlineWork>);

#[pin_data]
struct DeadlineWork {
    gpu: Arc<Gpu>,
    pdev: ARef<pci::Device>,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for DeadlineWork { self.work }
}

impl GpuDeadline {
    /// Endless patience with `gpu`, which is at `pdev`. ENOMEM.
    pub(super) fn new(pdev: &pci::Device, gpu: &Arc<Gpu>) -> Result<Self> {
        let end = Arc::pin_init(
            pin_init!(DeadlineWork {
                gpu: gpu.clone(),
                pdev: pdev.into(),
                work <- new_delayed_work!("End::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(end))
    }

    /// From now on it is not endless.
    pub(super) fn start(&self) {
        let delay = msecs_to_jiffies(PATIENCE_MS);
        // It begins once.
        let _ = workqueue::highpri().enqueue_delayed(self.0.clone(), delay);
    }
}

impl Drop for GpuDeadline {
    fn drop(&mut self) {
        workqueue::cancel(&self.0);
    }
}

impl WorkItem for DeadlineWork {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let hw = &this.gpu.hw;
        dev_err!(
            &*hw.dev,
            "the GPU is waited for no longer: it is halted, and left as it is\n"
        );
        hw.halt_engines();
        // Memory that something else of it might use is given away from here on.
        pci_ext::end_mastering(&this.pdev);
        hw.health.set_lost();
        hw.mmio.cut_off();
    }
}
