// SPDX-License-Identifier: GPL-2.0
//! Arithmetic of a ring whose read and write pointers are 64-bit byte counts that never wrap.

/// Smallest ring, bytes.
pub const MIN_BYTES: u64 = 1024;
/// Largest ring, bytes; far above what clients ask for (1 MiB) and within one buffer's reach.
pub const MAX_BYTES: u64 = 1 << 30;
/// Dwords in which the engine fetches: packets that must end on a boundary end on this one.
pub const FETCH_DWORDS: u64 = 8;
/// Bytes of a dword.
const DWORD: u64 = 4;
/// Bytes that a writer leaves free, so that a full ring and an empty one differ modulo the size
/// too.
const GAP: u64 = FETCH_DWORDS * DWORD;

/// Why a number is not a ring's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSizeError {
    /// Not a power of two (zero included).
    NotPowerOfTwo,
    /// Below [`MIN_BYTES`].
    TooSmall,
    /// Above [`MAX_BYTES`].
    TooLarge,
}

/// The size of a ring: a power of two between [`MIN_BYTES`] and [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize(u32);

impl RingSize {
    /// The size of `bytes` bytes.
    #[inline]
    pub const fn new(bytes: u64) -> Result<Self, RingSizeError> {
        if !bytes.is_power_of_two() {
            Err(RingSizeError::NotPowerOfTwo)
        } else if bytes < MIN_BYTES {
            Err(RingSizeError::TooSmall)
        } else if bytes > MAX_BYTES {
            Err(RingSizeError::TooLarge)
        } else {
            Ok(Self(bytes as u32))
        }
    }

    /// The bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0 as u64
    }

    /// The dwords.
    #[inline]
    pub const fn dwords(self) -> u32 {
        self.0 / 4
    }

    /// Log2 of the dwords: the RB_SIZE field.
    #[inline]
    pub const fn order(self) -> u32 {
        // A power of two; `ilog2` has a panic that objtool does not know.
        self.dwords().trailing_zeros()
    }

    /// The dword of the ring that byte count `position` falls on.
    #[inline]
    pub const fn dword_at(self, position: u64) -> usize {
        ((position % self.bytes()) / DWORD) as usize
    }

    /// Whether two pointers in dwords fall on the same dword of the ring.
    #[inline]
    pub const fn is_same_dword(self, one: u64, other: u64) -> bool {
        (one ^ other) & (self.dwords() as u64 - 1) == 0
    }

    /// The bytes between the pointers. `None` when they cannot belong to one ring: not whole
    /// dwords, the write pointer behind the read pointer, or more than the ring's size ahead of it.
    #[inline]
    pub const fn used(self, read: u64, write: u64) -> Option<u64> {
        if read % DWORD != 0 || write % DWORD != 0 {
            return None;
        }
        match write.checked_sub(read) {
            Some(used) if used <= self.bytes() => Some(used),
            _ => None,
        }
    }

    /// The most bytes that a writer may have in the ring; one fetch stays free.
    #[inline]
    pub const fn capacity(self) -> u64 {
        self.bytes() - GAP
    }

    /// The places of `bytes` bytes from byte count `position` on: one run, or two when the ring's
    /// end lies between. `None` unless both are whole dwords and the bytes fit the ring.
    #[inline]
    pub const fn split(self, position: u64, bytes: u64) -> Option<RingSplit> {
        if position % DWORD != 0 || bytes % DWORD != 0 || bytes > self.bytes() {
            return None;
        }
        let start = self.dword_at(position);
        let dwords = (bytes / DWORD) as usize;
        let to_end = self.dwords() as usize - start;
        let first = if dwords < to_end { dwords } else { to_end };
        Some(RingSplit {
            first: RingRun {
                start,
                dwords: first,
            },
            second: RingRun {
                start: 0,
                dwords: dwords - first,
            },
        })
    }

    /// The dwords of padding that bring byte count `position` to `phase` dwords past a fetch
    /// boundary. Packets that were laid out for one ring keep their alignment in another when both
    /// start at the same phase.
    #[inline]
    pub const fn pad_to_phase(self, position: u64, phase: u64) -> u64 {
        let at = position / DWORD % FETCH_DWORDS;
        (phase % FETCH_DWORDS + FETCH_DWORDS - at) % FETCH_DWORDS
    }
}

/// Contents of a ring of jobs at one time, in the credits that a scheduler counts: dwords of
/// packets, with a minimum per job that limits the number of jobs, however small they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpace {
    dwords: u32,
    least: u32,
}

impl RingSpace {
    /// Room for `dwords` of packets, and for `jobs`, at least one.
    #[inline]
    pub const fn new(dwords: u32, jobs: u32) -> Self {
        let jobs = if jobs == 0 { 1 } else { jobs };
        let least = dwords.div_ceil(jobs);
        Self { dwords, least }
    }

    /// The credits of all jobs together, at most.
    #[inline]
    pub const fn credits(self) -> u32 {
        self.dwords
    }

    /// The credits of a job of `dwords`; `None` if there is never room for it.
    #[inline]
    pub const fn credits_of(self, dwords: usize) -> Option<u32> {
        if dwords > self.dwords as usize {
            return None;
        }
        let dwords = dwords as u32;
        Some(if dwords < self.least {
            self.least
        } else {
            dwords
        })
    }
}

/// How many dwords past a fetch boundary byte count `position` is.
#[inline]
pub const fn phase(position: u64) -> u64 {
    position / DWORD % FETCH_DWORDS
}

/// A run of dwords in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRun {
    /// Index of the first dword.
    pub start: usize,
    /// How many.
    pub dwords: usize,
}

/// The places of a run that may pass the ring's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSplit {
    /// Up to the ring's end.
    pub first: RingRun,
    /// From the ring's start; empty when the run does not pass the end.
    pub second: RingRun,
}
