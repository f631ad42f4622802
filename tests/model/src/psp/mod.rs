// SPDX-License-Identifier: GPL-2.0
//! The PSP: the security processor that loads firmware into the GPU.
//!
//! From power-up its bootloader takes three parts (C2PMSG_35, [`bootloader`]), the last of which is
//! a secure OS. That OS has a ring (C2PMSG_64 and others, [`ring`]), by which it takes
//! [`commands`]: the place of its memory ([`tmr`]), and the firmware of each engine, which does
//! nothing before ([`engines`]). Each [`image`] is signed.
//!
//! Addresses are those of VMID 0 in MMHUB, which has to be set up. Where the specification leaves
//! something open, this was chosen:
//!
//! - *Order.* A part of the bootloader out of order is refused, and the bootloader takes nothing
//!   more. Firmware of engines before SETUP_TMR is refused, except for the SMU's.
//! - *A ring* cannot be made beside another. A second SETUP_TMR is refused in the life of a ring;
//!   with a new ring it replaces the region of a previous driver.
//! - *Trusted applications*: that for XGMI ([`xgmi`]) is the only one.
//! - *Reset of the function* restores the board's initial state.
//! - *A refused part or command* is a status; a driver that breaks the protocol (a command while
//!   another is in progress, a pointer in the middle of a frame, an engine without firmware) ends
//!   the run.

pub mod bootloader;
pub mod commands;
pub mod engines;
pub mod faults;
pub mod image;
mod left;
pub mod ring;
pub mod start;
pub mod tmr;
pub mod trace;
pub mod version;
pub mod xgmi;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::clock::wait_until;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::regs::{gc, mp0, nbio, sdma, Reg};
use bootloader::{Bootloader, Part, SecureOs, READY};
use engines::{Engine, Engines, Firmware};
use faults::Faults;
use image::Signatures;
use ring::Ring;
use start::Start;
use tmr::Tmr;
use trace::Trace;
use xgmi::Xgmi;

/// BIOS_SCRATCH_7: ASIC_INIT_COMPLETE.
const POSTED: u32 = 1 << 9;
/// C2PMSG_35 of a bootloader that failed before the driver came.
const STUCK: u32 = READY | 0x0b;
/// F32_CNTL of an SDMA engine, and CP_MEC_CNTL, when nothing is halted.
const RUNNING: u32 = 0;
/// The place of amdgpu's TMR on a real board.
const LEFT_TMR: u64 = 16 << 20;

/// Delayed work of the PSP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// The bootloader loads.
    Load(Part),
    /// The secure OS answers C2PMSG_64.
    Control(u32),
    /// The secure OS looks at its ring.
    Frames,
}

/// State outside of registers.
struct State {
    start: Start,
    faults: Faults,
    bootloader: Bootloader,
    os: SecureOs,
    ring: Option<Ring>,
    /// No SETUP_TMR has come since the ring was made.
    fresh: bool,
    tmr: Option<Tmr>,
    register_list: bool,
    engines: Engines,
    /// The trusted application for XGMI, while it is loaded.
    xgmi: Option<Xgmi>,
    /// Applications loaded so far.
    sessions: u32,
    jobs: VecDeque<(Instant, Job)>,
}

impl State {
    fn new(start: Start, faults: Faults) -> State {
        let warm = start.has_secure_os();
        State {
            start,
            faults,
            bootloader: if start.takes_commands() {
                Bootloader::Ready(0)
            } else {
                Bootloader::Closed
            },
            os: if warm { SecureOs::Alive } else { SecureOs::Off },
            ring: None,
            fresh: true,
            tmr: None,
            register_list: warm,
            engines: Engines::new(warm),
            xgmi: None,
            sessions: 0,
            jobs: VecDeque::new(),
        }
    }
}

/// An engine's number, never 0.
fn code(engine: Option<Engine>) -> u32 {
    match engine {
        None => 0,
        Some(Engine::Rlc) => 1,
        Some(Engine::Mec) => 2,
        Some(Engine::Sdma(n)) => 3 + n as u32,
    }
}

/// See the module.
pub struct Psp {
    state: Mutex<State>,
    work: Condvar,
    /// The engine that a fault has stopped, see [`Psp::is_dead`]: engines ask often, and with locks
    /// of their own.
    dead: AtomicU32,
    /// Engines whose firmware has crashed, a bit each.
    crashed: AtomicU32,
    signatures: Signatures,
    trace: Trace,
}

impl Psp {
    /// The PSP of a board.
    pub fn new(start: Start, signatures: Signatures, faults: Faults) -> Psp {
        Psp {
            dead: AtomicU32::new(code(faults.dead)),
            crashed: AtomicU32::new(0),
            signatures,
            state: Mutex::new(State::new(start, faults)),
            work: Condvar::new(),
            trace: Trace::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault, see [`Faults::add`].
    pub fn add_fault(&self, gpu: &Gpu, text: &str) -> std::result::Result<(), String> {
        let mut state = self.state();
        state.faults.add(text)?;
        self.dead.store(code(state.faults.dead), Ordering::Release);
        gpu.smu.set_faults(state.faults.smu);
        if state.faults.no_flash {
            gpu.regs.set(mp0::MP0_SMN_C2PMSG_33, 0);
        }
        if state.faults.no_bootloader {
            state.bootloader = Bootloader::Closed;
            gpu.regs.set(mp0::MP0_SMN_C2PMSG_35, 0);
        }
        Ok(())
    }

    /// Returns whether `engine` does nothing, though it has firmware and was started: because of a
    /// fault, or because it has crashed.
    pub fn is_dead(&self, engine: Engine) -> bool {
        self.dead.load(Ordering::Acquire) == code(Some(engine)) || self.has_crashed(engine)
    }

    /// Stops the firmware of `engine` for good: until it is loaded again, or the GPU is reset.
    pub fn crash(&self, engine: Engine) {
        self.crashed
            .fetch_or(1 << code(Some(engine)), Ordering::AcqRel);
    }

    /// Returns whether it has crashed.
    pub fn has_crashed(&self, engine: Engine) -> bool {
        self.crashed.load(Ordering::Acquire) & 1 << code(Some(engine)) != 0
    }

    fn revive(&self, engine: Engine) {
        self.crashed
            .fetch_and(!(1 << code(Some(engine))), Ordering::AcqRel);
    }

    /// Sets the board's state after the next reset.
    pub fn set_start(&self, start: Start) {
        self.state().start = start;
    }

    /// Restores the board's initial state, with its registers, which are zero.
    pub fn reset(&self, gpu: &Gpu) {
        let mut state = self.state();
        *state = State::new(state.start, state.faults.clone());
        if state.faults.no_bootloader {
            state.bootloader = Bootloader::Closed;
        }
        gpu.bus.trust(0, 0);
        self.crashed.store(0, Ordering::Release);
        let start = state.start;
        let warm = start.has_secure_os();
        // Versions of the firmware that is loaded when the driver comes. Those of engines are in their
        // registers, as after a load by these: the PSP leaves none there.
        let (os, loaded) = (gpu.regs.asic.psp.loaded, &gpu.regs.asic.firmware);
        let ready = if warm { READY } else { 0 };
        let bootloader = match state.bootloader {
            _ if start == Start::Stuck => STUCK,
            Bootloader::Closed if !warm => 0,
            _ => READY,
        };
        let flash = start.is_posted() && !state.faults.no_flash;
        gpu.smu.set_faults(state.faults.smu);
        gpu.smu.reset(gpu, warm);
        for (reg, value) in [
            (mp0::MP0_SMN_C2PMSG_33, if flash { READY } else { 0 }),
            (mp0::MP0_SMN_C2PMSG_35, bootloader),
            (mp0::MP0_SMN_C2PMSG_58, if warm { os } else { 0 }),
            (mp0::MP0_SMN_C2PMSG_64, ready),
            (mp0::MP0_SMN_C2PMSG_81, warm.into()),
            (
                nbio::BIOS_SCRATCH_7,
                if start.is_posted() { POSTED } else { 0 },
            ),
        ] {
            gpu.regs.set(reg, value);
        }
        for gpu in gpu.xccs().filter(|_| warm) {
            gpu.regs.set(gc::CP_MEC_ME1_UCODE_ADDR, loaded.mec);
        }
        if start == Start::Dirty {
            state.ring = Some(Ring::left());
            state.fresh = false;
            if !gpu.regs.asic.psp.has_memory {
                state.tmr = Some(Tmr::left(gpu, LEFT_TMR));
            }
            gpu.smu.leave_on();
        }
        let engines = 0..gpu.regs.asic.sdma.len();
        for (gpu, n) in gpu
            .aids()
            .flat_map(|gpu| engines.clone().map(move |n| (gpu.clone(), n)))
        {
            gpu.regs
                .set(sdma::F32_CNTL.of_sdma(n), sdma::f32_cntl::HALT.of(1));
            if warm {
                gpu.regs.set(sdma::UCODE_ADDR.of_sdma(n), loaded.sdma);
            }
        }
        if start == Start::Dirty {
            if let Err(error) = left::run(gpu) {
                gpu.fail(&error);
            }
        }
    }

    /// Sets memory apart, where its version does so before a driver comes.
    pub fn take_memory(&self, gpu: &Gpu) {
        if gpu.regs.asic.psp.has_memory {
            self.state().tmr = Some(Tmr::own(gpu));
        }
    }

    /// Reads registers that change with time.
    pub fn read(&self, gpu: &Gpu, reg: Reg) -> Option<u32> {
        (reg == mp0::MP0_SMN_C2PMSG_81).then(|| self.look_for_os(gpu, &mut self.state()))
    }

    /// Writes a mailbox. Returns false if it is none.
    pub fn write(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<bool> {
        let mut state = self.state();
        let (delay, job) = match reg {
            mp0::MP0_SMN_C2PMSG_35 => {
                let part = self.bootloader_command(gpu, &mut state, value)?;
                (bootloader::LOADING, Job::Load(part))
            }
            mp0::MP0_SMN_C2PMSG_64 => {
                self.ring_command(gpu, &state, value)?;
                (ring::CONTROL, Job::Control(value))
            }
            mp0::MP0_SMN_C2PMSG_67 => {
                self.ring_pointer(gpu, &state, value)?;
                (ring::FETCH, Job::Frames)
            }
            mp0::MP0_SMN_C2PMSG_36
            | mp0::MP0_SMN_C2PMSG_69
            | mp0::MP0_SMN_C2PMSG_70
            | mp0::MP0_SMN_C2PMSG_71 => {
                gpu.regs.set(reg, value);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.later(&mut state, delay, job);
        Ok(true)
    }

    fn later(&self, state: &mut State, delay: Duration, job: Job) {
        state.jobs.push_back((Instant::now() + delay, job));
        self.work.notify_all();
    }

    /// Handles a coming write of a register that may start an engine, be a piece of its firmware,
    /// or belong to the trace.
    pub fn watch(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<()> {
        if !Trace::has(reg) && !Engines::concerns(gpu, reg) {
            return Ok(());
        }
        let mut state = self.state();
        if let Some(line) = state.engines.switch(gpu, reg, value)? {
            self.trace.add(line);
        }
        if let (Start::Open, Some(firmware)) = (state.start, Engines::by_register(gpu, reg)) {
            self.load_engine(gpu, &mut state, firmware)?;
            if firmware == Firmware::Mec {
                state.engines.load(gpu, Firmware::MecJumpTable)?;
            }
        }
        let old = gpu.regs.get(reg);
        if old != value && Trace::has(reg) {
            let name = gpu.regs.name(reg);
            self.trace.add(format!("reg {name} {old:#x}->{value:#x}"));
        }
        Ok(())
    }

    fn load_engine(&self, gpu: &Gpu, state: &mut State, firmware: Firmware) -> Result<()> {
        if let Some(engine) = state.engines.load(gpu, firmware)? {
            self.revive(engine);
        }
        Ok(())
    }

    fn perform(&self, gpu: &Gpu, state: &mut State, job: Job) -> Result<()> {
        match job {
            Job::Load(part) => self.load_part(gpu, state, part),
            Job::Control(command) => self.control(gpu, state, command),
            Job::Frames => self.frames(gpu, state),
        }
    }

    /// The PSP's thread: does due work until that is a model error.
    pub fn run(&self, gpu: &Gpu) -> Result<()> {
        let mut state = self.state();
        loop {
            match state.jobs.front().copied() {
                Some((due, job)) if due <= Instant::now() => {
                    state.jobs.pop_front();
                    self.perform(gpu, &mut state, job)?;
                }
                next => state = wait_until(&self.work, state, next.map(|next| next.0)),
            }
        }
    }

    /// Does the next work, due or not. Returns false if there is none. For tests, without the
    /// thread.
    #[cfg(test)]
    pub fn step(&self, gpu: &Gpu) -> Result<bool> {
        let mut state = self.state();
        match state.jobs.pop_front() {
            Some((_, job)) => self.perform(gpu, &mut state, job).map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns whether the clock of the graphics block counts.
    pub fn clock_counts(&self, gpu: &Gpu) -> bool {
        Engines::go_on(gpu) && !self.is_dead(Engine::Rlc)
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Adds a line to the trace.
    pub fn note(&self, line: String) {
        self.trace.add(line);
    }

    /// The firmware's progress after a reset.
    pub fn after_reset(&self) -> Start {
        if self.state().faults.no_post {
            Start::Unposted
        } else {
            Start::Cold
        }
    }

    /// Its history as JSON: the initial state, and the trace.
    pub fn json(&self) -> Value {
        json!({
            "start": self.state().start.name(),
            "trace": self.trace.lines(),
        })
    }
}
