// SPDX-License-Identifier: GPL-2.0
//! Engines that have firmware, and the switches that start them: a start without firmware ends the
//! run.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::regs::gc::{self, cp_mec_cntl, rlc_cntl};
use crate::regs::sdma::{self, f32_cntl};
use crate::regs::{Reg, MOST_SDMA_ENGINES, SDMA_ENGINES};

/// A piece of firmware that an engine needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Firmware {
    /// Of an SDMA engine.
    Sdma(usize),
    /// The code of the compute micro engines.
    Mec,
    /// And its jump table.
    MecJumpTable,
    /// The RLC's code.
    Rlc,
    /// Firmware that is not needed here: the SMU's, lists of registers, video.
    Other,
}

impl Firmware {
    /// Starts the engines that have just got it, but for the MECs.
    pub fn start(self, gpu: &Gpu) {
        match self {
            Firmware::Sdma(first) => {
                let step = gpu.regs.asic.sdma.len();
                let engines = gpu.sdma.iter().skip(first).step_by(step);
                engines.for_each(|engine| engine.start(gpu));
            }
            Firmware::Rlc => {
                let on = rlc_cntl::RLC_ENABLE_F32.of(1);
                gpu.xccs().for_each(|xcc| xcc.regs.set(gc::RLC_CNTL, on));
            }
            Firmware::Mec | Firmware::MecJumpTable | Firmware::Other => {}
        }
    }
}

/// The loaded firmware.
#[derive(Debug, Clone, Default)]
pub struct Engines {
    sdma: [bool; MOST_SDMA_ENGINES],
    mec: bool,
    jump_table: bool,
    rlc: bool,
}

/// An engine that is switched on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// An SDMA engine.
    Sdma(usize),
    /// The compute micro engines.
    Mec,
    /// The RLC.
    Rlc,
}

/// The SDMA engine of the AID whose copy of SDMA0's register `own` is `reg`.
fn sdma_with(gpu: &Gpu, own: Reg, reg: Reg) -> Option<usize> {
    let local = (0..SDMA_ENGINES).find(|&n| own.of_sdma(n) == reg)?;
    Some(gpu.regs.aid * gpu.regs.asic.sdma.len() + local)
}

impl Engine {
    /// The engine with that name in the trace.
    pub fn named(name: &str) -> Option<Engine> {
        Engine::all().find(|engine| engine.name() == name)
    }

    /// Each of them.
    pub fn all() -> impl Iterator<Item = Engine> {
        let sdma = (0..MOST_SDMA_ENGINES).map(Engine::Sdma);
        sdma.chain([Engine::Mec, Engine::Rlc])
    }

    /// Returns whether it is switched on: in any XCC.
    pub fn is_on(self, gpu: &Gpu) -> bool {
        match self {
            Engine::Sdma(n) => {
                let engine = gpu.sdma.get(n);
                engine.is_some_and(|engine| self.runs(engine.register(gpu, sdma::F32_CNTL)))
            }
            _ => gpu.xccs().any(|gpu| self.is_on_here(&gpu)),
        }
    }

    /// Returns whether it is switched on in this XCC or AID.
    fn is_on_here(self, gpu: &Gpu) -> bool {
        self.runs(gpu.regs.get(self.register(gpu)))
    }

    /// The engine that `reg` switches.
    fn of(gpu: &Gpu, reg: Reg) -> Option<Engine> {
        match reg {
            gc::CP_MEC_CNTL => Some(Engine::Mec),
            gc::RLC_CNTL => Some(Engine::Rlc),
            _ => sdma_with(gpu, sdma::F32_CNTL, reg).map(Engine::Sdma),
        }
    }

    /// Returns whether it runs with `value` in its register: either of the two compute micro
    /// engines.
    fn runs(self, value: u32) -> bool {
        match self {
            Engine::Sdma(_) => !f32_cntl::HALT.is_set(value),
            Engine::Mec => {
                !cp_mec_cntl::MEC_ME1_HALT.is_set(value) || !cp_mec_cntl::MEC_ME2_HALT.is_set(value)
            }
            Engine::Rlc => rlc_cntl::RLC_ENABLE_F32.is_set(value),
        }
    }

    fn register(self, gpu: &Gpu) -> Reg {
        match self {
            Engine::Sdma(n) => sdma::F32_CNTL.of_sdma(n % gpu.regs.asic.sdma.len()),
            Engine::Mec => gc::CP_MEC_CNTL,
            Engine::Rlc => gc::RLC_CNTL,
        }
    }

    /// For the trace and messages.
    pub fn name(self) -> String {
        match self {
            Engine::Sdma(n) => format!("sdma{n}"),
            Engine::Mec => "mec".into(),
            Engine::Rlc => "rlc".into(),
        }
    }
}

impl Engines {
    /// All of them loaded, or none.
    pub fn new(loaded: bool) -> Engines {
        Engines {
            sdma: [loaded; MOST_SDMA_ENGINES],
            mec: loaded,
            jump_table: loaded,
            rlc: loaded,
        }
    }

    /// Returns whether the graphics block's clock counts and its queues make progress, for which
    /// the RLC has to run.
    pub fn go_on(gpu: &Gpu) -> bool {
        Engine::Rlc.runs(gpu.regs.get(gc::RLC_CNTL))
    }

    /// Loads an engine's firmware, or a part of it. Returns the engine, if it is one of these. It
    /// must not be running the old firmware, except the RLC, which amdgpu leaves on when it is
    /// unloaded, and what the PSP halts itself.
    pub fn load(&mut self, gpu: &Gpu, firmware: Firmware) -> Result<Option<Engine>> {
        let engine = match firmware {
            Firmware::Sdma(n) => {
                // The PSP has a copy for each engine of an AID, which it gives to those of all.
                let engines = self.sdma.iter_mut().skip(n);
                let step = gpu.regs.asic.sdma.len();
                engines.step_by(step).for_each(|loaded| *loaded = true);
                Engine::Sdma(n)
            }
            Firmware::Mec => {
                self.mec = true;
                Engine::Mec
            }
            Firmware::MecJumpTable => {
                self.jump_table = true;
                Engine::Mec
            }
            Firmware::Rlc => {
                self.rlc = true;
                Engine::Rlc
            }
            Firmware::Other => return Ok(None),
        };
        let reg = engine.register(gpu);
        let value = gpu.regs.get(reg);
        let is_halted = matches!(engine, Engine::Sdma(_)) && gpu.regs.asic.psp.starts_engines;
        if engine != Engine::Rlc && !is_halted && engine.runs(value) {
            return Err(gpu
                .regs
                .refuse(reg, value, "firmware is loaded into an engine that runs"));
        }
        Ok(Some(engine))
    }

    fn has(&self, engine: Engine) -> bool {
        match engine {
            Engine::Sdma(n) => self.sdma[n],
            Engine::Mec => self.mec && self.jump_table,
            Engine::Rlc => self.rlc,
        }
    }

    /// Handles a coming write of `reg`: the line for the trace if that starts or stops an engine.
    pub fn switch(&self, gpu: &Gpu, reg: Reg, value: u32) -> Result<Option<String>> {
        let Some(engine) = Engine::of(gpu, reg) else {
            return Ok(None);
        };
        let (ran, runs) = (engine.runs(gpu.regs.get(reg)), engine.runs(value));
        let starts = runs && !ran;
        if starts && !self.has(engine) {
            return Err(gpu.regs.refuse(
                reg,
                value,
                format!("{} is started without firmware", engine.name()),
            ));
        }
        if starts && engine == Engine::Mec && !Engines::go_on(gpu) {
            return Err(gpu
                .regs
                .refuse(reg, value, "mec is started while the RLC is off"));
        }
        let verb = match (ran, runs) {
            (false, true) => "start",
            (true, false) => "stop",
            _ => return Ok(None),
        };
        Ok(Some(format!("engine {} {verb}", engine.name())))
    }

    /// Returns whether `reg` switches an engine or loads one.
    pub fn concerns(gpu: &Gpu, reg: Reg) -> bool {
        Engine::of(gpu, reg).is_some() || Engines::by_register(gpu, reg).is_some()
    }

    /// The firmware to which a write of a UCODE_DATA register adds a piece.
    pub fn by_register(gpu: &Gpu, reg: Reg) -> Option<Firmware> {
        match reg {
            gc::CP_MEC_ME1_UCODE_DATA => Some(Firmware::Mec),
            gc::RLC_GPM_UCODE_DATA => Some(Firmware::Rlc),
            _ => sdma_with(gpu, sdma::UCODE_DATA, reg).map(Firmware::Sdma),
        }
    }
}
