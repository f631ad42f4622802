// SPDX-License-Identifier: GPL-2.0
//! Whether a GPU still answers. Code that finds that a part does not answer, and that no smaller
//! measure helps, reports it here. The code that can reset the whole GPU listens.

use core::fmt;

use kernel::prelude::*;
use kernel::sync::atomic::{AtomicFlag, Relaxed};
use kernel::sync::{Arc, SpinLock};

use hw::ih::HubKind;

use crate::kern::task::TaskIdentity;

/// A part that only a reset of the whole GPU recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WedgedPart {
    /// The hardware's scheduler of compute queues.
    Scheduler,
    /// An SDMA engine.
    Sdma(u8),
    /// The kernel's ring of an SDMA engine, which fails again and again.
    KernelRing(u8),
    /// Another GPU of its hive: all of them are reset together.
    Hive,
    /// A hub: the page table entries that it has cached cannot be invalidated any more.
    Hub(HubKind),
}

/// A queue that the part was working on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectQueue {
    /// The process.
    pub(crate) who: TaskIdentity,
    /// The queue's id within the process.
    pub(crate) queue: u32,
}

/// The part that does not answer, and the queue it was working on, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WedgeReport {
    /// The part.
    pub(crate) part: WedgedPart,
    /// The suspected queue, which need not be the cause.
    pub(crate) suspect: Option<SuspectQueue>,
}

impl WedgeReport {
    /// The part in a few words, for SMI_EVENTS.
    pub(crate) const fn name(&self) -> &'static CStr {
        match self.part {
            WedgedPart::Scheduler => c"compute scheduler hang",
            WedgedPart::Sdma(_) => c"SDMA engine hang",
            WedgedPart::KernelRing(_) => c"SDMA engine errors",
            WedgedPart::Hub(_) => c"VM hub hang",
            WedgedPart::Hive => c"hang of another GPU of the hive",
        }
    }
}

impl fmt::Display for WedgeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            WedgedPart::Scheduler => write!(f, "the hardware scheduler does not answer")?,
            WedgedPart::Sdma(engine) => write!(f, "sdma{engine} does not come to rest")?,
            WedgedPart::KernelRing(engine) => {
                write!(f, "the driver's ring of sdma{engine} fails again and again")?
            }
            WedgedPart::Hive => write!(f, "another GPU of its hive is reset")?,
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

/// Handles the report of a wedged GPU. It allocates nothing and does not wait.
pub(crate) trait WedgeHandler: Send + Sync {
    /// The GPU is wedged: [`GpuHealth::cause`] tells why. Called once, under locks of the reporting
    /// code.
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
    handler: Option<Arc<dyn WedgeHandler>>,
}

impl GpuHealth {
    /// A healthy GPU.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let state = HealthState {
            cause: None,
            handler: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- kernel::new_spinlock!(state, "GpuHealth::state"),
                lost: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Reports that the GPU is wedged. The first report counts. Allocates nothing and does not
    /// wait.
    pub(crate) fn wedge(&self, cause: WedgeReport) {
        let handler = {
            let mut state = self.state.lock();
            if state.cause.is_some() {
                return;
            }
            state.cause = Some(cause);
            state.handler.clone()
        };
        if let Some(handler) = handler {
            handler.wedged();
        }
    }

    /// Why the GPU is wedged; `None` while it is healthy.
    pub(crate) fn cause(&self) -> Option<WedgeReport> {
        self.state.lock().cause
    }

    /// Sets the handler of reports, also of an earlier one; `None` removes it.
    pub(crate) fn listen(&self, handler: Option<Arc<dyn WedgeHandler>>) {
        let (before, late) = {
            let mut state = self.state.lock();
            let late = handler.clone().filter(|_| state.cause.is_some());
            (core::mem::replace(&mut state.handler, handler), late)
        };
        drop(before);
        if let Some(handler) = late {
            handler.wedged();
        }
    }

    /// Marks the GPU as lost: a reset has not recovered it, or its bus has failed. The driver can
    /// do nothing more.
    pub(crate) fn set_lost(&self) {
        self.lost.store(true, Relaxed);
    }

    /// Whether the GPU is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }
}
