// SPDX-License-Identifier: GPL-2.0
//! VMIDs: the sixteen address spaces that the hubs hold at a time, and how processes take turns on
//! those that the driver assigns.
//!
//! A process that finds none free waits in a line. While the line is not served, VMIDs are
//! *wanted*: queues without work leave the hardware. Also, the oldest lease is *recalled* once its
//! process has had its time slice: all queues of that process leave. A VMID that becomes free is
//! for the first process of the line.

use core::iter;

use hw::asic::VmidSplit;
use hw::latency_average::LatencyAverage;
use hw::wait_line::{LineEntry, WaitLine, PASIDS};
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{Delta, Instant, Monotonic};

use crate::kern::params::SchedulerMode;
use crate::ledger::{Ledger, LedgerHold, LedgerKind};
use crate::regs::hub::VMIDS;

/// VMIDs of a hub: registers and interrupts have four bits for them.
const COUNT: u8 = 16;
const _: () = assert!(COUNT as u32 == VMIDS);

/// The most processes that wait: as many as there may be queues, of either kind. A process that
/// found no room in the line could be overtaken for ever by processes that come back.
const MOST_WAITING: usize = 12288;
/// A waiting process keeps its place in the line if it asks at least this often, milliseconds.
/// Longer than a work item is kept from running.
const STALE_MS: i64 = 500;
/// How often a waiting process is asked to ask again, milliseconds.
const ASK_MS: i64 = 25;
/// A lease lasts at least this many times as long as it takes to give all VMIDs to other processes.
/// So, where registers are slow, a third of one processor's time goes into that.
const KEPT_HANDOVERS: i64 = 3;
/// The upper limit of that, milliseconds.
const MOST_KEPT_MS: i64 = 1000;
/// How long a process is expected to take to give a VMID up, milliseconds.
const LEAVE_MS: i64 = 100;

/// A VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vmid(u8);

impl Vmid {
    /// The VMID of the kernel.
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

    /// The VMIDs of `split` that the firmware gives to processes, where it schedules.
    pub(crate) fn of_firmware(split: &VmidSplit) -> impl Iterator<Item = Self> + Clone {
        (split.first_of_firmware..=split.last).filter_map(Self::new)
    }
}

/// A process waits in the line, see [`VmidPool::wait`].
#[must_use = "other queues may have to look again"]
pub(crate) struct VmidWait {
    /// The process has to ask again in so many milliseconds, or when [`VmidUser::changed`] is
    /// called.
    pub(crate) ms: i64,
    /// VMIDs are wanted or recalled since: [`VmidPool::notify`] is to be called.
    pub(crate) notifies: bool,
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

/// The owner of the queues that use VMIDs on the hardware, or wait for one.
pub(crate) trait VmidUser: Send + Sync {
    /// A VMID is free, wanted or recalled: the receiver looks at its queues again. Context: any;
    /// waits for nothing.
    fn changed(&self);
}

/// A process's lease of a VMID.
struct LeaseRecord {
    pasid: u16,
    since: Instant<Monotonic>,
    recalled: Option<Instant<Monotonic>>,
}

impl LeaseRecord {
    /// Whether it is expected to end soon.
    fn is_ending(&self) -> bool {
        self.recalled
            .is_some_and(|when| when.elapsed().as_millis() < LEAVE_MS)
    }
}

/// When a process that waits asked last.
type LastAsked = Instant<Monotonic>;

struct VmidPoolState {
    leases: [Option<LeaseRecord>; COUNT as usize],
    /// The driver's VMIDs.
    first: u8,
    last: u8,
    /// The line. The first process has waited longest.
    line: WaitLine<KVVec<u16>, KVVec<LineEntry<LastAsked>>>,
    /// When the line was last searched for processes that no longer ask.
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

    /// How many VMIDs are free now, or are expected to be soon.
    fn expected(&self) -> usize {
        let is_expected =
            |lease: &&Option<LeaseRecord>| lease.as_ref().is_none_or(LeaseRecord::is_ending);
        self.leases().filter(is_expected).count()
    }

    fn has(&self, pasid: u16) -> Option<&LeaseRecord> {
        self.leases().flatten().find(|lease| lease.pasid == pasid)
    }

    /// Removes processes from the line that have not asked for long: they have nothing to run any
    /// more, or have ended.
    fn remove_stale(&mut self) {
        // Queues ask often, and the line can be long.
        if self.tidied.elapsed().as_millis() < ASK_MS {
            return;
        }
        let now = Instant::now();
        self.tidied = now;
        self.line
            .retain(|seen| (now - *seen).as_millis() < STALE_MS);
    }

    /// How many processes wait before process `pasid`, if it waits. All that matters is whether
    /// there are as many VMIDs.
    fn place(&self, pasid: u16) -> Option<usize> {
        self.line.place(pasid, COUNT.into())
    }

    /// Whether process `pasid`, which may wait, can be given a VMID that is free.
    fn is_next(&self, pasid: u16) -> bool {
        let before = self.place(pasid).unwrap_or(self.line.len());
        self.free() > before
    }

    /// How long a lease is kept at least, milliseconds.
    fn least_kept(&self) -> i64 {
        let all = i64::from(self.last - self.first) + 1;
        self.change
            .times_ms(2 * all * KEPT_HANDOVERS)
            .min(MOST_KEPT_MS)
    }

    /// The lease that is recalled next.
    fn oldest(&mut self) -> Option<&mut LeaseRecord> {
        self.leases
            .get_mut(self.first.into()..=self.last.into())?
            .iter_mut()
            .flatten()
            .filter(|lease| lease.recalled.is_none())
            .max_by_key(|lease| lease.since.elapsed().as_nanos())
    }
}

/// A vector of `count` times `value`.
///
/// # Errors
///
/// `ENOMEM`.
fn filled<T: Clone>(value: T, count: usize) -> Result<KVVec<T>> {
    Ok(KVVec::from_elem(value, count, GFP_KERNEL)?)
}

/// The driver's VMIDs: their leases, and the processes that wait.
#[pin_data]
pub(crate) struct VmidPool {
    ledger: Arc<Ledger>,
    #[pin]
    user: SpinLock<Option<Arc<dyn VmidUser>>>,
    #[pin]
    state: SpinLock<VmidPoolState>,
}

impl VmidPool {
    /// A pool without leases. If `sched` says that the firmware schedules, some of the VMIDs are
    /// the firmware's.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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
            line: WaitLine::new(filled(0, PASIDS)?, filled(LineEntry::FREE, MOST_WAITING)?),
            tidied: Instant::now(),
            change: LatencyAverage::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                ledger,
                user <- new_spinlock!(None, "VmidPool::user"),
                state <- new_spinlock!(state, "VmidPool::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the owner of queues, which has them hold the VMIDs in turn; `None` if there is none any
    /// more.
    pub(crate) fn set_user(&self, user: Option<Arc<dyn VmidUser>>) {
        let before = core::mem::replace(&mut *self.user.lock(), user);
        drop(before);
    }

    /// Tells the owner of the queues that VMIDs are free, wanted or recalled. Context: any.
    pub(crate) fn notify(&self) {
        let user = self.user.lock().clone();
        if let Some(user) = user {
            user.changed();
        }
    }

    /// The processes whose queues can be put on the hardware, as far as VMIDs are concerned: those
    /// that have a VMID which is not recalled, and, for the VMIDs that are free, the first of the
    /// line.
    pub(crate) fn due(&self) -> DueProcesses {
        let state = self.state.lock();
        let mut called = DueProcesses::default();
        let held = state.leases().flatten();
        for lease in held.filter(|lease| lease.recalled.is_none()) {
            called.add(lease.pasid);
        }
        for pasid in state.line.pasids().take(state.free()) {
            called.add(pasid);
        }
        called
    }

    /// Whether a queue with work of process `pasid` can be put on the hardware, as far as VMIDs are
    /// concerned. A process that waits keeps its place in the line by asking. Allocates nothing,
    /// waits for nothing.
    pub(crate) fn ask(&self, pasid: u16) -> bool {
        let mut state = self.state.lock();
        state.remove_stale();
        if let Some(seen) = state.line.get_mut(pasid) {
            *seen = Instant::now();
        }
        match state.has(pasid) {
            Some(lease) => lease.recalled.is_none(),
            None => state.is_next(pasid),
        }
    }

    /// Has process `pasid`, whose turn it is not, wait in the line. For it a process gives up a
    /// VMID that it has had for `quantum` milliseconds. Allocates nothing, waits for nothing.
    pub(crate) fn wait(&self, pasid: u16, quantum: i64) -> VmidWait {
        let mut state = self.state.lock();
        let now = Instant::now();
        let mut notifies = false;
        if !state.line.has(pasid) {
            // A process that finds no room asks again.
            notifies = state.line.push(pasid, now);
        }
        let place = state.place(pasid).unwrap_or(state.line.len());
        let quantum = quantum.max(state.least_kept());
        let mut ms = ASK_MS;
        let mut short = (place + 1).saturating_sub(state.expected());
        while let (1.., Some(lease)) = (short, state.oldest()) {
            let remaining = quantum - lease.since.elapsed().as_millis();
            if remaining > 0 {
                ms = remaining.min(ASK_MS);
                break;
            }
            lease.recalled = Some(now);
            notifies = true;
            short -= 1;
        }
        VmidWait { ms, notifies }
    }

    /// Records how long it took to give page tables to a VMID, or to take them away.
    pub(crate) fn has_taken(&self, time: Delta) {
        let mut state = self.state.lock();
        state.change.has_taken(time.as_micros_ceil());
    }

    /// Whether more processes wait than VMIDs are free or expected to be: queues without work have
    /// to leave.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut state = self.state.lock();
        state.remove_stale();
        state.line.len() > state.expected()
    }

    /// Whether a queue without work may be put on the hardware, as far as VMIDs are concerned: no
    /// process waits for the VMID that it takes.
    pub(crate) fn has_room(&self, pasid: u16) -> bool {
        let mut state = self.state.lock();
        state.remove_stale();
        let mine = state.has(pasid).is_some() || state.free() > 0;
        state.line.is_empty() && mine
    }

    /// Whether the process that has `vmid` has to give it up.
    pub(crate) fn is_recalled(&self, vmid: Vmid) -> bool {
        let state = self.state.lock();
        let lease = state.leases.get(usize::from(vmid.0));
        lease.is_some_and(|lease| lease.as_ref().is_some_and(|lease| lease.recalled.is_some()))
    }

    /// Recalls `vmid` from process `pasid`, and returns whether the process has it. If so, its
    /// queues leave the VMID, and no further queue gets onto it. Context: any; allocates nothing.
    pub(crate) fn recall(&self, vmid: Vmid, pasid: u16) -> bool {
        let mut state = self.state.lock();
        let lease = state.leases.get_mut(usize::from(vmid.0));
        let Some(Some(lease)) =
            lease.filter(|lease| lease.as_ref().is_some_and(|lease| lease.pasid == pasid))
        else {
            return false;
        };
        let is_changed = lease.recalled.is_none();
        lease.recalled.get_or_insert_with(Instant::now);
        drop(state);
        if is_changed {
            self.notify();
        }
        true
    }

    /// Leases a VMID to process `pasid`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if all are leased, or if those that are free are for processes that have waited
    /// longer.
    pub(crate) fn lease(self: &Arc<Self>, pasid: u16) -> Result<VmidLease> {
        let mut state = self.state.lock();
        state.remove_stale();
        if !state.is_next(pasid) {
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
        state.line.remove(pasid);
        drop(state);
        Ok(VmidLease {
            vmid: Vmid(number),
            _held: self.ledger.hold(LedgerKind::Vmids, 1),
            vmids: self.clone(),
        })
    }
}

/// A VMID that belongs to its owner until dropped. The owner unbinds it from its page tables first.
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
            self.vmids.notify();
        }
    }
}
