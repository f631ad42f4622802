// SPDX-License-Identifier: GPL-2.0
//! Page faults that are retried until somebody has mapped the page: those that wait for that. The IH's retry CAM lets one through for a
//! page and a process, with a place of its own until that is acknowledged. So there is room for all of them.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use hw::doorbell::{Doorbell, SliceIndex, Slot};
use hw::ih::{CamPlace, VmFault};

use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::host;

/// A fault whose page somebody is to map. It is acknowledged when this is dropped; if there is no page by then, it comes again.
pub(crate) struct PageFault {
    /// What was accessed, and how.
    pub(crate) fault: VmFault,
    /// Where it was in the interrupt ring, see [`Ih::position`](super::ih::Ih::position).
    pub(crate) position: u64,
    /// None when it waits on.
    place: Option<CamPlace>,
    of: Arc<PageFaults>,
}

impl PageFault {
    /// It waits on, for somebody who is not the driver if it `awaits` that, unless one has come to its place meanwhile: then that is it.
    pub(crate) fn put_back(mut self, awaits: bool) {
        if let Some(place) = self.place.take() {
            let stage = match awaits {
                true => Stage::Awaits,
                false => Stage::Waits,
            };
            self.leave_to(place, stage);
        }
    }

    /// What becomes of its place, if it is still its.
    fn leave_to(&self, place: CamPlace, stage: Stage) {
        let mut state = self.of.state.lock();
        let waiting = state.slots.get_mut(place.index()).and_then(Option::as_mut);
        let is_its = |waiting: &&mut Waiting| {
            waiting.stage == Stage::Served && waiting.position == self.position
        };
        if let Some(waiting) = waiting.filter(is_its) {
            waiting.stage = stage;
        }
    }
}

impl Drop for PageFault {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let at_ms = host::boot_ms();
            self.leave_to(place, Stage::Over { at_ms });
            self.of.acknowledge(place);
        }
    }
}

/// How far the driver is with a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is to be looked at.
    Waits,
    /// Somebody is at it.
    Served,
    /// It is to be looked at again, and somebody else has to do something first: a program that brings pages, or queues that have to leave.
    Awaits,
    /// It was dealt with then; the place is free. The access may still be on its way, or the page gone again before it came.
    Over { at_ms: u64 },
}

struct Waiting {
    fault: VmFault,
    position: u64,
    stage: Stage,
}

struct State {
    /// By the place in the CAM: the last one there.
    slots: KVec<Option<Waiting>>,
}

/// Those that wait. Its lock is innermost, and nothing is allocated under it.
#[pin_data]
pub(crate) struct PageFaults {
    doorbells: Arc<DoorbellMap>,
    #[pin]
    state: SpinLock<State>,
}

impl PageFaults {
    /// None. ENOMEM.
    pub(super) fn new(doorbells: &Arc<DoorbellMap>) -> Result<Arc<Self>> {
        let mut slots = KVec::with_capacity(CamPlace::COUNT, GFP_KERNEL)?;
        for _ in 0..CamPlace::COUNT {
            slots.push(None, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                doorbells: doorbells.clone(),
                state <- new_spinlock!(State { slots }, "PageFaults::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// `fault`, which was at `position` of the interrupt ring, waits from now on. One that was at its place is forgotten: the place was
    /// acknowledged, and who still retries that has come again.
    pub(super) fn put(&self, place: CamPlace, fault: VmFault, position: u64) {
        if let Some(slot) = self.state.lock().slots.get_mut(place.index()) {
            *slot = Some(Waiting {
                fault,
                position,
                stage: Stage::Waits,
            });
        }
    }

    /// The one of process `pasid` that has waited longest, of those that came at position `from` of the interrupt ring or later. It looks at all
    /// places, of which there are a thousand.
    pub(crate) fn take(self: &Arc<Self>, pasid: u16, from: u64) -> Option<PageFault> {
        let mut state = self.state.lock();
        let its = state.slots.iter_mut().zip(CamPlace::all());
        let its = its.filter_map(|(slot, place)| Some((slot.as_mut()?, place)));
        let its = its.filter(|(waiting, _)| {
            let is_its = waiting.fault.pasid == pasid && waiting.position >= from;
            is_its && matches!(waiting.stage, Stage::Waits | Stage::Awaits)
        });
        let (waiting, place) = its.min_by_key(|(waiting, _)| waiting.position)?;
        waiting.stage = Stage::Served;
        let (fault, position) = (waiting.fault, waiting.position);
        drop(state);
        Some(PageFault {
            fault,
            position,
            place: Some(place),
            of: self.clone(),
        })
    }

    /// Whether there are some of process `pasid` that the driver is to see to, or is at, and for which it waits for nobody else; or was at since
    /// `since_ms`, by [`host::boot_ms`], so far as their places were not taken by others.
    pub(crate) fn are_under_way(&self, pasid: u16, since_ms: u64) -> bool {
        let is_under_way = |stage| match stage {
            Stage::Waits | Stage::Served => true,
            Stage::Awaits => false,
            Stage::Over { at_ms } => at_ms >= since_ms,
        };
        let state = self.state.lock();
        let mut all = state.slots.iter().flatten();
        all.any(|waiting| waiting.fault.pasid == pasid && is_under_way(waiting.stage))
    }

    /// Those of process `pasid` wait no longer: what of them is still retried comes again.
    pub(crate) fn forget(self: &Arc<Self>, pasid: u16) {
        while let Some(fault) = self.take(pasid, 0) {
            drop(fault);
        }
    }

    /// Lets the CAM have another one at `place`. Any context.
    pub(super) fn acknowledge(&self, place: CamPlace) {
        self.doorbells
            .ring32(doorbell().byte() as u32, place.acknowledgement());
    }
}

/// The CAM's doorbell.
pub(super) const fn doorbell() -> Doorbell {
    SliceIndex::KERNEL.doorbell(Slot::IH_RETRY_CAM)
}
