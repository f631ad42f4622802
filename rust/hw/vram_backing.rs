// SPDX-License-Identifier: GPL-2.0
//! How much system memory has to be there for VRAM that is asked for: all of it, when that is more than there is, so that each buffer can
//! move out for another; and in any case what has moved out.

/// What is asked for of a GPU's VRAM, in bytes, and the system memory that is taken for that. No locks: its owner has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VramBacking {
    usable: u64,
    asked: u64,
    away: u64,
    taken: u64,
}

impl VramBacking {
    /// Nothing is asked for.
    pub const fn new() -> Self {
        Self {
            usable: 0,
            asked: 0,
            away: 0,
            taken: 0,
        }
    }

    /// There are so many bytes for buffers now.
    pub fn set_usable(&mut self, bytes: u64) {
        self.usable = bytes;
    }

    /// The bytes that there are for buffers.
    pub const fn usable(&self) -> u64 {
        self.usable
    }

    /// The bytes that are asked for.
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// The bytes of system memory that are taken.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// The bytes of system memory that have to be taken before `asked` bytes more are asked for, and `away` more are in system memory.
    pub fn missing(&self, asked: u64, away: u64) -> u64 {
        let asked = self.asked.saturating_add(asked);
        let away = self.away.saturating_add(away);
        self.need(asked, away).saturating_sub(self.taken)
    }

    /// So many bytes more are asked for, and in system memory; [`VramBacking::missing`] was taken for that.
    pub fn add(&mut self, asked: u64, away: u64) {
        self.taken = self.taken.saturating_add(self.missing(asked, away));
        self.asked = self.asked.saturating_add(asked);
        self.away = self.away.saturating_add(away);
    }

    /// So many bytes less are; how many bytes of system memory are to be given back for that.
    pub fn remove(&mut self, asked: u64, away: u64) -> u64 {
        self.asked = self.asked.saturating_sub(asked);
        self.away = self.away.saturating_sub(away);
        let left = self.taken.saturating_sub(self.need(self.asked, self.away));
        self.taken -= left;
        left
    }

    /// What is away may stay so for long, as other devices have it, also when there is room for all again.
    fn need(&self, asked: u64, away: u64) -> u64 {
        if asked > self.usable {
            asked.max(away)
        } else {
            away
        }
    }
}
