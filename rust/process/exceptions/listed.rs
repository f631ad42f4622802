// SPDX-License-Identifier: GPL-2.0
//! A queue as its process's runtime and debugger know it.

use hw::exceptions::ExceptionSet;
use hw::queue::QueueType;
use hw::topology::gpu_id::GpuId;

use crate::queue::request::CreateQueue;

/// A queue, what it is made of, and its exceptions.
#[derive(Clone, Copy)]
pub(crate) struct ListedQueue {
    /// Its number in the order of creation.
    pub(super) order: u64,
    /// The GPU.
    pub(crate) gpu: GpuId,
    /// Its number, as its process knows it.
    pub(crate) id: u32,
    /// Its kind, as its process has asked for it.
    pub(crate) kind: QueueType,
    /// The address of its ring.
    pub(crate) ring: u64,
    /// Bytes of its ring.
    pub(crate) ring_size: u64,
    /// The address of its read pointer.
    pub(crate) read_pointer: u64,
    /// The address of its write pointer.
    pub(crate) write_pointer: u64,
    /// The address of its save area.
    pub(crate) save: u64,
    /// Bytes of its save area.
    pub(crate) save_size: u32,
    /// What the runtime has not been told of yet.
    pub(super) raised: ExceptionSet,
    /// What the debugger has not taken yet.
    pub(crate) status: ExceptionSet,
    /// The debugger keeps it off the hardware.
    pub(super) suspended: bool,
    /// A thread is about to destroy it.
    pub(super) leaving: bool,
}

impl ListedQueue {
    /// A new queue on `gpu`, which no debugger knows.
    pub(super) fn new(gpu: GpuId, id: u32, create: &CreateQueue) -> Self {
        Self {
            order: 0,
            gpu,
            id,
            kind: create.kind,
            ring: create.ring,
            ring_size: create.size.bytes(),
            read_pointer: create.read_pointer,
            write_pointer: create.write_pointer,
            save: create.compute.save,
            save_size: create.compute.save_size,
            raised: ExceptionSet::default(),
            status: ExceptionSet::QUEUE_NEW,
            suspended: false,
            leaving: false,
        }
    }

    /// Whether it has waves.
    pub(crate) fn has_waves(&self) -> bool {
        !self.kind.is_sdma()
    }
}
