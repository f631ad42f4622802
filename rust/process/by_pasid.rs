// SPDX-License-Identifier: GPL-2.0
//! The events of each process by PASID, for interrupts that are for the process.

use hw::exceptions::QueueExceptions;
use hw::faults::FaultPolicy;
use hw::ih::VmFault;
use hw::topology::gpu_id::GpuId;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::xarray::{AllocKind, XArray};

use super::events::{EventKind, EventPayload, MemoryFault, ProcessEvents};
use super::exceptions::ProcessExceptions;
use super::svm::Svm;
use super::Process;
use crate::ip::retries::FaultOwner;
use crate::kern::task::TaskIdentity;
use crate::queue::interrupts::ProcessSink;

/// The processes that GPUs can name. The interrupt thread may hold an entry slightly longer than it
/// is listed. The process has ended the events and the shared virtual memory before that, so that
/// there is nothing large left to free.
#[pin_data]
pub(super) struct PasidMap {
    #[pin]
    entries: XArray<Arc<PasidEntry>>,
}

/// A process by its PASID.
struct PasidEntry {
    task: TaskIdentity,
    events: Arc<ProcessEvents>,
    svm: Arc<Svm>,
    exceptions: Arc<ProcessExceptions>,
}

impl PasidMap {
    /// An empty map.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                entries <- XArray::new(AllocKind::Alloc),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds the process of `task` under PASID `pasid`, which no other process has.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn insert(&self, pasid: u16, task: TaskIdentity, process: &Process) -> Result {
        let entry = PasidEntry {
            task,
            events: process.events.clone(),
            svm: process.svm.clone(),
            exceptions: process.exceptions.clone(),
        };
        let known = Arc::new(entry, GFP_KERNEL)?;
        let stored = self
            .entries
            .lock()
            .store(pasid.into(), known, GFP_KERNEL)
            .map(drop);
        stored.map_err(|error| error.error)
    }

    /// Removes PASID `pasid`, whose process has ended.
    pub(super) fn remove(&self, pasid: u16) {
        let gone = self.entries.lock().remove(pasid.into());
        drop(gone);
    }

    fn get(&self, pasid: u16) -> Option<Arc<PasidEntry>> {
        self.entries.lock().get(pasid.into()).map(Arc::from)
    }
}

impl ProcessSink for PasidMap {
    fn signal(&self, pasid: u16, context: u32, bits: u32) -> bool {
        let known = self.get(pasid);
        known.is_none_or(|known| known.events.signal(context, bits))
    }

    fn poll_events(&self, pasid: u16) {
        if let Some(known) = self.get(pasid) {
            known.events.poll_slots();
        }
    }

    fn raise(&self, gpu: GpuId, pasid: u16, exceptions: &QueueExceptions) -> bool {
        let known = self.get(pasid);
        known.is_some_and(|known| known.exceptions.raise(gpu, exceptions))
    }

    fn debug_fault(&self, gpu: GpuId, pasid: u16, fault: &VmFault) -> bool {
        let known = self.get(pasid);
        known.is_some_and(|known| known.exceptions.raise_fault(gpu, memory_fault(gpu, fault)))
    }

    fn fault(&self, gpu: GpuId, pasid: u16, fault: &VmFault) -> Option<TaskIdentity> {
        let known = self.get(pasid)?;
        let fault = memory_fault(gpu, fault);
        known
            .events
            .raise(EventKind::Memory, EventPayload::Memory(fault));
        Some(known.task)
    }

    fn stopped(&self, gpu: GpuId, pasid: u16) {
        if let Some(known) = self.get(pasid) {
            known
                .events
                .raise(EventKind::Hardware, EventPayload::Stopped(gpu));
        }
    }
}

impl FaultOwner for PasidMap {
    fn policy(&self, gpu: GpuId, pasid: u16) -> FaultPolicy {
        let known = self.get(pasid);
        known.map_or(FaultPolicy::Error, |known| known.svm.fault_policy(gpu))
    }

    fn queue(&self, fault: &VmFault) {
        if let Some(known) = self.get(fault.pasid) {
            known.svm.serve_soon();
        }
    }
}

/// The payload of a memory event for a fault.
fn memory_fault(gpu: GpuId, fault: &VmFault) -> MemoryFault {
    MemoryFault {
        gpu,
        address: fault.address(),
        not_present: !fault.present,
        read_only: fault.present && fault.unwritable,
        no_execute: fault.present && fault.execute,
    }
}
