// SPDX-License-Identifier: GPL-2.0
//! Contexts of an open file. A context is what jobs are submitted in; a job that hangs costs its
//! context.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use super::rings::ContextRing;
use crate::{
    kern::{drm::uapi::hw_ip, errno, fence::Fence},
    ledger::{LedgerHold, LedgerKind},
    mem::{job_engine::JobLine, GpuMemory},
};

/// Rings of a context for SDMA engines.
pub(super) const DMA_RINGS: usize = 2;

/// A context.
#[pin_data]
pub(super) struct RenderContext {
    /// The rings that were used. Held while one is made.
    #[pin]
    rings: Mutex<[Option<Arc<ContextRing>>; DMA_RINGS]>,
    _hold: LedgerHold,
}

impl RenderContext {
    /// A context of a file of `gpu`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(gpu: &GpuMemory) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                rings <- new_mutex!([const { None }; DMA_RINGS], "RenderContext::rings"),
                _hold: gpu.hw.ledger.hold(LedgerKind::Contexts, 1),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The ring `number` of instance `instance` of the engines of kind `ip`. The first use makes
    /// it, of the line that `make` returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown one; `ENOMEM`; those of `make`.
    pub(super) fn ring(
        &self,
        (ip, instance, number): (u32, u32, u32),
        make: impl FnOnce() -> Result<Arc<dyn JobLine>>,
    ) -> Result<Arc<ContextRing>> {
        if ip != hw_ip::DMA || instance != 0 {
            return Err(EINVAL);
        }
        let mut rings = self.rings.lock();
        let place = rings.get_mut(number as usize).ok_or(EINVAL)?;
        if let Some(ring) = place {
            return Ok(ring.clone());
        }
        let ring = ContextRing::new(make()?)?;
        *place = Some(ring.clone());
        Ok(ring)
    }

    /// Adds the fences of its last jobs, as far as they are not done, to `fences`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_busy(&self, fences: &mut KVec<ARef<Fence>>) -> Result {
        let rings = self.rings.lock().clone();
        for fence in rings.iter().flatten().filter_map(|ring| ring.busy()) {
            fences.push(fence, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// Lets all jobs fail that are not done.
    pub(super) fn cancel(&self) {
        let rings = self.rings.lock();
        rings.iter().flatten().for_each(|ring| ring.cancel());
    }

    /// Whether a job of it took too long.
    pub(super) fn is_guilty(&self) -> bool {
        let rings = self.rings.lock();
        let mut errors = rings.iter().flatten().filter_map(|ring| ring.error());
        errors.any(|error| error == errno::timer_expired())
    }
}
