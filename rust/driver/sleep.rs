// SPDX-License-Identifier: GPL-2.0
//! The machine sleeps (suspend, hibernation), and the GPU loses power and all that it has. Nobody who uses it is to notice.
//!
//! 1. It is announced while programs run: firmware files are got, and system memory for what VRAM holds, as neither is to be had later. What cannot be
//!    kept over a sleep keeps the machine awake, and the log says what that is.
//! 2. Processes are frozen, and so is what changes a GPU's memory in the background. Before any device sleeps the queues of all processes are taken off
//!    the hardware of all GPUs, with their waves saved, and each GPU loses what memory others may move.
//! 3. VRAM is saved ([`crate::mem::image`]), and the GPU stopped as when the driver goes.
//! 4. On the way back it is found in whatever state, gets firmware as in probe, and all that was in VRAM where it was.
//! 5. When all devices are back the queues go on. Not while an image of the machine is written to disk, in which nothing would be of what they do.
//!
//! A GPU that does not come back is taken from the driver and given to it anew.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::time::{Instant, Monotonic};

use crate::firmware::files::FirmwareFiles;
use crate::firmware::{self, LoadedFirmware};
use crate::gpu::Gpu;
use crate::kern::power::{PowerListener, PowerSubscription, SleepPhase};
use crate::mem::queue_group::{EvictTrigger, QuiesceGuard};
use crate::mem::vram_image::VramImage;

/// What a GPU needs for a sleep.
struct SleepState {
    files: FirmwareFiles,
    image: VramImage,
    /// Keeps the queues off the hardware from before the first device sleeps until the last is back.
    quiesced: KVVec<QuiesceGuard>,
    /// And, where an image of the machine was made, until what was announced is over.
    until: QuiesceUntil,
}

/// Until when queues stay off the hardware of a GPU that is awake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuiesceUntil {
    /// All devices are back.
    Complete,
    /// What was announced is over: processes run by then.
    Over,
}

/// Makes a GPU ready for sleep.
#[pin_data]
struct SuspendState {
    gpu: Arc<Gpu>,
    /// Its firmware is this driver's, which can load it again.
    is_own: bool,
    /// There is something from when a sleep is announced until that is over.
    #[pin]
    ready: Mutex<Option<SleepState>>,
}

/// Hears of sleep.
struct PmNotifier(Arc<SuspendState>);

/// A GPU as far as it sleeps. It does not hear of sleep any more when this has been dropped, which sleeps itself.
pub(super) struct PmRegistration {
    _ear: PowerSubscription<PmNotifier>,
    valet: Arc<SuspendState>,
    is_asleep: bool,
}

impl SuspendState {
    /// Why it cannot sleep now, if so.
    fn obstacle(&self) -> Option<&'static str> {
        let gpu = &self.gpu;
        if !self.is_own {
            return Some("it would lose firmware that somebody else has loaded");
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

    /// Says why the machine stays awake: `why`. Gives the error.
    fn refuse(&self, sleep: SleepPhase, why: fmt::Arguments<'_>, error: Error) -> Error {
        let dev: &Device = &self.gpu.hw.dev;
        dev_warn!(
            dev,
            "no {} while the GPU is bound: {why}: first rmmod rkfd, or echo {} >/sys/bus/pci/drivers/rkfd/unbind\n",
            format_args!("{sleep}"),
            dev.name()
        );
        error
    }

    /// EBUSY for a GPU that cannot sleep now: the log says why.
    fn check(&self, sleep: SleepPhase) -> Result {
        match self.obstacle() {
            None => Ok(()),
            Some(why) => Err(self.refuse(sleep, format_args!("{why}"), EBUSY)),
        }
    }
}

impl PowerListener for PmNotifier {
    fn announced(&self, sleep: SleepPhase) -> Result {
        let Self(valet) = self;
        valet.check(sleep)?;
        let files = firmware::files(&valet.gpu.hw)?;
        let memory = &valet.gpu.memory;
        let image = VramImage::new(memory).map_err(|error| {
            valet.refuse(
                sleep,
                format_args!(
                    "there is no system memory for the {} MiB that VRAM holds",
                    memory.vram.used() >> 20
                ),
                error,
            )
        })?;
        *valet.ready.lock() = Some(SleepState {
            files,
            image,
            quiesced: KVVec::new(),
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
    /// Has `gpu` sleep with the machine; `is_own`: its firmware is this driver's. ENOMEM.
    pub(super) fn new(gpu: &Arc<Gpu>, is_own: bool) -> Result<Self> {
        let valet = Arc::pin_init(
            pin_init!(SuspendState {
                gpu: gpu.clone(),
                is_own,
                ready <- kernel::new_mutex!(None, "Valet::ready"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _ear: PowerSubscription::new(PmNotifier(valet.clone()))?,
            valet,
            is_asleep: false,
        })
    }

    /// Has its queues leave the hardware, until [`PmRegistration::complete`]. EBUSY where nothing was announced, or something has come since that keeps it
    /// awake: the log says so; ENOMEM.
    pub(super) fn prepare(&mut self) -> Result {
        let valet = &self.valet;
        let mut ready = valet.ready.lock();
        let Some(ready) = &mut *ready else {
            return Err(valet.refuse(
                SleepPhase::Unannounced,
                format_args!("it was not announced"),
                EBUSY,
            ));
        };
        valet.check(SleepPhase::Unannounced)?;
        let vms = &valet.gpu.memory.vms;
        let quiesced = vms.quiesce(EvictTrigger::Suspend)?;
        vms.release_movable()?;
        ready.quiesced = quiesced;
        ready.until = QuiesceUntil::Complete;
        Ok(())
    }

    /// Puts it to sleep, with `firmware`, after [`PmRegistration::prepare`]. Errors of [`Gpu::suspend`], after which it is awake.
    pub(super) fn suspend(&mut self, firmware: &mut LoadedFirmware) -> Result {
        let began = Instant::<Monotonic>::now();
        let mut ready = self.valet.ready.lock();
        let ready = (*ready).as_mut().ok_or(EBUSY)?;
        let gpu = &self.valet.gpu;
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

    /// Wakes it, if it sleeps, with `firmware`; its queues stay off `until` then. `master` allows it to be bus master. Errors of [`Gpu::resume_blocks`] and [`Gpu::restart`]: then it is lost.
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
        let mut ready = self.valet.ready.lock();
        let ready = (*ready).as_mut().ok_or(EBUSY)?;
        let gpu = &self.valet.gpu;
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

    /// Its queues may go on, unless they are to wait.
    pub(super) fn complete(&mut self) {
        let mut ready = self.valet.ready.lock();
        if let Some(ready) = &mut *ready {
            if ready.until == QuiesceUntil::Complete {
                ready.quiesced.clear();
            }
        }
    }
}
