// SPDX-License-Identifier: GPL-2.0
//! The SMU: the processor that controls clocks, power and temperatures, and resets the GPU.
//!
//! It takes one message at a time: argument in C2PMSG_82, number in _66, answer in _90, which the
//! driver clears before. Tables go through memory, at an address of VMID 0 in MMHUB. It runs when
//! its firmware is loaded, and until PrepareMp1ForUnload; a message at any other time is never
//! answered. Its voltages and clocks are made up, except those that the driver has set (see
//! [`tables`]); temperatures, power and clocks are the board's ([`sensors`]), and the GPU's load is
//! that of its engines ([`crate::activity`]).
//!
//! A reset by it (GfxDriverReset 1) leaves the board as after power-up, with registers that read as
//! ones for a while and configuration space cleared. Parts that come back wrong are faults of the
//! PSP's, see [`crate::psp::faults`].
//!
//! A driver that makes it run a board by insane limits, or changes them while features use them,
//! ends the run; so does one that unloads it with features on that it was never told to end.
//! Firmware that is loaded while it runs takes over the active features.
//!
//! That is MI210's; MI300X's has other messages: [`v13_0_6`].

pub mod sensors;
pub mod tables;
pub mod v13_0_6;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::psp::image::digest;
use crate::regs::{mp1, Reg};
use crate::vm::Vm;
use sensors::{Energy, Readings, Sensors};
use tables::{Measured, PpTable, CLOCKS};
use v13_0_6::Effect;

const ANSWER: Reg = mp1::MP1_SMN_C2PMSG_90;
const ARGUMENT: Reg = mp1::MP1_SMN_C2PMSG_82;
const MESSAGE: Reg = mp1::MP1_SMN_C2PMSG_66;
/// Version of the firmware, 68.63.0, and of the interface between drivers and it.
const VERSION: u32 = 0x0044_3f00;
const INTERFACE: u32 = 8;
/// The time that a message takes.
const TAKES: Duration = Duration::from_micros(100);
/// The time from its answer to a reset until the GPU goes away, and the time until it is back.
const LEAVING: Duration = Duration::from_millis(5);
const AWAY: Duration = Duration::from_millis(100);

/// Answers.
const OK: u32 = 1;
const FAILED: u32 = 0xff;
const UNKNOWN: u32 = 0xfe;
const PREREQUISITE: u32 = 0xfd;

/// Tables that are identified by number.
const PPTABLE: u32 = 0;
const METRICS: u32 = 4;
const ECC: u32 = 7;
const ECC_BYTES: usize = 1024;
/// Alignment of a table's address.
const PAGE: u64 = 4096;
/// Level of GetDpmFreqByIndex that means the highest one.
const HIGHEST: u32 = 0xff;

/// The interface between drivers and it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// MI210's.
    V13_0_2,
    /// MI300X's.
    V13_0_6,
}

/// Faults that a test requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Its firmware is loaded and does not run.
    pub off: bool,
    /// A message that it does not execute, and its answer.
    pub answer: Option<(u32, u32)>,
    /// A message that it never answers.
    pub hangs: Option<u32>,
    /// A message that takes so many milliseconds.
    pub late: Option<(u32, u32)>,
}

#[derive(Default)]
struct State {
    runs: bool,
    faults: Faults,
    /// The current message, and the time at which it is done.
    busy: Option<(u32, Instant)>,
    /// The addresses of tables.
    table: [Option<u32>; 2],
    pptable: Option<PpTable>,
    features: u64,
    /// It was told to end them, with any result.
    ended: bool,
    limit: u32,
    /// The state of MI300X's.
    own: v13_0_6::Firmware,
    sensors: Sensors,
    energy: Energy,
    /// The GPU goes away, and is back.
    away: Option<[Instant; 2]>,
}

impl State {
    /// The state before the first message.
    fn begin(&mut self) {
        *self = State {
            away: self.away,
            faults: self.faults,
            sensors: self.sensors,
            energy: self.energy,
            ..State::default()
        };
    }

    /// What it measures now.
    fn read_sensors<'a>(&mut self, gpu: &'a Gpu) -> Readings<'a> {
        let now = gpu.clock.now();
        self.energy.count(now, self.sensors.power);
        Readings {
            now,
            sensors: self.sensors,
            energy: self.energy.units(),
            activity: &gpu.activity,
            serial: gpu.serial,
        }
    }

    fn address(&self) -> Option<u64> {
        match self.table {
            [Some(high), Some(low)] => Some(u64::from(high) << 32 | u64::from(low)),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Smu {
    state: Mutex<State>,
    /// The GPU is away, and the state must be checked for its return.
    away: AtomicBool,
    /// It is back, and the host has not enabled it.
    disabled: AtomicBool,
}

impl Smu {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The board's initial state: with its firmware or without.
    pub fn reset(&self, gpu: &Gpu, runs: bool) {
        let mut state = self.state();
        state.begin();
        // MI300X's is in the flash chip.
        let runs = runs || gpu.regs.asic.smu == Interface::V13_0_6;
        state.runs = runs && !state.faults.off;
        gpu.regs.set(ANSWER, runs.into());
    }

    /// Sets its faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the board's sensors as each `NAME=VALUE` says; `default` is the initial values. Returns
    /// all values.
    pub fn set_sensors(&self, gpu: &Gpu, texts: &[&str]) -> std::result::Result<String, String> {
        let mut state = self.state();
        let mut sensors = state.sensors;
        for &text in texts {
            match text {
                "default" => sensors = Sensors::default(),
                text => sensors.set(text)?,
            }
        }
        let power = state.sensors.power;
        state.energy.count(gpu.clock.now(), power);
        state.sensors = sensors;
        Ok(sensors.to_string())
    }

    /// A driver has left its features on, with limits of its own.
    pub fn leave_on(&self) {
        let mut state = self.state();
        let table = PpTable::left();
        state.features = table.features();
        state.limit = table.power_limit().into();
        state.pptable = Some(table);
    }

    /// Its firmware is loaded. It begins in the initial state, unless it runs.
    pub fn start(&self) {
        let mut state = self.state();
        if !state.runs {
            state.begin();
        }
        state.runs = !state.faults.off;
    }

    /// MP1_FIRMWARE_FLAGS, which shows a driver that it runs.
    pub fn flags(&self) -> u32 {
        self.state().runs.into()
    }

    /// The host has enabled its BARs.
    pub fn host_is_back(&self) {
        self.disabled.store(false, Ordering::Release);
    }

    /// Returns whether registers read as ones and ignore writes: the GPU is being reset, or was and
    /// its host has not enabled it.
    pub fn is_away(&self, gpu: &Gpu) -> bool {
        self.is_resetting(gpu) || self.disabled.load(Ordering::Acquire)
    }

    /// Returns whether the GPU is being reset; a call after that time brings it back.
    pub fn is_resetting(&self, gpu: &Gpu) -> bool {
        if !self.away.load(Ordering::Acquire) {
            return false;
        }
        let mut state = self.state();
        match state.away {
            None => false,
            Some([from, until]) if Instant::now() < until => Instant::now() >= from,
            Some(_) => {
                state.away = None;
                self.disabled.store(true, Ordering::Release);
                self.away.store(false, Ordering::Release);
                drop(state);
                gpu.come_back(gpu.psp.after_reset());
                false
            }
        }
    }

    /// Reads the answer, if there is one by now; None for other registers.
    pub fn read(&self, gpu: &Gpu, reg: Reg) -> Result<Option<u32>> {
        if reg != ANSWER {
            return Ok(None);
        }
        self.finish(gpu, &mut self.state())?;
        Ok(Some(gpu.regs.get(ANSWER)))
    }

    /// Completes the current message, if it is time.
    fn finish(&self, gpu: &Gpu, state: &mut State) -> Result<()> {
        match state.busy.filter(|busy| busy.1 <= Instant::now()) {
            Some((message, _)) => {
                state.busy = None;
                self.perform(gpu, state, message)
            }
            None => Ok(()),
        }
    }

    /// Writes a mailbox. Returns false if it is none.
    pub fn write(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<bool> {
        let regs = &gpu.regs;
        let mut state = self.state();
        if !matches!(reg, ANSWER | ARGUMENT | MESSAGE) {
            return Ok(false);
        }
        self.finish(gpu, &mut state)?;
        if state.busy.is_some() {
            return Err(regs.refuse(reg, value, "the last message is not answered"));
        }
        if reg == ANSWER && value != 0 {
            return Err(regs.refuse(reg, value, "the answer is only cleared"));
        }
        if reg == MESSAGE {
            if regs.get(ANSWER) != 0 {
                return Err(regs.refuse(reg, value, "the last answer is not cleared"));
            }
            if regs.asic.smu == Interface::V13_0_2 {
                if value == 0x24 && state.features != 0 && !state.ended {
                    return Err(regs.refuse(
                        reg,
                        value,
                        "it is to unload, and its features are on",
                    ));
                }
                state.ended |= value == 0x8;
            }
            if state.runs && state.faults.hangs != Some(value) {
                let late = state.faults.late.filter(|fault| fault.0 == value);
                let takes = late.map_or(TAKES, |fault| Duration::from_millis(fault.1.into()));
                state.busy = Some((value, Instant::now() + takes));
            } else {
                let argument = regs.get(ARGUMENT);
                gpu.psp
                    .note(format!("smu {value:#x} {argument:#x}->nothing"));
            }
        }
        regs.set(reg, value);
        Ok(true)
    }

    /// Executes a message, and answers it.
    fn perform(&self, gpu: &Gpu, state: &mut State, message: u32) -> Result<()> {
        let regs = &gpu.regs;
        let argument = regs.get(ARGUMENT);
        let mut more = String::new();
        let forced = state.faults.answer.filter(|fault| fault.0 == message);
        let (answer, result) = match (forced, regs.asic.smu) {
            (Some((_, answer)), _) => (answer, None),
            (None, Interface::V13_0_2) => self.execute(gpu, state, message, argument, &mut more)?,
            (None, Interface::V13_0_6) => self.execute_13_0_6(gpu, state, message, argument)?,
        };
        if let Some(result) = result {
            regs.set(ARGUMENT, result);
        }
        let shown = match (answer, result) {
            (OK, Some(result)) => format!("{result:#x}"),
            (OK, None) => "ok".into(),
            (other, _) => format!("refused {other:#x}"),
        };
        let (addresses, measures) = match regs.asic.smu {
            Interface::V13_0_2 => (0xf..=0x12, message == 0x13 && argument == METRICS),
            Interface::V13_0_6 => (0xd..=0x10, message == 0x9),
        };
        // An address is the driver's choice.
        let argument = match addresses.contains(&message) {
            true => "-".into(),
            false => format!("{argument:#x}"),
        };
        gpu.summary.smu_messages.bump();
        // A driver may ask for measurements any number of times.
        if measures && answer == OK {
            gpu.summary.smu_measurements.bump();
        } else {
            gpu.psp
                .note(format!("smu {message:#x} {argument}->{shown}{more}"));
        }
        regs.set(ANSWER, answer);
        Ok(())
    }

    /// Executes a message of MI300X's. Returns its answer, and its result.
    fn execute_13_0_6(
        &self,
        gpu: &Gpu,
        state: &mut State,
        message: u32,
        argument: u32,
    ) -> Result<(u32, Option<u32>)> {
        if let 0xd | 0xe = message {
            state.table[(message - 0xd) as usize] = Some(argument);
            return Ok((OK, None));
        }
        let (at, readings) = (state.address(), state.read_sensors(gpu));
        let xccs = gpu.layout().xccs;
        match state.own.perform(message, argument, at, &readings, xccs) {
            Effect::Answer(answer, result) => Ok((answer, result)),
            Effect::Give(table) => {
                Vm::kernel(gpu, HubId::Mm).write(at.unwrap_or(0), &table)?;
                Ok((OK, None))
            }
            Effect::Reset => Ok((self.reset_by(gpu, state, argument), None)),
        }
    }

    /// Executes a message of MI210's. Returns its answer, and its result; `more` is for the trace.
    fn execute(
        &self,
        gpu: &Gpu,
        state: &mut State,
        message: u32,
        argument: u32,
        more: &mut String,
    ) -> Result<(u32, Option<u32>)> {
        Ok(match message {
            0x1 => (OK, Some(argument.wrapping_add(1))),
            0x2 => (OK, Some(VERSION)),
            0x3 => (self.reset_by(gpu, state, argument), None),
            0x4 => (OK, Some(INTERFACE)),
            0x7 => match &state.pptable {
                Some(table) => {
                    state.features = table.features();
                    state.ended = false;
                    (OK, None)
                }
                None => (PREREQUISITE, None),
            },
            0x8 => {
                state.features = 0;
                (OK, None)
            }
            0xd => (OK, Some(state.features as u32)),
            0xe => (OK, Some((state.features >> 32) as u32)),
            0xf | 0x10 => {
                state.table[(message - 0xf) as usize] = Some(argument);
                (OK, None)
            }
            // The place of memory for tools; bounds of clocks; fabric states; retired pages; a
            // reset of the bus.
            0x11 | 0x12 | 0x18..=0x1b | 0x2f | 0x32 | 0x35 | 0x42 | 0x45 | 0x46 => (OK, None),
            0x13 | 0x14 => match state.address() {
                None => (PREREQUISITE, None),
                Some(at) if at % PAGE != 0 => (FAILED, None),
                Some(at) if message == 0x13 => (self.give(gpu, state, at, argument)?, None),
                Some(at) => {
                    let (answer, hash) = self.take(gpu, state, at, argument)?;
                    *more = format!(" {:#x} {hash:016x}", tables::PPTABLE_BYTES);
                    (answer, None)
                }
            },
            0x1c..=0x1e => match clock(state.pptable.as_ref(), message, argument) {
                Some(clock) => (OK, Some(clock)),
                None => (FAILED, None),
            },
            0x22 => {
                state.limit = argument;
                (OK, None)
            }
            0x23 => (OK, Some(state.limit)),
            0x24 => {
                state.runs = false;
                (OK, None)
            }
            // Calibrations, which need features on.
            0x27 | 0x43 if state.features != 0 => (OK, None),
            0x27 | 0x43 => (PREREQUISITE, None),
            _ => (UNKNOWN, None),
        })
    }

    /// Takes a table from the driver. Returns the answer, and an identification of its content.
    fn take(&self, gpu: &Gpu, state: &mut State, at: u64, number: u32) -> Result<(u32, u64)> {
        let mut bytes = vec![0; tables::PPTABLE_BYTES];
        Vm::kernel(gpu, HubId::Mm).read(at, &mut bytes)?;
        let hash = digest(&bytes);
        if number != PPTABLE {
            return Ok((FAILED, hash));
        }
        let table = PpTable::new(bytes);
        let wrong = match table.insane() {
            Some(what) => Some(format!("by a table whose {what} is not sane")),
            None if state.features != 0 => Some("by other limits while features are on".into()),
            None => None,
        };
        if let Some(wrong) = wrong {
            let how = format!("the SMU is to run the board {wrong}");
            return Err(gpu.regs.refuse(MESSAGE, 0x14, how));
        }
        state.limit = table.power_limit().into();
        state.pptable = Some(table);
        Ok((OK, hash))
    }

    /// Gives a table to the driver.
    fn give(&self, gpu: &Gpu, state: &mut State, at: u64, number: u32) -> Result<u32> {
        let readings = state.read_sensors(gpu);
        let table = match (number, &state.pptable) {
            (METRICS, table) => {
                let measured = Measured {
                    readings,
                    table: table.as_ref(),
                    features: state.features,
                };
                measured.table()
            }
            (ECC, _) => vec![0; ECC_BYTES],
            (PPTABLE, Some(table)) => table.bytes().to_vec(),
            _ => return Ok(FAILED),
        };
        Vm::kernel(gpu, HubId::Mm).write(at, &table)?;
        Ok(OK)
    }

    fn reset_by(&self, gpu: &Gpu, state: &mut State, argument: u32) -> u32 {
        match argument & 0xffff {
            1 => {
                gpu.bus.note_reset();
                let from = Instant::now() + LEAVING;
                state.away = Some([from, from + AWAY]);
                self.away.store(true, Ordering::Release);
                OK
            }
            _ => FAILED,
        }
    }
}

/// Answers GetMinDpmFreq and the two messages after it.
fn clock(table: Option<&PpTable>, message: u32, argument: u32) -> Option<u32> {
    let levels = match argument >> 16 {
        0 => table?.gfx_range(),
        clock => CLOCKS.get(clock as usize)?.to_vec(),
    };
    level(&levels, message - 0x1c, argument)
}

/// Answers a question about the levels of a clock, by the distance of its message from
/// GetMinDpmFreq. That one, and GetMaxDpmFreq: MHz; GetDpmFreqByIndex: MHz of a level, or the number
/// of the highest one.
fn level(levels: &[u32], question: u32, argument: u32) -> Option<u32> {
    match (question, argument & 0xffff) {
        (0, _) => levels.first().copied(),
        (1, _) => levels.last().copied(),
        (_, HIGHEST) => Some(levels.len() as u32 - 1),
        (_, index) => levels.get(index as usize).copied(),
    }
}
