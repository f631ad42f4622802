// SPDX-License-Identifier: GPL-2.0
//! Memory: who has VRAM and system memory, buffers, and the GPU's address spaces.
//!
//! Locks: a [`vm::Vm`]'s, and below it those of the allocators. Nothing here may be called where fences are
//! waited for by others: memory is allocated under these locks.
//!
//! [`GpuMemory`] is all of it for one GPU. It knows the hardware, and of what is above only that somebody copies for it.

pub(crate) mod account;
pub(crate) mod bo;
pub(crate) mod budget;
pub(crate) mod copy_engine;
pub(crate) mod cpu_view;
pub(crate) mod evict;
pub(crate) mod gart;
mod import;
mod lost;
pub(crate) mod metadata;
pub(crate) mod placement;
pub(crate) mod queue_group;
mod scrub;
pub(crate) mod shared_vram;
pub(crate) mod stopwatch;
mod table_pool;
pub(crate) mod usage;
mod user_memory;
pub(crate) mod vm;
pub(crate) mod vms;
pub(crate) mod vram;
pub(crate) mod vram_image;

use kernel::dev_notice;
use kernel::prelude::*;
use kernel::sync::{Arc, SetOnce};

use crate::ip::{gmc::VRAM_RESERVED, Hardware};
use crate::kern::drm::objects::ObjectList;
use crate::ledger::LedgerKind;
use bo::BoData;
use budget::VramBudget;
use copy_engine::CopyEngine;
use evict::Evictor;
use gart::Gart;
use lost::LostMemory;
use shared_vram::SharedVram;
use vms::VmList;
use vram::VramManager;

/// MC address of the GART: VRAM is placed far above.
const GART_START: u64 = 0;
/// Bytes of the GART.
const GART_BYTES: u64 = 512 << 20;

/// The memory of a GPU, kept by every buffer and address space: what there is of the hardware lives as long. Fields are
/// dropped in this order: each only uses what is below it.
#[pin_data]
pub(crate) struct GpuMemory {
    /// Who clears and copies VRAM, once somebody does.
    copy_engine: SetOnce<Arc<dyn CopyEngine>>,
    /// What the GPU may still reach.
    #[pin]
    pub(crate) lost: LostMemory,
    /// The window of system memory that VMID 0 sees.
    pub(crate) gart: Gart,
    /// Who yields VRAM to whom.
    pub(crate) evictor: Arc<Evictor>,
    /// Who may have how much VRAM.
    pub(crate) budget: Arc<VramBudget>,
    /// What processes have of VRAM as memory of their own.
    pub(crate) shared_vram: Arc<SharedVram>,
    /// Who has which VRAM.
    pub(crate) vram: VramManager,
    /// The address spaces.
    #[pin]
    pub(crate) vms: VmList,
    /// The buffers.
    #[pin]
    pub(crate) bos: ObjectList<BoData>,
    /// The hardware.
    pub(crate) hw: Arc<Hardware>,
}

/// Bytes at the end of VRAM that firmware may use: the PSP's run time data base, and the discovery table (amdgpu: PSP_RUNTIME_DB_OFFSET,
/// DISCOVERY_TMR_OFFSET).
const VRAM_KEPT: u64 = 2 << 20;

/// The VRAM of `hw` that can be used: what is behind its BAR, since the driver fills page tables there, and user space is told
/// that it sees all of it.
fn seen(hw: &Hardware) -> u64 {
    let (all, seen) = (hw.vram_size, hw.vram_map.size());
    if seen < all {
        dev_notice!(
            &*hw.dev,
            "the BAR shows {} of {} MiB of VRAM: the rest is not used (resizable BAR may be off)\n",
            seen >> 20,
            all >> 20
        );
    }
    all.min(seen)
}

impl GpuMemory {
    /// All memory of `hw` free, and its GART on. ENOMEM; errors of the hardware.
    pub(crate) fn new(hw: &Arc<Hardware>) -> Result<Arc<Self>> {
        let (map, gmc, ledger) = (&hw.vram_map, &hw.gmc, &hw.ledger);
        let vram = VramManager::new(seen(hw), VRAM_RESERVED, VRAM_KEPT, ledger.clone())?;
        let shared_vram = SharedVram::new()?;
        vram.set_reclaimer(shared_vram.clone());
        let gart = Gart::new(&vram, map, gmc, ledger, GART_START, GART_BYTES)?;
        let table = gart.table();
        gmc.enable_gart(table, GART_START, GART_BYTES)?;
        Arc::pin_init(
            try_pin_init!(Self {
                copy_engine: SetOnce::new(),
                lost <- LostMemory::new(),
                gart,
                evictor: Evictor::new()?,
                budget: VramBudget::new()?,
                shared_vram,
                vram,
                vms <- VmList::new(),
                bos <- ObjectList::new(),
                hw: hw.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Turns the GART on again, whose table is there. Errors of the hardware. Sleeps.
    pub(crate) fn enable_gart(&self) -> Result {
        let table = self.gart.table();
        self.hw.gmc.enable_gart(table, GART_START, GART_BYTES)
    }

    /// Bytes of system memory that clients of the GPU have.
    pub(crate) fn system_used(&self) -> u64 {
        u64::try_from(self.hw.ledger.count(LedgerKind::GttBytes)).unwrap_or(0)
    }

    /// From now on `engine` clears and copies. What it is given must not hold the memory any more once it is stopped.
    pub(crate) fn set_copy_engine(&self, engine: Arc<dyn CopyEngine>) {
        self.copy_engine.populate(engine);
    }

    /// VRAM is cleared in the background from now on, until it is stopped: see [`scrub::VramScrubber::stop`]. ENODEV when nobody clears.
    pub(crate) fn start_scrubbing(&self) -> Result {
        let engine = self.copy_engine.as_ref().ok_or(ENODEV)?;
        self.vram.scrubber().start(engine.clone());
        Ok(())
    }

    /// Who clears and copies. ENODEV when nobody does.
    fn copy_engine(&self) -> Result<&dyn CopyEngine> {
        Ok(&**self.copy_engine.as_ref().ok_or(ENODEV)?)
    }
}
