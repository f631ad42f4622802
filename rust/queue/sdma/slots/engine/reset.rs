// SPDX-License-Identifier: GPL-2.0
//! The reset of an engine that a packet keeps busy. The queue that hangs has failed, with all
//! others of its process; the other queues go on from where the hardware has left them.

use super::super::super::hw_queue::SdmaHwQueue;
use super::entry::QueueKey;
use super::{EngineSlots, MAX_SLOTS};
use crate::health::{SuspectQueue, WedgeReport, WedgedPart};
use crate::ip::Hardware;
use crate::kern::ratelimit::dev_err_ratelimited;
use crate::queue::gpu::QueueGpu;
use crate::queue::request::QueueOwner;
use crate::ring::KernelRings;
use hw::seat::Seat;
use kernel::prelude::*;
use kernel::sync::{Arc, MutexGuard};

/// A queue that keeps its engine busy.
struct HungQueue {
    owner: QueueOwner,
    slot: u8,
    gpu: Arc<QueueGpu>,
}

impl EngineSlots {
    /// Resets the engine because the queue `key` does not leave its slot. The queue that the engine
    /// is at has failed, and so have all others of its process, which might do the same next. May
    /// sleep.
    pub(super) fn hangs(self: &Arc<Self>, key: &QueueKey) {
        let hardware = self.hardware.lock();
        let Some(hung) = self.culprit(key) else {
            return;
        };
        let HungQueue { owner, slot, gpu } = hung;
        dev_err_ratelimited!(
            process owner.pid,
            &*gpu.hw.dev,
            "sdma{}: slot {slot} hangs with queue {} of process {}: {:?}: the engine is reset\n",
            self.number,
            owner.queue,
            owner.pid,
            ETIMEDOUT
        );
        gpu.queue_hung(owner.pasid, c"SDMA queue hang", || {
            let fail = || {
                gpu.slots.fail(None, owner.pasid, EIO);
            };
            // A failure is logged there.
            let suspect = Some(owner.suspect());
            let _ = self.reset_locked(hardware, &gpu.hw, Some(&gpu.rings), suspect, fail);
            fail();
        });
    }

    /// The queue because of which the queue `key` does not leave: the one that the engine is at, or
    /// else itself. `None` if it has left meanwhile. With `hardware` locked.
    ///
    /// The engine's processor may have to get through with the packet of one queue before it says
    /// that another, which was turned off, is idle.
    fn culprit(&self, key: &QueueKey) -> Option<HungQueue> {
        let state = self.state.lock();
        let (_, late) = state.next_from(key).filter(|(found, _)| found == key)?;
        let Seat::Leaving(own, _) = *late.state.seat() else {
            return None;
        };
        let at = late.rlc.sdma().selected();
        let selected = at.and_then(|slot| Some((slot, state.seated_at(slot)?.1)));
        let (slot, entry) = selected.unwrap_or((own, late));
        Some(HungQueue {
            owner: entry.rlc.owner,
            slot,
            gpu: entry.rlc.gpu.clone(),
        })
    }

    /// Resets the engine, whatever it is at. Its queues are out, where the hardware has left them.
    /// If the kernel's ring is one of `rings` it goes on at once; the queues go on at their next
    /// turn. May sleep, allocates nothing.
    ///
    /// # Errors
    ///
    /// `EIO` when the engine does not come to rest. Then nothing runs on it any more, and the GPU
    /// is wedged, perhaps by `suspect`.
    pub(in super::super) fn reset(
        self: &Arc<Self>,
        hw: &Hardware,
        rings: Option<&KernelRings>,
        suspect: Option<SuspectQueue>,
    ) -> Result {
        self.reset_locked(self.hardware.lock(), hw, rings, suspect, || {})
    }

    /// The same, with `hardware` locked. `at_rest` is called when the engine has come to rest and
    /// its queues still count as being on it, so that no thread moves their memory yet.
    fn reset_locked(
        self: &Arc<Self>,
        _hardware: MutexGuard<'_, ()>,
        hw: &Hardware,
        rings: Option<&KernelRings>,
        suspect: Option<SuspectQueue>,
        at_rest: impl FnOnce(),
    ) -> Result {
        let sdma = self.sdma(hw);
        let mut state = self.state.lock();
        // There is no other reset, as `hardware` is locked.
        let permit = state.table.begin_reset().ok_or(EBUSY)?;
        state.take_by_reset();
        drop(state);

        let stopped = sdma.reset();
        let works = stopped.is_ok();
        let slots = core::array::from_fn::<_, MAX_SLOTS, _>(|slot| slot as u8);
        let rptrs = slots.map(|slot| if works { sdma.rptr(slot) } else { 0 });
        if works {
            at_rest();
        }

        let mut state = self.state.lock();
        if !works {
            state.table.set_lost();
        }
        state.end_reset(&rptrs, works);
        state.table.end_reset(permit);
        drop(state);
        self.changed.notify_all();
        if works {
            if let Some(rings) = rings {
                rings.resume(self.number);
            }
            sdma.run();
            self.wake();
            return Ok(());
        }
        dev_err!(
            hw.dev,
            "sdma{}: the engine does not come to rest: nothing runs on it any more\n",
            self.number
        );
        if let Some(rings) = rings {
            rings.set_dead(self.number);
        }
        hw.health.wedge(WedgeReport {
            part: WedgedPart::Sdma(self.number),
            suspect,
        });
        // They are kept, with the memory and the VMIDs that the engine may still use.
        self.poll_seated(|rlc: &SdmaHwQueue| rlc.fail(EIO));
        Err(EIO)
    }
}
