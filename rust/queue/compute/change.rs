// SPDX-License-Identifier: GPL-2.0
//! Changes of a queue by UPDATE_QUEUE and SET_CU_MASK, which are made while it is off the hardware.

use super::memory::RingBuffer;
use super::queue::ComputeQueue;
use hw::mqd::cu_mask::CuMasks;
use hw::mqd::hqd::HqdImage;
use hw::queue::QueuePriority;
use kernel::prelude::*;

/// A change that is to be made, or was made.
pub(crate) enum QueueChange {
    /// UPDATE_QUEUE.
    Properties {
        /// The new ring and its address. Holds the old ring once the change is made.
        ring: Option<(u64, RingBuffer)>,
        /// The queue's priority.
        priority: QueuePriority,
        /// Whether the process wants it to run.
        active: bool,
    },
    /// None: what the debugger has set comes into force.
    Refresh,
    /// SET_CU_MASK: the mask of each shader engine of each XCC.
    CuMasks(KBox<CuMasks>),
}

impl QueueChange {
    /// Whether `queue` already has the values of this change. Only the thread that may change the
    /// queue calls this.
    pub(super) fn is_applied(&self, queue: &ComputeQueue) -> Result<bool> {
        match self {
            Self::Properties {
                ring,
                priority,
                active,
            } => {
                let image = queue.descriptor.image()?;
                let mut changed = image;
                write(&mut changed, ring.as_ref(), *priority);
                Ok(changed == image && *active == queue.is_active())
            }
            Self::Refresh => Ok(false),
            Self::CuMasks(masks) => queue.descriptor.has_cu_masks(masks),
        }
    }

    /// Makes the change of `queue`, which is not on the hardware. Does not allocate, wait or free
    /// anything: what is replaced is freed when this value is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone.
    pub(super) fn make(&mut self, queue: &ComputeQueue) -> Result {
        match self {
            Self::Properties {
                ring,
                priority,
                active,
            } => {
                let change = |image: &mut _| write(image, ring.as_ref(), *priority);
                queue.descriptor.change(change)?;
                if let Some((_, ring)) = ring {
                    queue.memory.swap_ring(ring);
                }
                queue.set_active(*active);
                Ok(())
            }
            Self::Refresh => Ok(()),
            Self::CuMasks(masks) => queue.descriptor.set_cu_masks(masks),
        }
    }
}

/// Writes the parts of [`QueueChange::Properties`] that are in the HQD's image of `queue`.
fn write(image: &mut HqdImage, ring: Option<&(u64, RingBuffer)>, priority: QueuePriority) {
    image.set_priority(priority);
    if let Some((address, ring)) = ring {
        image.set_ring(*address, ring.size);
    }
}
