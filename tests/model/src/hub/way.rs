// SPDX-License-Identifier: GPL-2.0
//! The kernel's path to memory: the registers for the translation of VMID 0. Hardware uses any
//! values. An engine at work during a change has older addresses, which lead to memory of another
//! owner from then on: that ends the run.

use super::HubId;
use crate::gpu::Gpu;
use crate::regs::gc::{self, mc_vm_mx_l1_tlb_cntl as l1, vm_context0_cntl as context};
use crate::regs::{Field, Reg};

/// Registers that belong to the path with every bit.
const WHOLE: &[Reg] = &[
    gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
    gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
    gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    gc::MC_VM_FB_LOCATION_BASE,
    gc::MC_VM_FB_LOCATION_TOP,
    gc::MC_VM_AGP_BASE,
    gc::MC_VM_AGP_BOT,
    gc::MC_VM_AGP_TOP,
    gc::MC_VM_SYSTEM_APERTURE_LOW_ADDR,
    gc::MC_VM_SYSTEM_APERTURE_HIGH_ADDR,
];

/// Registers that belong to it with some bits, and these bits.
fn fields(plain: Reg) -> &'static [Field] {
    match plain {
        gc::VM_CONTEXT0_CNTL => &[
            context::ENABLE_CONTEXT,
            context::PAGE_TABLE_DEPTH,
            context::PAGE_TABLE_BLOCK_SIZE,
        ],
        gc::MC_VM_MX_L1_TLB_CNTL => &[l1::SYSTEM_ACCESS_MODE],
        _ => &[],
    }
}

/// The first engine at work, of those that access memory through this hub.
fn at_work(gpu: &Gpu, hub: HubId) -> Option<String> {
    match hub {
        HubId::Gfx => gpu.cp.is_at_work(gpu).then(|| "the CP".into()),
        HubId::Mm => {
            let mut engines = gpu.sdma.iter().filter(|it| it.aid() == gpu.regs.aid);
            let engine = engines.find(|engine| engine.is_at_work(gpu));
            let engine = engine.map(|engine| format!("SDMA{}", engine.number()));
            // The interrupt ring is in memory behind the first AID's hub.
            let ih = || (gpu.regs.aid == 0 && gpu.ih.is_on(gpu)).then(|| "the IH".into());
            engine.or_else(ih)
        }
    }
}

/// The reason to refuse `value` for `plain`, GFXHUB's name of a register of this hub whose value
/// was `before`.
pub(super) fn refusal(
    gpu: &Gpu,
    hub: HubId,
    plain: Reg,
    before: u32,
    value: u32,
) -> Option<String> {
    let some = |field: &Field| field.get(before) != field.get(value);
    let changes = before != value && WHOLE.contains(&plain) || fields(plain).iter().any(some);
    let who = changes.then(|| at_work(gpu, hub)).flatten()?;
    Some(format!(
        "{who} is at work, and VMID 0's way to memory changes under it"
    ))
}
