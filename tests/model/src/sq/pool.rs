// SPDX-License-Identifier: GPL-2.0
//! The workers: threads that each execute some groups by turns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rkfd_shader::code::Code;
use rkfd_shader::counts::Counts;
use rkfd_shader::env::Leftovers;
use rkfd_shader::group::{Group, Progress};

use super::cleaner;
use super::cu::Cus;
use super::grid::{Grid, Lease, Start};
use super::host::Device;
use crate::bell::{Bell, LOOK};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;

/// Wave instructions of a group's turn.
const TURN: u64 = 1 << 16;
/// Waves that the device holds at once: 104 CUs of 4 SIMDs of 8.
const WAVES: usize = 3328;
/// The time that a worker sleeps when all its groups sleep.
const NAP: Duration = Duration::from_micros(50);

/// The dispatches that have groups to launch.
pub struct Pool {
    grids: Mutex<VecDeque<Arc<Grid>>>,
    work: Bell,
    /// A worker looks for work before it sleeps. One is enough.
    looking: AtomicBool,
    /// Of each XCC.
    cus: Vec<Cus>,
    /// The number of workers: one fewer than the host has cores. Read once, as that reads files.
    pub workers: usize,
}

/// A group that a worker executes.
struct Resident {
    grid: Arc<Grid>,
    lease: Lease,
    group: Group,
    /// Waves that have not left their records yet.
    restoring: usize,
    /// The part of its instructions that is in the summary.
    counted: Counts,
}

/// An address space of an XCC.
type Space = (usize, u8);

/// A thread's groups and decoded code.
#[derive(Default)]
pub struct Worker {
    residents: VecDeque<Resident>,
    waves: usize,
    code: HashMap<Space, Code>,
    /// The dispatch at whose start the code was last compared with memory, by address space.
    seen: HashMap<Space, Arc<Grid>>,
    /// Turns since the last one of a group that does not sleep.
    idle: usize,
    /// When the last group ended.
    ended: Option<Instant>,
}

impl Pool {
    /// Creates an idle one, of so many XCCs.
    pub fn new(xccs: usize) -> Pool {
        Pool {
            grids: Mutex::default(),
            work: Bell::default(),
            looking: AtomicBool::new(false),
            cus: (0..xccs).map(|_| Cus::default()).collect(),
            workers: thread::available_parallelism()
                .map_or(1, |n| n.get().saturating_sub(1).max(1)),
        }
    }

    /// Registers and LDS have random contents, from `seed`.
    pub fn scramble(&self, seed: u64) {
        for (n, cus) in (0..).zip(&self.cus) {
            cus.scramble(seed.wrapping_add(n));
        }
    }

    fn cus_of(&self, grid: &Grid) -> &Cus {
        &self.cus[grid.origin.xcc]
    }

    fn grids(&self) -> MutexGuard<'_, VecDeque<Arc<Grid>>> {
        self.grids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a dispatch.
    pub fn start(&self, grid: Arc<Grid>) {
        self.grids().push_back(grid);
        self.work.ring();
    }

    /// Wakes workers for a request to waves.
    pub fn wake(&self) {
        self.work.ring();
    }

    /// Runs the cleaner shader at `code` on all CUs of an XCC. No wave may be there.
    pub fn clean(&self, gpu: &Gpu, code: u64) -> Result<()> {
        cleaner::clean(gpu, &self.cus[gpu.regs.xcc], code)
    }

    /// The next group of a dispatch; dispatches take turns.
    fn take(&self, gpu: &Gpu) -> Option<(Arc<Grid>, Lease, Start)> {
        let mut grids = self.grids();
        grids.retain(|grid| grid.has_more());
        for _ in 0..grids.len() {
            let grid = grids.pop_front()?;
            let taken = grid.take(self.cus_of(&grid), gpu.clock.now());
            grids.push_back(grid.clone());
            if let Some((lease, start)) = taken {
                return Some((grid, lease, start));
            }
        }
        None
    }

    /// A worker's thread.
    pub fn run(&self, gpu: &Gpu) -> Result<()> {
        let mut worker = Worker::default();
        loop {
            let rings = self.work.rings();
            if worker.step(self, gpu)? || self.comes(&worker, rings) {
                continue;
            }
            let grids = self.grids();
            let idle = worker.residents.is_empty() && !grids.iter().any(|grid| grid.has_more());
            let until = (!idle).then(|| Instant::now() + NAP);
            drop(self.work.sleep(grids, until));
        }
    }

    /// Waits a little for work, for a worker that has just had some. Returns whether some came.
    fn comes(&self, worker: &Worker, rings: u64) -> bool {
        let Some(ended) = worker.ended.filter(|_| worker.residents.is_empty()) else {
            return false;
        };
        let end = ended + LOOK;
        if Instant::now() >= end || self.looking.swap(true, Ordering::AcqRel) {
            return false;
        }
        let comes = self.work.comes(rings, end);
        self.looking.store(false, Ordering::Release);
        comes
    }
}

impl Worker {
    /// Gives one group a turn. Returns false if there is nothing to do now.
    pub fn step(&mut self, pool: &Pool, gpu: &Gpu) -> Result<bool> {
        if self.waves < WAVES / pool.workers {
            if let Some((grid, lease, start)) = pool.take(gpu) {
                let found = pool.cus_of(&grid).found(&lease.place);
                let group = begin(&gpu.xcc(grid.origin.xcc), &grid, start, &found);
                gpu.activity.begin_waves();
                self.waves += group.waves.len();
                self.idle = 0;
                self.residents.push_front(Resident {
                    restoring: group.restoring(),
                    counted: Counts::default(),
                    grid,
                    lease,
                    group,
                });
            }
        }
        if self.idle > self.residents.len() {
            self.idle = 0;
            return Ok(false);
        }
        let Some(mut resident) = self.residents.pop_front() else {
            return Ok(false);
        };
        let progress = self.turn(gpu, &mut resident)?;
        if matches!(progress, Progress::Done | Progress::Saved) {
            self.idle = 0;
            self.ended = Some(Instant::now());
            gpu.activity.end_waves();
            self.waves -= resident.group.waves.len();
            resident.grid.restored(resident.restoring);
            let cus = pool.cus_of(&resident.grid);
            cus.keep(&resident.lease.place, &resident.group);
            if progress == Progress::Saved {
                gpu.summary.sq_saved.add(resident.group.saved() as u64);
            }
            if resident.grid.end(resident.lease, cus, gpu.clock.now()) {
                gpu.cp.waves_ended();
            }
            return Ok(true);
        }
        self.idle = if progress == Progress::Idle {
            self.idle + 1
        } else {
            0
        };
        self.residents.push_back(resident);
        Ok(true)
    }

    fn turn(&mut self, gpu: &Gpu, resident: &mut Resident) -> Result<Progress> {
        let Resident { grid, group, .. } = resident;
        if grid.is_killed() {
            return Ok(Progress::Done);
        }
        let vmid = grid.origin.vmid;
        let space = (grid.origin.xcc, vmid);
        let gpu = &gpu.xcc(grid.origin.xcc);
        let isa = gpu.regs.asic.isa;
        let code = self.code.entry(space).or_insert_with(|| Code::new(isa));
        if !self
            .seen
            .get(&space)
            .is_some_and(|seen| Arc::ptr_eq(seen, grid))
        {
            self.seen.insert(space, grid.clone());
            code.invalidate();
        }
        if grid.saves_waves() {
            group.save();
        }
        let device = Device::new(gpu, grid);
        let progress = group.run(code, &device, TURN);
        let counts = group.counts();
        if counts != resident.counted {
            gpu.summary
                .count_instructions(&counts.since(&resident.counted));
            resident.counted = counts;
        }
        device.check()?;
        let restored = resident.restoring - group.restoring();
        if restored > 0 {
            resident.restoring -= restored;
            grid.restored(restored);
        }
        if group.fault().is_some() {
            grid.fault();
        }
        if group.has_failed() {
            grid.fail();
        }
        match progress {
            Ok(progress) => Ok(progress),
            Err(stop) if stop.reason.is_the_users() => {
                // The hub or SQ has notified the driver.
                grid.fault();
                Ok(Progress::Done)
            }
            Err(stop) => Err(ModelError::Other(format!(
                "{}, VMID {vmid}, kernel at {:#x}: {stop}",
                grid.origin.queue, grid.launch.pc
            ))),
        }
    }
}

/// Creates the group in its initial state, with what is `left` in its place.
fn begin(gpu: &Gpu, grid: &Grid, start: Start, left: &dyn Leftovers) -> Group {
    match start {
        Start::Fresh { index, seats } => {
            gpu.summary.sq_groups.bump();
            gpu.summary.sq_waves.add(seats.len() as u64);
            let own = &gpu.summary.xccs[gpu.regs.xcc];
            own.groups.bump();
            own.waves.add(seats.len() as u64);
            grid.launch.group(index, &seats, left)
        }
        Start::Saved(shape, waves) => {
            gpu.summary.sq_restored.add(waves.len() as u64);
            let device = Device::new(gpu, grid);
            Group::restored(shape, &waves, grid.launch.apertures, &device, left)
        }
    }
}
