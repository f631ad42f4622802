// SPDX-License-Identifier: GPL-2.0
//! Blocks: device memory that was allocated for pages that moved in together. It is freed when none
//! of the pages is left.

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

/// Where the pages of a block come from.
#[derive(Clone)]
pub(super) struct PageOrigin {
    pub(super) addresses: Range<usize>,
    pub(super) observer: Arc<dyn MigrationObserver>,
}

/// The memory of some pages.
#[pin_data]
pub(super) struct PageBlock {
    number: u64,
    /// The number of pages that were allocated.
    len: usize,
    /// The addresses that the pages had when they moved in, and the observer to notify when they
    /// move out.
    origin: PageOrigin,
    /// The number of pages that are in use. The maker of the block counts as one, and so does each
    /// page that the device may use for ever.
    pages: Atomic<i32>,
    /// `None` once no page is left.
    #[pin]
    room: SpinLock<Option<Arc<dyn DeviceSpace>>>,
    /// The next block in the list of those of which no page is left.
    next: AtomicPtr<PageBlock>,
}

impl PageBlock {
    /// The number of the block; later blocks have larger numbers.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The number of pages that were allocated.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where its pages come from.
    pub(super) fn origin(&self) -> &PageOrigin {
        &self.origin
    }

    /// The allocation behind it.
    pub(super) fn room(&self) -> Option<Arc<dyn DeviceSpace>> {
        self.room.lock().clone()
    }

    /// Adds one to the count.
    pub(super) fn count(&self) {
        self.pages.add(1, Relaxed);
    }

    /// Subtracts one from the count, and returns whether that was the last.
    pub(super) fn put(&self) -> bool {
        self.pages.fetch_sub(1, Full) == 1
    }

    /// Frees the memory, as no page is left. May sleep.
    pub(super) fn release(&self) {
        let room = self.room.lock().take();
        drop(room);
    }
}

/// All blocks.
#[pin_data]
pub(super) struct PageBlocks {
    /// By number. The innermost lock but for the block's own.
    #[pin]
    all: Mutex<BlockTree>,
    /// The first block of those of which no page is left. They are still in the tree above.
    free: AtomicPtr<PageBlock>,
}

struct BlockTree {
    blocks: RBTree<u64, Arc<PageBlock>>,
    next: u64,
}

impl PageBlocks {
    /// An empty set.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            all <- new_mutex!(BlockTree { blocks: RBTree::new(), next: 0 }, "PageBlocks::all"),
            free: AtomicPtr::new(core::ptr::null_mut()),
        })
    }

    /// Adds a block with `room` for `len` pages from `origin`; the caller is counted.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
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
                room <- new_spinlock!(Some(room), "PageBlock::room"),
                next: AtomicPtr::new(core::ptr::null_mut()),
            }),
            GFP_KERNEL,
        )?;
        let node = RBTreeNode::new(number, block.clone(), GFP_KERNEL)?;
        self.all.lock().blocks.insert(node);
        Ok(block)
    }

    /// The oldest block from `number` on.
    pub(super) fn at_or_after(&self, number: u64) -> Option<Arc<PageBlock>> {
        let all = self.all.lock();
        let cursor = all.blocks.cursor_lower_bound(&number)?;
        Some(cursor.current().1.clone())
    }

    /// Whether there is no block.
    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().blocks.is_empty()
    }

    /// Adds `block` to the list of those of which no page is left. It is in the tree, and was not
    /// in the list before. Any context.
    pub(super) fn add_free(&self, block: NonNull<PageBlock>) {
        let mut first = self.free.load(Ordering::Relaxed);
        loop {
            // SAFETY: It is in the tree until `take_free` takes it, which can only be after this.
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

    /// Takes out one block of which no page is left.
    pub(super) fn take_free(&self) -> Option<Arc<PageBlock>> {
        let mut all = self.all.lock();
        // Under the lock this is the only caller that takes one out: the first entry stays first,
        // or gets others before it.
        let mut first = NonNull::new(self.free.load(Ordering::Acquire))?;
        loop {
            // SAFETY: It is in the tree, which does not change under the lock.
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
