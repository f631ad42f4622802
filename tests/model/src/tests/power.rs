// SPDX-License-Identifier: GPL-2.0
//! Power states of the PCI function.

use super::psp_rig::*;
use super::rig::*;
use crate::psp::start::Start;

/// Bytes of configuration space: the low one of PMCSR.
const POWER: u64 = 0x54;
const D0: &[u8] = &[0];
const D3: &[u8] = &[3];

fn has(psp: &Psp, bytes: [u8; 8]) -> bool {
    psp.rig.peek(vram(VRAM - 8), 8) == bytes
}

#[test]
fn asleep_it_may_lose_all() {
    let psp = Psp::on(Start::Cold);
    let gpu = &psp.rig.gpu;
    psp.rig.poke(vram(VRAM - 8), &[1; 8]);
    gpu.write_config(POWER, D3);
    assert!(!gpu.bus.is_master());
    gpu.write_config(POWER, D0);
    assert!(
        gpu.bus.is_master() && has(&psp, [1; 8]),
        "it kept its power"
    );
    gpu.is_used();
    gpu.reset();
    assert!(has(&psp, [1; 8]), "it was in use");
    gpu.write_config(POWER, D3);
    gpu.write_config(POWER, D0);
    gpu.reset();
    assert!(!has(&psp, [1; 8]), "VRAM is lost");
    assert_eq!(gpu.summary.power_losses.get(), 1);
    gpu.reset();
    assert_eq!(gpu.summary.power_losses.get(), 1, "it was not asleep");
}

#[test]
#[should_panic(expected = "runs in D3hot")]
fn engines_stand_before_sleep() {
    Rig::new().gpu.write_config(POWER, D3);
}
