// SPDX-License-Identifier: GPL-2.0
//! The freedoms of a hub: invalidations that take effect late, and what it caches beyond or below
//! what was asked for.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Flush, Hub, HubId};
use crate::error::Result;
use crate::fate::{Delay, Site};
use crate::gpu::Gpu;
use crate::memory::View;
use crate::regs::Reg;
use crate::tlb::{Scope, Space};
use crate::walk::{Outcome, PAGE_SHIFT};

/// The latest that an invalidation takes effect. amdgpu waits 100 ms.
const LATEST: Duration = Duration::from_millis(5);
/// How long faults that are late to the interrupt ring keep a request waiting.
const FAULTS: Duration = Duration::from_millis(20);
/// Entries that are read from a table at once.
const NEIGHBOURS: u64 = 8;

/// A request for an invalidation.
pub struct Request {
    /// Address spaces, a bit each.
    pub vmids: u32,
    /// What goes.
    pub scope: Scope,
    /// How thoroughly.
    pub flush: Flush,
    /// The fault's status is cleared, too.
    pub clears: bool,
    /// The engine's register that acknowledges it.
    pub ack: Reg,
}

/// A request that waits.
pub struct Late {
    delay: Delay,
    /// When faults do not keep it waiting any more: an access that is retried may raise more of
    /// them.
    faults_end: Instant,
    request: Request,
}

impl Hub {
    fn late(&self) -> MutexGuard<'_, VecDeque<Late>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is done for an address space, for decisions: the hub, and whether it is the kernel's.
    pub(super) fn key(&self, vmid: u8) -> u64 {
        u64::from(self.id == HubId::Mm) << 1 | u64::from(vmid == 0)
    }

    /// A request that may be late.
    pub(super) fn request(&self, gpu: &Gpu, request: Request) {
        let key = self.key(if request.vmids & 1 == 1 { 0 } else { 1 });
        let delay = gpu
            .fate
            .delay(&gpu.summary, Site::HubLate, key, LATEST)
            .unwrap_or_else(Delay::none);
        self.late().push_back(Late {
            delay,
            faults_end: Instant::now() + FAULTS,
            request,
        });
        if self.bring_late(gpu) {
            gpu.fate.note_late();
        }
    }

    /// Fulfils the requests that have waited long enough, in their order. A heavyweight one waits
    /// until the faults of its address spaces are in the interrupt ring. Returns whether one waits.
    /// Must not be called with translations held.
    pub fn bring_late(&self, gpu: &Gpu) -> bool {
        let mut late = self.late();
        while let Some(first) = late.front() {
            let faults = first.request.flush == Flush::Heavy
                && gpu.ih.holds(first.request.vmids)
                && Instant::now() < first.faults_end;
            if faults || !first.delay.is_over(&gpu.summary) {
                return true;
            }
            if let Some(Late { request, .. }) = late.pop_front() {
                self.fulfil(gpu, &request);
            }
        }
        false
    }

    /// Requests that wait are forgotten.
    pub fn forget_late(&self) {
        self.late().clear();
    }

    /// After a walk to `va`: all that was cached of the address space may be lost, and the valid
    /// entries beside the leaf may come with it, as tables are read by lines.
    pub(super) fn take_freedoms(
        &self,
        gpu: &Gpu,
        view: &View<'_>,
        space: &mut Space,
        vmid: u8,
        va: u64,
    ) -> Result<()> {
        if gpu.fate.chance(Site::HubLost, self.key(vmid), 64) {
            space.flush(Scope::ALL);
            self.has_removed(vmid);
        }
        if !gpu.fate.chance(Site::HubNeighbours, self.key(vmid), 2) {
            return Ok(());
        }
        let line = NEIGHBOURS << PAGE_SHIFT;
        let first = va & !(line - 1);
        for near in (first..first + line).step_by(1 << PAGE_SHIFT) {
            if space.lookup(near).is_some() {
                continue;
            }
            if let Outcome::Leaf(leaf) = self.walk(gpu, view, space, vmid, near)? {
                self.cache(space, vmid, near, leaf);
            }
        }
        Ok(())
    }
}
