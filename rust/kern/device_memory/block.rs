// SPDX-License-Identifier: GPL-2.0
//! Memory that was taken for pages that came in together: it is free again when none of them is left.

use super::{DeviceSpace, MigrationObserver};
use core::{
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc, Mutex, SpinLock,
    },
};

/// Where pages come from.
#[derive(Clone)]
pub(super) struct PageOrigin {
    pub(super) addresses: Range<usize>,
    pub(super) witness: Arc<dyn MigrationObserver>,
}

/// The memory of some pages.
#[pin_data]
pub(super) struct PageBlock {
    number: u64,
    /// How many pages were taken.
    len: usize,
    /// The addresses that they were at when they came in, and who hears of it when they leave.
    origin: PageOrigin,
    /// Those that have begun their life and not ended it; whoever makes it counts as one, and what the device may use for ever.
    pages: Atomic<i32>,
    /// `None` once no page is left.
    #[pin]
    room: SpinLock<Option<Arc<dyn DeviceSpace>>>,
    /// The next one of those that no page is left of.
    next: AtomicPtr<PageBlock>,
}

impl PageBlock {
    /// Which one it is: those that came later have larger numbers.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many pages were taken.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where its pages come from.
    pub(super) fn origin(&self) -> &PageOrigin {
        &self.origin
    }

    /// Its memory.
    pub(super) fn room(&self) -> Option<Arc<dyn DeviceSpace>> {
        self.room.lock().clone()
    }

    /// One more.
    pub(super) fn count(&self) {
        self.pages.add(1, Relaxed);
    }

    /// One less; whether that was the last.
    pub(super) fn put(&self) -> bool {
        self.pages.fetch_sub(1, Full) == 1
    }

    /// No page is left: the memory is free. Sleeps.
    pub(super) fn release(&self) {
        let room = self.room.lock().take();
        drop(room);
    }
}

/// All blocks.
#[pin_data]
pub(super) struct PageBlocks {
    /// By number. Innermost but for the room's.
    #[pin]
    all: Mutex<BlockTree>,
    /// The first of those that no page is left of, which are still in the list above.
    free: AtomicPtr<PageBlock>,
}

struct BlockTree {
    blocks: RBTree<u64, Arc<PageBlock>>,
    next: u64,
}

impl PageBlocks {
    /// None.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all <- new_mutex!(BlockTree { blocks: RBTree::new(), next: 0 }, "Blocks::all"),
            free: AtomicPtr::new(core::ptr::null_mut()),
        })
    }

    /// One with `room` for `len` pages from `origin`, which counts the caller. ENOMEM.
    pub(super) fn add(
        &self,
        room: Arc<dyn DeviceSpace>,
        len: usize,
        origin: &PageOrigin,
    ) -> Result<Arc<PageBlock>> {
        let mut all = self.all.lock();
        let number = all.next;
        all.next += 1;
        drop(all);
        let block = Arc::pin_init(
            pin_init!(PageBlock {
                number,
                len,
                origin: origin.clone(),
                pages: Atomic::new(1),
                room <- new_spinlock!(Some(room), "Block::room"),
                next: AtomicPtr::new(core::ptr::null_mut()),
            }),
            GFP_KERNEL,
        )?;
        let node = RBTreeNode::new(number, block.clone(), GFP_KERNEL)?;
        self.all.lock().blocks.insert(node);
        Ok(block)
    }

    /// The oldest from `number` on.
    pub(super) fn at_or_after(&self, number: u64) -> Option<Arc<PageBlock>> {
        let all = self.all.lock();
        let cursor = all.blocks.cursor_lower_bound(&number)?;
        Some(cursor.current().1.clone())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().blocks.is_empty()
    }

    /// No page is left of `block`, which is in the list, and was not before. Any context.
    pub(super) fn add_free(&self, block: NonNull<PageBlock>) {
        let mut first = self.free.load(Ordering::Relaxed);
        loop {
            // SAFETY: It is in the list until somebody takes it, which is after this.
            unsafe { block.as_ref() }
                .next
                .store(first, Ordering::Relaxed);
            match self.free.compare_exchange(
                first,
                block.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes one out that no page is left of.
    pub(super) fn take_free(&self) -> Option<Arc<PageBlock>> {
        let mut all = self.all.lock();
        // Nobody else takes one: what is first stays first, or gets others before it.
        let mut first = NonNull::new(self.free.load(Ordering::Acquire))?;
        loop {
            // SAFETY: It is in the list of all, which the lock keeps as it is.
            let (next, number) = unsafe {
                let block = first.as_ref();
                (block.next.load(Ordering::Relaxed), block.number)
            };
            match self.free.compare_exchange(
                first.as_ptr(),
                next,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let node = all.blocks.remove_node(&number);
                    drop(all);
                    return node.map(|node| node.to_key_value().1);
                }
                Err(now) => first = NonNull::new(now)?,
            }
        }
    }
}
