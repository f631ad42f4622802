// SPDX-License-Identifier: GPL-2.0
//! Memory: the allocators of VRAM and system memory, buffers, and the GPU's address spaces.
//!
//! Locks: that of a [`vm::Vm`], and below it those of the allocators. Memory is allocated under
//! these locks, so no function of this module may be called in a path that others wait for through
//! a fence.
//!
//! [`GpuMemory`] is all of it for one GPU. It knows the hardware. Of the layers above, it knows
//! only that one of them copies memory for it ([`copy_engine`]), and one executes the jobs of its
//! clients ([`job_engine`]).

pub(crate) mod account;
pub(crate) mod bo;
pub(crate) mod budget;
pub(crate) mod copy_engine;
pub(crate) mod cpu_view;
pub(crate) mod evict;
pub(crate) mod gart;
mod hive_view;
mod import;
pub(crate) mod job_engine;
mod lost;
pub(crate) mod metadata;
pub(crate) mod pasid;
pub(crate) mod placement;
pub(crate) mod queue_group;
mod scrub;
pub(crate) mod shared_vram;
pub(crate) mod stopwatch;
mod table_pool;
pub(crate) mod usage;
pub(crate) mod user_memory;
pub(crate) mod vm;
pub(crate) mod vmid_reservation;
pub(crate) mod vms;
pub(crate) mod vram;
pub(crate) mod vram_image;

use kernel::dev_warn;
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
use job_engine::JobEngine;
use lost::LostMemory;
use shared_vram::SharedVram;
use vmid_reservation::VmidReservation;
use vms::VmList;
use vram::VramManager;

/// MC address of the GART: VRAM is placed far above.
const GART_START: u64 = 0;
/// Bytes of the GART.
const GART_BYTES: u64 = 512 << 20;

/// The memory of a GPU. Every buffer and address space holds a reference, so the parts of the
/// hardware that it needs live as long. Fields are dropped in this order: each only uses those
/// below it.
#[pin_data]
pub(crate) struct GpuMemory {
    /// Clears and copies VRAM; empty until the engines are set up.
    copy_engine: SetOnce<Arc<dyn CopyEngine>>,
    /// Executes jobs of clients; empty until queues are set up.
    job_engine: SetOnce<Arc<dyn JobEngine>>,
    /// Memory that the GPU may still access.
    #[pin]
    pub(crate) lost: LostMemory,
    /// The window of system memory that VMID 0 sees.
    pub(crate) gart: Gart,
    /// Decides which process yields VRAM, and to which one.
    pub(crate) evictor: Arc<Evictor>,
    /// Decides how much VRAM each client may have.
    pub(crate) budget: Arc<VramBudget>,
    /// VRAM that processes use as memory of their own (SVM).
    pub(crate) shared_vram: Arc<SharedVram>,
    /// The reservation of a VMID that an open file may have.
    pub(crate) vmid_reservation: VmidReservation,
    /// Allocates VRAM.
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

/// Returns how much VRAM of `hw` can be used: the part behind its BAR, since the driver fills page
/// tables there, and user space reads in the topology that it sees all of it.
fn seen(hw: &Hardware) -> u64 {
    let (all, seen) = (hw.vram_size, hw.vram_map.size());
    if seen < all {
        dev_warn!(
            &*hw.dev,
            "BAR0 shows {} of {} MiB of VRAM, and the rest is not used: \
             in the BIOS setup, enable Above 4G Decoding and Resizable BAR\n",
            seen >> 20,
            all >> 20
        );
    }
    all.min(seen)
}

impl GpuMemory {
    /// Creates the memory manager of `hw` with all memory free, and enables its GART.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the hardware.
    pub(crate) fn new(hw: &Arc<Hardware>) -> Result<Arc<Self>> {
        let (map, gmc, ledger) = (&hw.vram_map, &hw.gmc, &hw.ledger);
        let vram = VramManager::new(seen(hw), VRAM_RESERVED, hw.asic.vram.kept, ledger.clone())?;
        let shared_vram = SharedVram::new()?;
        vram.set_reclaimer(shared_vram.clone());
        let gart = Gart::new(&vram, map, gmc, ledger, GART_START, GART_BYTES)?;
        let table = gart.table();
        gmc.enable_gart(table, GART_START, GART_BYTES)?;
        Arc::pin_init(
            try_pin_init!(Self {
                copy_engine: SetOnce::new(),
                job_engine: SetOnce::new(),
                lost <- LostMemory::new(),
                gart,
                evictor: Evictor::new()?,
                budget: VramBudget::new()?,
                shared_vram,
                vmid_reservation: VmidReservation::new()?,
                vram,
                vms <- VmList::new(),
                bos <- ObjectList::new(),
                hw: hw.clone(),
            }),
            GFP_KERNEL,
        )
    }

    /// Enables the GART again; its table is still in memory. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the hardware.
    pub(crate) fn enable_gart(&self) -> Result {
        let table = self.gart.table();
        self.hw.gmc.enable_gart(table, GART_START, GART_BYTES)
    }

    /// Returns the bytes of system memory that clients of the GPU have.
    pub(crate) fn system_used(&self) -> u64 {
        u64::try_from(self.hw.ledger.count(LedgerKind::GttBytes)).unwrap_or(0)
    }

    /// Makes `engine` clear and copy from now on. After the engine is stopped, it must not keep
    /// references to the memory that it was given.
    pub(crate) fn set_copy_engine(&self, engine: Arc<dyn CopyEngine>) {
        self.copy_engine.populate(engine);
    }

    /// Starts to clear VRAM in the background, until [`scrub::VramScrubber::stop`].
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no engine that clears.
    pub(crate) fn start_scrubbing(&self) -> Result {
        let engine = self.copy_engine.as_ref().ok_or(ENODEV)?;
        self.vram.scrubber().start(engine.clone());
        Ok(())
    }

    /// Makes `engine` execute the jobs of clients from now on. After the engine is closed, it must
    /// not keep references to the memory.
    pub(crate) fn set_job_engine(&self, engine: Arc<dyn JobEngine>) {
        self.job_engine.populate(engine);
    }

    /// Returns the engine that executes jobs.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    pub(crate) fn job_engine(&self) -> Result<&dyn JobEngine> {
        Ok(&**self.job_engine.as_ref().ok_or(ENODEV)?)
    }

    /// Returns the engine that clears and copies.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    fn copy_engine(&self) -> Result<&dyn CopyEngine> {
        Ok(&**self.copy_engine.as_ref().ok_or(ENODEV)?)
    }
}
