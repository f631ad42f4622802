// SPDX-License-Identifier: GPL-2.0
//! Invalidations of translations in the hubs, which any thread brings to their end.
//!
//! A hub has one register by which the CPU requests an invalidation, so one request is under way at
//! a time. A thread that makes a request polls it for a moment and then sleeps, with no lock. The
//! scheduler may keep that thread from the CPU for long. So each thread that comes polls the
//! request that is under way, whichever thread made it, and makes its own when that one is
//! acknowledged: a starved thread delays only itself.
//!
//! Each request has a number. A thread that sleeps waits for its own number. If it waited until no
//! request were pending, it could take another thread's request for its own, or take a request that
//! failed for one that was acknowledged, and free memory that the GPU still reaches.

use crate::ih::HubKind;

/// How long a request may take, in microseconds.
pub const FLUSH_TIMEOUT_US: u64 = 1_000_000;
/// How long a request usually takes, in microseconds: the thread that makes it keeps the CPU for so
/// long. A hub that has not answered before is given no more.
pub const FLUSH_SPIN_US: u64 = 20;

/// Some of the hubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HubSet {
    gfx: bool,
    mm: bool,
}

impl HubSet {
    /// No hub.
    pub const NONE: Self = Self {
        gfx: false,
        mm: false,
    };
    /// Both hubs.
    pub const BOTH: Self = Self {
        gfx: true,
        mm: true,
    };
    /// MMHUB.
    pub const MM: Self = Self {
        gfx: false,
        mm: true,
    };

    /// The hubs of the set.
    #[inline]
    pub fn kinds(self) -> impl Iterator<Item = HubKind> {
        let gfx = self.gfx.then_some(HubKind::Gfx);
        gfx.into_iter().chain(self.mm.then_some(HubKind::Mm))
    }

    /// Whether there is none in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        !self.gfx && !self.mm
    }

    /// Those that are in this set and not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            gfx: self.gfx && !other.gfx,
            mm: self.mm && !other.mm,
        }
    }

    /// Those that are in either set.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            gfx: self.gfx || other.gfx,
            mm: self.mm || other.mm,
        }
    }

    /// The set of one hub.
    #[inline]
    pub const fn of(hub: HubKind) -> Self {
        Self {
            gfx: matches!(hub, HubKind::Gfx),
            mm: matches!(hub, HubKind::Mm),
        }
    }
}

/// The number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlushTicket(u64);

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushProgress {
    /// A hub has yet to acknowledge it.
    Pending,
    /// All of its hubs have acknowledged it.
    Done,
    /// A hub did not acknowledge it in time: translations may remain. Also for a request that was
    /// acknowledged, if a later one failed before its thread asked.
    Failed,
}

/// The request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PendingFlush {
    /// The address space that it is for.
    pub vmid: u8,
    /// The hubs that have not acknowledged it.
    pub awaited: HubSet,
}

/// The requests of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlushRequests {
    pending: Option<PendingFlush>,
    /// Numbers of requests: the last one that was made, and the last one that failed.
    made: u64,
    failed: u64,
    /// The hubs that have not acknowledged the last request that they were given.
    silent: HubSet,
}

impl FlushRequests {
    /// No requests.
    #[inline]
    pub const fn new() -> Self {
        Self {
            pending: None,
            made: 0,
            failed: 0,
            silent: HubSet::NONE,
        }
    }

    /// Makes a request to `hubs` for `vmid`, which the caller writes to their registers; `None`
    /// while another is under way.
    #[inline]
    pub fn request(&mut self, hubs: HubSet, vmid: u8) -> Option<FlushTicket> {
        if self.pending.is_some() {
            return None;
        }
        self.pending = Some(PendingFlush {
            vmid,
            awaited: hubs,
        });
        self.made += 1;
        Some(FlushTicket(self.made))
    }

    /// The request that is under way.
    #[inline]
    pub const fn pending(&self) -> Option<PendingFlush> {
        self.pending
    }

    /// `hub` has acknowledged the request that is under way.
    #[inline]
    pub fn acknowledge(&mut self, hub: HubKind) {
        let hub = HubSet::of(hub);
        self.silent = self.silent.without(hub);
        if let Some(pending) = &mut self.pending {
            pending.awaited = pending.awaited.without(hub);
            if pending.awaited.is_empty() {
                self.pending = None;
            }
        }
    }

    /// The request that is under way was made `waited_us` ago. If that is too long it has failed.
    /// Returns the hubs that are found silent by this.
    #[inline]
    pub fn expire(&mut self, waited_us: u64) -> HubSet {
        let Some(pending) = self.pending else {
            return HubSet::NONE;
        };
        let found = pending.awaited.without(self.silent);
        let timeout = match found.is_empty() {
            true => FLUSH_SPIN_US,
            false => FLUSH_TIMEOUT_US,
        };
        if waited_us < timeout {
            return HubSet::NONE;
        }
        self.silent = self.silent.with(found);
        self.failed = self.made;
        self.pending = None;
        found
    }

    /// What became of the request `ticket`.
    #[inline]
    pub const fn progress(&self, ticket: FlushTicket) -> FlushProgress {
        if ticket.0 <= self.failed {
            FlushProgress::Failed
        } else if ticket.0 == self.made && self.pending.is_some() {
            FlushProgress::Pending
        } else {
            FlushProgress::Done
        }
    }

    /// The hubs have lost all their state, and with it all translations.
    #[inline]
    pub fn reset(&mut self) {
        self.pending = None;
        self.silent = HubSet::NONE;
    }
}
