// SPDX-License-Identifier: GPL-2.0
//! VRAM: who has which part of it.

use crate::{
    ledger::{Hold, Kind, Ledger},
    mem::account::{Client, Region},
};
use hw::{share::Share, va::LARGE_PAGE_SIZE};
use kernel::{
    gpu::buddy::{
        AllocatedBlocks, GpuBuddy, GpuBuddyAllocFlag, GpuBuddyAllocFlags, GpuBuddyAllocMode,
        GpuBuddyParams,
    },
    page::PAGE_SIZE,
    prelude::*,
    ptr::Alignment,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// A run of VRAM without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VramRun {
    /// Offset of the first byte in VRAM.
    pub(crate) offset: u64,
    /// Offset of the first byte in the buffer.
    pub(crate) at: u64,
    /// The bytes: a multiple of the page size.
    pub(crate) size: u64,
}

/// VRAM that is there for page tables, and for them alone: this part of it, but at least so many bytes.
const TABLES_PART: u64 = 128;
const TABLES_MIN: u64 = 16 << 20;
/// A quarter of it is kept for processes that have few: for so many of them, or fewer, so that there is enough for each.
const TABLES_PARTIES: u64 = 1024;
const TABLES_LEAST: u64 = 64 << 10;

/// How VRAM for page tables is shared, of `total` bytes.
fn tables_share(total: u64) -> Share {
    let all = (total / TABLES_PART).max(TABLES_MIN);
    let kept = all / 4;
    Share::new(all, kept, (kept / TABLES_LEAST).min(TABLES_PARTIES))
}

/// The VRAM of a GPU, given out in pages. It has its own lock, a mutex.
pub(crate) struct Vram {
    // Before the allocator that it came from.
    _reserved: Option<Pin<KBox<AllocatedBlocks>>>,
    buddy: GpuBuddy,
    reserved: u64,
    /// Bytes of page tables.
    tables: Arc<Atomic<i64>>,
    ledger: Arc<Ledger>,
}

impl Vram {
    /// `size` bytes of VRAM, all free apart from the first `reserved`, whole pages, which somebody has for
    /// good. The CPU reaches all of it. `EINVAL` when there is less than a page, `ENOMEM`.
    pub(crate) fn new(size: u64, reserved: u64, ledger: Arc<Ledger>) -> Result<Self> {
        let buddy = GpuBuddy::new(GpuBuddyParams {
            base_offset: 0,
            size: size / PAGE_SIZE as u64 * PAGE_SIZE as u64,
            chunk_size: Alignment::new::<PAGE_SIZE>(),
        })?;
        let first = if reserved == 0 {
            None
        } else {
            let blocks = buddy.alloc_blocks(
                GpuBuddyAllocMode::Range(0..reserved),
                reserved,
                Alignment::new::<PAGE_SIZE>(),
                GpuBuddyAllocFlags::default(),
            );
            Some(KBox::pin_init(blocks, GFP_KERNEL)?)
        };
        Ok(Self {
            _reserved: first,
            reserved,
            tables: Arc::new(Atomic::new(0), GFP_KERNEL)?,
            buddy,
            ledger,
        })
    }

    /// All bytes.
    pub(crate) fn total(&self) -> u64 {
        self.buddy.size()
    }

    /// The bytes that are given out.
    pub(crate) fn used(&self) -> u64 {
        self.total().saturating_sub(self.buddy.avail())
    }

    /// The bytes that buffers may have: whole large pages, without what the driver itself has and page tables may need.
    pub(crate) fn usable(&self) -> u64 {
        let driver = self.ledger.count(Kind::VramTables) - self.tables.load(Relaxed);
        let driver = u64::try_from(driver).unwrap_or(0) + self.reserved;
        let tables = tables_share(self.total()).all();
        let left = self.total().saturating_sub(driver + tables);
        left / LARGE_PAGE_SIZE * LARGE_PAGE_SIZE
    }

    /// Lets `client` have one more page table of `bytes`. `ENOMEM` when that passes its share. Any context.
    pub(super) fn charge_table(&self, client: &Arc<Client>, bytes: u64) -> Result<TableCharge> {
        let own = client.bytes(Region::Tables);
        let before = self.tables.fetch_add(bytes as i64, Relaxed);
        client.add(Region::Tables, bytes as i64);
        // From here on it is given back when this is dropped.
        let charge = TableCharge {
            tables: self.tables.clone(),
            client: client.clone(),
            bytes,
        };
        let before = u64::try_from(before).unwrap_or(0);
        if tables_share(self.total()).allows(before, own, bytes) {
            Ok(charge)
        } else {
            Err(ENOMEM)
        }
    }

    /// The bytes that buffers may still take.
    pub(crate) fn free(&self) -> u64 {
        let driver = u64::try_from(self.ledger.count(Kind::VramTables)).unwrap_or(0);
        let buffers = self.used().saturating_sub(driver + self.reserved);
        self.usable().saturating_sub(buffers)
    }

    /// `size` bytes, rounded up to `align`, a power of two of at least a page; in one run when `contiguous`,
    /// else in runs that are multiples of `align`: for a buffer. What they held before is still in them. `EINVAL`,
    /// or `ENOMEM` when there is no such memory free beside what is kept for tables.
    pub(crate) fn alloc(&self, size: u64, align: u64, contiguous: bool) -> Result<VramBlocks> {
        if size > self.free() {
            return Err(ENOMEM);
        }
        let flags = if contiguous {
            GpuBuddyAllocFlag::Contiguous.into()
        } else {
            GpuBuddyAllocFlags::default()
        };
        self.take(GpuBuddyAllocMode::TopDown, size, align, flags, None)
    }

    /// `size` bytes in one run, rounded up to pages: tables that the driver writes.
    pub(crate) fn alloc_table(&self, size: u64) -> Result<VramBlocks> {
        // Searched from the start, while buffers come from the end: neither cuts up the other's part.
        self.take(
            GpuBuddyAllocMode::Range(0..self.total()),
            size,
            PAGE_SIZE as u64,
            GpuBuddyAllocFlag::Contiguous.into(),
            Some(Kind::VramTables),
        )
    }

    fn take(
        &self,
        mode: GpuBuddyAllocMode,
        size: u64,
        align: u64,
        flags: GpuBuddyAllocFlags,
        also: Option<Kind>,
    ) -> Result<VramBlocks> {
        let alignment = usize::try_from(align)
            .ok()
            .and_then(Alignment::new_checked)
            .ok_or(EINVAL)?;
        if size == 0 || align < PAGE_SIZE as u64 {
            return Err(EINVAL);
        }
        let size = size.checked_next_multiple_of(align).ok_or(ENOMEM)?;
        if size > self.total() {
            return Err(ENOMEM);
        }
        let blocks = KBox::pin_init(
            self.buddy.alloc_blocks(mode, size, alignment, flags),
            GFP_KERNEL,
        )
        .map_err(|_| ENOMEM)?;
        let mut runs = KVVec::<VramRun>::new();
        let mut at = 0;
        for block in blocks.iter() {
            let (offset, size) = (block.offset(), block.size());
            match runs.last_mut() {
                Some(last) if last.offset + last.size == offset => last.size += size,
                _ => runs.push(VramRun { offset, at, size }, GFP_KERNEL_ACCOUNT)?,
            }
            at += size;
        }
        Ok(VramBlocks {
            runs,
            _hold: self.ledger.hold(Kind::VramBytes, size),
            _also: also.map(|kind| self.ledger.hold(kind, size)),
            _blocks: blocks,
        })
    }
}

/// VRAM that a client has for a page table; given back when dropped.
pub(super) struct TableCharge {
    tables: Arc<Atomic<i64>>,
    client: Arc<Client>,
    bytes: u64,
}

impl Drop for TableCharge {
    fn drop(&mut self) {
        self.tables.add(-(self.bytes as i64), Relaxed);
        self.client.add(Region::Tables, -(self.bytes as i64));
    }
}

/// VRAM that somebody has; free again when dropped. Whoever drops it has seen to it that the GPU has
/// forgotten the addresses.
pub(crate) struct VramBlocks {
    runs: KVVec<VramRun>,
    _hold: Hold,
    _also: Option<Hold>,
    _blocks: Pin<KBox<AllocatedBlocks>>,
}

impl VramBlocks {
    /// The runs, in the order of the buffer; adjacent ones are merged.
    pub(crate) fn runs(&self) -> &[VramRun] {
        &self.runs
    }

    /// Where byte `at` of the buffer is in VRAM, and the bytes from there to the end of its run.
    pub(crate) fn locate(&self, at: u64) -> Option<(u64, u64)> {
        let next = self.runs.partition_point(|run| run.at <= at);
        let run = self.runs.get(next.checked_sub(1)?)?;
        let inside = at - run.at;
        (inside < run.size).then(|| (run.offset + inside, run.size - inside))
    }

    /// The offset of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.offset)
    }
}
