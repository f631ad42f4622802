// SPDX-License-Identifier: GPL-2.0
//! Clears free VRAM in the background, so that an allocation need not wait for it. Data that
//! another process has left there must not be disclosed. After the driver is loaded, all VRAM has
//! to be cleared.

use super::{copy_engine::CopyEngine, vram::VramBlocks};
use crate::kern::{
    buddy::{BuddyAllocator, BuddySearch},
    workqueue,
};
use kernel::{
    new_mutex, new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex, SetOnce, SpinLock,
    },
    time::msecs_to_jiffies,
    workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem},
};

/// Bytes that are cleared at a time: they cannot be allocated meanwhile.
const MAX_BYTES: u64 = 64 << 20;
/// How long the scrubber waits for further memory after some is freed, milliseconds.
const SOON_MS: u32 = 20;

/// Clears the free VRAM of a GPU.
#[pin_data]
pub(crate) struct VramScrubber {
    buddy: Arc<BuddyAllocator>,
    engine: SetOnce<Arc<dyn CopyEngine>>,
    /// Bytes that are being cleared.
    under_way: Atomic<i64>,
    /// The work is not to run any more. A spinlock: work is scheduled before this is set, or not at
    /// all.
    #[pin]
    stopped: SpinLock<bool>,
    /// Held while memory is being cleared.
    #[pin]
    clearing: Mutex<()>,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for VramScrubber { self.work }
}

/// The outcome of a search for memory that is not cleared.
enum ScrubResult {
    /// Some was found, and is cleared now.
    Some,
    /// There is none in pieces of that size.
    None,
}

impl VramScrubber {
    /// Creates a scrubber for the memory of `buddy`, without an engine yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(buddy: &Arc<BuddyAllocator>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                buddy: buddy.clone(),
                engine: SetOnce::new(),
                under_way: Atomic::new(0),
                stopped <- new_spinlock!(false, "VramScrubber::stopped"),
                clearing <- new_mutex!((), "VramScrubber::clearing"),
                work <- new_delayed_work!("VramScrubber::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes `engine` clear memory from now on, until [`VramScrubber::stop`].
    pub(super) fn start(self: &Arc<Self>, engine: Arc<dyn CopyEngine>) {
        self.engine.populate(engine);
        self.has_work();
    }

    /// Stops clearing: the engines are about to stop. May sleep.
    pub(crate) fn stop(self: &Arc<Self>) {
        *self.stopped.lock() = true;
        workqueue::cancel(self);
    }

    /// Schedules the scrubber, since memory is about to be freed. Context: any.
    pub(super) fn has_work(self: &Arc<Self>) {
        let stopped = self.stopped.lock();
        if !*stopped && self.engine.as_ref().is_some() {
            let delay = msecs_to_jiffies(SOON_MS);
            let _ = workqueue::background().enqueue_delayed(self.clone(), delay);
        }
    }

    /// Returns the bytes that are free, but cannot be allocated until they are cleared.
    pub(super) fn under_way(&self) -> u64 {
        u64::try_from(self.under_way.load(Relaxed)).unwrap_or(0)
    }

    /// Waits for the memory that is being cleared now, for as long as the engines may take. May
    /// sleep.
    pub(super) fn wait(&self) {
        drop(self.clearing.lock());
    }

    /// Clears `size` bytes of memory that is free and not cleared.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there are fewer; errors of the engine.
    fn clear(self: &Arc<Self>, engine: &dyn CopyEngine, size: u64) -> Result<ScrubResult> {
        let _clearing = self.clearing.lock();
        let blocks = self
            .buddy
            .alloc(BuddySearch::Dirty, size, PAGE_SIZE as u64, false)?;
        let blocks = Arc::new(VramBlocks::new(blocks, self)?, GFP_KERNEL)?;
        let found = if blocks.were_cleared() {
            ScrubResult::None
        } else {
            // An engine that fails would be asked again and again.
            engine
                .scrub(&blocks)
                .inspect_err(|_| blocks.leave_dirty())?;
            ScrubResult::Some
        };
        blocks.set_cleared();
        Ok(found)
    }

    /// Clears all free memory, in pieces that get smaller.
    fn clear_all(self: &Arc<Self>, engine: &dyn CopyEngine) -> Result {
        let mut most = MAX_BYTES;
        while !*self.stopped.lock() {
            let (_, dirty) = self.buddy.free();
            let size = most.min(1 << dirty.checked_ilog2().unwrap_or(0));
            if size < PAGE_SIZE as u64 {
                break;
            }
            self.under_way.add(size as i64, Relaxed);
            let found = self.clear(engine, size);
            self.under_way.add(-(size as i64), Relaxed);
            match found {
                // There may be larger pieces again by now.
                Ok(ScrubResult::Some) => most = MAX_BYTES.min(size * 2),
                Ok(ScrubResult::None) => most = size / 2,
                Err(error) if error == ENOMEM => most = size / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl WorkItem for VramScrubber {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Some(engine) = this.engine.as_ref() {
            // Memory that is not cleared now is cleared when it is allocated, or when more is
            // freed.
            let _ = this.clear_all(&**engine);
        }
    }
}
