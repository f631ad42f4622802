// SPDX-License-Identifier: GPL-2.0
//! Free VRAM is cleared in the background, so that whoever gets it need not wait for that: what others have left there is nobody's
//! business. After the driver is loaded that is all of it.

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

/// Bytes that are cleared at a time: nobody can have them meanwhile.
const MOST: u64 = 64 << 20;
/// How long memory that is free waits for more of it, milliseconds.
const SOON_MS: u32 = 20;

/// Clears the VRAM of a GPU that is free.
#[pin_data]
pub(crate) struct VramScrubber {
    buddy: Arc<BuddyAllocator>,
    engine: SetOnce<Arc<dyn CopyEngine>>,
    /// Bytes that are being cleared.
    under_way: Atomic<i64>,
    /// Nothing is to run any more. A spinlock: who asks for a run does so before that, or not at all.
    #[pin]
    stopped: SpinLock<bool>,
    /// Held while some are.
    #[pin]
    clearing: Mutex<()>,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for VramScrubber { self.work }
}

/// What a look for memory that is not cleared has come to.
enum ScrubResult {
    /// Some, and now it is.
    Some,
    /// None in pieces of that size.
    None,
}

impl VramScrubber {
    /// One for what `buddy` gives out, which has nothing to clear with yet. `ENOMEM`.
    pub(super) fn new(buddy: &Arc<BuddyAllocator>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                buddy: buddy.clone(),
                engine: SetOnce::new(),
                under_way: Atomic::new(0),
                stopped <- new_spinlock!(false, "Scrubber::stopped"),
                clearing <- new_mutex!((), "Scrubber::clearing"),
                work <- new_delayed_work!("Scrubber::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// From now on, until [`VramScrubber::stop`], `engine` clears.
    pub(super) fn start(self: &Arc<Self>, engine: Arc<dyn CopyEngine>) {
        self.engine.populate(engine);
        self.has_work();
    }

    /// Nothing is cleared any more: the engines are about to stop. Sleeps.
    pub(crate) fn stop(self: &Arc<Self>) {
        *self.stopped.lock() = true;
        workqueue::cancel(self);
    }

    /// Some memory is about to be free. Any context.
    pub(super) fn has_work(self: &Arc<Self>) {
        let stopped = self.stopped.lock();
        if !*stopped && self.engine.as_ref().is_some() {
            let delay = msecs_to_jiffies(SOON_MS);
            let _ = workqueue::background().enqueue_delayed(self.clone(), delay);
        }
    }

    /// The bytes that are free, but nobody's to be had until they are cleared.
    pub(super) fn under_way(&self) -> u64 {
        u64::try_from(self.under_way.load(Relaxed)).unwrap_or(0)
    }

    /// Waits for what is being cleared now. Bounded by what the engines may take; sleeps.
    pub(super) fn wait(&self) {
        drop(self.clearing.lock());
    }

    /// Clears `size` bytes of what is free and not cleared. `ENOMEM` when there are not so many, errors of the engine.
    fn clear(self: &Arc<Self>, engine: &dyn CopyEngine, size: u64) -> Result<ScrubResult> {
        let _clearing = self.clearing.lock();
        let blocks = self
            .buddy
            .alloc(BuddySearch::Dirty, size, PAGE_SIZE as u64, false)?;
        let blocks = Arc::new(VramBlocks::new(blocks, self)?, GFP_KERNEL)?;
        let found = if blocks.were_cleared() {
            ScrubResult::None
        } else {
            engine.scrub(&blocks)?;
            ScrubResult::Some
        };
        blocks.set_cleared();
        Ok(found)
    }

    /// Clears all of it, in pieces that get smaller.
    fn clear_all(self: &Arc<Self>, engine: &dyn CopyEngine) -> Result {
        let mut most = MOST;
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
                // There may be larger ones again by now.
                Ok(ScrubResult::Some) => most = MOST.min(size * 2),
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
            // What is not cleared now is when it is given out, or when more is free.
            let _ = this.clear_all(&**engine);
        }
    }
}
