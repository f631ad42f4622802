// SPDX-License-Identifier: GPL-2.0
//! The system memory that must be reserved for allocated VRAM. If more VRAM is allocated than
//! exists, all of it is backed, so that each buffer can move out for another. Buffers that have
//! moved out are backed in any case.

/// The allocated VRAM of a GPU, in bytes, and the system memory reserved for it. No locks: the
/// owner has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VramBacking {
    usable: u64,
    asked: u64,
    away: u64,
    taken: u64,
}

impl VramBacking {
    /// No allocations.
    pub const fn new() -> Self {
        Self {
            usable: 0,
            asked: 0,
            away: 0,
            taken: 0,
        }
    }

    /// Sets the bytes of VRAM that buffers can use.
    pub fn set_usable(&mut self, bytes: u64) {
        self.usable = bytes;
    }

    /// The bytes of VRAM that buffers can use.
    pub const fn usable(&self) -> u64 {
        self.usable
    }

    /// The allocated bytes.
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// The reserved bytes of system memory.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// The bytes of system memory to reserve before `asked` more bytes are allocated, and `away`
    /// more bytes are in system memory.
    pub fn missing(&self, asked: u64, away: u64) -> u64 {
        let asked = self.asked.saturating_add(asked);
        let away = self.away.saturating_add(away);
        self.need(asked, away).saturating_sub(self.taken)
    }

    /// Records `asked` more allocated bytes, and `away` more bytes in system memory, after
    /// [`VramBacking::missing`] was reserved for them.
    pub fn add(&mut self, asked: u64, away: u64) {
        self.taken = self.taken.saturating_add(self.missing(asked, away));
        self.asked = self.asked.saturating_add(asked);
        self.away = self.away.saturating_add(away);
    }

    /// Records as many bytes less; returns the bytes of system memory to release.
    pub fn remove(&mut self, asked: u64, away: u64) -> u64 {
        self.asked = self.asked.saturating_sub(asked);
        self.away = self.away.saturating_sub(away);
        let left = self.taken.saturating_sub(self.need(self.asked, self.away));
        self.taken -= left;
        left
    }

    /// The system memory that is needed. Buffers that other devices use may stay out for long, even
    /// when VRAM has room for all again.
    fn need(&self, asked: u64, away: u64) -> u64 {
        if asked > self.usable {
            asked.max(away)
        } else {
            away
        }
    }
}
