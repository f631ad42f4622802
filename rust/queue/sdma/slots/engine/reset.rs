// SPDX-License-Identifier: GPL-2.0
//! The reset of an engine that a packet keeps: whose queue did it has failed, with all others of its process; the other
//! queues go on from where the hardware has left them.

use super::super::super::hw_queue::SdmaHwQueue;
use super::super::SdmaSeat;
use super::{EngineSlots, SLOTS};
use crate::health::{SuspectQueue, WedgeReport, WedgedPart};
use crate::ip::Hardware;
use crate::kern::ratelimit::dev_err_ratelimited;
use crate::ring::KernelRings;
use kernel::prelude::*;
use kernel::sync::Arc;

impl EngineSlots {
    /// A queue whose seat is `Leaving(slot)` does not leave: the engine is reset. The queue has failed, and so have all
    /// others of its process, which might do the same next.
    pub(super) fn hangs(self: &Arc<Self>, rlc: &SdmaHwQueue, slot: u8, error: Error) {
        dev_err_ratelimited!(
            &*rlc.gpu.hw.dev,
            "sdma{}: slot {slot} hangs with queue {} of process {}: {error:?}: the engine is reset\n",
            self.number,
            rlc.owner.queue,
            rlc.owner.pid
        );
        rlc.gpu.queue_hung(rlc.owner.pasid, c"SDMA queue hang", || {
            let suspect = Some(rlc.owner.suspect());
            let reset = self.reset(&rlc.gpu.hw, Some(&rlc.gpu.rings), suspect);
            rlc.fail(EIO);
            rlc.gpu.slots.fail(None, rlc.owner.pasid, EIO);
            self.seat(
                rlc,
                match reset {
                    Ok(()) => SdmaSeat::Out,
                    // Kept, with the memory and the VMID that the engine may still use.
                    Err(_) => SdmaSeat::Stuck(slot),
                },
            );
        });
        self.wake();
    }

    /// Resets the engine, whatever it is at: its queues are out, where the hardware has left them, but for those that
    /// somebody is taking out. The kernel's ring goes on at once, if it is one of `rings`, the others at their next turn. Sleeps, allocates nothing. EIO when
    /// the engine does not come to rest; then nothing runs on it any more, and the GPU is wedged, perhaps by `suspect`.
    pub(in super::super) fn reset(
        self: &Arc<Self>,
        hw: &Hardware,
        rings: Option<&KernelRings>,
        suspect: Option<SuspectQueue>,
    ) -> Result {
        let _hardware = self.hardware.lock();
        let stopped = self.sdma(hw).reset();
        let out = {
            let mut state = self.state.lock();
            state.lost |= stopped.is_err();
            let mut out = [const { None }; SLOTS];
            for (slot, place) in out.iter_mut().enumerate() {
                let Some(entry) = state.seated_mut(slot) else {
                    continue;
                };
                if let SdmaSeat::In(slot) = entry.seat {
                    entry.seat = SdmaSeat::Leaving(slot);
                    *place = Some((entry.rlc.clone(), slot));
                }
            }
            out
        };
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
            for (rlc, slot) in out.into_iter().flatten() {
                rlc.fail(EIO);
                self.seat(&rlc, SdmaSeat::Stuck(slot));
            }
            return Err(EIO);
        }
        for (rlc, slot) in out.into_iter().flatten() {
            self.is_out(&rlc, self.sdma(hw).rptr(slot));
        }
        if let Some(rings) = rings {
            rings.resume(self.number);
        }
        self.sdma(hw).run();
        self.wake();
        Ok(())
    }
}
