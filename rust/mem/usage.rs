// SPDX-License-Identifier: GPL-2.0
//! The statistics of an address space in fdinfo, in the format of drm-usage-stats, with amdgpu's
//! names.

use kernel::{fmt, prelude::*};

use crate::kern::params::SdmaMode;

use super::{account::MemoryRegion, vm::Vm};

/// Calls `line` with each line. The time for which SDMA has worked is known if the driver schedules
/// SDMA jobs. The time for which the CP has worked is not known.
pub(crate) fn show(vm: &Vm, mut line: impl FnMut(fmt::Arguments<'_>)) {
    let client = vm.client();
    let kib = |region| client.bytes(region) >> 10;
    let (vram, evicted) = (kib(MemoryRegion::Vram), kib(MemoryRegion::Evicted));
    let system = kib(MemoryRegion::Gtt) + kib(MemoryRegion::User);
    let here = vram.saturating_sub(evicted);
    line(fmt!("pasid:\t{}\n", client.pasid()));
    for (region, total, resident) in [("vram", vram, here), ("gtt", system, system + evicted)] {
        line(fmt!("drm-total-{region}:\t{total} KiB\n"));
        line(fmt!("drm-resident-{region}:\t{resident} KiB\n"));
        // The older name of the same value.
        line(fmt!("drm-memory-{region}:\t{resident} KiB\n"));
    }
    line(fmt!("amd-evicted-vram:\t{evicted} KiB\n"));
    line(fmt!("amd-requested-vram:\t{vram} KiB\n"));
    line(fmt!("amd-requested-gtt:\t{system} KiB\n"));
    if SdmaMode::get().has_jobs() {
        let time = vm.group().sdma().total().as_nanos();
        line(fmt!("drm-engine-dma:\t{time} ns\n"));
        let engines = vm.gpu().hw.sdma.len();
        line(fmt!("drm-engine-capacity-dma:\t{engines}\n"));
    }
}
