// SPDX-License-Identifier: GPL-2.0
//! Both MECs: their HQDs, and the thread that schedules them. Packets are short, so one thread
//! serves all.

mod state;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::execute::{address_space, Executor, Outcome, Step, Work};
use super::gang::{Gang, Team};
use super::hqd::{Errand, Hang, Hqd};
use super::interrupt::Exception;
use super::job::Job;
use super::kiq::{self, Role};
use super::registers::is_stopped;
use super::runlist::{Engine, MapQueue, Resources, Runlist, Targets, Unmap};
use super::{Slot, SLOTS};
use crate::bell::{Bell, LOOK};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::layout::XCCS;
use crate::psp::engines as psp;
use crate::regs::gc::{self, cp_hqd_error as error};
use crate::regs::Reg;

pub(super) use state::Departure;

/// How long a queue may go on while others wait.
const SLICE: Duration = Duration::from_micros(50);

pub(super) struct State {
    pub(super) hqds: Vec<Hqd>,
    current: usize,
    slice_end: Option<Instant>,
    hurried: Option<Instant>,
    next_poll: Option<Instant>,
    paused: bool,
    /// User queues that are to hang with their next packet.
    hang: VecDeque<Hang>,
    /// The user queue whose packet is in execution.
    executing: Option<Slot>,
    /// Number of threads that wait for its end. No packet begins meanwhile.
    waiting: usize,
    /// The HIQ that the KIQ of each XCC mapped, and the number of that load of the HQD.
    hiqs: [Option<(Slot, u64)>; XCCS],
    /// The HIQ's resources.
    pub(super) resources: Resources,
    /// Address of the cleaner shader in VMID 0; 0: none.
    cleaner: u64,
    /// VMIDs of these that belong to processes.
    pub(super) vmids_used: u16,
    /// Its runlist.
    pub(super) list: Option<Runlist>,
    /// Queues of runlists that did not leave in time, each by the load of its slot.
    pub(super) abandoned: Vec<(Slot, u64)>,
    /// A queue may need work that comes before all packets.
    pub(super) errands: bool,
    /// When a packet was last begun or done.
    worked: Option<Instant>,
}

/// The compute front end.
pub struct Cp {
    state: Mutex<State>,
    /// The number of accesses to registers and doorbells in progress: the next packet waits for
    /// them, as otherwise the thread that executes packets would get the lock again and again.
    accesses: AtomicUsize,
    /// A change that may give work.
    pub(super) work: Bell,
    /// A packet ended.
    quiet: Condvar,
}

/// An access to registers or doorbells, until it is dropped.
pub(super) struct Access<'a>(&'a AtomicUsize);

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The front end's next action.
enum Choice<'a> {
    /// A packet of this queue; false: its write pointer is invalid.
    Run(Box<Job>, bool),
    /// Takes the queue off.
    Dequeue(MutexGuard<'a, State>, Slot),
    /// Reads the state that registers lack from the queue's MQD.
    Restore(MutexGuard<'a, State>, Slot),
    /// Schedules other queues of the runlist.
    Schedule(MutexGuard<'a, State>),
    /// Reads the queue's write pointer from memory.
    Poll(MutexGuard<'a, State>, Slot),
    /// Nothing until then, or until something changes.
    Wait(MutexGuard<'a, State>, Option<Instant>),
}

/// Returns whether the firmware is of version `first` or later. Of firmware that the driver has
/// loaded itself, only the driver knows the version.
fn is_firmware(gpu: &Gpu, first: u32) -> bool {
    let version = gpu.regs.get(gc::CP_MEC_ME1_UCODE_ADDR);
    version == 0 || version >= first
}

impl Errand {
    fn choice(self, state: MutexGuard<'_, State>, slot: Slot) -> Choice<'_> {
        match self {
            Errand::Restore => Choice::Restore(state, slot),
            Errand::Dequeue => Choice::Dequeue(state, slot),
            Errand::Poll => Choice::Poll(state, slot),
        }
    }
}

impl Cp {
    /// The state out of reset, of so many XCCs.
    pub fn new(xccs: usize) -> Cp {
        Cp {
            state: Mutex::new(State {
                hqds: (0..SLOTS * xccs).map(|_| Hqd::new()).collect(),
                current: 0,
                slice_end: None,
                hurried: None,
                next_poll: None,
                paused: false,
                hang: VecDeque::new(),
                executing: None,
                waiting: 0,
                hiqs: [None; XCCS],
                resources: Resources::default(),
                cleaner: 0,
                vmids_used: 0,
                list: None,
                abandoned: Vec::new(),
                errands: false,
                worked: None,
            }),
            accesses: AtomicUsize::new(0),
            work: Bell::default(),
            quiet: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An access begins.
    pub(super) fn access(&self) -> Access<'_> {
        self.accesses.fetch_add(1, Ordering::Acquire);
        Access(&self.accesses)
    }

    /// The state when no user packet of these queues is in execution. The caller may be a kernel
    /// packet.
    pub(super) fn quiesce(&self, which: impl Fn(Slot) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if !state.executing.is_some_and(&which) {
            return state;
        }
        state.waiting += 1;
        while state.executing.is_some_and(&which) {
            state = self
                .quiet
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        self.work.ring();
        state
    }

    /// Back to the state out of reset.
    pub fn reset(&self) {
        let mut state = self.quiesce(|_| true);
        for hqd in &mut state.hqds {
            hqd.reset();
        }
        state.paused = false;
        state.hang.clear();
        state.hiqs = [None; XCCS];
        state.resources = Resources::default();
        state.cleaner = 0;
        state.vmids_used = 0;
        state.list = None;
        state.abandoned.clear();
    }

    /// The queues that are loaded: where, and their registers.
    pub fn active(&self) -> Vec<(String, Vec<(Reg, u32)>)> {
        let state = self.state();
        state
            .slots()
            .filter(|slot| state.hqds[slot.index()].is_active())
            .map(|slot| (slot.to_string(), state.hqds[slot.index()].registers()))
            .collect()
    }

    /// Pauses user queues: they execute no packets; dequeue requests are answered.
    pub fn pause(&self) {
        self.state().paused = true;
    }

    /// Resumes user queues.
    pub fn resume(&self) {
        self.state().paused = false;
        self.work.ring();
    }

    /// Makes the next `count` user queues with a packet to execute hang.
    pub fn hang_queues(&self, count: usize, how: Hang) {
        self.state().hang.extend(std::iter::repeat_n(how, count));
    }

    /// The front end's thread: executes packets until one is a model error.
    pub fn run(&self, gpu: &Gpu) -> Result<()> {
        loop {
            while self.accesses.load(Ordering::Relaxed) > 0 {
                thread::yield_now();
            }
            let rings = self.work.rings();
            let Some((state, until)) = self.turn(gpu)? else {
                continue;
            };
            let now = Instant::now();
            let end = state.worked.map_or(now, |worked| worked + LOOK);
            if end > now {
                drop(state);
                // Rings from before are for the turn that finds nothing at last, and keeps the lock
                // until this thread sleeps.
                self.work
                    .comes(rings, until.map_or(end, |until| until.min(end)));
                continue;
            }
            drop(self.work.sleep(state, until));
        }
    }

    /// Does one action if there is one. For tests, without the thread.
    #[cfg(test)]
    pub fn step(&self, gpu: &Gpu) -> Result<bool> {
        Ok(self.turn(gpu)?.is_none())
    }

    /// Executes a packet if there is one, and calls `meanwhile` before its outcome is known.
    /// Otherwise does one action, and returns false.
    #[cfg(test)]
    pub fn step_with(&self, gpu: &Gpu, meanwhile: impl FnOnce()) -> Result<bool> {
        match self.choose(gpu, self.state()) {
            Choice::Run(job, valid) => {
                meanwhile();
                self.execute(gpu, job, valid)?;
                Ok(true)
            }
            other => self.act(gpu, other).map(|_| false),
        }
    }

    /// Does one action, or returns the time until which there is none.
    fn turn(&self, gpu: &Gpu) -> Result<Option<(MutexGuard<'_, State>, Option<Instant>)>> {
        let choice = self.choose(gpu, self.state());
        self.act(gpu, choice)
    }

    fn act<'a>(
        &'a self,
        gpu: &Gpu,
        choice: Choice<'a>,
    ) -> Result<Option<(MutexGuard<'a, State>, Option<Instant>)>> {
        match choice {
            Choice::Run(job, valid) => self.execute(gpu, job, valid)?,
            Choice::Dequeue(mut state, slot) => {
                state.take_off(gpu, slot)?;
            }
            Choice::Restore(mut state, slot) => state.restore(gpu, slot)?,
            Choice::Schedule(mut state) => state.schedule(gpu, Instant::now())?,
            Choice::Poll(mut state, slot) => {
                let hqd = &mut state.hqds[slot.index()];
                let gpu = &gpu.xcc(slot.xcc());
                let vm = address_space(gpu, hqd.regs.vmid());
                let before = vm.faults();
                let value = match hqd.regs.wptr_address() {
                    0 => None,
                    at => Some(vm.load64(at)?),
                };
                hqd.polled(value.filter(|_| vm.faults() == before));
            }
            Choice::Wait(state, until) => return Ok(Some((state, until))),
        }
        Ok(None)
    }

    fn choose<'a>(&self, gpu: &Gpu, mut state: MutexGuard<'a, State>) -> Choice<'a> {
        if state.waiting > 0 {
            return Choice::Wait(state, None);
        }
        let is_dead = gpu.psp.is_dead(psp::Engine::Mec);
        let stopped = |slot: Slot| {
            let control = || gpu.regs.of(slot.xcc(), 0).get(gc::CP_MEC_CNTL);
            is_dead || is_stopped(control(), slot)
        };
        let now = Instant::now();
        let mut next = state::poll_all(gpu, &mut state, now);
        let due = state
            .list
            .as_ref()
            .and_then(|list| list.due(gpu, &state.hqds, now));
        match due {
            Some(at) if at <= now => return Choice::Schedule(state),
            Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
            None => {}
        }
        if state.errands {
            // Without waiting for the turn of the queue.
            let errand = state
                .slots()
                .filter_map(|slot| Some((slot, state.hqds[slot.index()].errand()?)))
                .find(|&(slot, _)| !stopped(slot));
            if let Some((slot, errand)) = errand {
                return errand.choice(state, slot);
            }
            state.errands = false;
        }
        let stay = state.slice_end.is_some_and(|end| now < end);
        let first = state.current + usize::from(!stay);
        let count = state.hqds.len();
        for n in 0..count {
            let slot = Slot(((first + n) % count) as u16);
            let paused = state.paused;
            let hqd = &mut state.hqds[slot.index()];
            if !hqd.is_active() || stopped(slot) {
                continue;
            }
            if let Some(errand) = hqd.errand() {
                return errand.choice(state, slot);
            }
            if paused && hqd.regs.vmid() != 0 && !hqd.has_waves() {
                continue;
            }
            match hqd.ready_at(now) {
                Some(at) if at <= now => {
                    if hqd.regs.vmid() != 0 {
                        if let Some(how) = state.hang.pop_front() {
                            state.hqds[slot.index()].hang(how);
                            gpu.summary.cp_hangs.bump();
                            continue;
                        }
                    }
                    if slot.index() != state.current || !stay {
                        state.current = slot.index();
                        state.slice_end = Some(now + SLICE);
                    }
                    let team = state.team(slot);
                    let (job, valid) = state.hqds[slot.index()].begin(slot, team);
                    state.executing = (job.vmid != 0).then_some(slot);
                    return Choice::Run(Box::new(job), valid);
                }
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        Choice::Wait(state, next)
    }

    /// A dispatch is over: the threads that wait for it check again.
    pub fn waves_ended(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let waiting = state.hqds.iter_mut().filter(|hqd| hqd.has_dispatch());
        waiting.filter_map(|hqd| hqd.hurry(now)).count();
        state.errands = true;
        drop(state);
        self.work.ring();
    }

    /// The queue's role as a scheduler.
    pub(super) fn role(&self, gpu: &Gpu, slot: Slot) -> Option<Role> {
        let state = self.state();
        let generation = state.hqds[slot.index()].generation();
        let hiq = state.hiqs[slot.xcc()] == Some((slot, generation));
        kiq::role(gpu, slot).or(hiq.then_some(Role::Hiq))
    }

    /// Returns whether the HIQs of the other XCCs have come past the packet at read pointer `rptr`
    /// of the first one's.
    pub(super) fn have_followed(&self, gang: Gang, rptr: u64) -> bool {
        let state = self.state();
        let mut others = gang.members().skip(1);
        others.all(|xcc| {
            state.hiqs[xcc].is_some_and(|(slot, load)| {
                let hqd = &state.hqds[slot.index()];
                hqd.is_loaded(load) && hqd.rptr() > rptr
            })
        })
    }

    /// SET_RESOURCES of the HIQ.
    pub(super) fn set_resources(&self, resources: Resources) {
        self.state().resources = resources;
    }

    /// SET_RESOURCES of the KIQ: the address of the cleaner shader, or 0.
    pub(super) fn set_cleaner(&self, address: u64) {
        self.state().cleaner = address;
    }

    /// Returns whether one list may have processes with XNACK on and such with it off: if the driver
    /// has said so, to firmware that can.
    pub(super) fn chains_xnack(&self, gpu: &Gpu) -> bool {
        is_firmware(gpu, gpu.regs.asic.firmware.chains_xnack) && self.state().resources.chains
    }

    /// MAP_QUEUES of the KIQ. The inner error is the reason for a refusal.
    pub(super) fn map_queue(
        &self,
        gpu: &Gpu,
        map: &MapQueue,
    ) -> Result<std::result::Result<(), &'static str>> {
        let mut state = self.state();
        let Some(slot) = map.slot else {
            return Ok(Err("MAP_QUEUES outside of a runlist says no slot"));
        };
        if matches!(map.engine, Engine::Sdma(_)) {
            return Ok(Err("MAP_QUEUES of an SDMA queue outside of a runlist"));
        }
        if state.hqds[slot.index()].is_active() {
            return Ok(Err("MAP_QUEUES: the slot is in use"));
        }
        let gang = Gang::alone(slot.xcc());
        let generation = state.load(gpu, slot, map, map.vmid, gang)?;
        if map.engine == Engine::Hiq {
            state.hiqs[slot.xcc()] = Some((slot, generation));
        }
        Ok(Ok(()))
    }

    /// UNMAP_QUEUES, which has waited for so long for a queue that hangs.
    pub(super) fn unmap(&self, gpu: &Gpu, unmap: &Unmap, waited: Duration) -> Result<Work> {
        let mut state = self.state();
        let gang = unmap.gang;
        let mut gone = state.drop_entries(gpu, unmap)?;
        if let Targets::Doorbells(doorbells) = &unmap.targets {
            // Those that were mapped to given slots, or loaded by registers.
            let all = gang.members().flat_map(Slot::all);
            for slot in all.filter(|slot| slot.local() != unmap.by.local()) {
                let hqd = &mut state.hqds[slot.index()];
                if hqd.is_active() && doorbells.contains(&hqd.regs.doorbell()) {
                    if unmap.reset {
                        hqd.unhang();
                    }
                    gone &= state.take_off(gpu, slot)? == Departure::Gone;
                }
            }
        }
        state.verdict(gpu, unmap.by, gang, gone, waited)
    }

    /// RUN_LIST: `list` replaces the previous one, which may have a queue that hangs.
    pub(super) fn run_list(&self, gpu: &Gpu, by: Slot, list: Runlist, waited: Duration) -> Outcome {
        let mut state = self.state();
        let gang = list.gang;
        let before = Unmap {
            targets: Targets::All,
            reset: false,
            by,
            gang,
        };
        // A queue that was abandoned has got its request already.
        if !state.has_abandoned() && !state.drop_entries(gpu, &before)? {
            if let Work::Blocked = state.verdict(gpu, by, gang, false, waited)? {
                return Ok(Ok(Work::Blocked));
            }
        }
        let begun = state.begin_list(gpu, list, Instant::now())?;
        Ok(begun
            .map(|()| Work::Done)
            .map_err(|reason| (Exception::Unsupported, reason)))
    }

    fn execute(&self, gpu: &Gpu, mut job: Box<Job>, valid: bool) -> Result<()> {
        let gpu = &gpu.xcc(job.slot.xcc());
        let executor = Executor::new(gpu, &mut job);
        let step = if valid {
            executor.step()?
        } else {
            executor.refuse_wptr()?
        };
        let mut state = self.state();
        state.executing = None;
        // A notification without waiters costs a system call.
        if state.waiting > 0 {
            self.quiet.notify_all();
        }
        let now = Instant::now();
        if !state.hqds[job.slot.index()].is_loaded(job.generation) {
            if let Some(grid) = job.grid {
                grid.kill();
            }
            return Ok(());
        }
        if matches!(step, Step::Done) || job.tries == 0 {
            state.worked = Some(now);
        }
        let hqd = &mut state.hqds[job.slot.index()];
        match step {
            Step::Done => {
                hqd.end(&job);
                state.hurry(now);
            }
            Step::Blocked => {
                hqd.block(&job, now);
                state.slice_end = None;
            }
            Step::Starved => hqd.starve(&job),
            Step::Halted(bits) => {
                hqd.halt(bits);
                if error::EOP_UTCL1_ERROR.is_set(bits) {
                    // The packet itself was done.
                    hqd.end(&job);
                }
            }
        }
        // It may have to leave by now, and have waves only by this packet.
        state.hqds[job.slot.index()].save_waves(gpu.clock.now());
        Ok(())
    }
}

impl State {
    /// The slots of all XCCs.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.hqds.len() as u16).map(Slot)
    }

    /// What the other XCCs have done of the queue in a slot; None: it has no others.
    fn team(&self, slot: Slot) -> Option<Team> {
        let own = &self.hqds[slot.index()];
        let share = own.share().filter(|share| share.gang.size() > 1)?;
        if own.regs.vmid() == 0 || !own.regs.is_aql() {
            return None;
        }
        let there = |slot: Slot| {
            let hqd = &self.hqds[slot.index()];
            let rings = [hqd, own].map(|hqd| (hqd.regs.vmid(), hqd.regs.wide(gc::CP_HQD_PQ_BASE)));
            (hqd.is_ready() && rings[0] == rings[1]).then_some(hqd)
        };
        let others = || share.gang.slots(slot).skip(1);
        let rptrs: Option<Vec<u64>> = others().map(|slot| Some(there(slot)?.rptr())).collect();
        let times = others().filter_map(|slot| there(slot)?.share_times());
        Some(Team {
            place: share.gang.place(slot.xcc()),
            lead: there(slot.on(share.gang.lead())).map(Hqd::rptr),
            others: rptrs.and_then(|rptrs| rptrs.into_iter().min()),
            times: times.reduce(|one, two| (one.0.min(two.0), one.1.max(two.1))),
        })
    }
}
