// SPDX-License-Identifier: GPL-2.0
//! An engine: its registers, its queues and the thread that schedules them.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::execute::{ecc_error, partial_doorbell, Executor, Step};
use super::queue::{Exception, Job, Queue};
use crate::clock::wait_until;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::psp::engines as psp;
use crate::regs::sdma::{self, cntl, f32_cntl, status_reg};
use crate::regs::{Reg, SDMA_GFX, SDMA_QUEUE_STRIDE, SDMA_RLC0, SDMA_RLC_QUEUES};
use crate::summary::EngineCounts;
use crate::vm::Client;

/// The GFX ring and the RLC queues.
const QUEUES: usize = 1 + SDMA_RLC_QUEUES as usize;
/// How long a queue may go on while others wait.
const SLICE: Duration = Duration::from_micros(200);
/// Interval at which a packet that is stopped in a halted engine checks whether to go on.
const HALTED_LOOK: Duration = Duration::from_millis(1);

pub(super) struct State {
    pub(super) queues: [Queue; QUEUES],
    current: usize,
    slice_end: Option<Instant>,
    paused: bool,
    /// Number of threads that wait for the end of the current packet.
    waiting: usize,
    /// Delay until queues report that they are idle once they are disabled.
    leave: Duration,
    /// Disabled queues report that they are idle only while no packet is in execution.
    behind: bool,
}

/// One SDMA engine.
pub struct Engine {
    number: usize,
    /// The AID that it is on, and its number there.
    aid: usize,
    local: usize,
    state: Mutex<State>,
    /// Something changed that may give the engine work.
    pub(super) work: Condvar,
    /// A packet ended.
    quiet: Condvar,
    fail_copy: AtomicBool,
    /// The engine was halted or reset since the current packet began.
    disturbed: AtomicBool,
    /// Number of its resets.
    resets: AtomicU64,
    /// Added to the reference clock by TIMESTAMP SET.
    time_offset: AtomicU64,
}

impl Engine {
    /// Engine `number`, out of reset, where an AID has so many.
    pub fn new(number: usize, per_aid: usize) -> Engine {
        Engine {
            number,
            aid: number / per_aid,
            local: number % per_aid,
            state: Mutex::new(State {
                queues: std::array::from_fn(|n| Queue::new(n != 0)),
                current: 0,
                slice_end: None,
                paused: false,
                waiting: 0,
                leave: Duration::ZERO,
                behind: false,
            }),
            work: Condvar::new(),
            quiet: Condvar::new(),
            fail_copy: AtomicBool::new(false),
            disturbed: AtomicBool::new(false),
            resets: AtomicU64::new(0),
            time_offset: AtomicU64::new(0),
        }
    }

    /// Its number on the chip.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The AID that it is on.
    pub fn aid(&self) -> usize {
        self.aid
    }

    /// Its number on the AID.
    pub fn local(&self) -> usize {
        self.local
    }

    /// The device as its AID sees it.
    pub(super) fn view(&self, gpu: &Gpu) -> Gpu {
        gpu.aid(self.aid)
    }

    /// Its counters.
    pub fn counts<'a>(&self, gpu: &'a Gpu) -> &'a EngineCounts {
        &gpu.summary.engines[self.number]
    }

    /// This engine's copy of SDMA0's register `reg`.
    pub fn register(&self, gpu: &Gpu, reg: Reg) -> u32 {
        gpu.regs.of(gpu.regs.xcc, self.aid).get(self.own(reg))
    }

    fn own(&self, reg: Reg) -> Reg {
        reg.of_sdma(self.local)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The local clock that TIMESTAMP SET sets.
    pub fn time(&self, gpu: &Gpu) -> u64 {
        gpu.clock
            .now()
            .wrapping_add(self.time_offset.load(Ordering::Relaxed))
    }

    /// Sets the local clock.
    pub fn set_time(&self, gpu: &Gpu, now: u64) {
        let offset = now.wrapping_sub(gpu.clock.now());
        self.time_offset.store(offset, Ordering::Relaxed);
    }

    /// The next copy of this engine is refused.
    pub fn fail_next_copy(&self) {
        self.fail_copy.store(true, Ordering::Release);
    }

    /// Returns whether a test wants the current copy refused.
    pub fn take_failure(&self, gpu: &Gpu) -> bool {
        self.fail_copy.swap(false, Ordering::AcqRel) || gpu.take_failure()
    }

    /// The number of its resets.
    pub fn resets(&self) -> u64 {
        self.resets.load(Ordering::Acquire)
    }

    /// Drops the current packet, if it is a long one.
    fn lose_packet(&self) {
        self.resets.fetch_add(1, Ordering::AcqRel);
        self.disturbed.store(true, Ordering::Relaxed);
    }

    /// Stops after the current packet, and waits for that.
    pub fn pause(&self) {
        let mut state = self.state();
        state.paused = true;
        state.waiting += 1;
        while state.queues.iter().any(Queue::is_executing) {
            state = self
                .quiet
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    /// Goes on.
    pub fn resume(&self) {
        self.state().paused = false;
        self.work.notify_all();
    }

    /// Makes disabled queues report that they are idle only after `time`.
    pub fn linger(&self, time: Duration) {
        let mut state = self.state();
        state.leave = time;
        state.behind = false;
    }

    /// Makes disabled queues report that they are idle only while no packet is in execution.
    pub fn linger_behind(&self) {
        self.state().behind = true;
    }

    /// Back to the state out of reset; the current packet is lost.
    pub fn reset(&self) {
        self.lose_packet();
        self.pause();
        let mut state = self.state();
        state.queues = std::array::from_fn(|n| Queue::new(n != 0));
        state.current = 0;
        state.paused = false;
        self.time_offset.store(0, Ordering::Relaxed);
    }

    /// All registers of all queues: dwords from the engine's base, and value.
    pub fn queue_registers(&self) -> Vec<(u32, u32)> {
        let state = self.state();
        let first = |queue: usize| match queue as u32 {
            0 => SDMA_GFX,
            n => SDMA_RLC0 + (n - 1) * SDMA_QUEUE_STRIDE,
        };
        let registers = |(n, queue): (usize, &Queue)| {
            (0..SDMA_QUEUE_STRIDE)
                .map(|index| (first(n) + index, queue.read(index as usize)))
                .collect::<Vec<_>>()
        };
        state
            .queues
            .iter()
            .enumerate()
            .flat_map(registers)
            .collect()
    }

    /// Reads a register, `offset` dwords from the engine's base.
    pub fn read(&self, gpu: &Gpu, reg: Reg, offset: u32) -> u32 {
        if let Some((queue, index)) = queue_register(offset) {
            let state = self.state();
            let value = state.queues[queue].read(index);
            let leaving = state.queues[queue].is_leaving(state.leave)
                || state.behind
                    && !state.queues[queue].is_enabled()
                    && state.queues.iter().any(Queue::is_executing);
            // No firmware is left that would report a queue as idle.
            let busy = Queue::is_status(index) && (leaving || self.has_crashed(gpu));
            return if busy { Queue::busy(value) } else { value };
        }
        if reg == self.own(sdma::STATUS_REG) {
            let state = self.state();
            let now = Instant::now();
            let idle = state
                .queues
                .iter()
                .all(|queue| !queue.is_executing() && queue.ready_at(now).is_none())
                && !self.has_crashed(gpu);
            let idle = u32::from(idle);
            return status_reg::IDLE.of(idle)
                | status_reg::REG_IDLE.of(1)
                | status_reg::RB_EMPTY.of(idle)
                | status_reg::RB_CMD_IDLE.of(idle)
                | status_reg::IB_CMD_IDLE.of(idle)
                | status_reg::BLOCK_IDLE.of(idle)
                | status_reg::EX_IDLE.of(idle)
                | status_reg::MC_WR_IDLE.of(idle)
                | status_reg::MC_RD_IDLE.of(idle);
        }
        gpu.regs.get(reg)
    }

    /// Writes a register, `offset` dwords from the engine's base.
    pub fn write(&self, gpu: &Gpu, reg: Reg, offset: u32, value: u32) -> Result<()> {
        if let Some((queue, index)) = queue_register(offset) {
            let mut state = self.state();
            state.queues[queue].write(&gpu.regs, reg, index, value)?;
        } else if reg == self.own(sdma::STATUS_REG) {
            return Err(gpu.regs.refuse(reg, value, "the register is read-only"));
        } else {
            gpu.regs.set(reg, value);
            if reg == self.own(sdma::F32_CNTL) {
                self.control(value);
            }
        }
        self.work.notify_all();
        Ok(())
    }

    /// The PSP starts it.
    pub fn start(&self, gpu: &Gpu) {
        let regs = gpu.regs.of(gpu.regs.xcc, self.aid);
        regs.set(self.own(sdma::F32_CNTL), 0);
        self.work.notify_all();
    }

    /// Handles a write of F32_CNTL.
    fn control(&self, value: u32) {
        if f32_cntl::RESET.is_set(value) {
            let mut state = self.state();
            self.lose_packet();
            state.queues.iter_mut().for_each(Queue::restart);
        } else if f32_cntl::HALT.is_set(value) {
            self.disturbed.store(true, Ordering::Relaxed);
        }
    }

    /// A doorbell at dword `index` of BAR2. Returns false if it is no queue's.
    pub fn doorbell(&self, index: u32, value: u64) -> Result<bool> {
        let mut state = self.state();
        let owner = state
            .queues
            .iter_mut()
            .find(|queue| queue.owns_doorbell(index));
        let Some(queue) = owner else {
            return Ok(false);
        };
        if !queue.ring(value) {
            return Err(ModelError::Other(format!(
                "SDMA{}: doorbell {value:#x} of VMID 0 is below the write pointer",
                self.number
            )));
        }
        drop(state);
        self.work.notify_all();
        Ok(true)
    }

    /// The engine reports an error of memory, of the kernel's ring, and goes on.
    pub fn report_ecc(&self, gpu: &Gpu) -> Result<()> {
        gpu.ih.push(&self.view(gpu), ecc_error(self))
    }

    /// A store of other than eight bytes has come to the engine's doorbells.
    pub fn partial_doorbell(&self, gpu: &Gpu) -> Result<()> {
        gpu.ih.push(&self.view(gpu), partial_doorbell(self))
    }

    /// The engine's thread: executes packets until one is a model error.
    pub fn run(&self, gpu: &Gpu) -> Result<()> {
        let activity = &gpu.activity.memory;
        let mut busy = false;
        loop {
            let state = self.state();
            match self.choose(gpu, state) {
                Choice::Run(job) => {
                    if !mem::replace(&mut busy, true) {
                        activity.begin();
                    }
                    self.execute(gpu, job)?;
                }
                Choice::Wait(state, until) => {
                    if mem::take(&mut busy) {
                        activity.end();
                    }
                    drop(wait_until(&self.work, state, until));
                }
                Choice::Doorbell(queue, vmid) => {
                    self.counts(gpu).refused.bump();
                    Executor::refuse_doorbell(self, queue, vmid)?;
                }
            }
        }
    }

    /// Executes one packet if a queue is ready. For tests, without the thread.
    #[cfg(test)]
    pub fn step(&self, gpu: &Gpu) -> Result<bool> {
        let state = self.state();
        match self.choose(gpu, state) {
            Choice::Run(job) => {
                self.execute(gpu, job)?;
                Ok(true)
            }
            Choice::Doorbell(queue, vmid) => {
                self.counts(gpu).refused.bump();
                Executor::refuse_doorbell(self, queue, vmid)?;
                Ok(true)
            }
            Choice::Wait(..) => Ok(false),
        }
    }

    /// Returns whether it may access memory: it has rings and is not halted, or is in the middle of
    /// a packet.
    pub fn is_at_work(&self, gpu: &Gpu) -> bool {
        let halted = self.is_halted(gpu);
        let state = self.state();
        let works = |queue: &Queue| queue.is_executing() || !halted && !queue.is_free();
        state.queues.iter().any(works)
    }

    /// Returns whether its firmware is stopped, for any reason.
    fn is_halted(&self, gpu: &Gpu) -> bool {
        let control = self.register(gpu, sdma::F32_CNTL);
        f32_cntl::HALT.is_set(control)
            || f32_cntl::RESET.is_set(control)
            || gpu.psp.is_dead(psp::Engine::Sdma(self.number))
    }

    fn has_crashed(&self, gpu: &Gpu) -> bool {
        gpu.psp.has_crashed(psp::Engine::Sdma(self.number))
    }

    fn choose<'a>(&self, gpu: &Gpu, mut state: MutexGuard<'a, State>) -> Choice<'a> {
        if state.paused || self.is_halted(gpu) {
            return Choice::Wait(state, None);
        }
        // Without context switching only the kernel's ring runs.
        let switching = cntl::AUTO_CTXSW_ENABLE.is_set(self.register(gpu, sdma::CNTL));
        let queues = if switching { QUEUES } else { 1 };
        let now = Instant::now();
        let stay = state.slice_end.is_some_and(|end| now < end);
        let first = state.current % queues + usize::from(!stay);
        let mut next: Option<Instant> = None;
        for n in 0..queues {
            let queue = (first + n) % queues;
            match state.queues[queue].ready_at(now) {
                Some(at) if at <= now => {
                    if queue != state.current || !stay {
                        state.current = queue;
                        state.slice_end = Some(now + SLICE);
                    }
                    return match state.queues[queue].begin(queue) {
                        Some(job) => {
                            self.disturbed.store(false, Ordering::Relaxed);
                            Choice::Run(job)
                        }
                        None => {
                            state.queues[queue].halt(Exception::Doorbell);
                            Choice::Doorbell(queue, state.queues[queue].vmid())
                        }
                    };
                }
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        Choice::Wait(state, next)
    }

    fn execute(&self, gpu: &Gpu, mut job: Job) -> Result<()> {
        let step = Executor::new(gpu, self, &mut job).step()?;
        let mut state = self.state();
        let queue = &mut state.queues[job.queue];
        match step {
            Step::Done => queue.end(&job),
            Step::Blocked => {
                queue.block(&job, Instant::now());
                state.slice_end = None;
            }
            Step::Starved => queue.starve(&job),
            Step::Lost => queue.lose(),
            Step::Halted(exception) => queue.halt(exception),
        }
        // A notification without waiters costs a system call.
        if state.waiting > 0 {
            self.quiet.notify_all();
        }
        Ok(())
    }
}

impl Client for Engine {
    /// Returns whether the current packet goes on; waits as long as the engine is halted.
    fn goes_on(&self, gpu: &Gpu, resets: u64) -> bool {
        if !self.disturbed.load(Ordering::Relaxed) {
            return true;
        }
        while self.resets() == resets {
            if !f32_cntl::HALT.is_set(self.register(gpu, sdma::F32_CNTL)) {
                return true;
            }
            std::thread::sleep(HALTED_LOOK);
        }
        false
    }
}

/// The engine's next action.
enum Choice<'a> {
    /// A packet of this queue.
    Run(Job),
    /// Nothing until then, or until something changes.
    Wait(MutexGuard<'a, State>, Option<Instant>),
    /// Queue and VMID with an invalid write pointer.
    Doorbell(usize, u8),
}

/// The queue of a register, and the register's number within the queue.
fn queue_register(offset: u32) -> Option<(usize, usize)> {
    let stride = SDMA_QUEUE_STRIDE;
    if (SDMA_GFX..SDMA_GFX + stride).contains(&offset) {
        Some((0, (offset - SDMA_GFX) as usize))
    } else if (SDMA_RLC0..SDMA_RLC0 + SDMA_RLC_QUEUES * stride).contains(&offset) {
        let offset = offset - SDMA_RLC0;
        Some((1 + (offset / stride) as usize, (offset % stride) as usize))
    } else {
        None
    }
}
