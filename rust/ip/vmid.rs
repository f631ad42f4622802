// SPDX-License-Identifier: GPL-2.0
//! VMIDs: the sixteen address spaces that the hubs know at a time, and how processes take turns on those that the driver
//! gives away.
//!
//! Who wants one and finds none waits in a line. As long as the line is not served, VMIDs are *wanted*: queues without work
//! are to leave the hardware, and the lease that is oldest is *recalled* once its process has had its turn: all queues
//! of that process are to leave. A VMID that comes free is for the first of the line.

use core::iter;

use hw::asic::VmidSplit;
use hw::latency_average::LatencyAverage;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{Delta, Instant, Monotonic};

use crate::kern::params::SchedulerMode;
use crate::ledger::{Ledger, LedgerHold, LedgerKind};
use crate::regs::hub::VMIDS;

/// VMIDs of a hub: registers and interrupts have four bits for them.
const COUNT: u8 = 16;
const _: () = assert!(COUNT as u32 == VMIDS);

/// The most processes that wait: as many as there may be queues, of either kind. Who finds no room behind them could be
/// overtaken for ever by those that come back.
const MOST_WAITING: usize = 12288;
/// How often who waits has to ask at least, to keep the place in the line, milliseconds: longer than a work item is kept
/// from running.
const PATIENCE_MS: i64 = 500;
/// How often it is told to, milliseconds.
const ASK_MS: i64 = 25;
/// A VMID is kept at least for so many times as long as it takes to give all of them to other processes, so that where registers
/// are slow a third of one processor's time goes into that.
const KEPT_HANDOVERS: i64 = 3;
/// And at most so long for that, milliseconds.
const MOST_KEPT_MS: i64 = 1000;
/// How long a process is expected to take to give a VMID up, milliseconds.
const LEAVE_MS: i64 = 100;

/// A VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vmid(u8);

impl Vmid {
    /// The kernel's.
    pub(crate) const KERNEL: Self = Self(0);

    /// VMID `number`, if there is one.
    pub(crate) const fn new(number: u8) -> Option<Self> {
        if number < COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number, 0 to 15.
    pub(crate) const fn get(self) -> u8 {
        self.0
    }

    /// Those of `split` that the firmware gives to processes, where it schedules.
    pub(crate) fn of_firmware(split: &VmidSplit) -> impl Iterator<Item = Self> + Clone {
        (split.first_of_firmware..=split.last).filter_map(Self::new)
    }
}

/// Whether it is a process's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VmidTurn {
    /// It has a VMID, or gets one.
    Now,
    /// It is to ask again in so many milliseconds, or when [`VmidUser::changed`] is called.
    In(i64),
}

/// The processes whose turn it is.
#[derive(Default)]
pub(crate) struct DueProcesses {
    pasids: [u16; COUNT as usize],
    count: usize,
}

impl DueProcesses {
    fn add(&mut self, pasid: u16) {
        if let Some(place) = self.pasids.get_mut(self.count) {
            *place = pasid;
            self.count += 1;
        }
    }

    /// Their PASIDs.
    pub(crate) fn pasids(&self) -> impl Iterator<Item = u16> + '_ {
        self.pasids.iter().take(self.count).copied()
    }
}

/// Who has queues on the hardware, or wants to have some there.
pub(crate) trait VmidUser: Send + Sync {
    /// A VMID is free, wanted or recalled: looks anew at its queues. Any context; waits for nothing.
    fn changed(&self);
}

/// A VMID that a process has.
struct LeaseRecord {
    pasid: u16,
    since: Instant<Monotonic>,
    recalled: Option<Instant<Monotonic>>,
}

impl LeaseRecord {
    /// Whether it can be counted on to end soon.
    fn is_ending(&self) -> bool {
        self.recalled
            .is_some_and(|when| when.elapsed().as_millis() < LEAVE_MS)
    }
}

/// A process that waits.
struct VmidWaiter {
    pasid: u16,
    /// When it has last asked.
    seen: Instant<Monotonic>,
}

struct VmidPoolState {
    leases: [Option<LeaseRecord>; COUNT as usize],
    /// The driver's VMIDs.
    first: u8,
    last: u8,
    /// The line: the first has waited longest.
    line: KVVec<VmidWaiter>,
    /// When those were last looked for that do not ask any more.
    tidied: Instant<Monotonic>,
    /// How long it usually takes to give a process's page tables to a VMID, or to take them away.
    change: LatencyAverage,
}

impl VmidPoolState {
    fn leases(&self) -> impl Iterator<Item = &Option<LeaseRecord>> {
        self.leases
            .get(self.first.into()..=self.last.into())
            .into_iter()
            .flatten()
    }

    fn free(&self) -> usize {
        self.leases().filter(|lease| lease.is_none()).count()
    }

    /// How many are free now, or are expected to be soon.
    fn expected(&self) -> usize {
        let is_expected =
            |lease: &&Option<LeaseRecord>| lease.as_ref().is_none_or(LeaseRecord::is_ending);
        self.leases().filter(is_expected).count()
    }

    fn has(&self, pasid: u16) -> Option<&LeaseRecord> {
        self.leases().flatten().find(|lease| lease.pasid == pasid)
    }

    /// Forgets who has not asked for long: it has nothing to do any more, or is gone.
    fn remove_stale(&mut self) {
        // Queues ask often, and the line can be long.
        if self.tidied.elapsed().as_millis() < ASK_MS {
            return;
        }
        let now = Instant::now();
        self.tidied = now;
        self.line
            .retain(|waiter| (now - waiter.seen).as_millis() < PATIENCE_MS);
    }

    fn place(&self, pasid: u16) -> Option<usize> {
        self.line.iter().position(|waiter| waiter.pasid == pasid)
    }

    /// How long a lease is kept at least, milliseconds.
    fn least_kept(&self) -> i64 {
        let all = i64::from(self.last - self.first) + 1;
        self.change
            .times_ms(2 * all * KEPT_HANDOVERS)
            .min(MOST_KEPT_MS)
    }

    /// The lease that is to be recalled next.
    fn oldest(&mut self) -> Option<&mut LeaseRecord> {
        self.leases
            .get_mut(self.first.into()..=self.last.into())?
            .iter_mut()
            .flatten()
            .filter(|lease| lease.recalled.is_none())
            .max_by_key(|lease| lease.since.elapsed().as_nanos())
    }
}

/// Who has which of the driver's VMIDs, and who waits.
#[pin_data]
pub(crate) struct VmidPool {
    ledger: Arc<Ledger>,
    #[pin]
    watch: SpinLock<Option<Arc<dyn VmidUser>>>,
    #[pin]
    state: SpinLock<VmidPoolState>,
}

impl VmidPool {
    /// None leased. Some are the firmware's if `sched` says that it schedules. ENOMEM.
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        split: &VmidSplit,
        sched: SchedulerMode,
    ) -> Result<Arc<Self>> {
        let ledger = ledger.clone();
        let last = match sched {
            SchedulerMode::Direct => split.last,
            SchedulerMode::Hws => split.first_of_firmware - 1,
        };
        let state = VmidPoolState {
            leases: [const { None }; COUNT as usize],
            first: split.first,
            last,
            line: KVVec::with_capacity(MOST_WAITING, GFP_KERNEL)?,
            tidied: Instant::now(),
            change: LatencyAverage::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                ledger,
                watch <- new_spinlock!(None, "VmidPool::watch"),
                state <- new_spinlock!(state, "VmidPool::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Says who has queues, or that nobody has any more: who has some holds the VMIDs in turn.
    pub(crate) fn watch(&self, watch: Option<Arc<dyn VmidUser>>) {
        let before = core::mem::replace(&mut *self.watch.lock(), watch);
        drop(before);
    }

    fn changed(&self) {
        let watch = self.watch.lock().clone();
        if let Some(watch) = watch {
            watch.changed();
        }
    }

    /// Whose queues can be put on the hardware, as far as VMIDs go: who has one and is not to give it up, and the first of the
    /// line, for those that are free.
    pub(crate) fn due(&self) -> DueProcesses {
        let state = self.state.lock();
        let mut called = DueProcesses::default();
        let held = state.leases().flatten();
        for lease in held.filter(|lease| lease.recalled.is_none()) {
            called.add(lease.pasid);
        }
        for waiter in state.line.iter().take(state.free()) {
            called.add(waiter.pasid);
        }
        called
    }

    /// Whether a queue of process `pasid` that has work can be put on the hardware, as far as VMIDs go. If not, the process
    /// waits in the line, and who has had a VMID for `quantum` milliseconds yields it for that. Allocates nothing, waits for
    /// nothing.
    pub(crate) fn turn(&self, pasid: u16, quantum: i64) -> VmidTurn {
        let mut state = self.state.lock();
        state.remove_stale();
        let held = state.has(pasid);
        if held.is_some_and(|lease| lease.recalled.is_none()) {
            return VmidTurn::Now;
        }
        let mut is_news = false;
        let place = match state.place(pasid) {
            Some(place) => place,
            None if held.is_none() && state.free() > state.line.len() => return VmidTurn::Now,
            None => {
                is_news = true;
                state.line.len()
            }
        };
        let now = Instant::now();
        match state.line.get_mut(place) {
            Some(waiter) => waiter.seen = now,
            None => {
                let waiter = VmidWaiter { pasid, seen: now };
                // One that finds no room asks again.
                let _ = state.line.push_within_capacity(waiter);
            }
        }
        if place < state.free() && state.has(pasid).is_none() {
            return VmidTurn::Now;
        }
        let quantum = quantum.max(state.least_kept());
        let mut wait = ASK_MS;
        let mut short = (place + 1).saturating_sub(state.expected());
        while let (1.., Some(lease)) = (short, state.oldest()) {
            let left = quantum - lease.since.elapsed().as_millis();
            if left > 0 {
                wait = left.min(ASK_MS);
                break;
            }
            lease.recalled = Some(now);
            is_news = true;
            short -= 1;
        }
        drop(state);
        if is_news {
            self.changed();
        }
        VmidTurn::In(wait)
    }

    /// To give page tables to a VMID, or to take them away, has taken so long.
    pub(crate) fn has_taken(&self, time: Delta) {
        let mut state = self.state.lock();
        state.change.has_taken(time.as_micros_ceil());
    }

    /// Whether more processes wait than VMIDs are free or coming: queues that have no work are to leave.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut state = self.state.lock();
        state.remove_stale();
        state.line.len() > state.expected()
    }

    /// Whether a queue that has no work may be put on the hardware, as far as VMIDs go: nobody waits for what it takes.
    pub(crate) fn has_room(&self, pasid: u16) -> bool {
        let mut state = self.state.lock();
        state.remove_stale();
        let mine = state.has(pasid).is_some() || state.free() > 0;
        state.line.is_empty() && mine
    }

    /// Whether the process that has `vmid` is to give it up.
    pub(crate) fn is_recalled(&self, vmid: Vmid) -> bool {
        let state = self.state.lock();
        let lease = state.leases.get(usize::from(vmid.0));
        lease.is_some_and(|lease| lease.as_ref().is_some_and(|lease| lease.recalled.is_some()))
    }

    /// Process `pasid` is to give `vmid` up now, if it has it: whoever is on it leaves, and nobody comes any more. Whether it has it. Any
    /// context; allocates nothing.
    pub(crate) fn recall(&self, vmid: Vmid, pasid: u16) -> bool {
        let mut state = self.state.lock();
        let lease = state.leases.get_mut(usize::from(vmid.0));
        let Some(Some(lease)) =
            lease.filter(|lease| lease.as_ref().is_some_and(|lease| lease.pasid == pasid))
        else {
            return false;
        };
        let is_news = lease.recalled.is_none();
        lease.recalled.get_or_insert_with(Instant::now);
        drop(state);
        if is_news {
            self.changed();
        }
        true
    }

    /// Leases a VMID to process `pasid`. ENOSPC when all are leased, or what is free is for others who have waited longer.
    pub(crate) fn lease(self: &Arc<Self>, pasid: u16) -> Result<VmidLease> {
        let mut state = self.state.lock();
        state.remove_stale();
        let place = state.place(pasid);
        if state.free() <= place.unwrap_or(state.line.len()) {
            return Err(ENOSPC);
        }
        let first = state.first;
        let free = iter::zip(0.., state.leases.iter_mut())
            .skip(first.into())
            .find(|(_, lease)| lease.is_none());
        let Some((number, lease)) = free else {
            return Err(ENOSPC);
        };
        *lease = Some(LeaseRecord {
            pasid,
            since: Instant::now(),
            recalled: None,
        });
        if let Some(place) = place {
            let _ = state.line.remove(place);
        }
        drop(state);
        Ok(VmidLease {
            vmid: Vmid(number),
            _held: self.ledger.hold(LedgerKind::Vmids, 1),
            vmids: self.clone(),
        })
    }
}

/// A VMID that is its owner's until dropped. The owner unbinds it from its page tables first.
pub(crate) struct VmidLease {
    vmid: Vmid,
    _held: LedgerHold,
    vmids: Arc<VmidPool>,
}

impl VmidLease {
    /// The VMID.
    pub(crate) fn vmid(&self) -> Vmid {
        self.vmid
    }
}

impl Drop for VmidLease {
    fn drop(&mut self) {
        let awaited = {
            let mut state = self.vmids.state.lock();
            if let Some(lease) = state.leases.get_mut(usize::from(self.vmid.0)) {
                *lease = None;
            }
            !state.line.is_empty()
        };
        if awaited {
            self.vmids.changed();
        }
    }
}
