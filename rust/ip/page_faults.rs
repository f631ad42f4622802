// SPDX-License-Identifier: GPL-2.0
//! Page faults that are retried until somebody has mapped the page: those that wait for that. The IH's retry CAM lets one through for a
//! page and a process, with a place of its own until that is acknowledged. So there is room for all of them.

use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

use hw::ih::{CamEntry, HubKind, VmFault};

use super::ih::registers::cam_doorbell;
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::host;

/// A fault whose page somebody is to map. It is acknowledged when this is dropped; if there is no page by then, it comes again.
pub(crate) struct PageFault {
    /// What was accessed, and how.
    pub(crate) fault: VmFault,
    /// Where it was in the interrupt ring, see [`Ih::position`](super::ih::Ih::position).
    pub(crate) position: u64,
    /// None when it waits on.
    place: Option<CamEntry>,
    of: Arc<PageFaults>,
}

impl PageFault {
    /// It waits on, for somebody who is not the driver if it `awaits` that, unless one has come to its place meanwhile: then that is it.
    pub(crate) fn put_back(mut self, awaits: bool) {
        if let Some(place) = self.place.take() {
            let stage = match awaits {
                true => FaultStage::Awaits,
                false => FaultStage::Waits,
            };
            self.release_place(place, stage);
        }
    }

    /// What becomes of its place, if it is still its.
    fn release_place(&self, place: CamEntry, stage: FaultStage) {
        let mut state = self.of.state.lock();
        let waiting = state.slots.get_mut(place.index()).and_then(Option::as_mut);
        let is_its = |waiting: &&mut WaitingFault| {
            waiting.stage == FaultStage::Served && waiting.position == self.position
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
            self.release_place(place, FaultStage::Over { at_ms });
            self.of.acknowledge(place);
        }
    }
}

/// How far the driver is with a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultStage {
    /// It is to be looked at.
    Waits,
    /// Somebody is at it.
    Served,
    /// It is to be looked at again, and somebody else has to do something first: a program that brings pages, or queues that have to leave.
    Awaits,
    /// It was dealt with then; the place is free. The access may still be on its way, or the page gone again before it came.
    Over { at_ms: u64 },
}

struct WaitingFault {
    fault: VmFault,
    position: u64,
    stage: FaultStage,
}

/// Queues whose process's faults are urgent at a time, about one on each engine. Those of more are dealt with as they come.
const MOST_URGENT: usize = 8;

struct PageFaultsState {
    /// By the place in the CAM: the last one there.
    slots: KVec<Option<WaitingFault>>,
    /// The processes whose faults are [`UrgentFaults`], by PASID.
    urgent: [Option<u16>; MOST_URGENT],
}

impl PageFaultsState {
    fn is_urgent(&self, pasid: u16) -> bool {
        self.urgent.contains(&Some(pasid))
    }
}

/// Others wait for an SDMA engine on which a process's queue stands at page faults, until this is dropped: those come first of the process's, and
/// memory does not move for any of them, which takes much longer than to map it where it is.
pub(crate) struct UrgentFaults {
    of: Arc<PageFaults>,
    /// None: there was no room.
    place: Option<usize>,
}

impl Drop for UrgentFaults {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        let its = self.place.and_then(|place| state.urgent.get_mut(place));
        if let Some(its) = its {
            *its = None;
        }
    }
}

/// How far somebody has come who looks at each fault of a process once: those in the interrupt ring before were looked at.
#[derive(Default)]
pub(crate) struct FaultCursor {
    /// Of waves and the CP.
    gfx: u64,
    /// Of SDMA.
    mm: u64,
}

impl FaultCursor {
    fn of(&mut self, hub: HubKind) -> &mut u64 {
        match hub {
            HubKind::Gfx => &mut self.gfx,
            HubKind::Mm => &mut self.mm,
        }
    }
}

/// Those that wait. Its lock is innermost, and nothing is allocated under it.
#[pin_data]
pub(crate) struct PageFaults {
    doorbells: Arc<DoorbellMap>,
    #[pin]
    state: SpinLock<PageFaultsState>,
}

impl PageFaults {
    /// None. ENOMEM.
    pub(super) fn new(doorbells: &Arc<DoorbellMap>) -> Result<Arc<Self>> {
        let mut slots = KVec::with_capacity(CamEntry::COUNT, GFP_KERNEL)?;
        for _ in 0..CamEntry::COUNT {
            slots.push(None, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                doorbells: doorbells.clone(),
                state <- new_spinlock!(PageFaultsState { slots, urgent: [None; MOST_URGENT] }, "PageFaults::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// `fault`, which was at `position` of the interrupt ring, waits from now on. One that was at its place is forgotten: the place was
    /// acknowledged, and who still retries that has come again.
    pub(super) fn put(&self, place: CamEntry, fault: VmFault, position: u64) {
        if let Some(slot) = self.state.lock().slots.get_mut(place.index()) {
            *slot = Some(WaitingFault {
                fault,
                position,
                stage: FaultStage::Waits,
            });
        }
    }

    /// The next of process `pasid` that nobody has `seen`: that of SDMA if they are urgent, or else the one that has waited longest. It looks at all
    /// places, of which there are a thousand.
    pub(crate) fn next_fault(
        self: &Arc<Self>,
        pasid: u16,
        seen: &mut FaultCursor,
    ) -> Option<PageFault> {
        let mut state = self.state.lock();
        let is_urgent = state.is_urgent(pasid);
        let its = state.slots.iter_mut().zip(CamEntry::all());
        let its = its.filter_map(|(slot, place)| Some((slot.as_mut()?, place)));
        let its = its.filter(|(waiting, _)| {
            let is_new = waiting.position >= *seen.of(waiting.fault.hub);
            let is_its = waiting.fault.pasid == pasid && is_new;
            is_its && matches!(waiting.stage, FaultStage::Waits | FaultStage::Awaits)
        });
        let (waiting, place) = its.min_by_key(|(waiting, _)| {
            let comes_first = is_urgent && waiting.fault.hub == HubKind::Mm;
            (!comes_first, waiting.position)
        })?;
        *seen.of(waiting.fault.hub) = waiting.position + 1;
        waiting.stage = FaultStage::Served;
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
            FaultStage::Waits | FaultStage::Served => true,
            FaultStage::Awaits => false,
            FaultStage::Over { at_ms } => at_ms >= since_ms,
        };
        let state = self.state.lock();
        let mut all = state.slots.iter().flatten();
        all.any(|waiting| waiting.fault.pasid == pasid && is_under_way(waiting.stage))
    }

    /// Those of process `pasid` are urgent from now on.
    pub(crate) fn set_urgent(self: &Arc<Self>, pasid: u16) -> UrgentFaults {
        let mut state = self.state.lock();
        let place = state.urgent.iter().position(Option::is_none);
        if let Some(its) = place.and_then(|place| state.urgent.get_mut(place)) {
            *its = Some(pasid);
        }
        drop(state);
        UrgentFaults {
            of: self.clone(),
            place,
        }
    }

    /// Whether those of process `pasid` are [`UrgentFaults`].
    pub(crate) fn are_urgent(&self, pasid: u16) -> bool {
        self.state.lock().is_urgent(pasid)
    }

    /// Those of process `pasid` wait no longer: what of them is still retried comes again.
    pub(crate) fn cancel(self: &Arc<Self>, pasid: u16) {
        while let Some(fault) = self.next_fault(pasid, &mut FaultCursor::default()) {
            drop(fault);
        }
    }

    /// Lets the CAM have another one at `place`. Any context.
    pub(super) fn acknowledge(&self, place: CamEntry) {
        self.doorbells
            .ring32(cam_doorbell().byte() as u32, place.acknowledgement());
    }
}
