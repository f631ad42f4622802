// SPDX-License-Identifier: GPL-2.0
//! What fdinfo tells of an address space, in the format of drm-usage-stats, by amdgpu's names.

use kernel::{fmt, prelude::*, sync::Arc};

use crate::kern::params;

use super::{
    account::{Client, Region},
    group::Group,
    vm::Vm,
};

/// What is counted of an address space, for who need not have it.
#[derive(Clone)]
pub(crate) struct Usage {
    /// Its memory.
    pub(crate) client: Arc<Client>,
    /// Its queues.
    pub(crate) group: Arc<Group>,
    /// Engines of SDMA that they are on.
    engines: usize,
}

impl Usage {
    /// That of `vm`.
    pub(crate) fn of(vm: &Vm) -> Self {
        Self {
            client: vm.client().clone(),
            group: vm.group().clone(),
            engines: vm.gpu().hw.sdma.len(),
        }
    }

    /// Calls `line` with each line. For how long SDMA has worked for it is known where the driver makes jobs of that, for how long the
    /// CP has is not.
    pub(crate) fn show(&self, mut line: impl FnMut(fmt::Arguments<'_>)) {
        let kib = |region| self.client.bytes(region) >> 10;
        let (vram, evicted) = (kib(Region::Vram), kib(Region::Evicted));
        let system = kib(Region::Gtt) + kib(Region::User);
        let here = vram.saturating_sub(evicted);
        line(fmt!("pasid:\t{}\n", self.client.pasid()));
        for (region, total, resident) in [("vram", vram, here), ("gtt", system, system + evicted)] {
            line(fmt!("drm-total-{region}:\t{total} KiB\n"));
            line(fmt!("drm-resident-{region}:\t{resident} KiB\n"));
            // The older name of the same.
            line(fmt!("drm-memory-{region}:\t{resident} KiB\n"));
        }
        line(fmt!("amd-evicted-vram:\t{evicted} KiB\n"));
        line(fmt!("amd-requested-vram:\t{vram} KiB\n"));
        line(fmt!("amd-requested-gtt:\t{system} KiB\n"));
        if params::is_sdma_scheduled() {
            let time = self.group.sdma().total().as_nanos();
            line(fmt!("drm-engine-dma:\t{time} ns\n"));
            line(fmt!("drm-engine-capacity-dma:\t{}\n", self.engines));
        }
    }
}
