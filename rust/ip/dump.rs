// SPDX-License-Identifier: GPL-2.0
//! Registers that show the work of a GPU, to examine one that has hung. Reading them changes
//! nothing.

use core::fmt;

use kernel::prelude::*;

use hw::ip::IpBlock;

use super::Hardware;
use crate::regs::sdma::EnginePlaces;
use crate::regs::{gc, mp, nbio, sdma, Register, RegisterWindow};

/// A block, and registers by their names.
type Group = (IpBlock, &'static [(&'static str, Register)]);

const GROUPS: [Group; 3] = [
    (
        IpBlock::Gc,
        &[
            ("GRBM_STATUS", gc::GRBM_STATUS),
            ("CP_MEC_CNTL", gc::CP_MEC_CNTL),
            ("CP_PQ_STATUS", gc::CP_PQ_STATUS),
            ("RLC_CNTL", gc::RLC_CNTL),
            ("RLC_CP_SCHEDULERS", gc::RLC_CP_SCHEDULERS),
        ],
    ),
    (
        IpBlock::Mp,
        &[
            ("MP0_C2PMSG_35", mp::MP0_C2PMSG_35),
            ("MP0_C2PMSG_64", mp::MP0_C2PMSG_64),
            ("MP0_C2PMSG_81", mp::MP0_C2PMSG_81),
            ("MP1_C2PMSG_90", mp::MP1_C2PMSG_90),
        ],
    ),
    (
        IpBlock::Nbio,
        &[
            ("RCC_CONFIG_MEMSIZE", nbio::RCC_CONFIG_MEMSIZE),
            ("BIOS_SCRATCH_7", nbio::BIOS_SCRATCH_7),
        ],
    ),
];

/// The registers of each SDMA engine, behind those of [`EnginePlaces`].
const OF_SDMA: &[(&str, Register)] = &[
    ("STATUS_REG", sdma::STATUS_REG),
    ("GFX_RB_CNTL", sdma::RB_CNTL.within(sdma::GFX)),
    ("GFX_RB_RPTR", sdma::RB_RPTR.within(sdma::GFX)),
    ("GFX_RB_WPTR", sdma::RB_WPTR.within(sdma::GFX)),
    ("GFX_CONTEXT_STATUS", sdma::CONTEXT_STATUS.within(sdma::GFX)),
];

fn show(
    f: &mut dyn fmt::Write,
    window: Result<RegisterWindow>,
    name: fmt::Arguments<'_>,
    regs: &[(&str, Register)],
) -> fmt::Result {
    let Ok(window) = window else { return Ok(()) };
    regs.iter()
        .try_for_each(|(reg, at)| writeln!(f, "{name}{reg} {:#010x}", window.read(*at)))
}

/// Writes a line for each register, and one for each of the user HQDs that is active. May sleep.
pub(crate) fn registers(hw: &Hardware, f: &mut dyn fmt::Write) -> fmt::Result {
    let window = |block, instance| RegisterWindow::new(&hw.mmio, hw.ips(), block, instance);
    for (block, regs) in GROUPS {
        show(f, window(block, 0), format_args!(""), regs)?;
    }
    for engine in 0..hw.sdma.len() {
        let Ok(window) = window(IpBlock::Sdma, engine) else {
            continue;
        };
        let places = EnginePlaces::of(window.version());
        let moved = [("F32_CNTL", places.f32_cntl), ("CNTL", places.cntl)];
        show(f, Ok(window.clone()), format_args!("SDMA{engine}_"), &moved)?;
        show(f, Ok(window), format_args!("SDMA{engine}_"), OF_SDMA)?;
    }
    for hqd in hw.asic.mec.hqds() {
        if let Some(doorbell) = hw.gfx.active_doorbell(hqd) {
            let (pipe, queue) = (hqd.pipe(), hqd.queue());
            writeln!(f, "HQD {pipe}.{queue} doorbell {doorbell:#x}")?;
        }
    }
    Ok(())
}
