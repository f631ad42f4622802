// SPDX-License-Identifier: GPL-2.0
//! What interrupts mean for queues and kernel rings. Nothing here waits for memory: fences depend on it.

use super::slots::Slots;
use super::Owner;
use crate::gpu::Gpu;
use crate::ip::ih::InterruptSink;
use crate::kern::trace;
use crate::ring::Rings;
use hw::ih::{FaultStatus, SdmaErrorKind, VmFault};
use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};
use kernel::{new_spinlock, sync::SpinLock};

/// The kernel's address space.
const KERNEL_VMID: u8 = 0;
/// Messages in a second.
const MESSAGES: u32 = 10;

/// Takes interrupts to the queues and rings of a GPU.
#[pin_data]
pub(crate) struct Dispatch {
    slots: Arc<Slots>,
    rings: Arc<Rings>,
    dev: ARef<Device>,
    #[pin]
    limit: SpinLock<Limit>,
}

/// Messages of the current second.
struct Limit {
    since: Instant<Monotonic>,
    messages: u32,
}

impl Dispatch {
    /// For the interrupts of `gpu`, which it does not hold. ENOMEM.
    pub(crate) fn new(gpu: &Gpu) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                slots: gpu.slots.clone(),
                rings: gpu.rings.clone(),
                dev: gpu.dev.clone(),
                limit <- new_spinlock!(
                    Limit { since: Instant::now(), messages: 0 },
                    "Dispatch::limit"
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether one more line may go to the log: processes cause these lines, and may cause many.
    fn may_log(&self) -> bool {
        let mut limit = self.limit.lock();
        if limit.since.elapsed().as_millis() >= 1000 {
            limit.since = Instant::now();
            limit.messages = 0;
        }
        limit.messages += 1;
        limit.messages <= MESSAGES
    }
}

/// The process for a message.
fn pid(owner: Option<Owner>) -> i32 {
    owner.map_or(0, |owner| owner.pid)
}

impl InterruptSink for Dispatch {
    fn sdma_trap(&self, engine: u8, vmid: u8, _pasid: u16, _context: u32) {
        if vmid == KERNEL_VMID {
            self.rings.check(engine);
        } else {
            self.slots.check(engine);
        }
    }

    fn sdma_error(&self, engine: u8, source: u8, vmid: u8, pasid: u16) {
        let what = SdmaErrorKind::new(source).map_or("unknown error", SdmaErrorKind::name);
        if vmid == KERNEL_VMID {
            dev_err!(self.dev, "sdma{engine}: {what} in the kernel's ring\n");
            self.rings.refused(engine);
            return;
        }
        let owner = self.slots.fail(Some(engine), vmid, EIO);
        if self.may_log() {
            let pid = pid(owner);
            dev_warn!(
                self.dev,
                "sdma{engine}: fault of process {pid} (PASID {pasid}): {what}; its queues there stop\n"
            );
        }
    }

    fn vm_fault(&self, fault: &VmFault, status: Option<FaultStatus>) {
        let owner = if fault.vmid == KERNEL_VMID {
            None
        } else {
            self.slots.fail(None, fault.vmid, EFAULT)
        };
        let pid = pid(owner);
        let raw = status.map_or(0, |status| status.encode());
        trace::vm_fault(fault.pasid.into(), pid as u32, fault.address(), raw);
        // Once a process's queues are stopped, what was still under way is no news.
        let news = owner.is_some() || fault.vmid == KERNEL_VMID;
        if news && self.may_log() {
            let access = if fault.write { "write to" } else { "read of" };
            let (pasid, vmid, address) = (fault.pasid, fault.vmid, fault.address());
            let client = status.map_or(0, |status| status.client);
            dev_warn!(
                self.dev,
                "fault: {access} {address:#x}, process {pid} (PASID {pasid}, VMID {vmid}, \
                 client {client:#x}): its queues stop\n"
            );
        }
    }
}
