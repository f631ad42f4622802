// SPDX-License-Identifier: GPL-2.0
//! What a process has, and had, around an address that its GPU could not access. Most wrong
//! addresses are behind the end of a buffer, before its start, or in a buffer that was freed.

use core::fmt;
use core::ops::DerefMut;

use crate::pte::PageAccess;
use crate::va::{VaRange, PAGE_SIZE};

/// The memory behind a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// VRAM of the GPU.
    Vram,
    /// A buffer of VRAM that is in system memory for now.
    EvictedVram,
    /// System memory of the driver.
    Gtt,
    /// Memory of the process that it has registered.
    Userptr,
    /// Memory of the process that it shares with the GPU by its attributes.
    Svm,
    /// Memory of another device.
    Imported,
    /// VRAM of another GPU.
    PeerVram,
    /// Doorbells, or the page of flush registers.
    Registers,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vram => "VRAM",
            Self::EvictedVram => "VRAM (evicted)",
            Self::Gtt => "GTT",
            Self::Userptr => "USERPTR",
            Self::Svm => "SVM",
            Self::Imported => "an imported buffer",
            Self::PeerVram => "VRAM of another GPU",
            Self::Registers => "doorbells or registers",
        })
    }
}

/// A buffer where it is, or was, mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBuffer {
    /// The memory.
    pub kind: MemoryKind,
    /// The addresses.
    pub range: VaRange,
}

impl fmt::Display for PlacedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, start) = (ByteCount(self.range.size()), self.range.start());
        write!(f, "{size} of {} at {start:#x}", self.kind)
    }
}

/// A number of bytes, in the largest unit in which it is whole.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match self.0 {
            0 => 0,
            bytes => bytes.trailing_zeros() / 10,
        };
        let name = match units {
            0 => "bytes",
            1 => "KiB",
            2 => "MiB",
            _ => "GiB",
        };
        write!(f, "{} {name}", self.0 >> (10 * units.min(3)))
    }
}

/// A buffer that the process has unmapped. It is small, since an address space keeps many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedBuffer {
    start: u64,
    pages: u32,
    kind: MemoryKind,
    /// When, in nanoseconds since boot.
    at_ns: u64,
}

impl FreedBuffer {
    /// Stands for none.
    pub const NONE: Self = Self {
        start: 0,
        pages: 0,
        kind: MemoryKind::Vram,
        at_ns: 0,
    };

    /// `buffer`, unmapped `at_ns` nanoseconds after boot. Of a buffer of more than 16 TiB only that
    /// much is known.
    #[inline]
    pub const fn new(buffer: PlacedBuffer, at_ns: u64) -> Self {
        let pages = buffer.range.pages();
        Self {
            start: buffer.range.start(),
            pages: if pages > u32::MAX as u64 {
                u32::MAX
            } else {
                pages as u32
            },
            kind: buffer.kind,
            at_ns,
        }
    }

    /// Where it was.
    fn buffer(&self) -> Option<PlacedBuffer> {
        let range = VaRange::new(self.start, u64::from(self.pages) * PAGE_SIZE).ok()?;
        let kind = self.kind;
        Some(PlacedBuffer { kind, range })
    }

    fn held(&self, address: u64) -> bool {
        address
            .checked_sub(self.start)
            .is_some_and(|offset| offset < u64::from(self.pages) * PAGE_SIZE)
    }
}

/// The last buffers that a process has unmapped, as many as `S` has places.
pub struct FreedBuffers<S> {
    places: S,
    next: usize,
}

impl<S: DerefMut<Target = [FreedBuffer]>> FreedBuffers<S> {
    /// Places that hold [`FreedBuffer::NONE`].
    pub const fn new(places: S) -> Self {
        Self { places, next: 0 }
    }

    /// Adds a buffer, in place of the oldest.
    #[inline]
    pub fn add(&mut self, freed: FreedBuffer) {
        if self.next >= self.places.len() {
            self.next = 0;
        }
        if let Some(place) = self.places.get_mut(self.next) {
            *place = freed;
        }
        self.next += 1;
    }

    /// The buffer that was at `address` last.
    pub fn last_at(&self, address: u64) -> Option<FreedBuffer> {
        let held = self.places.iter().filter(|freed| freed.held(address));
        held.max_by_key(|freed| freed.at_ns).copied()
    }
}

/// The surroundings of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The address.
    pub address: u64,
    /// When, in nanoseconds since boot.
    pub at_ns: u64,
    /// The buffer that holds it, and what the GPU may do to that.
    pub holder: Option<(PlacedBuffer, PageAccess)>,
    /// The next buffer below.
    pub below: Option<PlacedBuffer>,
    /// The next buffer above.
    pub above: Option<PlacedBuffer>,
    /// The buffer that it was in last, of those that are unmapped.
    pub freed: Option<FreedBuffer>,
}

impl Surroundings {
    /// Milliseconds since `freed` was unmapped.
    fn ms_since(&self, freed: &FreedBuffer) -> u64 {
        self.at_ns.saturating_sub(freed.at_ns) / 1_000_000
    }
}

/// On one line, without a full stop.
impl fmt::Display for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some((buffer, access)) => {
                let write = if access.write { "" } else { ", read-only" };
                let execute = if access.execute { "" } else { ", no code" };
                write!(f, "it is in {buffer}{write}{execute}")?;
            }
            None => f.write_str("no buffer is there")?,
        }
        if let Some((freed, buffer)) = self.freed.and_then(|freed| Some((freed, freed.buffer()?))) {
            let ago = self.ms_since(&freed);
            write!(f, "; {buffer} was, and was freed {ago} ms before")?;
        }
        if let Some(below) = &self.below {
            let gap = self.address.saturating_sub(below.range.end());
            write!(f, "; {} above the end of {below}", ByteCount(gap))?;
        }
        if let Some(above) = &self.above {
            let gap = above.range.start().saturating_sub(self.address);
            write!(f, "; {} below {above}", ByteCount(gap))?;
        }
        Ok(())
    }
}
