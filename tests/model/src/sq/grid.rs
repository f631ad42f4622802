// SPDX-License-Identifier: GPL-2.0
//! A dispatch in progress: the launched groups, and its end, whether it is over or has left.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rkfd_shader::dispatch::{Launch, Seat};
use rkfd_shader::group::Absent;
use rkfd_shader::image::{Shape, Word};

use super::cu::{number, Cus, Need, Place};
use super::image::{Area, Image};
use super::{CUS, ENGINES};
use crate::gpu::Gpu;

/// The origin of a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The number of its XCC.
    pub xcc: usize,
    /// The queue, for messages.
    pub queue: String,
    /// Its address space.
    pub vmid: u8,
    /// Result of MSG_GET_DOORBELL.
    pub doorbell: u32,
    /// The part of HW_ID that identifies the waves' origin: VMID, QUEUE, PIPE, ME.
    pub hw_id: u32,
    /// A packet at the read pointer is done when its waves have ended.
    pub of_packet: bool,
}

/// Scratch of a dispatch: COMPUTE_TMPRING_SIZE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Waves that have scratch at the same time.
    pub waves: u32,
    /// Bytes of each.
    pub bytes: u32,
    /// The shader engines among which they are shared out.
    pub engines: u32,
}

impl Scratch {
    /// From the register: WAVES\[11:0\], WAVESIZE\[24:12\] in KiB.
    pub fn of(tmpring: u32, engines: u32) -> Scratch {
        Scratch {
            waves: tmpring & 0xfff,
            bytes: (tmpring >> 12 & 0x1fff) * 1024,
            engines,
        }
    }

    /// Slots of an engine.
    fn slots(self) -> u32 {
        self.waves / self.engines.max(1)
    }

    /// The offset of a slot.
    fn offset(self, engine: u32, scoreboard: u32) -> u32 {
        (self.slots() * engine + scoreboard).wrapping_mul(self.bytes)
    }
}

/// COMPUTE_RESOURCE_LIMITS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Waves of an engine at the same time.
    pub waves_per_engine: Option<u32>,
    /// Groups of a CU at the same time.
    pub groups_per_cu: Option<u32>,
    /// SIMDs that may be used, a bit each.
    pub simds: u8,
}

/// The groups that are an XCC's: those of which the number, divided by `chunk`, leaves `index` when
/// it is divided by `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// See above.
    pub index: u64,
    /// See above.
    pub count: u64,
    /// See above.
    pub chunk: u64,
}

impl Part {
    /// All groups.
    pub const WHOLE: Part = Part {
        index: 0,
        count: 1,
        chunk: 1,
    };

    /// The first of its groups that is not before `group`.
    fn first(self, group: u64) -> u64 {
        let chunk = group / self.chunk;
        let ahead = (self.index + self.count - chunk % self.count) % self.count;
        match ahead {
            0 => group,
            _ => (chunk + ahead).saturating_mul(self.chunk),
        }
    }
}

/// The room for groups.
#[derive(Debug, Clone)]
pub struct Room {
    /// CUs: engine and number in the engine.
    pub cus: Vec<(u32, u32)>,
    /// Limits.
    pub limits: Limits,
    /// Scratch, if waves have it.
    pub scratch: Option<Scratch>,
    /// The save area of waves, if there is one.
    pub area: Option<Area>,
    /// The groups that are this XCC's.
    pub share: Part,
}

/// The work at the beginning: all of a dispatch, or the rest of it after its queue left.
#[derive(Debug, Default)]
pub struct Rest {
    /// The first group that was not launched.
    pub next: u64,
    /// Saved waves.
    pub image: Option<Image>,
    /// When its first wave began.
    pub started: Option<u64>,
}

/// Resources of a group until it has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its place.
    pub place: Place,
    /// Slots of scratch, of the place's engine.
    slots: Vec<u32>,
}

/// The beginning of a group.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// With the kernel.
    Fresh {
        /// Its number.
        index: u64,
        /// The places of its waves.
        seats: Vec<Seat>,
    },
    /// From its saved state.
    Saved(Shape, Vec<Absent>),
}

#[derive(Debug)]
struct State {
    /// Next group to launch.
    next: u64,
    /// Groups that run.
    live: u64,
    /// Slots of scratch of each engine that are free.
    free: [Vec<u32>; ENGINES as usize],
    /// Waves of each engine, groups of each CU.
    waves: [u32; ENGINES as usize],
    groups: Vec<u32>,
    started: Option<u64>,
    ended: u64,
    /// Waves that were saved.
    image: Image,
    /// Waves whose handler is restoring them.
    restoring: usize,
    /// When all waves had been restored; None: some have not, or it began without saved waves.
    restored: Option<Instant>,
    /// When the save was requested, and when the last wave had gone.
    save: (u64, u64),
}

/// The state of a dispatch that has left.
#[derive(Debug, PartialEq, Eq)]
pub struct Remains {
    /// The first group that was not launched; None: all were.
    pub next: Option<u64>,
    /// The saved waves.
    pub image: Image,
    /// When its first wave began.
    pub started: Option<u64>,
    /// When the save was requested, and when the last wave had gone.
    pub save: (u64, u64),
}

/// A dispatch in progress.
pub struct Grid {
    /// The initial state of its waves.
    pub launch: Launch,
    /// Its origin.
    pub origin: Origin,
    room: Room,
    /// It began with saved waves.
    is_saved: bool,
    killed: AtomicBool,
    faulted: AtomicBool,
    saving: AtomicBool,
    /// It is over, but the packet waits for other XCCs.
    held: AtomicBool,
    failed: AtomicBool,
    /// The pages that waves wait for, and since when. A few of a kernel's accesses wait at a time.
    waits: Mutex<HashMap<u64, Instant>>,
    state: Mutex<State>,
}

impl Grid {
    /// Creates a dispatch without running groups. An error: a group's waves do not fit into the
    /// scratch.
    pub fn new(
        launch: Launch,
        origin: Origin,
        room: Room,
        rest: Rest,
    ) -> Result<Grid, &'static str> {
        let nowhere = Area {
            base: 0,
            size: 0,
            stack: 0,
        };
        let image = rest
            .image
            .unwrap_or_else(|| Image::new(room.area.unwrap_or(nowhere)));
        let mut free: [Vec<u32>; ENGINES as usize] = Default::default();
        if let Some(scratch) = room.scratch {
            if scratch.slots() < launch.waves() {
                return Err("a group has more waves than an engine has slots of scratch");
            }
            for (engine, free) in (0..).zip(&mut free) {
                let taken: Vec<u32> = image
                    .slots()
                    .filter(|slot| slot.0 == engine)
                    .map(|slot| slot.1)
                    .collect();
                *free = (0..scratch.slots())
                    .rev()
                    .filter(|slot| !taken.contains(slot))
                    .collect();
            }
        }
        let state = State {
            next: room.share.first(rest.next).min(launch.count()),
            live: 0,
            free,
            waves: [0; ENGINES as usize],
            groups: vec![0; (CUS * ENGINES) as usize],
            started: rest.started,
            ended: rest.started.unwrap_or(0),
            image,
            restoring: 0,
            restored: None,
            save: (0, 0),
        };
        Ok(Grid {
            launch,
            origin,
            room,
            is_saved: state.image.group().is_some(),
            killed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            saving: AtomicBool::new(false),
            held: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            waits: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a wave has looked for a page that it wants to access, which is `ready` or not.
    pub fn looked(&self, page: u64, ready: bool, gpu: &Gpu) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready {
            waits.entry(page).or_insert_with(|| {
                gpu.summary.retried.bump();
                Instant::now()
            });
        } else if let Some(began) = waits.remove(&page) {
            let micros = began.elapsed().as_micros();
            let longest = &gpu.summary.longest_retry;
            longest.reach(micros.try_into().unwrap_or(u64::MAX));
        }
    }

    /// The next group, if there is one that can begin now.
    pub fn take(&self, cus: &Cus, now: u64) -> Option<(Lease, Start)> {
        let mut state = self.state();
        if self.is_cut() {
            return None;
        }
        let taken = if state.image.is_empty() {
            self.take_fresh(&mut state, cus)
        } else {
            self.take_saved(&mut state, cus)
        }?;
        state.live += 1;
        let engine = taken.0.place.cu.0 as usize;
        state.waves[engine] += taken.0.place.waves();
        state.groups[number(taken.0.place.cu)] += 1;
        state.started.get_or_insert(now);
        Some(taken)
    }

    fn take_fresh(&self, state: &mut State, cus: &Cus) -> Option<(Lease, Start)> {
        let index = state.next;
        if index >= self.launch.count() {
            return None;
        }
        let count = self.launch.waves_of(index);
        let slots = if self.room.scratch.is_some() {
            count
        } else {
            0
        };
        let place = self.place(state, cus, (self.launch.shape(), count), |engine| {
            state.free[engine as usize].len() >= slots as usize
        })?;
        let engine = place.cu.0;
        let free = &mut state.free[engine as usize];
        let slots = free.split_off(free.len() - slots as usize);
        let seats = place
            .hw_ids()
            .enumerate()
            .map(|(n, hw_id)| {
                let scoreboard = slots.get(n).copied().unwrap_or(0);
                let scratch = self.room.scratch;
                Seat {
                    hw_id: hw_id | self.origin.hw_id,
                    scoreboard,
                    scratch: scratch.map_or(0, |scratch| scratch.offset(engine, scoreboard)),
                }
            })
            .collect();
        state.next = self.room.share.first(index + 1).min(self.launch.count());
        Some((Lease { place, slots }, Start::Fresh { index, seats }))
    }

    fn take_saved(&self, state: &mut State, cus: &Cus) -> Option<(Lease, Start)> {
        let saved = state.image.group()?;
        let slot = saved.waves.iter().find(|wave| wave.scratch);
        let count = saved.waves.len() as u32;
        // Its slots are an engine's.
        let place = self.place(state, cus, (saved.shape, count), |engine| {
            slot.is_none_or(|slot| slot.engine == engine)
        })?;
        let records = state.image.pop(&saved)?;
        let waves = place.hw_ids().zip(&saved.waves).zip(records);
        let waves: Vec<Absent> = waves
            .map(|((hw_id, &word), record)| Absent {
                word,
                record,
                hw_id: hw_id | self.origin.hw_id,
            })
            .collect();
        state.restoring += waves.len();
        let slots = waves.iter().filter(|wave| wave.word.scratch);
        let slots = slots.map(|wave| wave.word.scoreboard).collect();
        Some((Lease { place, slots }, Start::Saved(saved.shape, waves)))
    }

    /// A place for a group, going round the CUs.
    fn place(
        &self,
        state: &State,
        cus: &Cus,
        (shape, waves): (Shape, u32),
        engine_fits: impl Fn(u32) -> bool,
    ) -> Option<Place> {
        let limits = self.room.limits;
        let need = Need {
            waves,
            shape,
            simds: limits.simds,
        };
        let all = &self.room.cus;
        if all.is_empty() {
            return None;
        }
        let first = state.next / self.room.share.count + state.live;
        let first = (first % all.len() as u64) as usize;
        let (behind, ahead) = all.split_at(first);
        let open = ahead.iter().chain(behind).copied().filter(|&cu| {
            let taken = state.waves[cu.0 as usize];
            let groups = state.groups[number(cu)];
            engine_fits(cu.0)
                && limits
                    .waves_per_engine
                    .is_none_or(|most| taken + waves <= most)
                && limits.groups_per_cu.is_none_or(|most| groups < most)
        });
        cus.place(&need, open)
    }

    /// Returns whether there are groups left to begin.
    pub fn has_more(&self) -> bool {
        !self.is_cut() && self.state().has_more(&self.launch)
    }

    /// The group has ended. Returns true if nothing of the dispatch is left on the hardware, for
    /// now or for ever.
    pub fn end(&self, lease: Lease, cus: &Cus, now: u64) -> bool {
        cus.free(&lease.place);
        let mut state = self.state();
        let Lease { place, slots } = lease;
        state.live -= 1;
        state.waves[place.cu.0 as usize] -= place.waves();
        state.groups[number(place.cu)] -= 1;
        state.ended = now;
        state.save.1 = now;
        state.free[place.cu.0 as usize].extend(slots);
        state.live == 0 && (self.is_cut() || !state.has_more(&self.launch))
    }

    /// Ends its waves at their next check, and launches no more.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
    }

    /// Returns whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Notes that a wave had a memory fault, or another end that its kernel did not intend.
    pub fn fault(&self) {
        self.faulted.store(true, Ordering::Release);
    }

    /// Returns whether a wave had one.
    pub fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// Launches no more, and saves the running waves if there is an area for them and they have a
    /// trap handler.
    pub fn save(&self, now: u64) {
        if !self.saving.swap(true, Ordering::AcqRel) {
            self.state().save = (now, now);
        }
    }

    /// Returns whether it is to be saved.
    pub fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Returns whether waves are to go to memory.
    pub fn saves_waves(&self) -> bool {
        self.is_saving() && self.room.area.is_some()
    }

    /// Notes that the packet waits for other XCCs: the queue may leave meanwhile.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// Returns whether that was noted.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Notes that a wave could not be saved.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Returns whether a wave could not be saved.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns whether no more groups are launched.
    fn is_cut(&self) -> bool {
        self.is_killed() || self.is_faulted() || self.is_saving()
    }

    /// Records for the waves of a group. None: not now, as others have not left theirs yet, or
    /// there is no room.
    pub fn reserve(&self, shape: Shape, waves: &[Word]) -> Option<Vec<u64>> {
        let mut state = self.state();
        if state.restoring > 0 || self.has_failed() {
            return None;
        }
        let records = state.image.push(shape, waves);
        if records.is_none() {
            self.fail();
        }
        records
    }

    /// Notes that so many waves have left their records.
    pub fn restored(&self, waves: usize) {
        let mut state = self.state();
        state.restoring -= waves;
        if state.restoring == 0 && state.image.group().is_none() {
            state.restored.get_or_insert_with(Instant::now);
        }
    }

    /// When the waves that were saved had been restored: `now` while some have not. None: there
    /// were none, or it has ended.
    pub fn restored_at(&self, now: Instant) -> Option<Instant> {
        if self.is_over() || !self.is_saved {
            return None;
        }
        Some(self.state().restored.unwrap_or(now))
    }

    /// When its first wave began and its last one ended, if all have.
    pub fn times(&self) -> Option<(u64, u64)> {
        let state = self.state();
        let over = self.is_killed()
            || !state.has_more(&self.launch)
            || self.is_faulted() && !self.is_saving();
        (state.live == 0 && over).then(|| (state.started.unwrap_or(state.ended), state.ended))
    }

    /// Returns whether all its waves have ended.
    pub fn is_over(&self) -> bool {
        self.times().is_some()
    }

    /// Returns whether it has left, with work to come back for.
    pub fn has_left(&self) -> bool {
        self.is_saving() && !self.has_failed() && !self.is_over() && self.state().live == 0
    }

    /// Its state after it has left.
    pub fn remains(&self) -> Remains {
        let state = self.state();
        Remains {
            next: (state.next < self.launch.count() || self.is_held()).then_some(state.next),
            image: state.image.clone(),
            started: state.started,
            save: state.save,
        }
    }
}

impl State {
    fn has_more(&self, launch: &Launch) -> bool {
        self.next < launch.count() || !self.image.is_empty()
    }
}
