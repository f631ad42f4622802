// SPDX-License-Identifier: GPL-2.0
//! gfx942's PSP: more parts, memory of its own, partitions.

use super::psp_rig::*;
use super::rig::*;
use crate::asic::GFX942;
use crate::psp::commands::{BAD_PARAMETERS, BAD_STATE, UNKNOWN_COMMAND};
use crate::psp::image::{self, Kind};
use crate::psp::start::Start;
use crate::regs::{gc, sdma};

const SOC: u32 = 0xb_0000;

#[test]
fn parts_in_order() {
    let psp = Psp::of(&GFX942, Start::Cold);
    for (command, kind) in [
        (KDB, Kind::KEY_DATABASE),
        (SYS, Kind::SYS_DRIVER),
        (SOC, Kind::SOC_DRIVER),
        (0xd_0000, Kind::INTERFACE_DRIVER),
        (0xc_0000, Kind::DEBUG_DRIVER),
        (0xe_0000, Kind::RAS_DRIVER),
    ] {
        assert_eq!(psp.boot(command, &sample(kind)), Ok(READY), "{command:#x}");
    }
    let os = image::make(Kind::SECURE_OS, 0x36_0256, 0x2000, true);
    assert_eq!(psp.boot(SOS, &os), Ok(0));
    // Left out, or unknown to another version.
    let psp = Psp::of(&GFX942, Start::Cold);
    assert_eq!(psp.boot(KDB, &sample(Kind::KEY_DATABASE)), Ok(READY));
    assert_eq!(psp.boot(SOC, &sample(Kind::SOC_DRIVER)), Ok(READY | 7));
    let psp = Psp::on(Start::Cold);
    assert!(psp.boot(SOC, &sample(Kind::SOC_DRIVER)).is_err());
}

#[test]
fn memory_of_its_own() {
    let mut psp = Psp::of(&GFX942, Start::Warm);
    psp.rig.gpu.psp.take_memory(&psp.rig.gpu);
    psp.good_ring();
    let rlc = sample(Kind::RLC);
    assert_eq!(psp.load(8, &rlc).unwrap().status, BAD_STATE);
    assert_eq!(psp.set_up_tmr(), Ok(BAD_PARAMETERS));
    assert_eq!(psp.tmr(0, 0, 2, 0), Ok(0));
    assert_eq!(psp.tmr(0, 0, 2, 0), Ok(BAD_STATE));
    psp.rig.set(gc::RLC_CNTL, 0);
    let answer = psp.load(8, &rlc).unwrap();
    assert_eq!((answer.status, answer.address), (0, FB + VRAM - 16 * MIB));
    assert_eq!(psp.get(gc::RLC_CNTL), 1, "the PSP starts it");
    // And SDMA engines, which it halts before.
    for time in ["halted", "running"] {
        assert_eq!(
            psp.load(53, &sample(Kind::SDMA)).unwrap().status,
            0,
            "{time}"
        );
        assert_eq!(psp.get(sdma::F32_CNTL.of_sdma(3)), 0, "{time}");
    }
    let table = sample(Kind::SMU_TABLE);
    assert_eq!(psp.load(129, &table).unwrap().status, 0);
    // The SMU has its own firmware, and there is no fifth engine.
    for (number, kind) in [(18, Kind::SMU), (54, Kind::SDMA)] {
        let answer = psp.load(number, &sample(kind)).unwrap();
        assert_eq!(answer.status, BAD_PARAMETERS, "{number}");
    }
    // It goes on to be the PSP's.
    assert_eq!(psp.command(7, &[]).unwrap().status, 0);
    assert_eq!(psp.load(8, &rlc).unwrap().status, BAD_STATE);
    let view = psp.rig.gpu.bus.view();
    assert!(view.write(vram(VRAM - 16 * MIB), &[0]).is_err());
}

#[test]
fn one_partition() {
    let mut psp = Psp::of(&GFX942, Start::Warm);
    psp.good_ring();
    assert_eq!(psp.command(0x27, &[1]).unwrap().status, 0);
    assert_eq!(psp.get(gc::CP_HYP_XCP_CTL), 1 << 3);
    assert_eq!(psp.command(0x27, &[2]).unwrap().status, BAD_PARAMETERS);
    let mut psp = Psp::with_ring(Start::Warm);
    assert_eq!(psp.command(0x27, &[1]).unwrap().status, UNKNOWN_COMMAND);
}
