// SPDX-License-Identifier: GPL-2.0
//! The machine sleeps (suspend, hibernation) and the GPU loses power and all its state. Its users
//! must not notice.
//!
//! 1. The sleep is announced while programs run. The driver gets firmware files, and system memory
//!    for the contents of VRAM, as neither can be had later. Anything that cannot survive a sleep
//!    keeps the machine awake, and the log names it.
//! 2. Processes are frozen, and so is the background work that changes a GPU's memory, except for
//!    the work items that serve page faults. Before any device sleeps, the driver evicts the queues
//!    of all processes from all GPUs, with their waves saved. Then no page faults are served any
//!    more, and each GPU loses the memory that can move.
//! 3. VRAM is saved ([`crate::mem::vram_image`]), and the GPU is stopped as on unbind.
//! 4. On resume the driver finds the GPU in some state, loads the firmware as in probe, and
//!    restores everything in VRAM at its old place.
//! 5. When all devices are back, the queues are restored. They stay evicted while an image of the
//!    machine is written to disk, since the image would not contain their work.
//!
//! A GPU that does not come back is unbound and bound again.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::time::{Instant, Monotonic};

use crate::firmware::files::FirmwareFiles;
use crate::firmware::{self, LoadedFirmware};
use crate::gpu::Gpu;
use crate::ip::retries::SuspendedFaults;
use crate::kern::power::{PowerListener, PowerSubscription, SleepPhase};
use crate::mem::queue_group::{EvictTrigger, QuiesceGuard};
use crate::mem::vram_image::VramImage;

/// What the driver holds for a sleep of a GPU.
struct SleepState {
    files: FirmwareFiles,
    image: VramImage,
    /// Keeps the queues evicted from before the first device sleeps until the last device is back.
    quiesced: KVVec<QuiesceGuard>,
    /// Keeps page faults from being served for as long.
    faults: Option<SuspendedFaults>,
    /// If an image of the machine was made, the queues stay evicted for longer.
    until: QuiesceUntil,
}

/// How long queues stay evicted on a GPU that is awake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuiesceUntil {
    /// Until all devices are back.
    Complete,
    /// Until the announced sleep is over: processes run again by then.
    Over,
}

/// Prepares a GPU for sleep.
#[pin_data]
struct SuspendState {
    gpu: Arc<Gpu>,
    /// The driver has loaded the firmware itself and can load it again.
    is_own: bool,
    /// `Some` from the announcement of a sleep until the sleep is over.
    #[pin]
    ready: Mutex<Option<SleepState>>,
}

/// Receives the kernel's notices of sleep.
struct PmNotifier(Arc<SuspendState>);

/// The registration of a GPU for sleep. Dropping it ends the notices; that may sleep.
pub(super) struct PmRegistration {
    _subscription: PowerSubscription<PmNotifier>,
    state: Arc<SuspendState>,
    is_asleep: bool,
}

impl SuspendState {
    /// Why the GPU cannot sleep now, if it cannot.
    fn obstacle(&self) -> Option<&'static str> {
        let gpu = &self.gpu;
        if !self.is_own {
            return Some("another driver has loaded its firmware, which would be lost");
        }
        if gpu.hw.health.cause().is_some() || !gpu.hw.is_present() {
            return Some("it does not answer");
        }
        let mut is_reached = false;
        gpu.memory
            .bos
            .for_each(|bo| is_reached |= bo.is_shared_in_vram());
        is_reached.then_some("another device reaches memory of it")
    }

    /// Logs why the machine stays awake, and returns the error.
    fn refuse(&self, sleep: SleepPhase, why: fmt::Arguments<'_>, error: Error) -> Error {
        let dev: &Device = &self.gpu.hw.dev;
        dev_warn!(
            dev,
            "no {sleep} while the GPU is bound: {why}: first rmmod rkfd, or \
             echo {} >/sys/bus/pci/drivers/rkfd/unbind\n",
            dev.name()
        );
        error
    }

    /// Checks that the GPU can sleep now; the log tells why it cannot.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it cannot.
    fn check(&self, sleep: SleepPhase) -> Result {
        match self.obstacle() {
            None => Ok(()),
            Some(why) => Err(self.refuse(sleep, format_args!("{why}"), EBUSY)),
        }
    }
}

impl PowerListener for PmNotifier {
    fn announced(&self, sleep: SleepPhase) -> Result {
        let Self(state) = self;
        state.check(sleep)?;
        let files = firmware::files(&state.gpu.hw)?;
        let memory = &state.gpu.memory;
        let image = VramImage::new(memory).map_err(|error| {
            state.refuse(
                sleep,
                format_args!(
                    "there is no system memory for the {} MiB that VRAM holds",
                    memory.vram.used() >> 20
                ),
                error,
            )
        })?;
        *state.ready.lock() = Some(SleepState {
            files,
            image,
            quiesced: KVVec::new(),
            faults: None,
            until: QuiesceUntil::Complete,
        });
        Ok(())
    }

    fn over(&self) {
        let ready = self.0.ready.lock().take();
        drop(ready);
    }
}

impl PmRegistration {
    /// Registers `gpu`; `is_own` tells that the driver has loaded the firmware itself.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: &Arc<Gpu>, is_own: bool) -> Result<Self> {
        let state = Arc::pin_init(
            pin_init!(SuspendState {
                gpu: gpu.clone(),
                is_own,
                ready <- kernel::new_mutex!(None, "SuspendState::ready"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _subscription: PowerSubscription::new(PmNotifier(state.clone()))?,
            state,
            is_asleep: false,
        })
    }

    /// Evicts the queues until [`PmRegistration::complete`].
    ///
    /// # Errors
    ///
    /// `EBUSY` if no sleep was announced, or if something has appeared since that keeps the machine
    /// awake, which the log names; `ETIMEDOUT` if page faults are served for too long; `ENOMEM`.
    pub(super) fn prepare(&mut self) -> Result {
        let state = &self.state;
        let mut ready = state.ready.lock();
        let Some(ready) = &mut *ready else {
            return Err(state.refuse(
                SleepPhase::Unannounced,
                format_args!("it was not announced"),
                EBUSY,
            ));
        };
        state.check(SleepPhase::Unannounced)?;
        let vms = &state.gpu.memory.vms;
        // An SDMA queue may have to get its pages before it leaves the hardware.
        let quiesced = vms.quiesce(EvictTrigger::Suspend)?;
        let faults = state.gpu.hw.faults.suspend()?;
        vms.release_movable()?;
        ready.quiesced = quiesced;
        ready.faults = Some(faults);
        ready.until = QuiesceUntil::Complete;
        Ok(())
    }

    /// Puts the GPU, with its `firmware`, to sleep after [`PmRegistration::prepare`].
    ///
    /// # Errors
    ///
    /// Those of [`Gpu::suspend`]; the GPU is awake then.
    pub(super) fn suspend(&mut self, firmware: &mut LoadedFirmware) -> Result {
        let began = Instant::<Monotonic>::now();
        let mut ready = self.state.ready.lock();
        let ready = (*ready).as_mut().ok_or(EBUSY)?;
        let gpu = &self.state.gpu;
        gpu.suspend(firmware, &mut ready.image)
            .inspect_err(|error| {
                dev_err!(&*gpu.hw.dev, "the GPU cannot be put to sleep: {error:?}\n");
            })?;
        self.is_asleep = true;
        dev_info!(
            &*gpu.hw.dev,
            "the GPU sleeps after {} ms, with {} MiB of system memory for what VRAM holds\n",
            began.elapsed().as_millis(),
            ready.image.bytes() >> 20
        );
        Ok(())
    }

    /// Wakes the GPU, with its `firmware`, if it sleeps; its queues stay evicted `until` then.
    /// `master` makes it a bus master.
    ///
    /// # Errors
    ///
    /// Those of [`Gpu::resume_blocks`] and [`Gpu::restart`]; the GPU is lost then.
    pub(super) fn wake(
        &mut self,
        firmware: &mut LoadedFirmware,
        until: QuiesceUntil,
        master: impl FnOnce(),
    ) -> Result {
        if !self.is_asleep {
            return Ok(());
        }
        let began = Instant::<Monotonic>::now();
        self.is_asleep = false;
        let mut ready = self.state.ready.lock();
        let ready = (*ready).as_mut().ok_or(EBUSY)?;
        let gpu = &self.state.gpu;
        gpu.resume_blocks(firmware, &ready.files, &ready.image)?;
        master();
        gpu.restart(&mut ready.image)?;
        ready.until = until;
        dev_info!(
            &*gpu.hw.dev,
            "the GPU is back after {} ms\n",
            began.elapsed().as_millis()
        );
        Ok(())
    }

    /// Restores the queues, unless they must wait for the end of the sleep.
    pub(super) fn complete(&mut self) {
        let mut ready = self.state.ready.lock();
        if let Some(ready) = &mut *ready {
            if ready.until == QuiesceUntil::Complete {
                ready.quiesced.clear();
                ready.faults = None;
            }
        }
    }
}
