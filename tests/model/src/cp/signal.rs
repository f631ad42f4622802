// SPDX-License-Identifier: GPL-2.0
//! Structures of AQL queues shared with user space besides packets: amd_signal_t and amd_queue_t.

use std::sync::atomic::Ordering;

use rkfd_shader::kernel::UserData;

use super::execute::address_space;
use super::interrupt::{self, Exception};
use super::job::Job;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::regs::Field;
use crate::vm::Vm;

/// Byte offsets in amd_signal_t.
const VALUE: u64 = 0x08;
const MAILBOX: u64 = 0x10;
const EVENT_ID: u64 = 0x18;
const START: u64 = 0x20;

/// Byte offsets in amd_queue_t.
const READ_INDEX: u64 = 0x80;
const TMPRING_SIZE: u64 = 0x8c;
const SCRATCH_RESOURCE: u64 = 0x90;
const SCRATCH_LOCATION: u64 = 0xa0;
const SCRATCH_SIZE: u64 = 0xa8;
const SCRATCH_LANE_BYTES: u64 = 0xb0;
const PROPERTIES: u64 = 0xb4;
const INACTIVE_SIGNAL: u64 = 0xc0;
/// Bit of the properties: completion signals get timestamps.
const PROFILING: Field = Field::new(3, 3);
/// Bit of the properties: scratch is to be reclaimed after each dispatch.
const USE_SCRATCH_ONCE: Field = Field::new(4, 4);

/// A signal in user memory.
pub struct Signal(u64);

impl Signal {
    /// Returns whether the handle is usable, or 0.
    pub fn is_aligned(handle: u64) -> bool {
        handle % 8 == 0
    }

    /// The signal of a handle; 0 is none.
    pub fn new(handle: u64) -> Option<Signal> {
        (handle != 0).then_some(Signal(handle))
    }

    fn at(&self, offset: u64) -> u64 {
        self.0.wrapping_add(offset)
    }

    /// Its value.
    pub fn value(&self, vm: &Vm<'_>) -> Result<i64> {
        Ok(vm.load64(self.at(VALUE))? as i64)
    }

    /// Subtracts from its value.
    pub fn subtract(&self, vm: &Vm<'_>, n: u64) -> Result<()> {
        vm.atomic(self.at(VALUE), 8, |span| {
            if let Some(word) = span.atomic64() {
                word.fetch_sub(n, Ordering::AcqRel);
            }
        })
    }

    /// Sets the times of the packet's begin and end, in ticks of the reference clock.
    pub fn stamp(&self, vm: &Vm<'_>, start: u64, end: u64) -> Result<()> {
        vm.store64s(self.at(START), &[start, end])
    }

    /// Notifies the waiter by interrupt, if the signal has a mailbox.
    pub fn notify(&self, gpu: &Gpu, vm: &Vm<'_>, job: &Job) -> Result<()> {
        let mailbox = vm.load64(self.at(MAILBOX))?;
        if mailbox == 0 {
            return Ok(());
        }
        let event = vm.load32(self.at(EVENT_ID))?;
        vm.write(mailbox, &u64::from(event).to_le_bytes())?;
        interrupt::end_of_pipe(gpu, job, event)
    }
}

/// An amd_queue_t in user memory.
pub struct Queue(u64);

impl Queue {
    /// The one around the queue's read index, if that is in one: the dword behind it has its
    /// distance from the start. For a client with a bare pair of pointers, the memory behind may be
    /// unmapped.
    pub fn of(job: &Job, vm: &Vm<'_>) -> Result<Option<Queue>> {
        let Some(index) = job.report.filter(|at| at % 8 == 0 && at % 4096 < 4088) else {
            return Ok(None);
        };
        let offset = u64::from(vm.load32(index + 8)?);
        Ok(index
            .checked_sub(READ_INDEX)
            .filter(|_| offset == READ_INDEX)
            .map(Queue))
    }

    fn properties(&self, vm: &Vm<'_>) -> Result<u32> {
        vm.load32(self.0 + PROPERTIES)
    }

    /// Returns whether scratch is to be reclaimed after each dispatch.
    pub fn uses_scratch_once(&self, vm: &Vm<'_>) -> Result<bool> {
        Ok(USE_SCRATCH_ONCE.is_set(self.properties(vm)?))
    }

    /// COMPUTE_TMPRING_SIZE, and the bytes of scratch of a lane.
    pub fn scratch(&self, vm: &Vm<'_>) -> Result<(u32, u32)> {
        Ok((
            vm.load32(self.0 + TMPRING_SIZE)?,
            vm.load32(self.0 + SCRATCH_LANE_BYTES)?,
        ))
    }

    /// Bytes of scratch that an XCC has.
    pub fn scratch_size(&self, vm: &Vm<'_>) -> Result<u64> {
        vm.load64(self.0 + SCRATCH_SIZE)
    }

    /// Fills in the parts of it that kernels get.
    pub fn fill(&self, vm: &Vm<'_>, data: &mut UserData) -> Result<()> {
        data.queue = self.0;
        for (n, word) in (0..).zip(&mut data.private_segment_buffer) {
            *word = vm.load32(self.0 + SCRATCH_RESOURCE + 4 * n)?;
        }
        data.flat_scratch = vm.load64(self.0 + SCRATCH_LOCATION)?;
        Ok(())
    }

    fn signal(&self, vm: &Vm<'_>) -> Result<Option<Signal>> {
        let handle = vm.load64(self.0 + INACTIVE_SIGNAL)?;
        Ok(Signal::new(handle).filter(|_| Signal::is_aligned(handle)))
    }

    /// The value of queue_inactive_signal; 0 if there is none.
    pub fn inactive(&self, vm: &Vm<'_>) -> Result<i64> {
        match self.signal(vm)? {
            Some(signal) => signal.value(vm),
            None => Ok(0),
        }
    }

    /// Reports by queue_inactive_signal, if there is one, the reason why the queue does not go on.
    pub fn deactivate(&self, gpu: &Gpu, job: &Job, vm: &Vm<'_>, value: u64) -> Result<()> {
        match self.signal(vm)? {
            Some(signal) => {
                vm.store64s(signal.at(VALUE), &[value])?;
                signal.notify(gpu, vm, job)
            }
            None => Ok(()),
        }
    }
}

/// Returns whether the queue wants timestamps.
pub fn is_profiled(gpu: &Gpu, job: &Job) -> Result<bool> {
    let vm = address_space(gpu, job.vmid);
    match Queue::of(job, &vm)? {
        Some(queue) => Ok(PROFILING.is_set(queue.properties(&vm)?)),
        None => Ok(false),
    }
}

/// Reports to the queue's owner by its queue_inactive_signal, if it has one, that a packet was
/// refused.
pub fn report_error(gpu: &Gpu, job: &Job, code: Exception) -> Result<()> {
    let vm = address_space(gpu, job.vmid);
    let value = match code {
        Exception::Dimensions => 2,
        Exception::GroupSegment => 4,
        Exception::Code => 8,
        Exception::Unsupported => 32,
        Exception::GroupSize => 64,
        Exception::Registers => 128,
        Exception::Vendor => 256,
    };
    match Queue::of(job, &vm)? {
        Some(queue) => queue.deactivate(gpu, job, &vm, value),
        None => Ok(()),
    }
}
