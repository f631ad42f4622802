// SPDX-License-Identifier: GPL-2.0
//! Processes that retry page faults (XNACK on) beside such that do not, on the runlists of the
//! hardware scheduler. Its firmware cannot have both at work at the same time. From some version on
//! it can run one kind after the other from one list (amdgpu: AMDGPU_GMC_XNACK_FLAG_CHAIN, and
//! `pm_create_runlist_ib`). Before that, a list has one kind only, and two lists take turns.

use crate::queue::MecInfo;

/// How long a list of one kind runs while processes of the other kind wait, milliseconds.
pub const TURN_MS: i64 = 100;

/// How the firmware takes both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XnackMix {
    /// In one list: one kind after the other, and the list is run over and over.
    Chained,
    /// Never in one list.
    Apart,
}

impl XnackMix {
    /// That of the MEC's firmware of `version`.
    #[inline]
    pub const fn of(mec: &MecInfo, version: u32) -> Self {
        match mec.xnack_chain {
            Some(first) if version >= first => Self::Chained,
            _ => Self::Apart,
        }
    }
}

/// The kinds of processes that have queues which may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XnackKinds {
    /// Those that retry page faults.
    pub retrying: bool,
    /// The others.
    pub failing: bool,
}

impl XnackKinds {
    /// Adds the kind of a process.
    #[inline]
    pub const fn with(self, retries: bool) -> Self {
        Self {
            retrying: self.retrying || retries,
            failing: self.failing || !retries,
        }
    }

    /// Whether there are processes of both.
    #[inline]
    pub const fn are_both(self) -> bool {
        self.retrying && self.failing
    }
}

/// Which kind has its turn where both cannot be on one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XnackTurn {
    retries: bool,
}

impl XnackTurn {
    /// The kind that is on the list while processes of `wanted` have queues which may run.
    #[inline]
    pub const fn kind(self, wanted: XnackKinds) -> bool {
        if wanted.retrying != wanted.failing {
            wanted.retrying
        } else {
            self.retries
        }
    }

    /// Whether a process of kind `retries` is on the list.
    #[inline]
    pub const fn allows(self, mix: XnackMix, wanted: XnackKinds, retries: bool) -> bool {
        match mix {
            XnackMix::Chained => true,
            XnackMix::Apart => self.kind(wanted) == retries,
        }
    }

    /// The turn of the next list; `over` tells that this one has had its time.
    #[inline]
    pub const fn next(self, wanted: XnackKinds, over: bool) -> Self {
        let kind = self.kind(wanted);
        Self {
            retries: kind != (over && wanted.are_both()),
        }
    }
}
