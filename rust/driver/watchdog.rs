// SPDX-License-Identifier: GPL-2.0
//! Polls the interrupt ring now and then. The GPU interrupts again only after the ring was read, so
//! a single lost interrupt would be the last one, and faults would go unseen while no process waits
//! for an event.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use crate::gpu::Gpu;
use crate::kern::workqueue;

/// Period of the polls, milliseconds: the longest time that interrupts go unnoticed.
const PERIOD_MS: u32 = 500;

/// The periodic poll. Dropping this ends it, and may sleep.
pub(super) struct Watchdog(Arc<WatchdogWork>);

#[pin_data]
struct WatchdogWork {
    gpu: Arc<Gpu>,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for WatchdogWork { self.work }
}

impl WatchdogWork {
    fn later(self: Arc<Self>) {
        let _ = workqueue::highpri().enqueue_delayed(self, msecs_to_jiffies(PERIOD_MS));
    }
}

impl WorkItem for WatchdogWork {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.gpu.hw.ih.kick();
        this.later();
    }
}

impl Watchdog {
    /// Starts polling for `gpu`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        let look = Arc::pin_init(
            pin_init!(WatchdogWork {
                gpu: gpu.clone(),
                work <- new_delayed_work!("WatchdogWork::work"),
            }),
            GFP_KERNEL,
        )?;
        look.clone().later();
        Ok(Self(look))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        workqueue::cancel(&self.0);
    }
}
