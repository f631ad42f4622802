// SPDX-License-Identifier: GPL-2.0
//! A process's compute queue, from CREATE_QUEUE to DESTROY_QUEUE.

use super::change::QueueChange;
use super::memory::RingBuffer;
use super::queue::ComputeQueue;
use super::scheduler::ComputeScheduler;
use super::trap::TrapPage;
use crate::kern::errno::timer_expired;
use crate::kern::trace;
use crate::mem::queue_group::{GroupMember, QuiesceTimeout};
use crate::mem::vm::Vm;
use crate::queue::gpu::QueueGpu;
use crate::queue::quota::{CountedQueue, QuotaKind};
use crate::queue::request::{PreparedQueue, QueueOwner, UpdateQueue, UserQueue};
use crate::queue::resources::QueueResources;
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
    /// `None` once destroyed. Held while the hardware is waited for: only calls for this queue wait
    /// for it.
    #[pin]
    queue: Mutex<Option<Arc<ComputeMember>>>,
}

/// A queue as its group sees it.
struct ComputeMember {
    queue: Arc<ComputeQueue>,
    scheduler: Arc<dyn ComputeScheduler>,
}

impl UserComputeQueue {
    /// Makes a queue of `owner` in `vm`, whose waves `trap` saves, from the process's `resources`.
    ///
    /// # Errors
    ///
    /// `EFAULT` or `EINVAL` for its memory; `EINVAL` for sizes that are not those of the topology;
    /// `ENOSPC` without a doorbell, or with too many queues; `ENOMEM`.
    pub(crate) fn create(
        gpu: &Arc<QueueGpu>,
        scheduler: &Arc<dyn ComputeScheduler>,
        vm: &Arc<Vm>,
        trap: &Arc<TrapPage>,
        resources: &QueueResources,
        owner: QueueOwner,
        create: &PreparedQueue,
    ) -> Result<Arc<Self>> {
        let counted = CountedQueue::new(&resources.counts, QuotaKind::Compute)?;
        let queue = ComputeQueue::new(gpu, vm, trap, resources, counted, owner, create)?;
        let place = queue.doorbell();
        let member = ComputeMember {
            queue: queue.clone(),
            scheduler: scheduler.clone(),
        };
        let member = Arc::new(member, GFP_KERNEL_ACCOUNT)?;
        let held = member.clone();
        let created = Arc::pin_init(
            pin_init!(Self {
                owner,
                doorbell: place,
                queue <- new_mutex!(Some(held), "UserComputeQueue::queue"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // First the group, so that the scheduler already knows whether it is quiesced. Both let go
        // of it when `created` is dropped.
        vm.group().join(member)?;
        scheduler.add(queue)?;
        let (ring, size) = (create.ring, create.size.bytes());
        trace::queue_create(owner.pid as u32, owner.queue, CP, ring, size);
        Ok(created)
    }

    /// Runs `f` on the queue.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is destroyed; errors of `f`.
    fn with<T>(&self, f: impl FnOnce(&ComputeMember) -> Result<T>) -> Result<T> {
        f(self.queue.lock().as_ref().ok_or(EINVAL)?)
    }
}

impl ComputeMember {
    /// Makes `change` unless that is so already: other queues would be off the hardware meanwhile.
    fn change(&self, change: QueueChange) -> Result {
        match change.is_applied(&self.queue)? {
            true => Ok(()),
            false => self.scheduler.update(&self.queue, change),
        }
    }

    /// See [`UserQueue::wave_state`]. The queue is off the hardware.
    fn waves(&self, write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        let descriptor = &self.queue.descriptor;
        for (place, image) in descriptor.images().enumerate() {
            let image = image?;
            let state = image.wave_state();
            // The areas of the XCCs are one behind the other (amdgpu: get_wave_state_v9_4_3).
            let area = (place as u32).wrapping_mul(image.save_bytes() / 4);
            for at in 0..state.control_stack_used / 4 {
                let index = state.control_stack_offset / 4 + at;
                let dword = descriptor.control_stack_dword(place, index)?;
                write(area.wrapping_add(index), dword)?;
            }
            if place != 0 {
                for (index, dword) in (0..).zip(state.header()) {
                    write(area.wrapping_add(index), dword)?;
                }
            }
        }
        Ok(descriptor.image()?.wave_state())
    }
}

impl GroupMember for ComputeMember {
    fn begin_quiesce(&self) {
        self.queue.set_quiesced(true);
        // The scheduler decides anew which queues may be on the hardware.
        self.scheduler.resume(&self.queue);
    }

    fn quiesce(&self, patience: &QuiesceTimeout) {
        // Before the scheduler is told: from then on it does not load it.
        self.queue.set_quiesced(true);
        self.scheduler.quiesce(&self.queue, patience);
    }

    fn resume(&self) {
        self.queue.set_quiesced(false);
        self.scheduler.resume(&self.queue);
    }

    fn wants_to_run(&self) -> bool {
        self.queue.wants_to_run()
    }
}

impl UserQueue for UserComputeQueue {
    fn doorbell(&self) -> DoorbellSlot {
        self.doorbell
    }

    fn update(&self, update: &UpdateQueue) -> Result {
        self.with(|member| {
            let vm = member.queue.vm();
            let ring = match update.ring {
                Some((address, size)) => Some((address, RingBuffer::new(vm, address, size)?)),
                None => None,
            };
            let change = QueueChange::Properties {
                ring,
                priority: update.priority,
                active: update.is_active(),
            };
            member.change(change)
        })
    }

    fn set_cu_mask(&self, bit: &mut dyn FnMut(u32) -> bool) -> Result {
        self.with(|member| {
            let cus = &member.queue.gpu.hw.cus;
            let masks = cu_mask::spread_all(cus, bit).ok_or(EINVAL)?;
            member.change(QueueChange::CuMasks(KBox::new(masks, GFP_KERNEL)?))
        })
    }

    fn wave_state(&self, write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        self.with(|member| match member.queue.is_active() {
            true => Err(EINVAL),
            false => member.waves(write),
        })
    }

    fn begin_suspend(&self) {
        let _ = self.with(|member| {
            member.queue.set_suspended(true);
            // The scheduler decides anew which queues may be on the hardware.
            member.scheduler.resume(&member.queue);
            Ok(())
        });
    }

    fn suspend(&self) -> Result {
        self.with(|member| {
            let failed_before = member.queue.has_failed();
            member.queue.set_suspended(true);
            let timeout = QuiesceTimeout::endless();
            member.scheduler.quiesce(&member.queue, &timeout);
            match member.queue.has_failed() && !failed_before {
                true => Err(EIO),
                false => Ok(()),
            }
        })
    }

    fn resume(&self) {
        let _ = self.with(|member| {
            member.queue.set_suspended(false);
            member.scheduler.resume(&member.queue);
            Ok(())
        });
    }

    fn refresh(&self) -> Result {
        self.with(|member| member.change(QueueChange::Refresh))
    }

    fn saved_waves(&self, write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        self.with(|member| match member.queue.is_suspended() {
            true => member.waves(write),
            false => Err(EINVAL),
        })
    }

    fn save(&self, progress: &mut KVVec<u32>) -> Result {
        self.with(|member| {
            let queue = &member.queue;
            match queue.is_quiesced() && !queue.has_failed() {
                true => queue.descriptor.save(progress),
                false => Err(EINVAL),
            }
        })
    }

    fn destroy(&self) -> Result {
        let mut held = self.queue.lock();
        let Some(member) = held.take() else {
            return Ok(());
        };
        trace::queue_destroy(self.owner.pid as u32, self.owner.queue);
        // A queue that does not leave the hardware stays with the scheduler.
        let removed = member.scheduler.remove(&member.queue);
        // Not before: a thread that quiesces the group relies on all being off the hardware.
        member.queue.vm().group().remove(&member);
        removed.map_err(|_| timer_expired())
    }
}

#[pinned_drop]
impl PinnedDrop for UserComputeQueue {
    fn drop(self: Pin<&mut Self>) {
        // A queue that does not leave the hardware was reported.
        let _ = self.destroy();
    }
}
