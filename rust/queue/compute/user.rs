// SPDX-License-Identifier: GPL-2.0
//! A process's compute queue, from CREATE_QUEUE to DESTROY_QUEUE.

use super::change::QueueChange;
use super::doorbell::CpDoorbell;
use super::memory::RingBuffer;
use super::queue::ComputeQueue;
use super::trap::TrapPage;
use crate::kern::errno::timer_expired;
use crate::kern::trace;
use crate::mem::vm::Vm;
use crate::queue::quota::{CountedQueue, QuotaKind};
use crate::queue::request::{PreparedQueue, QueueOwner, UpdateQueue, UserQueue};
use crate::queue::resources::QueueResources;
use crate::queue::GpuQueues;
use hw::doorbell::DoorbellSlot;
use hw::mqd::cu_mask;
use hw::mqd::hqd::WaveState;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

/// The engine number of the CP in traces, where SDMA queues have the number of their engine.
const CP: u32 = u32::MAX;

/// A compute queue of a process. Off the hardware once destroyed or dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct UserComputeQueue {
    owner: QueueOwner,
    doorbell: DoorbellSlot,
    /// `None` once destroyed. Held while the hardware is waited for; only calls for this queue wait
    /// for the lock.
    #[pin]
    queue: Mutex<Option<Arc<ComputeQueue>>>,
}

impl UserComputeQueue {
    /// Makes a queue of `owner` in `vm`, whose waves `trap` saves, from the process's `resources`.
    ///
    /// # Errors
    ///
    /// `EFAULT` or `EINVAL` for its memory; `EINVAL` for sizes that are not those of the topology;
    /// `ENOSPC` without a doorbell, or with too many queues; `ENOMEM`.
    pub(crate) fn create(
        gpu: &Arc<GpuQueues>,
        vm: &Arc<Vm>,
        trap: &Arc<TrapPage>,
        resources: &QueueResources,
        owner: QueueOwner,
        create: &PreparedQueue,
    ) -> Result<Arc<Self>> {
        let counted = CountedQueue::new(&resources.counts, QuotaKind::Compute)?;
        let doorbell = CpDoorbell::new(&resources.doorbells)?;
        let queue = ComputeQueue::new(
            gpu,
            vm,
            trap,
            doorbell,
            &resources.descriptors,
            counted,
            owner,
            create,
        )?;
        let (place, held) = (queue.doorbell(), queue.clone());
        let created = Arc::pin_init(
            pin_init!(Self {
                owner,
                doorbell: place,
                queue <- new_mutex!(Some(held), "ComputeQueue::queue"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // The group comes first, so that the scheduler already knows whether it is quiesced. Both
        // release the queue when `created` is dropped.
        vm.group().join(queue.clone())?;
        gpu.compute.add(queue)?;
        let (ring, size) = (create.ring, create.size.bytes());
        trace::queue_create(owner.pid as u32, owner.queue, CP, ring, size);
        Ok(created)
    }

    /// Runs `f` on the queue.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is destroyed.
    fn with<T>(&self, f: impl FnOnce(&Arc<ComputeQueue>) -> Result<T>) -> Result<T> {
        f(self.queue.lock().as_ref().ok_or(EINVAL)?)
    }
}

/// Makes `change` of `queue`, unless the queue has these values already: the change would take
/// other queues off the hardware for nothing.
fn change_of(queue: &ComputeQueue, change: QueueChange) -> Result {
    match change.is_applied(queue)? {
        true => Ok(()),
        false => queue.gpu.compute.update(queue, change),
    }
}

impl UserQueue for UserComputeQueue {
    fn doorbell(&self) -> DoorbellSlot {
        self.doorbell
    }

    fn update(&self, update: &UpdateQueue) -> Result {
        self.with(|queue| {
            let ring = match update.ring {
                Some((address, size)) => {
                    Some((address, RingBuffer::new(queue.vm(), address, size)?))
                }
                None => None,
            };
            let change = QueueChange::Properties {
                ring,
                priority: update.priority,
                active: update.is_active(),
            };
            change_of(queue, change)
        })
    }

    fn set_cu_mask(&self, bit: &mut dyn FnMut(u32) -> bool) -> Result {
        self.with(|queue| {
            let masks = cu_mask::spread(&queue.gpu.hw.cus, 0, bit).ok_or(EINVAL)?;
            change_of(queue, QueueChange::CuMasks(masks))
        })
    }

    fn wave_state(&self, write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        self.with(|queue| {
            if queue.is_active() {
                return Err(EINVAL);
            }
            let state = queue.descriptor.image()?.wave_state();
            for at in 0..state.control_stack_used / 4 {
                let index = state.control_stack_offset / 4 + at;
                write(index, queue.descriptor.control_stack_dword(index)?)?;
            }
            Ok(state)
        })
    }

    fn destroy(&self) -> Result {
        let mut held = self.queue.lock();
        let Some(queue) = held.take() else {
            return Ok(());
        };
        trace::queue_destroy(self.owner.pid as u32, self.owner.queue);
        // A queue that cannot be taken off the hardware stays with the scheduler.
        let removed = queue.gpu.compute.remove(&queue);
        // Not earlier: a caller that quiesces the group relies on all its queues being off the
        // hardware.
        queue.vm().group().remove(&queue);
        removed.map_err(|_| timer_expired())
    }
}

#[pinned_drop]
impl PinnedDrop for UserComputeQueue {
    fn drop(self: Pin<&mut Self>) {
        // A queue that cannot be taken off the hardware was reported.
        let _ = self.destroy();
    }
}
