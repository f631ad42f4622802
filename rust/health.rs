// SPDX-License-Identifier: GPL-2.0
//! Whether a GPU still answers. Who finds that a part of it does not, and that nothing smaller helps, says so here; who can reset the GPU as a
//! whole listens.

use core::fmt;

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{Arc, SpinLock};

use hw::ih::HubKind;

use crate::kern::task::TaskIdentity;

/// A part that takes more than itself to get going again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WedgedPart {
    /// The hardware's scheduler of compute queues.
    Scheduler,
    /// An SDMA engine.
    Sdma(u8),
    /// A hub: what it has cached of page tables cannot be taken from it any more.
    Hub(HubKind),
}

/// A queue that the part was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectQueue {
    /// The process.
    pub(crate) who: TaskIdentity,
    /// The queue's id within the process.
    pub(crate) queue: u32,
}

/// What does not answer, and what it was at if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WedgeReport {
    /// The part.
    pub(crate) part: WedgedPart,
    /// The queue, which need not have caused it.
    pub(crate) suspect: Option<SuspectQueue>,
}

impl WedgeReport {
    /// In a few words, for SMI_EVENTS.
    pub(crate) const fn name(&self) -> &'static CStr {
        match self.part {
            WedgedPart::Scheduler => c"compute scheduler hang",
            WedgedPart::Sdma(_) => c"SDMA engine hang",
            WedgedPart::Hub(_) => c"VM hub hang",
        }
    }
}

impl fmt::Display for WedgeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            WedgedPart::Scheduler => write!(f, "the hardware scheduler does not answer")?,
            WedgedPart::Sdma(engine) => write!(f, "sdma{engine} does not come to rest")?,
            WedgedPart::Hub(HubKind::Gfx) => write!(f, "GFXHUB does not answer a flush")?,
            WedgedPart::Hub(HubKind::Mm) => write!(f, "MMHUB does not answer a flush")?,
        }
        match self.suspect {
            Some(SuspectQueue { who, queue }) => {
                write!(f, ", with queue {queue} of process {}", who.pid)
            }
            None => Ok(()),
        }
    }
}

/// Who is told. It allocates nothing and waits for nothing.
pub(crate) trait WedgeHandler: Send + Sync {
    /// The GPU is wedged: [`GpuHealth::cause`] says how. Called once, with locks of whoever has found it.
    fn wedged(&self);
}

/// The health of a GPU.
#[pin_data]
pub(crate) struct GpuHealth {
    #[pin]
    state: SpinLock<HealthState>,
    lost: AtomicFlag,
}

struct HealthState {
    cause: Option<WedgeReport>,
    rescue: Option<Arc<dyn WedgeHandler>>,
}

impl GpuHealth {
    /// All is well. ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let state = HealthState {
            cause: None,
            rescue: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- kernel::new_spinlock!(state, "Health::state"),
                lost: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// The GPU is wedged. Who says so first is heard. Allocates nothing, waits for nothing.
    pub(crate) fn wedge(&self, cause: WedgeReport) {
        let rescue = {
            let mut state = self.state.lock();
            if state.cause.is_some() {
                return;
            }
            state.cause = Some(cause);
            state.rescue.clone()
        };
        if let Some(rescue) = rescue {
            rescue.wedged();
        }
    }

    /// What has wedged it; None while all is well.
    pub(crate) fn cause(&self) -> Option<WedgeReport> {
        self.state.lock().cause
    }

    /// Has `rescue` be told from now on, also of what was before; or nobody.
    pub(crate) fn listen(&self, rescue: Option<Arc<dyn WedgeHandler>>) {
        let (before, late) = {
            let mut state = self.state.lock();
            let late = rescue.clone().filter(|_| state.cause.is_some());
            (core::mem::replace(&mut state.rescue, rescue), late)
        };
        drop(before);
        if let Some(rescue) = late {
            rescue.wedged();
        }
    }

    /// Its reset has not brought it back, or the way to it has failed: there is nothing more that a driver can do.
    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Relaxed);
    }

    /// Whether that is so.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }
}
