// SPDX-License-Identifier: GPL-2.0
//! The queues that exist, and the list of those that may run.

use super::super::super::quota::MOST_COMPUTE;
use super::super::change::QueueChange;
use super::super::queue::{ComputeFailure, ComputeQueue};
use super::super::scheduler::{ComputePlace, QueuePlacement};
use super::pace::RunlistPace;
use crate::ip::gfx;
use crate::ip::vmid::Vmid;
use crate::kern::trace;
use crate::mem::vm::ListedUse;
use crate::queue::request::QueueOwner;
use core::fmt;
use hw::asic::Asic;
use hw::pm4::schedule::{
    self, map_process, map_queue, MapProcess, MAP_PROCESS_DWORDS, MAP_QUEUES_DWORDS,
    RUN_LIST_DWORDS,
};
use hw::seat::Seat;
use hw::va::SH_MEM_BASES;
use hw::xnack_mix::{XnackKinds, XnackMix, XnackTurn, TURN_MS};
use kernel::alloc::kvec::InsertError;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Delta, Instant, Monotonic};

/// The most processes: a process has a slice of the doorbell BAR, and there are no more.
const MOST_PROCESSES: usize = 256;
/// Dwords of the longest list.
pub(super) const LIST_DWORDS: usize =
    MOST_PROCESSES * MAP_PROCESS_DWORDS + MOST_COMPUTE * MAP_QUEUES_DWORDS + RUN_LIST_DWORDS;
const _: () = assert!(LIST_DWORDS <= schedule::MAX_LIST_DWORDS);
/// Quantum: how long processes and queues have the hardware while others wait, milliseconds.
const QUANTUM_MS: u32 = 10;

/// The most queues that are looked at for more than a moment without preemption, but for the work
/// item.
pub(super) const SHORT_LIST: usize = 64;

/// Properties of a list that was built.
pub(super) struct Runlist {
    pub(super) dwords: usize,
    /// How many of its processes have a VMID at the same time.
    pub(super) processes: u32,
    /// Whether it does not fit the hardware and has to be run over and over.
    pub(super) again: bool,
}

/// A queue, and whether it is on the list.
pub(super) struct RunlistEntry {
    queue: Arc<ComputeQueue>,
    /// Its MAP_QUEUES packet.
    packet: [u32; MAP_QUEUES_DWORDS],
    doorbell: u32,
    listed: bool,
    /// How many callers want it off the hardware.
    pub(super) off: u32,
    /// The change to make before the queue is on the next list.
    pub(super) change: Option<QueueChange>,
    /// The last change made and its result, for the thread that waits for it.
    pub(super) changed: Option<(QueueChange, Result)>,
    _use: ListedUse,
}

impl RunlistEntry {
    /// Returns an entry that is on no list.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone; `EBUSY` if the address space belongs to another process;
    /// `ENOMEM`.
    pub(super) fn new(queue: Arc<ComputeQueue>) -> Result<KBox<Self>> {
        let map = queue.map()?;
        // State that an earlier use of the descriptor has saved does not count.
        queue.descriptor.change(|image| image.prepare(0))?;
        let entry = Self {
            packet: map_queue(map),
            doorbell: map.doorbell.dword(),
            listed: false,
            off: 0,
            change: None,
            changed: None,
            _use: queue.vm().list(queue.owner.pasid)?,
            queue,
        };
        Ok(KBox::new(entry, GFP_KERNEL_ACCOUNT)?)
    }

    /// Whether it may be on the hardware now.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    fn is_wanted(&self) -> bool {
        self.off == 0 && self.queue.is_runnable()
    }

    /// Whether its process retries page faults.
    fn retries(&self) -> bool {
        self.queue.vm().retries()
    }

    /// Whether it must leave the hardware whatever that costs others: it does harm, or memory that
    /// it uses is about to be freed.
    fn must_be_evicted(&self) -> bool {
        self.listed && self.queue.must_leave()
    }

    /// Makes the change that was waiting until the queue is on no running list.
    fn make_change(&mut self) {
        if let Some(mut change) = self.change.take() {
            let made = change.make(&self.queue);
            self.changed = Some((change, made));
        }
    }

    fn pasid(&self) -> u16 {
        self.queue.owner.pasid
    }

    fn state(&self) -> QueuePlacement<'_> {
        QueuePlacement {
            queue: &self.queue,
            seat: if self.listed {
                Seat::In(ComputePlace::Runlist)
            } else {
                Seat::Out
            },
            vmid: None,
            turns: None,
        }
    }
}

/// When another list has to run.
pub(super) enum RunlistDue {
    /// No queue has changed.
    Never,
    /// Once the running list has run for this much longer.
    In(Delta),
    /// At once.
    Now,
}

/// The queues of a GPU.
pub(super) struct RunlistTable {
    /// The queues of a process are adjacent. There is room for all from the start.
    entries: KVVec<KBox<RunlistEntry>>,
    /// How the firmware takes processes with XNACK on beside such with it off.
    mix: XnackMix,
    /// Which of them have their turn, where it does not take both, and since when.
    turn: XnackTurn,
    turn_began: Instant<Monotonic>,
    /// One process at a time has the hardware, and the firmware runs the cleaner before it: of the
    /// next list, and of the last one.
    isolates: bool,
    isolated: bool,
    /// Cost and pace of lists.
    pub(super) pace: RunlistPace,
}

impl RunlistTable {
    /// Returns a table without queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(isolates: bool) -> Result<Self> {
        Ok(Self {
            entries: KVVec::with_capacity(MOST_COMPUTE, GFP_KERNEL)?,
            mix: XnackMix::Apart,
            turn: XnackTurn::default(),
            turn_began: Instant::now(),
            isolates,
            isolated: isolates,
            pace: RunlistPace::new(),
        })
    }

    /// Sets how the firmware takes both kinds of processes.
    pub(super) fn set_xnack_mix(&mut self, mix: XnackMix) {
        self.mix = mix;
    }

    /// Whether processes are isolated from each other.
    pub(super) fn isolates(&self) -> bool {
        self.isolates
    }

    /// Isolates processes from each other on all further lists, or does not.
    pub(super) fn isolate(&mut self, on: bool) {
        self.isolates = on;
    }

    /// Whether the list that runs has to be replaced for that.
    pub(super) fn has_to_isolate(&self) -> bool {
        self.isolates != self.isolated && self.entries.iter().any(|entry| entry.listed)
    }

    /// The kinds of processes that have queues which may run.
    fn wanted_kinds(&self) -> XnackKinds {
        let wanted = self.entries.iter().filter(|entry| entry.is_wanted());
        wanted.fold(XnackKinds::default(), |kinds, entry| {
            kinds.with(entry.retries())
        })
    }

    /// Whether another list has to run because of the queue of `entry`, while processes of `wanted`
    /// have queues that may run.
    fn is_due(&self, entry: &RunlistEntry, wanted: XnackKinds) -> bool {
        let has_turn = self.turn.allows(self.mix, wanted, entry.retries());
        entry.change.is_some() || entry.listed != (entry.is_wanted() && has_turn)
    }

    /// How long the kind on the list keeps it while the other kind waits; `None` if none waits.
    fn turn_left(&self, wanted: XnackKinds) -> Option<Delta> {
        if self.mix == XnackMix::Chained || !wanted.are_both() {
            return None;
        }
        let left = Delta::from_millis(TURN_MS) - self.turn_began.elapsed();
        Some(left.max(Delta::ZERO))
    }

    /// Marks all queues as failed and off the hardware, which will not work on any queue any more.
    pub(super) fn clear(&mut self) {
        for entry in self.entries.iter_mut() {
            entry.listed = false;
            entry.make_change();
            entry.queue.fail(ComputeFailure::Harm);
        }
    }

    /// Takes all queues out.
    pub(super) fn remove_all(&mut self) -> KVVec<KBox<RunlistEntry>> {
        core::mem::take(&mut self.entries)
    }

    /// Whether the list is short enough to be built by any thread, without preemption.
    pub(super) fn is_short(&self) -> bool {
        self.entries.len() <= SHORT_LIST && !trace::is_wave_save_on()
    }

    /// When another list has to run, where one `runs` or none.
    pub(super) fn due(&self, runs: bool) -> RunlistDue {
        if self.has_to_isolate() {
            return RunlistDue::Now;
        }
        let mut due = false;
        let mut first = None;
        // Whether the list also has processes other than the one that needs another list.
        let mut affects_others = false;
        let wanted = self.wanted_kinds();
        for entry in self.entries.iter() {
            let is_due = self.is_due(entry, wanted);
            if is_due && entry.must_be_evicted() {
                return RunlistDue::Now;
            }
            due |= is_due;
            if is_due || entry.listed {
                affects_others |= *first.get_or_insert(entry.pasid()) != entry.pasid();
            }
        }
        if !due {
            return match self.turn_left(wanted) {
                None => RunlistDue::Never,
                Some(left) if left > Delta::ZERO => RunlistDue::In(left),
                Some(_) => RunlistDue::Now,
            };
        }
        match self.pace.left() {
            Some(left) if runs && affects_others => RunlistDue::In(left),
            _ => RunlistDue::Now,
        }
    }

    /// Adds a queue. Where there are too many, the entry is returned.
    pub(super) fn add(&mut self, entry: KBox<RunlistEntry>) -> Result<(), KBox<RunlistEntry>> {
        if self.entries.len() >= MOST_COMPUTE {
            return Err(entry);
        }
        let pasid = entry.pasid();
        let place = self.entries.partition_point(|other| other.pasid() <= pasid);
        self.entries
            .insert_within_capacity(place, entry)
            .map_err(|error| match error {
                InsertError::IndexOutOfBounds(entry) | InsertError::OutOfCapacity(entry) => entry,
            })
    }

    fn position(&self, queue: &ComputeQueue) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| core::ptr::eq(&*entry.queue, queue))
    }

    /// The entry of `queue`.
    pub(super) fn find(&mut self, queue: &ComputeQueue) -> Option<&mut RunlistEntry> {
        let index = self.position(queue)?;
        self.entries.get_mut(index).map(|entry| &mut **entry)
    }

    /// Removes `queue`, which is on no list, from the table.
    pub(super) fn remove(&mut self, queue: &ComputeQueue) -> Option<KBox<RunlistEntry>> {
        let index = self.position(queue)?;
        self.entries.remove(index).ok()
    }

    /// Keeps the queues of process `pasid` off all lists until they are removed.
    pub(super) fn dismiss(&mut self, pasid: u16) {
        let entries = self.entries.iter_mut();
        entries
            .filter(|entry| entry.pasid() == pasid)
            .for_each(|entry| entry.off += 1);
    }

    /// The queue with this doorbell, a dword of the BAR.
    pub(super) fn by_doorbell(&self, doorbell: u32) -> Option<&Arc<ComputeQueue>> {
        let entry = self.entries.iter().find(|entry| entry.doorbell == doorbell);
        entry.map(|entry| &entry.queue)
    }

    /// For traces: the queues that were on the list are off the hardware.
    pub(super) fn trace_saves(&self) {
        if !trace::is_wave_save_on() {
            return;
        }
        for entry in self.entries.iter().filter(|entry| entry.listed) {
            if let Ok(image) = entry.queue.descriptor.image() {
                entry.queue.trace_save(&image);
            }
        }
    }

    /// Builds the list of all queues that may run on `asic`. Calls `write` with each packet and the
    /// dword where it belongs. Returns `None` if there are no such queues. No list runs meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of `write`.
    pub(super) fn build(
        &mut self,
        asic: &Asic,
        write: &mut dyn FnMut(usize, &[u32]) -> Result,
    ) -> Result<Option<Runlist>> {
        let mut at = 0;
        let (mut processes, mut queues) = (0u32, 0u32);
        let mut put = |packet: &[u32]| {
            write(at, packet)?;
            at += packet.len();
            Ok::<_, Error>(())
        };
        let wanted = self.wanted_kinds();
        let over = self.turn_left(wanted) == Some(Delta::ZERO);
        let turn = self.turn.next(wanted, over);
        if turn != self.turn || !wanted.are_both() {
            self.turn_began = Instant::now();
        }
        self.turn = turn;
        self.isolated = self.isolates;
        let first = turn.kind(wanted);
        let mut kinds = XnackKinds::default();
        // One kind after the other.
        for kind in [first, !first] {
            for mine in self
                .entries
                .chunk_by_mut(|one, other| one.pasid() == other.pasid())
            {
                if mine.first().is_none_or(|entry| entry.retries() != kind) {
                    continue;
                }
                // Asked only once: the queues announced in MAP_PROCESS must be exactly those that
                // follow.
                for entry in mine.iter_mut() {
                    entry.make_change();
                    entry.listed = entry.is_wanted() && turn.allows(self.mix, wanted, kind);
                }
                let listed = || mine.iter().filter(|entry| entry.listed);
                let count = listed().count() as u32;
                let Some(first) = listed().next() else {
                    continue;
                };
                put(&map_process(MapProcess {
                    pasid: first.pasid(),
                    root: first.queue.vm().root(),
                    sh_mem_bases: SH_MEM_BASES,
                    sh_mem_config: gfx::sh_mem_config(&asic.gfx, kind),
                    trap: first.queue.trap_handler(),
                    debug: first.queue.debug_controls(),
                    quantum: QUANTUM_MS,
                    queues: count,
                    clean: self.isolated,
                }))?;
                for entry in listed() {
                    put(&entry.packet)?;
                }
                kinds = kinds.with(kind);
                processes += 1;
                queues += count;
            }
        }
        if queues == 0 {
            return Ok(None);
        }
        let most = match self.isolated {
            true => 1,
            false => Vmid::of_firmware(&asic.vmids).count() as u32,
        };
        Ok(Some(Runlist {
            dwords: at,
            processes: processes.min(most),
            again: processes > most || queues > asic.mec.user_hqds().into() || kinds.are_both(),
        }))
    }

    /// See [`super::super::ComputeScheduler::fail`].
    pub(super) fn fail(
        &self,
        why: ComputeFailure,
        which: &dyn Fn(&QueuePlacement<'_>) -> bool,
    ) -> Option<QueueOwner> {
        let mut owner = None;
        for entry in self.entries.iter().filter(|entry| which(&entry.state())) {
            if entry.queue.fail(why) {
                owner = Some(entry.queue.owner);
            }
        }
        owner
    }

    /// Shows [`SHORT_LIST`] queues from entry `first` on; returns whether there are more.
    ///
    /// # Errors
    ///
    /// Errors of `show`.
    pub(super) fn states(
        &self,
        first: usize,
        show: &mut dyn FnMut(&QueuePlacement<'_>) -> fmt::Result,
    ) -> Result<bool, fmt::Error> {
        let mut left = self.entries.iter().skip(first);
        for entry in left.by_ref().take(SHORT_LIST) {
            show(&entry.state())?;
        }
        Ok(left.next().is_some())
    }
}
