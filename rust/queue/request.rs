// SPDX-License-Identifier: GPL-2.0
//! Requests of a process for its queues, and a queue as its process sees it.

use crate::health::SuspectQueue;
use crate::kern::mm_exit::AddressSpace;
use crate::kern::task::{TaskIdentity, TaskName};
use crate::mem::cpu_view::ViewPins;
use crate::mem::vm::Vm;
use core::ops::Deref;
use hw::asic::SdmaInfo;
use hw::doorbell::DoorbellSlot;
use hw::mqd::hqd::WaveState;
use hw::mqd::saved::SavedXccs;
use hw::queue::{QueuePercentage, QueuePriority, QueueType};
use hw::sdma::ring::RingSize;
use hw::va::{VaRange, PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::Arc;

/// Arguments of CREATE_QUEUE, each number checked on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateQueue {
    /// Kind of engine that serves it, and of the packets that it holds.
    pub(crate) kind: QueueType,
    /// GPU address of the ring: the start of a mapped buffer of the ring's size.
    pub(crate) ring: u64,
    /// Bytes of the ring.
    pub(crate) size: RingSize,
    /// GPU address of the read pointer that the queue advances: bytes for SDMA, dwords for PM4,
    /// packets for AQL.
    pub(crate) read_pointer: u64,
    /// GPU address of the 64-bit write pointer that the process advances, in the same units.
    pub(crate) write_pointer: u64,
    /// Whether it is to run.
    pub(crate) percentage: QueuePercentage,
    /// Its rank.
    pub(crate) priority: QueuePriority,
    /// The engine for [`QueueType::SdmaByEngine`].
    pub(crate) engine: u32,
    /// Buffers that only compute queues have.
    pub(crate) compute: ComputeBuffers,
}

impl CreateQueue {
    /// Returns the kind of queue that is made: for a request that names its engine, that of the
    /// engine of `sdma`.
    pub(crate) fn served_as(&self, sdma: &SdmaInfo) -> QueueType {
        match self.kind {
            QueueType::Compute | QueueType::ComputeAql => QueueType::Compute,
            QueueType::SdmaByEngine if self.engine < sdma.host_engines.into() => QueueType::Sdma,
            QueueType::SdmaByEngine => QueueType::SdmaXgmi,
            kind => kind,
        }
    }

    /// Returns the bytes of memory of the ring.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.size.bytes().next_multiple_of(PAGE_SIZE)
    }

    /// The ranges that the driver itself reads and writes: those of the pointers, and the ring of
    /// an SDMA queue. The function that holds their mappings refuses others.
    fn accessed(&self) -> impl Iterator<Item = VaRange> {
        let page = |word: u64| (word - word % PAGE_SIZE, PAGE_SIZE);
        let ring = self.kind.is_sdma().then(|| (self.ring, self.ring_bytes()));
        let words = [self.read_pointer, self.write_pointer].map(page);
        let ranges = Iterator::chain(ring.into_iter(), words);
        ranges.filter_map(|(start, size)| VaRange::new(start, size).ok())
    }

    /// Pins the user memory that the driver itself reads and writes. See [`ViewPins::add`].
    fn pin(&self, vm: &Arc<Vm>, space: &AddressSpace) -> Result<ViewPins> {
        let mut pins = ViewPins::new(space);
        for range in self.accessed() {
            pins.add(vm, range)?;
        }
        Ok(pins)
    }

    /// Whether the queue cannot be made before the process has its memory: the driver accesses some
    /// of that, or waves are saved to shared virtual memory.
    pub(crate) fn needs_user_memory(&self, vm: &Arc<Vm>) -> bool {
        let is_user = |range| vm.hold(range).is_ok_and(|held| held.bo().is_user());
        let is_saved_elsewhere = || {
            let area = VaRange::new(self.compute.save, PAGE_SIZE);
            !self.kind.is_sdma() && area.is_ok_and(|area| vm.hold(area).is_err())
        };
        self.accessed().any(is_user) || is_saved_elsewhere()
    }
}

/// The place that a queue had in its process when it was saved, and how far it had come.
pub(crate) struct SavedQueue {
    /// Its doorbell in the process's slice.
    pub(crate) doorbell: DoorbellSlot,
    /// How far it had come: [`hw::criu::QueueRecord::progress`].
    pub(crate) progress: SavedProgress,
}

/// How far a saved queue had come.
pub(crate) enum SavedProgress {
    /// The dwords of [`hw::mqd::saved::SavedXccs`].
    Compute(KVVec<u32>),
    /// The read pointer of a queue of SDMA, bytes.
    Sdma(u64),
}

/// A [`CreateQueue`] whose user memory is pinned as far as the driver itself uses it.
pub(crate) struct PreparedQueue {
    create: CreateQueue,
    saved: Option<SavedQueue>,
    pins: ViewPins,
}

impl PreparedQueue {
    /// Prepares `create` in `vm`, which the process of `space` has; see [`ViewPins::add`]. The
    /// queue goes on as `saved`, or is a new one.
    pub(crate) fn new(
        vm: &Arc<Vm>,
        space: &AddressSpace,
        create: CreateQueue,
        saved: Option<SavedQueue>,
    ) -> Result<Self> {
        Ok(Self {
            pins: create.pin(vm, space)?,
            saved,
            create,
        })
    }

    /// Returns the doorbell that the queue must have, if it was saved.
    pub(super) fn wanted_doorbell(&self) -> Option<DoorbellSlot> {
        self.saved.as_ref().map(|saved| saved.doorbell)
    }

    /// Returns the saved descriptors of a compute queue that was saved.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are none.
    pub(super) fn saved_xccs(&self) -> Result<Option<SavedXccs<'_>>> {
        match self.saved.as_ref().map(|saved| &saved.progress) {
            None => Ok(None),
            Some(SavedProgress::Compute(words)) => Ok(Some(SavedXccs::new(words).ok_or(EINVAL)?)),
            Some(SavedProgress::Sdma(_)) => Err(EINVAL),
        }
    }

    /// Returns the byte count at which a queue of SDMA begins.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that was saved at no dword.
    pub(super) fn saved_position(&self) -> Result<u64> {
        match self.saved.as_ref().map(|saved| &saved.progress) {
            None => Ok(0),
            Some(&SavedProgress::Sdma(read)) if read % 4 == 0 => Ok(read),
            Some(_) => Err(EINVAL),
        }
    }

    /// Returns the pinned memory.
    pub(super) fn pins(&self) -> &ViewPins {
        &self.pins
    }
}

impl Deref for PreparedQueue {
    type Target = CreateQueue;

    fn deref(&self) -> &CreateQueue {
        &self.create
    }
}

/// Buffers of a compute queue: GPU addresses, and sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComputeBuffers {
    /// End-of-pipe buffer.
    pub(crate) eop: u64,
    /// Its size.
    pub(crate) eop_size: u32,
    /// Area that waves are saved to. The debugger's area follows it.
    pub(crate) save: u64,
    /// Its size.
    pub(crate) save_size: u32,
    /// Size of the control stack, which is part of it.
    pub(crate) control_stack: u32,
}

/// Arguments of UPDATE_QUEUE, each number checked on its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateQueue {
    /// Its ring. A queue without one does not run until the next update. Its present ring stays
    /// held.
    pub(crate) ring: Option<(u64, RingSize)>,
    /// Whether it is to run.
    pub(crate) percentage: QueuePercentage,
    /// Its rank.
    pub(crate) priority: QueuePriority,
}

impl UpdateQueue {
    /// Returns whether the queue is to run.
    pub(crate) fn is_active(&self) -> bool {
        self.ring.is_some() && self.percentage.is_active()
    }
}

/// A process's queue. It is off the hardware once it is dropped.
///
/// Context: all functions may sleep, for a bounded time.
pub(crate) trait UserQueue: Send + Sync {
    /// Returns its doorbell in the process's slice.
    fn doorbell(&self) -> DoorbellSlot;

    /// Changes what can change.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is destroyed; `EFAULT` or `EINVAL` for an invalid ring; `EOPNOTSUPP` for a
    /// property that cannot change.
    fn update(&self, update: &UpdateQueue) -> Result;

    /// Sets which CUs its waves may use; `bit` returns the bits of the mask.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty mask, and for a queue that has no waves.
    fn set_cu_mask(&self, _bit: &mut dyn FnMut(u32) -> bool) -> Result {
        Err(EINVAL)
    }

    /// Returns how much of its waves is saved, and calls `write` with index and value of each used
    /// dword of the control stack.
    ///
    /// # Errors
    ///
    /// `EINVAL` while the queue is active, and for a queue that has no waves; errors of `write`.
    fn wave_state(&self, _write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        Err(EINVAL)
    }

    /// Announces [`UserQueue::suspend`]: slow work may start now. Does not wait.
    fn begin_suspend(&self);

    /// Takes it off the hardware, and keeps it off until [`UserQueue::resume`], whatever else its
    /// process and the driver do with it.
    ///
    /// # Errors
    ///
    /// `EIO` if the hardware does not let go of it: then it has failed.
    fn suspend(&self) -> Result;

    /// Lets it run again, if its process wants it to. Does not wait.
    fn resume(&self);

    /// Has what the debugger has set of its process's waves come into force, for new waves and for
    /// those that are restored.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hardware does not let go of it.
    fn refresh(&self) -> Result {
        Ok(())
    }

    /// As [`UserQueue::wave_state`], while it is suspended.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not, and for a queue that has no waves; errors of `write`.
    fn saved_waves(&self, _write: &mut dyn FnMut(u32, u32) -> Result) -> Result<WaveState> {
        Err(EINVAL)
    }

    /// Appends how far it has come to `progress`, as [`hw::criu::QueueRecord`] has that. The
    /// queue's group keeps it off the hardware.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is destroyed or has failed; `ENOMEM`.
    fn save(&self, progress: &mut KVVec<u32>) -> Result;

    /// Takes it off the hardware, whatever it is doing. A second call only waits for the first.
    ///
    /// # Errors
    ///
    /// `ETIME` if the hardware does not let go of it. The process has lost it then, but its memory
    /// is kept until the device goes.
    fn destroy(&self) -> Result;
}

/// The owner of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOwner {
    /// The process, in the initial PID namespace.
    pub(crate) pid: i32,
    /// Name of the process when the queue was made.
    pub(crate) name: TaskName,
    /// PASID of the process.
    pub(crate) pasid: u16,
    /// The queue's id within the process.
    pub(crate) queue: u32,
}

impl QueueOwner {
    /// Returns the queue as the suspect for an engine that hangs.
    pub(super) fn suspect(&self) -> SuspectQueue {
        SuspectQueue {
            who: TaskIdentity {
                pid: self.pid,
                name: self.name,
            },
            queue: self.queue,
        }
    }
}

/// Returns the engines that serve queues of `kind`; `retries` says that the process retries page
/// faults.
///
/// An engine stands still while it waits for a page. Copies that are needed to resolve the fault
/// must not wait behind it, so [`SdmaInfo::pages_engine`] has no queues of such processes. A
/// process that asks for it gets engine 0.
///
/// # Errors
///
/// `EINVAL` for an engine that does not exist, and for compute queues.
pub(super) fn engines(
    sdma: &SdmaInfo,
    kind: QueueType,
    wanted: u32,
    retries: bool,
) -> Result<core::ops::Range<u8>> {
    let (host, all) = (sdma.host_engines, sdma.engines());
    let pages = sdma.pages_engine();
    match kind {
        QueueType::Sdma if retries => Ok(0..host.min(pages)),
        QueueType::Sdma => Ok(0..host),
        QueueType::SdmaXgmi => Ok(host..all),
        QueueType::SdmaByEngine => match u8::try_from(wanted) {
            Ok(engine) if engine < all => {
                let engine = if retries && engine == pages {
                    0
                } else {
                    engine
                };
                Ok(engine..engine + 1)
            }
            _ => Err(EINVAL),
        },
        QueueType::Compute | QueueType::ComputeAql => Err(EINVAL),
    }
}
