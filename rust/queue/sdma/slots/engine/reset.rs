// SPDX-License-Identifier: GPL-2.0
//! The reset of an engine that a packet keeps busy. The queue that hangs has failed, with all
//! others of its process; the other queues go on from where the hardware has left them.

use super::super::super::hw_queue::SdmaHwQueue;
use super::entry::QueueKey;
use super::{EngineSlots, MAX_SLOTS};
use crate::health::{SuspectQueue, WedgeReport, WedgedPart};
use crate::ip::Hardware;
use crate::kern::ratelimit::dev_err_ratelimited;
use crate::ring::KernelRings;
use hw::sdma::seat::{SeatAction, SeatEvent, UnloadPermit};
use kernel::prelude::*;
use kernel::sync::Arc;

impl EngineSlots {
    /// Resets the engine because a queue that leaves its slot does not leave it. The queue has
    /// failed, and so have all others of its process, which might do the same next.
    pub(super) fn hangs(
        self: &Arc<Self>,
        rlc: Arc<SdmaHwQueue>,
        permit: UnloadPermit,
        error: Error,
    ) {
        dev_err_ratelimited!(
            process rlc.owner.pid,
            &*rlc.gpu.hw.dev,
            "sdma{}: slot {} hangs with queue {} of process {}: {error:?}: the engine is reset\n",
            self.number,
            permit.slot(),
            rlc.owner.queue,
            rlc.owner.pid
        );
        let gpu = rlc.gpu.clone();
        let owner = rlc.owner;
        gpu.queue_hung(owner.pasid, c"SDMA queue hang", || {
            let reset = self.reset(&gpu.hw, Some(&gpu.rings), Some(owner.suspect()));
            rlc.fail(EIO);
            gpu.slots.fail(None, owner.pasid, EIO);
            let event = match reset {
                Ok(()) => {
                    self.give_up_vmid(&rlc);
                    SeatEvent::Left(permit)
                }
                // Kept, with the memory and the VMID that the engine may still use.
                Err(_) => SeatEvent::EngineLost(permit),
            };
            let _ = self.report(rlc, event);
        });
        self.wake();
    }

    /// Resets the engine, whatever it is at. Its queues are out, where the hardware has left them,
    /// but for those that another thread takes out. If the kernel's ring is one of `rings` it goes
    /// on at once; the queues go on at their next turn. May sleep, allocates nothing.
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
        let _hardware = self.hardware.lock();
        let stopped = self.sdma(hw).reset();
        let mut out = [const { None }; MAX_SLOTS];
        {
            let mut state = self.state.lock();
            if stopped.is_err() {
                state.table.set_lost();
            }
            for (place, slot) in out.iter_mut().zip(0..) {
                let Some(rlc) = state.table.slots().get(slot).cloned() else {
                    continue;
                };
                let change = state.apply(&QueueKey::of(&rlc), SeatEvent::TakeByReset);
                if let Some(SeatAction::Collect(permit)) = change.map(|change| change.step.action) {
                    *place = Some((rlc, permit));
                }
            }
        }
        if stopped.is_err() {
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
            for (rlc, permit) in out.into_iter().flatten() {
                rlc.fail(EIO);
                let _ = self.report(rlc, SeatEvent::EngineLost(permit));
            }
            return Err(EIO);
        }
        for (rlc, permit) in out.into_iter().flatten() {
            let rptr = self.sdma(hw).rptr(permit.slot());
            self.is_out(rlc, permit, rptr);
        }
        if let Some(rings) = rings {
            rings.resume(self.number);
        }
        self.sdma(hw).run();
        self.wake();
        Ok(())
    }
}
