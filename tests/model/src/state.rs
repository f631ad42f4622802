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
    for reg in (0..DWORDS).map(Reg).filter(|&reg| gpu.regs.exists(reg)) {
        add(gpu.regs.name(reg), gpu.regs.get(reg));
    }
    for (reg, bank, value) in gpu.grbm.values() {
        add(format!("{}[{bank}]", gpu.regs.name(reg)), value);
    }
    for (engine, base) in gpu.sdma.iter().zip(SDMA_BASE) {
        for (offset, value) in engine.queue_registers() {
            let reg = Reg(base + offset);
            // Only registers of the table: others cannot be written.
            if gpu.regs.exists(reg) {
                add(gpu.regs.name(reg), value);
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
