// SPDX-License-Identifier: GPL-2.0
//! The queues of a process that may have caused its page fault.

use super::compute::suspect::{ComputeSuspect, UnreadSuspect};
use super::compute::{ComputeScheduler, QueuePlacement};
use super::sdma::slots::SdmaSlots;
use super::sdma::suspect::SdmaSuspect;
use core::fmt;
use hw::ih::{HubKind, VmFault};

/// The most queues that are shown.
const MOST: usize = 4;

/// A queue that may have caused a fault.
#[derive(Clone, Copy)]
pub(super) enum Suspect {
    Compute(ComputeSuspect),
    Sdma(SdmaSuspect),
}

/// Queues of one process, the most likely first.
#[derive(Clone, Copy)]
pub(super) struct Suspects([Option<Suspect>; MOST]);

impl Suspects {
    /// The queues of process `pasid` on the hardware that `fault` came from. May sleep.
    pub(super) fn of(
        pasid: u16,
        fault: &VmFault,
        slots: &SdmaSlots,
        compute: &dyn ComputeScheduler,
    ) -> Self {
        match fault.hub {
            HubKind::Mm => Self::of_sdma(pasid, fault.address(), slots),
            HubKind::Gfx => Self::of_compute(pasid, compute),
        }
    }

    /// Those of SDMA with packets that are not done, and first the one with a packet for the page.
    fn of_sdma(pasid: u16, page: u64, slots: &SdmaSlots) -> Self {
        let mut list = [None; MOST];
        slots.suspects(pasid, page, |suspect| {
            if suspect.touches() && list[0].is_some() {
                list.rotate_right(1);
                list[0] = Some(Suspect::Sdma(suspect));
            } else if suspect.is_busy() {
                if let Some(place) = list.iter_mut().find(|place| place.is_none()) {
                    *place = Some(Suspect::Sdma(suspect));
                }
            }
        });
        Self(list)
    }

    /// Those of the CP with packets that are not done; any, if there are none: the CP may be
    /// through with the packet of a wave that has faulted.
    fn of_compute(pasid: u16, compute: &dyn ComputeScheduler) -> Self {
        let mut unread: [Option<UnreadSuspect>; MOST] = [const { None }; MOST];
        let mut add = |which: fn(&QueuePlacement<'_>) -> bool| {
            // The callback has no errors.
            let _ = compute.states(&mut |queue| {
                if queue.owner().pasid == pasid && which(queue) {
                    if let Some(place) = unread.iter_mut().find(|place| place.is_none()) {
                        *place = Some(queue.suspect());
                    }
                }
                Ok(())
            });
            unread[0].is_some()
        };
        if !add(|queue| queue.is_busy()) {
            add(|queue| queue.pointers().1 != 0);
        }
        Self(unread.map(|suspect| suspect.map(|suspect| Suspect::Compute(suspect.read()))))
    }

    /// The most likely one.
    pub(super) fn first(&self) -> Option<&Suspect> {
        self.0[0].as_ref()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Suspect> {
        self.0.iter().flatten()
    }
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute(suspect) => suspect.fmt(f),
            Self::Sdma(suspect) => suspect.fmt(f),
        }
    }
}
