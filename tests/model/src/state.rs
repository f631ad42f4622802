// SPDX-License-Identifier: GPL-2.0
//! All settings made by a driver, for the comparison of two drivers of the same device.

use serde_json::{json, Map, Value};

use crate::gpu::Gpu;
use crate::regs::{Reg, DWORDS, SDMA_BASE};

/// All registers that are not zero, by name, as JSON: single ones, banked ones as `NAME[BANK]`,
/// those of SDMA queues, and of each active HQD as an object of its own. Nothing is read in the
/// driver's way, so nothing changes.
pub fn dump(gpu: &Gpu) -> Value {
    let mut all = Map::new();
    let mut add = |name: String, value: u32| {
        if value != 0 {
            all.insert(name, format!("{value:#x}").into());
        }
    };
    for regs in gpu.xccs().map(|gpu| gpu.regs) {
        let own = |&reg: &Reg| regs.exists(reg) && regs.is_own(reg);
        for reg in (0..DWORDS).map(Reg).filter(own) {
            add(regs.name(reg), regs.get(reg));
        }
    }
    for gpu in gpu.xccs() {
        for (reg, bank, value) in gpu.grbm.values() {
            add(format!("{}[{bank}]", gpu.regs.name(reg)), value);
        }
    }
    for engine in &gpu.sdma {
        let regs = gpu.aid(engine.aid()).regs;
        for (offset, value) in engine.queue_registers() {
            let reg = Reg(SDMA_BASE[engine.local()] + offset);
            // Only registers of the table: others cannot be written.
            if regs.exists(reg) {
                add(regs.name(reg), value);
            }
        }
    }
    for (slot, registers) in gpu.cp.active() {
        let named = registers
            .into_iter()
            .filter(|&(reg, value)| value != 0 && gpu.regs.exists(reg))
            .map(|(reg, value)| (gpu.regs.name(reg), format!("{value:#x}").into()))
            .collect::<Map<_, _>>();
        all.insert(slot, json!(named));
    }
    all.into()
}
