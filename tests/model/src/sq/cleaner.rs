// SPDX-License-Identifier: GPL-2.0
//! The cleaner shader: code of the driver that the MEC's firmware runs on all CUs, to clear what
//! other processes have left there (amdgpu: gfx_v9_4_2_cleaner_shader.asm says how).
//!
//! It is launched twice on each CU. First with s0 = 1 and the group's size in s1: 16 waves of 128
//! VGPRs and 96 SGPRs, which have all VGPRs, all LDS and SGPRs 0 to 383 of each SIMD. Then with
//! s0 = 0: 24 waves, which have SGPRs 224 to 799. A group of more than 16 waves has no barrier:
//! each of them halts itself, and goes on when all are there.

use std::ops::Range;

use rkfd_shader::code::Code;
use rkfd_shader::dispatch::{Launch, Seat};
use rkfd_shader::group::Progress;
use rkfd_shader::hwreg::status;
use rkfd_shader::isa::Isa;
use rkfd_shader::wave::Apertures;

use super::contents::At;
use super::cu::{Cus, LDS, SGPRS, SIMDS};
use super::grid::{self, Grid, Limits, Origin, Rest, Room};
use super::host::Device;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;

/// Instructions that a launch may have.
const MOST: u64 = 1 << 20;
/// Bytes behind the LDS: stores there have no effect. amdgpu's cleaner has some.
const BEYOND: u32 = 512;
/// SGPRs of each wave.
const WAVE_SGPRS: usize = 96;
const WAVE: u32 = 64;

/// A launch.
struct Part {
    waves: u32,
    vgprs: usize,
    /// The SGPRs of a SIMD that it has.
    sgprs: Range<usize>,
    lds: u32,
    s0: u32,
}

const PARTS: [Part; 2] = [
    Part {
        waves: 16,
        vgprs: 128,
        sgprs: 0..16 / SIMDS * WAVE_SGPRS,
        lds: LDS + BEYOND,
        s0: 1,
    },
    Part {
        waves: 24,
        vgprs: 8,
        sgprs: 224..SGPRS,
        lds: 0,
        s0: 0,
    },
];

impl Part {
    fn launch(&self, isa: Isa, code: u64) -> Launch {
        let size = [self.waves * WAVE, 1, 1];
        let mut user = [0; 16];
        user[0] = self.s0;
        Launch {
            isa,
            scratch: 0,
            pc: code,
            rsrc1: self.vgprs as u32 / 8 - 1,
            // One user SGPR, TG_SIZE_EN.
            rsrc2: 1 << 1 | 1 << 10,
            rsrc3: self.vgprs as u32 / 4 - 1,
            user,
            size,
            groups: [1; 3],
            last: size,
            start: [0; 3],
            lds: self.lds,
            apertures: Apertures {
                shared: 1,
                private: 2,
            },
            ttmps: None,
            debug: Default::default(),
        }
    }

    /// Where its waves are: one after the other, on each SIMD in turn.
    fn at(&self) -> At {
        let wave = |n: usize| {
            let (simd, n) = (n % SIMDS, n / SIMDS);
            let first = self.sgprs.start + n * WAVE_SGPRS;
            (simd, n * self.vgprs, first..first + WAVE_SGPRS)
        };
        At {
            waves: (0..self.waves as usize).map(wave).collect(),
            lds: 0,
        }
    }

    fn run(&self, gpu: &Gpu, cus: &Cus, cu: (u32, u32), code: u64) -> Result<()> {
        let wrong = |what: String| ModelError::Other(format!("the cleaner shader: {what}"));
        let launch = self.launch(gpu.regs.asic.isa, code);
        let origin = Origin {
            xcc: gpu.regs.xcc,
            queue: "the cleaner shader".into(),
            vmid: 0,
            doorbell: 0,
            hw_id: 0,
            of_packet: false,
        };
        let room = Room {
            cus: vec![cu],
            limits: Limits {
                waves_per_engine: None,
                groups_per_cu: None,
                simds: 0xf,
            },
            scratch: None,
            area: None,
            share: grid::Part::WHOLE,
        };
        let grid = Grid::new(launch, origin, room, Rest::default());
        let grid = grid.map_err(|reason| wrong(reason.into()))?;
        let device = Device::new(gpu, &grid);
        let found = cus.found_at(cu, self.at());
        let seats = vec![Seat::default(); self.waves as usize];
        let mut group = grid.launch.group(0, &seats, &found);
        if self.s0 == 1 {
            // It clears TTMPs, too.
            for wave in &mut group.waves {
                wave.status |= status::PRIV;
            }
        }
        let mut decoded = Code::new(grid.launch.isa);
        loop {
            let progress = group.run(&mut decoded, &device, MOST);
            device.check()?;
            match progress.map_err(|stop| wrong(stop.to_string()))? {
                Progress::Done => break,
                Progress::Idle
                    if group
                        .waves
                        .iter()
                        .any(|wave| wave.status & status::HALT != 0) =>
                {
                    for wave in &mut group.waves {
                        wave.status &= !status::HALT;
                    }
                }
                _ => return Err(wrong("it does not end".into())),
            }
        }
        if let Some(fault) = group.fault() {
            return Err(wrong(format!("a fault at {:#x}", fault.address)));
        }
        found.keep(&group);
        Ok(())
    }
}

/// Runs the cleaner at `code`, in VMID 0, on all CUs. On one where no wave has been since, it would
/// find nothing to clear. No wave may be there.
pub fn clean(gpu: &Gpu, cus: &Cus, code: u64) -> Result<()> {
    let Some(used) = cus.used() else {
        return Err(ModelError::Other(
            "the cleaner shader runs beside waves".into(),
        ));
    };
    for cu in used {
        for part in &PARTS {
            part.run(gpu, cus, cu, code)?;
        }
        cus.clean(cu);
    }
    gpu.summary.sq_cleaned.bump();
    Ok(())
}
