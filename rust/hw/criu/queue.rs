// SPDX-License-Identifier: GPL-2.0
//! The record of a queue.

use super::words::{FieldReader, FieldWriter};
use crate::bits::{hi, join, lo};
use crate::doorbell::DoorbellSlot;
use crate::mqd::saved::SavedXccs;
use crate::queue::{QueuePercentage, QueuePriority, QueueType};
use crate::sdma::ring::RingSize;

/// How far a queue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState<'a> {
    /// The descriptors and control stacks of a compute queue.
    Compute(SavedXccs<'a>),
    /// The read pointer of a queue of SDMA, in bytes, and the dwords of it.
    Sdma(u64),
}

/// A queue: the numbers of CREATE_QUEUE, those that the driver has given, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRecord<'a> {
    /// The place of its GPU.
    pub device: u8,
    /// Its number.
    pub id: u32,
    /// Its doorbell in the process's slice.
    pub doorbell: DoorbellSlot,
    /// What serves it.
    pub kind: QueueType,
    /// GPU address of the ring.
    pub ring: u64,
    /// Bytes of the ring.
    pub size: RingSize,
    /// GPU address of the read pointer.
    pub read_pointer: u64,
    /// GPU address of the write pointer.
    pub write_pointer: u64,
    /// Its share of the hardware; 0 percent if it is not to run.
    pub percentage: QueuePercentage,
    /// Its rank.
    pub priority: QueuePriority,
    /// The engine that the process named.
    pub engine: u32,
    /// GPU address of the end-of-pipe buffer.
    pub eop: u64,
    /// Bytes of it.
    pub eop_size: u32,
    /// GPU address of the save area.
    pub save: u64,
    /// Bytes of it.
    pub save_size: u32,
    /// Bytes of the control stack.
    pub control_stack: u32,
    /// How far it has come: as [`QueueRecord::state`] reads it.
    pub progress: &'a [u32],
}

impl<'a> QueueRecord<'a> {
    /// How far a queue of SDMA has come, as [`QueueRecord::progress`].
    pub const fn sdma_progress(read: u64) -> [u32; 2] {
        [lo(read), hi(read)]
    }

    /// How far it has come.
    pub fn state(&self) -> Option<QueueState<'a>> {
        match (self.kind.is_sdma(), self.progress) {
            (true, &[low, high]) => Some(QueueState::Sdma(join(low, high))),
            (true, _) => None,
            (false, words) => Some(QueueState::Compute(SavedXccs::new(words)?)),
        }
    }

    /// Writes the fields; returns those of variable length, which follow.
    pub(super) fn write(&self, fields: &mut FieldWriter) -> &'a [u32] {
        fields.u32(self.device.into());
        fields.u32(self.id);
        fields.u32(self.doorbell.index().into());
        fields.u32(self.kind as u32);
        fields.u64(self.ring);
        fields.u64(self.size.bytes());
        fields.u64(self.read_pointer);
        fields.u64(self.write_pointer);
        fields.u32(self.percentage.raw());
        fields.u32(self.priority.get().into());
        fields.u32(self.engine);
        fields.u64(self.eop);
        fields.u32(self.eop_size);
        fields.u64(self.save);
        fields.u32(self.save_size);
        fields.u32(self.control_stack);
        self.progress
    }

    /// Reads the fields.
    pub(super) fn read(fields: &mut FieldReader<'a>) -> Option<Self> {
        let queue = Self {
            device: fields.device()?,
            id: fields.u32()?,
            doorbell: super::doorbell(fields.u32()?)?,
            kind: QueueType::new(fields.u32()?)?,
            ring: fields.address()?,
            size: RingSize::new(fields.u64()?).ok()?,
            read_pointer: fields.address()?,
            write_pointer: fields.address()?,
            percentage: QueuePercentage::new(fields.u32()?)?,
            priority: QueuePriority::new(fields.u32()?)?,
            engine: fields.u32()?,
            eop: fields.address()?,
            eop_size: fields.u32()?,
            save: fields.address()?,
            save_size: fields.u32()?,
            control_stack: fields.u32()?,
            progress: fields.rest(),
        };
        queue.state().map(|_| queue)
    }
}
