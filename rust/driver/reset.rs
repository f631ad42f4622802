// SPDX-License-Identifier: GPL-2.0
//! Handles a GPU that no longer answers. The driver saves a dump of its state, notifies its users,
//! and rebinds the device, as an administrator does by sysfs: on the way down the GPU is reset
//! ([`crate::firmware::reset`]), and on the way up its firmware is loaded.
//!
//! This is a work item of the module, since the device's own data goes meanwhile.

use kernel::device;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{Arc, Mutex};
use kernel::time::{Instant, Monotonic};
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

use crate::gpu::Gpu;
use crate::health::{WedgeHandler, WedgeReport, WedgedPart};
use crate::hive;
use crate::kern::arc_slot::{ArcSlot, FilledSlot};
use crate::kern::drm::WedgeRecovery;
use crate::kern::task::TaskIdentity;
use crate::kern::{params, rebind, workqueue};
use crate::kfd;
use crate::mem::bo::DrmDevice;
use crate::observe::dump;
use crate::smi::SmiEvent;

/// How long a reset counts, milliseconds.
const PERIOD_MS: i64 = 600_000;

/// The module's only history of resets.
static RECORD: ArcSlot<ResetHistory> = ArcSlot::new();

/// Which GPUs were reset, and when.
#[pin_data]
struct ResetHistory {
    /// No other wait happens under this lock.
    #[pin]
    devices: Mutex<KVec<ResetDevice>>,
}

/// A device that this driver has bound at some time.
struct ResetDevice {
    dev: ARef<device::Device>,
    /// The times of its last resets. The capacity is the number of resets allowed.
    resets: KVec<Instant<Monotonic>>,
    /// Why it is being reset, while it is.
    away: Option<WedgeReport>,
}

/// Keeps the history while the module is loaded. Once this is dropped, no GPU is reset any more.
pub(crate) struct ResetRegistration {
    _filled: FilledSlot<ResetHistory>,
}

impl ResetRegistration {
    /// An empty history.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let record = Arc::pin_init(
            pin_init!(ResetHistory {
                devices <- kernel::new_mutex!(KVec::new(), "ResetHistory::devices"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _filled: RECORD.fill(record)?,
        })
    }
}

/// Whether devices may still be bound again: the driver is not being unloaded.
pub(super) fn may_rebind() -> bool {
    RECORD.get().is_some()
}

impl ResetHistory {
    /// Reserves memory for `dev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn add(&self, dev: &device::Device) -> Result {
        let mut devices = self.devices.lock();
        if devices.iter().any(|entry| entry.is(dev)) {
            return Ok(());
        }
        let resets = KVec::with_capacity(params::resets().into(), GFP_KERNEL)?;
        let entry = ResetDevice {
            dev: dev.into(),
            resets,
            away: None,
        };
        Ok(devices.push(entry, GFP_KERNEL)?)
    }

    /// Counts a reset of `dev`, which `cause` has wedged. False if no further reset is allowed.
    fn count(&self, dev: &device::Device, cause: &WedgeReport) -> bool {
        let mut devices = self.devices.lock();
        let Some(entry) = devices.iter_mut().find(|entry| entry.is(dev)) else {
            return false;
        };
        entry
            .resets
            .retain(|at| at.elapsed().as_millis() < PERIOD_MS);
        let may = entry.resets.len() < params::resets().into()
            && entry.resets.push_within_capacity(Instant::now()).is_ok();
        entry.away = may.then_some(*cause);
        may
    }

    /// Why `dev` was reset, if this is the first bind since then.
    fn reset_cause_of(&self, dev: &device::Device) -> Option<WedgeReport> {
        let mut devices = self.devices.lock();
        let entry = devices.iter_mut().find(|entry| entry.is(dev));
        entry.and_then(|entry| entry.away.take())
    }
}

impl ResetDevice {
    fn is(&self, dev: &device::Device) -> bool {
        core::ptr::eq(&*self.dev, dev)
    }
}

/// Watches the health of a GPU until it is dropped.
pub(super) struct ResetGuard(Arc<ReplugWork>);

/// Resets and rebinds a GPU, once.
#[pin_data]
struct ReplugWork {
    gpu: Arc<Gpu>,
    node: ARef<DrmDevice>,
    pdev: ARef<pci::Device>,
    /// The driver has loaded the firmware itself; a reset takes it away.
    is_own: bool,
    /// The device was unbound. Set under its lock.
    gone: AtomicFlag,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for ReplugWork { self.work }
}

/// Queues the work item.
struct WedgeAlarm(Arc<ReplugWork>);

impl WedgeHandler for WedgeAlarm {
    fn wedged(&self) {
        // It is notified once.
        let _ = workqueue::reset().enqueue(self.0.clone());
    }
}

impl ResetGuard {
    /// Watches `gpu`, which is at `pdev` with its render node `node`; `is_own` tells that the
    /// driver has loaded the firmware itself.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` while the module is being unloaded.
    pub(super) fn new(
        pdev: &pci::Device,
        gpu: &Arc<Gpu>,
        node: &ARef<DrmDevice>,
        is_own: bool,
    ) -> Result<Self> {
        let record = RECORD.get().ok_or(ENODEV)?;
        record.add(&gpu.hw.dev)?;
        let replug = Arc::pin_init(
            pin_init!(ReplugWork {
                gpu: gpu.clone(),
                node: node.clone(),
                pdev: pdev.into(),
                is_own,
                gone: AtomicFlag::new(false),
                work <- new_work!("ReplugWork::work"),
            }),
            GFP_KERNEL,
        )?;
        let alarm = Arc::new(WedgeAlarm(replug.clone()), GFP_KERNEL)?;
        gpu.hw.health.listen(Some(alarm));
        if let Some(cause) = record.reset_cause_of(&gpu.hw.dev) {
            node.wedged(WedgeRecovery::None, culprit(&cause));
        }
        Ok(Self(replug))
    }
}

impl Drop for ResetGuard {
    fn drop(&mut self) {
        self.0.gpu.hw.health.listen(None);
        self.0.gone.store(true, Relaxed);
    }
}

impl WorkItem for ReplugWork {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let Some(cause) = this.gpu.hw.health.cause() else {
            return;
        };
        if this.gone.load(Relaxed) {
            return;
        }
        // The log has the cause even if there is no dump.
        let _ = dump::show(&this.gpu, &cause);
        if this.may_reset(&cause) {
            this.replug(&cause);
        } else {
            this.node.wedged(WedgeRecovery::Rebind, culprit(&cause));
        }
    }
}

/// The process whose queue is suspected, if it is known.
fn culprit(cause: &WedgeReport) -> Option<TaskIdentity> {
    cause.suspect.map(|suspect| suspect.who)
}

impl ReplugWork {
    /// Decides whether the GPU is reset; the log tells the decision and its reason.
    fn may_reset(&self, cause: &WedgeReport) -> bool {
        let dev = &*self.gpu.hw.dev;
        let why = if params::resets() == 0 {
            "the parameter reset is 0"
        } else if let Some(why) = hive::obstacle_to_reset(&self.gpu.hw) {
            why
        } else if !self.is_own {
            "another driver has loaded its firmware, which would be lost"
        } else if !RECORD.get().is_some_and(|record| record.count(dev, cause)) {
            "it was reset too often in the last ten minutes"
        } else if hive::start_reset(&self.gpu.hw).is_err() {
            "there is no memory to reset the others of its hive"
        } else {
            dev_warn!(
                dev,
                "GPU reset begin! the GPU is reset: {}\n",
                format_args!("{cause}")
            );
            return true;
        };
        dev_warn!(
            dev,
            "GPU hang detected: the GPU is not reset, and stays as it is: {}: {why}\n",
            format_args!("{cause}")
        );
        false
    }

    fn replug(&self, cause: &WedgeReport) {
        let hw = &self.gpu.hw;
        hw.smi.notify(&SmiEvent::Resetting(cause.name()));
        kfd::notify_reset(&self.gpu);
        if let WedgedPart::Sdma(engine) = cause.part {
            // No job waits for the contents any more.
            self.gpu.rings.give_up(engine);
        }
        let dev: &device::Device = self.pdev.as_ref();
        // The device may meanwhile have been given to another driver.
        let was_ours = rebind::release(dev, || {
            let is_ours = !self.gone.load(Relaxed);
            if is_ours && !hw.is_present() {
                dev_err!(
                    &*hw.dev,
                    "it does not answer at all: it is gone from the bus, or its link has failed\n"
                );
            }
            is_ours
        });
        // The log already tells why the device does not come back, or the driver is being unloaded.
        if !was_ours || hw.health.is_lost() || !may_rebind() {
            return;
        }
        if rebind::attach(dev) {
            hw.smi.notify(&SmiEvent::Reset(cause.name()));
        }
    }
}
