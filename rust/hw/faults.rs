// SPDX-License-Identifier: GPL-2.0
//! The life of a retried page fault, and all that is decided about it.
//!
//! The IH's retry CAM lets one entry per page and process through, at a place of its own until that
//! place is acknowledged. Such a fault goes through these stages ([`FaultStage`]):
//!
//! | from | event | to | caused by |
//! |---|---|---|---|
//! | (any, or none) | an entry at the place | Raised | the interrupt thread |
//! | Raised, Awaits | [`FaultMove::Serve`] | Served | the process's work item, or a cancellation |
//! | Served | [`FaultMove::PutBack`] | Raised or Awaits | the same thread: the page is on its way |
//! | Served | [`FaultMove::End`] | Over | the same thread: then it acknowledges the place |
//!
//! A thread names the fault that it serves by its position in the interrupt ring. If the place
//! holds another fault by then, the event changes nothing: an overflow of the ring has every place
//! acknowledged, whatever its stage.
//!
//! A fault that waits on keeps its place, so that its entry does not come again and again. A place
//! that is kept is one less for all processes, and a page may never come. So only [`MOST_KEPT`] of
//! the places are kept, divided by a [`FairShare`]: [`PendingFaults::put_back`]. A fault beyond
//! that ends, and is raised again. All such faults of a process end together
//! ([`PendingFaults::release`]): a single free place would be taken by the same fault before that
//! of another process comes, while many are free for a moment.
//!
//! The decisions are functions of facts: [`FaultArrival`] of an entry, [`FaultReport`] of an access
//! that has no page, and [`FaultHistory`] for whether a bad address is news.

use core::ops::DerefMut;

use crate::ih::{CamEntry, HubKind, VmFault};
use crate::share::FairShare;

/// Places of the CAM that faults may keep while they wait for their pages, of all processes
/// together.
pub const MOST_KEPT: u64 = CamEntry::COUNT as u64 / 4;
/// The most of these of one process.
pub const MOST_KEPT_OF_ONE: u64 = 64;
/// Half of them are reserved for processes that keep few: two for each of 64.
const KEPT_SHARE: FairShare = FairShare::new(MOST_KEPT, MOST_KEPT / 2, 64);

/// What becomes of the retried page faults of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPolicy {
    /// They are errors.
    Error,
    /// What the process has there is mapped.
    Map,
    /// They end without a report: the process is at its end.
    End,
}

/// What is done about an access when its entry arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultArrival {
    /// It waits for its page.
    Wait,
    /// It is ended without a report.
    End,
    /// It is ended, and reported according to [`FaultReport`].
    Refuse,
}

impl FaultArrival {
    /// For an access that is `retried` or not, of a process with this `policy`; `cut_off` if the
    /// process has had a fault for which it has lost its address space.
    #[inline]
    pub const fn new(retried: bool, policy: FaultPolicy, cut_off: bool) -> Self {
        match (retried, policy, cut_off) {
            (true, FaultPolicy::Map, false) => Self::Wait,
            (true, FaultPolicy::End, _) => Self::End,
            (true, FaultPolicy::Error, _) | (true, FaultPolicy::Map, true) | (false, _, _) => {
                Self::Refuse
            }
        }
    }
}

/// How an access that has no page is reported and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultReport {
    /// Not reported: it follows from the first, since every address of the process faults then.
    /// Also if the entry comes when the process has already lost the VMID.
    Follows,
    /// Reported. It has ended by itself: the hub does not retry it, or a shader has given up or
    /// waits, and may be saved meanwhile.
    Report,
    /// Reported, and its VMID is cut off, so that nothing of the process is retried there.
    CutOff,
}

impl FaultReport {
    /// For an access in `hub`, `retried` or not, by a VMID of a process (`of_user`), which is
    /// `cut_off` or not.
    #[inline]
    pub const fn new(hub: HubKind, of_user: bool, retried: bool, cut_off: bool) -> Self {
        match (hub, of_user) {
            (HubKind::Mm, true) if cut_off => Self::Follows,
            (HubKind::Mm, true) if retried => Self::CutOff,
            _ => Self::Report,
        }
    }
}

/// How far the driver is with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultStage {
    /// To be served.
    Raised,
    /// A thread serves it.
    Served,
    /// To be served again; a program has to bring pages before that, or queues have to leave.
    Awaits,
    /// It ended at this time of boot, and the place is free. The access may still be on its way, or
    /// the page gone again before it came.
    Over {
        /// Milliseconds since boot.
        at_ms: u64,
    },
}

/// An event in the life of a fault that has been raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMove {
    /// A thread begins to serve it.
    Serve,
    /// It waits on.
    PutBack {
        /// The driver cannot bring the page by itself.
        awaits: bool,
    },
    /// Its place is about to be acknowledged. If there is no page by then, the fault is raised
    /// again.
    End {
        /// Milliseconds since boot.
        at_ms: u64,
    },
}

impl FaultStage {
    /// The stage after `event`; `None` if that cannot happen in this stage.
    #[inline]
    pub const fn after(self, event: FaultMove) -> Option<Self> {
        match (self, event) {
            (Self::Raised | Self::Awaits, FaultMove::Serve) => Some(Self::Served),
            (Self::Served, FaultMove::PutBack { awaits: false }) => Some(Self::Raised),
            (Self::Served, FaultMove::PutBack { awaits: true }) => Some(Self::Awaits),
            (Self::Served, FaultMove::End { at_ms }) => Some(Self::Over { at_ms }),
            _ => None,
        }
    }

    /// Whether the driver itself has to act on it, or did since `since_ms`.
    const fn is_under_way(self, since_ms: u64) -> bool {
        match self {
            Self::Raised | Self::Served => true,
            Self::Awaits => false,
            Self::Over { at_ms } => at_ms >= since_ms,
        }
    }
}

/// A fault at its place in the CAM, and its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingFault {
    fault: VmFault,
    position: u64,
    stage: FaultStage,
    wait: FaultWait,
}

/// What was decided about a fault's place when it was last put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultWait {
    /// It was not put back.
    Not,
    /// It keeps the place.
    Kept,
    /// It has the place until [`PendingFaults::release`].
    PutOff,
}

impl PendingFault {
    /// Whether it has ended.
    const fn is_over(&self) -> bool {
        matches!(self.stage, FaultStage::Over { .. })
    }

    /// Whether it keeps its place, or kept it before a thread began to serve it.
    const fn is_kept(&self) -> bool {
        matches!(self.wait, FaultWait::Kept) && !self.is_over()
    }
}

/// A fault that a thread serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedFault {
    /// What was accessed, and how.
    pub fault: VmFault,
    /// Its position in the interrupt ring.
    pub position: u64,
    /// Its place in the CAM.
    pub place: CamEntry,
}

/// How far a thread has come that serves each fault of a process once, by positions in the
/// interrupt ring: those before were served, those from the end on come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCursor {
    /// Of waves and the CP.
    gfx: u64,
    /// Of SDMA.
    mm: u64,
    end: u64,
}

impl FaultCursor {
    fn of(&mut self, hub: HubKind) -> &mut u64 {
        match hub {
            HubKind::Gfx => &mut self.gfx,
            HubKind::Mm => &mut self.mm,
        }
    }
}

/// Processes whose faults are urgent at a time: as many as there are VMIDs.
const MOST_URGENT: usize = 16;

/// A process whose faults are urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UrgentProcess {
    pasid: u16,
    /// How many times [`PendingFaults::set_urgent`] was called for it.
    count: u32,
}

/// The faults of a GPU by their place in the CAM, the last one at each, in a memory `S` of as many
/// places; and the processes whose faults are urgent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingFaults<S> {
    places: S,
    /// How many of them have a fault that is not over: nearly always none, and then no place needs
    /// a look.
    current: usize,
    urgent: [Option<UrgentProcess>; MOST_URGENT],
    /// No fault is served.
    suspended: bool,
}

impl<S: DerefMut<Target = [Option<PendingFault>]>> PendingFaults<S> {
    /// None; `places` holds `None` for each place.
    #[inline]
    pub fn new(places: S) -> Self {
        Self {
            places,
            current: 0,
            urgent: [None; MOST_URGENT],
            suspended: false,
        }
    }

    /// Sets whether no fault is served from now on. Those that come meanwhile wait, and those that
    /// threads are serving end as they would.
    #[inline]
    pub fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// Whether all faults are over.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.current == 0
    }

    /// Whether no fault is served.
    #[inline]
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Whether a thread is serving a fault.
    #[inline]
    pub fn is_any_served(&self) -> bool {
        let mut all = self.places.iter().flatten();
        !self.are_over() && all.any(|pending| pending.stage == FaultStage::Served)
    }

    /// The fault at `place`, if it is to be served.
    #[inline]
    pub fn waiting_at(&self, place: CamEntry) -> Option<VmFault> {
        let pending = self.places.get(place.index())?.as_ref()?;
        let waits = pending.stage.after(FaultMove::Serve).is_some();
        waits.then_some(pending.fault)
    }

    /// `fault`, at `position` of the interrupt ring, waits from now on. A fault that was at its
    /// place is forgotten: the place was acknowledged, and an access that is still retried has come
    /// again.
    #[inline]
    pub fn raise(&mut self, place: CamEntry, fault: VmFault, position: u64) {
        if let Some(pending) = self.places.get_mut(place.index()) {
            let before = pending.replace(PendingFault {
                fault,
                position,
                stage: FaultStage::Raised,
                wait: FaultWait::Not,
            });
            self.current += usize::from(before.is_none_or(|before| before.is_over()));
        }
    }

    /// A cursor for the faults of process `pasid` that there are now. Faults that are raised
    /// again by what the thread does are left for the next time, or it would never end.
    #[inline]
    pub fn cursor(&self, pasid: u16) -> FaultCursor {
        let mut end = 0;
        if !self.are_over() {
            let all = self.places.iter().flatten();
            let its = all.filter(|pending| pending.fault.pasid == pasid && !pending.is_over());
            end = its.map(|pending| pending.position + 1).max().unwrap_or(0);
        }
        FaultCursor { gfx: 0, mm: 0, end }
    }

    /// Begins to serve the next fault of process `pasid` that `seen` has not passed: SDMA's if the
    /// process's are urgent, or else the one that has waited longest. None while they are
    /// suspended. Looks at all places, unless there was none for the cursor.
    pub fn serve(&mut self, pasid: u16, seen: &mut FaultCursor) -> Option<ServedFault> {
        if self.suspended || self.are_over() || seen.end == 0 {
            return None;
        }
        let is_urgent = self.is_urgent(pasid);
        let all = CamEntry::all().zip(self.places.iter_mut());
        let its = all.filter_map(|(place, pending)| Some((place, pending.as_mut()?)));
        let its = its.filter_map(|(place, pending)| {
            let is_new = (*seen.of(pending.fault.hub)..seen.end).contains(&pending.position);
            let served = pending.stage.after(FaultMove::Serve);
            let served = served.filter(|_| pending.fault.pasid == pasid && is_new)?;
            Some((place, pending, served))
        });
        let (place, pending, served) = its.min_by_key(|(_, pending, _)| {
            let comes_first = is_urgent && pending.fault.hub == HubKind::Mm;
            (!comes_first, pending.position)
        })?;
        *seen.of(pending.fault.hub) = pending.position + 1;
        pending.stage = served;
        Some(ServedFault {
            fault: pending.fault,
            position: pending.position,
            place,
        })
    }

    /// The fault at `place`, if it has this `position`.
    fn at(&mut self, place: CamEntry, position: u64) -> Option<&mut PendingFault> {
        let pending = self.places.get_mut(place.index())?.as_mut();
        pending.filter(|pending| pending.position == position)
    }

    /// The fault at `place` that has this `position` is about to end, at time `at_ms` of boot;
    /// nothing happens if another is there.
    pub fn end(&mut self, place: CamEntry, position: u64, at_ms: u64) {
        let Some(pending) = self.at(place, position) else {
            return;
        };
        if let Some(stage) = pending.stage.after(FaultMove::End { at_ms }) {
            pending.stage = stage;
            self.current = self.current.saturating_sub(1);
        }
    }

    /// The fault at `place` that has this `position`, and that a thread serves, waits on; it
    /// `awaits` something that the driver cannot do by itself, or not. Returns `false` if too many
    /// places are kept: the fault has its place until [`PendingFaults::release`]. If another fault
    /// is at the place, nothing happens: that one stands for it. Looks at all places.
    pub fn put_back(&mut self, place: CamEntry, position: u64, awaits: bool) -> bool {
        let Some(&mut PendingFault { fault, stage, .. }) = self.at(place, position) else {
            return true;
        };
        let Some(after) = stage.after(FaultMove::PutBack { awaits }) else {
            return true;
        };
        let (mut all, mut own) = (0, 0);
        for (other, pending) in CamEntry::all().zip(self.places.iter()) {
            let is_kept = |pending: &&PendingFault| other != place && pending.is_kept();
            if let Some(pending) = pending.as_ref().filter(is_kept) {
                all += 1;
                own += u64::from(pending.fault.pasid == fault.pasid);
            }
        }
        let is_kept = own < MOST_KEPT_OF_ONE && KEPT_SHARE.allows(all, own, 1);
        if let Some(pending) = self.at(place, position) {
            pending.stage = after;
            pending.wait = if is_kept {
                FaultWait::Kept
            } else {
                FaultWait::PutOff
            };
        }
        is_kept
    }

    /// Ends the fault at `place` at time `at_ms` of boot, if it is one of process `pasid` that was
    /// put off, and that no thread serves. Returns whether it was: then the caller acknowledges the
    /// place.
    pub fn release(&mut self, place: CamEntry, pasid: u16, at_ms: u64) -> bool {
        let pending = self.places.get_mut(place.index()).and_then(Option::as_mut);
        let is_put_off = |pending: &&mut PendingFault| {
            pending.fault.pasid == pasid && pending.wait == FaultWait::PutOff
        };
        let Some(pending) = pending.filter(is_put_off) else {
            return false;
        };
        let served = pending.stage.after(FaultMove::Serve);
        let Some(over) = served.and_then(|stage| stage.after(FaultMove::End { at_ms })) else {
            return false;
        };
        pending.stage = over;
        self.current = self.current.saturating_sub(1);
        true
    }

    /// Whether there is a fault of process `pasid` for which the driver itself has to do something;
    /// or one that ended since `since_ms` and whose place has not been taken by another.
    #[inline]
    pub fn are_under_way(&self, pasid: u16, since_ms: u64) -> bool {
        let mut all = self.places.iter().flatten();
        all.any(|pending| pending.fault.pasid == pasid && pending.stage.is_under_way(since_ms))
    }

    /// Makes those of process `pasid` urgent; the key for [`PendingFaults::clear_urgent`], `None`
    /// if there is no room. A process has one place, however often this is called for it.
    #[inline]
    pub fn set_urgent(&mut self, pasid: u16) -> Option<usize> {
        let place = |is: &dyn Fn(&Option<UrgentProcess>) -> bool| self.urgent.iter().position(is);
        let its = place(&|urgent| urgent.is_some_and(|urgent| urgent.pasid == pasid));
        let key = its.or_else(|| place(&|urgent| urgent.is_none()))?;
        let before = self.urgent.get(key)?.map_or(0, |urgent| urgent.count);
        let count = before.checked_add(1)?;
        *self.urgent.get_mut(key)? = Some(UrgentProcess { pasid, count });
        Some(key)
    }

    /// Takes back one call of that.
    #[inline]
    pub fn clear_urgent(&mut self, key: usize) {
        if let Some(place) = self.urgent.get_mut(key) {
            *place = place.and_then(|urgent| {
                let count = urgent.count.checked_sub(1).filter(|&count| count != 0)?;
                Some(UrgentProcess { count, ..urgent })
            });
        }
    }

    /// Whether those of process `pasid` are urgent.
    #[inline]
    pub fn is_urgent(&self, pasid: u16) -> bool {
        let mut all = self.urgent.iter().flatten();
        all.any(|urgent| urgent.pasid == pasid)
    }
}

/// Why a fault at an address where the process has nothing is no error of a queue that it has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleFault {
    /// The process is changing its memory: it is to be looked at again.
    Changing,
    /// Queues were made or destroyed since it was raised: the one that came there may be gone.
    QueuesChanged,
    /// It was raised before the process last unmapped something, so the access may be over.
    Unmapped,
    /// Waves of the same queues have come to a bad address before, and are about to go.
    Reported,
}

/// What is known of the faults of a process on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultHistory {
    /// Those before this position of the interrupt ring may be of memory that was unmapped since.
    unmapped_at: u64,
    /// The count of the process's queues when waves there came to a bad address.
    failed: Option<u64>,
}

impl FaultHistory {
    /// None.
    #[inline]
    pub const fn new() -> Self {
        Self {
            unmapped_at: 0,
            failed: None,
        }
    }

    /// The process has unmapped something, and the end of the interrupt ring was at `position`
    /// after that.
    #[inline]
    pub fn set_unmapped(&mut self, position: u64) {
        self.unmapped_at = position;
    }

    /// Why a fault in `hub` at a bad address, at `position` of the interrupt ring, is stale, while
    /// the count of the process's queues is `queues`. If it is not, waves have failed now.
    #[inline]
    pub fn check(&mut self, hub: HubKind, position: u64, queues: u64) -> Option<StaleFault> {
        if position < self.unmapped_at {
            return Some(StaleFault::Unmapped);
        }
        let is_of_waves = hub == HubKind::Gfx;
        let is_reported = is_of_waves && self.failed.replace(queues) == Some(queues);
        is_reported.then_some(StaleFault::Reported)
    }
}
