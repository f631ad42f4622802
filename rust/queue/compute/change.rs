// SPDX-License-Identifier: GPL-2.0
//! What UPDATE_QUEUE and SET_CU_MASK change of a queue while it is off the hardware.

use super::memory::RingBuffer;
use super::queue::ComputeQueue;
use hw::mqd::cu_mask::MAX_WORDS;
use hw::mqd::hqd::HqdImage;
use hw::queue::QueuePriority;
use kernel::prelude::*;

/// A change that is to be made, or was.
pub(crate) enum QueueChange {
    /// UPDATE_QUEUE.
    Properties {
        /// Another ring and where it is; the old one once the change is made.
        ring: Option<(u64, RingBuffer)>,
        /// Its rank.
        priority: QueuePriority,
        /// Whether the process wants it to run.
        active: bool,
    },
    /// SET_CU_MASK: of each shader engine.
    CuMasks([u32; MAX_WORDS]),
}

impl QueueChange {
    /// Whether `queue` is already as this makes it. Called by who alone changes it.
    pub(super) fn is_applied(&self, queue: &ComputeQueue) -> Result<bool> {
        match self {
            Self::Properties {
                ring,
                priority,
                active,
            } => {
                let image = queue.descriptor.image()?;
                let mut changed = image;
                write(&mut changed, queue, ring.as_ref(), *priority);
                Ok(changed == image && *active == queue.is_active())
            }
            Self::CuMasks(masks) => Ok(queue.descriptor.cu_masks()? == *masks),
        }
    }

    /// Makes the change of `queue`, which is not on the hardware. Allocates nothing, waits for nothing, and gives nothing back:
    /// that is for who drops this. ENODEV when the device is gone.
    pub(super) fn make(&mut self, queue: &ComputeQueue) -> Result {
        match self {
            Self::Properties {
                ring,
                priority,
                active,
            } => {
                let change = |image: &mut _| write(image, queue, ring.as_ref(), *priority);
                queue.descriptor.change(change)?;
                if let Some((_, ring)) = ring {
                    queue.memory.swap_ring(ring);
                }
                queue.set_active(*active);
                Ok(())
            }
            Self::CuMasks(masks) => queue.descriptor.set_cu_masks(*masks),
        }
    }
}

/// Writes to the HQD's image of `queue` what [`QueueChange::Properties`] changes there.
fn write(
    image: &mut HqdImage,
    queue: &ComputeQueue,
    ring: Option<&(u64, RingBuffer)>,
    priority: QueuePriority,
) {
    image.set_priority(priority);
    if let Some((address, ring)) = ring {
        image.set_ring(*address, ring.size, queue.memory.format());
    }
}
