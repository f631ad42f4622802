// SPDX-License-Identifier: GPL-2.0
//! How long the driver waits for a GPU when the machine goes down. Each wait is bounded, but their
//! number depends on processes, whose queues leave the GPU one after the other. A reboot, unlike
//! unbind, must not depend on that number.

use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use crate::gpu::Gpu;
use crate::kern::{pci_ext, workqueue};

/// Bound of all waits together, milliseconds: more than the waits for a GPU of which no part
/// answers, each of which happens once.
const PATIENCE_MS: u32 = 40_000;

/// The deadline of a GPU. Dropping this disarms it and may sleep; that must happen while the device
/// is enabled, and after everything that processes can multiply.
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
    /// An unarmed deadline for `gpu`, which is at `pdev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pdev: &pci::Device, gpu: &Arc<Gpu>) -> Result<Self> {
        let end = Arc::pin_init(
            pin_init!(DeadlineWork {
                gpu: gpu.clone(),
                pdev: pdev.into(),
                work <- new_delayed_work!("DeadlineWork::work"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(end))
    }

    /// Arms the deadline.
    pub(super) fn start(&self) {
        let delay = msecs_to_jiffies(PATIENCE_MS);
        // A second start has no effect.
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
        // From here on, memory that the GPU might still use is freed.
        pci_ext::end_mastering(&this.pdev);
        hw.health.set_lost();
        hw.mmio.cut_off();
    }
}
