// SPDX-License-Identifier: GPL-2.0
//! A dispatch under way: which groups were launched, and when it is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rkfd_shader::dispatch::{Launch, Place};

/// Shader engines of the device.
pub const ENGINES: u32 = 8;

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Where a dispatch comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The queue, for messages.
    pub queue: String,
    /// Its address space.
    pub vmid: u8,
    /// What MSG_GET_DOORBELL gives.
    pub doorbell: u32,
    /// Address of the kernel's descriptor or code, for messages.
    pub kernel: u64,
}

/// Scratch of a dispatch: COMPUTE_TMPRING_SIZE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Waves that have scratch at the same time.
    pub waves: u32,
    /// Bytes of each.
    pub bytes: u32,
}

impl Scratch {
    /// From the register: WAVES\[11:0\], WAVESIZE\[24:12\] in KiB.
    pub fn of(tmpring: u32) -> Scratch {
        Scratch {
            waves: tmpring & 0xfff,
            bytes: (tmpring >> 12 & 0x1fff) * 1024,
        }
    }
}

/// What a group has until it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Number of the group.
    pub index: u64,
    block: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// Next group to launch.
    next: u64,
    /// Groups that run.
    live: u64,
    /// Blocks of scratch that are free.
    free: Vec<u32>,
    started: Option<u64>,
    ended: u64,
}

/// A dispatch under way.
pub struct Grid {
    /// What its waves start with.
    pub launch: Launch,
    /// Where it comes from.
    pub origin: Origin,
    /// CUs it may use: engine and number in the engine.
    cus: Vec<(u32, u32)>,
    scratch: Option<Scratch>,
    /// Different from all other dispatches'.
    pub number: u64,
    killed: AtomicBool,
    faulted: AtomicBool,
    state: Mutex<State>,
}

impl Grid {
    /// A dispatch of which nothing was launched. `cus` has at least one entry. An error: a group's waves do not fit
    /// into the scratch.
    pub fn new(
        launch: Launch,
        origin: Origin,
        cus: Vec<(u32, u32)>,
        scratch: Option<Scratch>,
    ) -> Result<Grid, &'static str> {
        let mut state = State::default();
        if let Some(scratch) = scratch {
            // Blocks of as many slots as a group has waves.
            let blocks = scratch.waves / launch.waves().max(1);
            if blocks == 0 {
                return Err("a group has more waves than there are slots of scratch");
            }
            state.free = (0..blocks).rev().collect();
        }
        Ok(Grid {
            launch,
            origin,
            cus,
            scratch,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            killed: AtomicBool::new(false),
            faulted: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next group, if there is one that can be launched now.
    pub fn take(&self, now: u64) -> Option<Lease> {
        let mut state = self.state();
        if self.is_cut() || state.next == self.launch.count() {
            return None;
        }
        let block = if self.scratch.is_some() {
            Some(state.free.pop()?)
        } else {
            None
        };
        let index = state.next;
        state.next += 1;
        state.live += 1;
        state.started.get_or_insert(now);
        Some(Lease { index, block })
    }

    /// Whether there is a group left that was not launched.
    pub fn has_more(&self) -> bool {
        !self.is_cut() && self.state().next < self.launch.count()
    }

    /// Where the group runs.
    pub fn place(&self, lease: Lease) -> Place {
        let (engine, cu) = self.cus[(lease.index % self.cus.len() as u64) as usize];
        let slot = lease.block.unwrap_or(0) * self.launch.waves();
        let bytes = self.scratch.map_or(0, |scratch| scratch.bytes);
        Place {
            hw_id: cu << 8 | engine << 13 | u32::from(self.origin.vmid) << 20,
            scratch: (slot.wrapping_mul(bytes), bytes),
        }
    }

    /// The group has ended. True: it was the last one.
    pub fn end(&self, lease: Lease, now: u64) -> bool {
        let mut state = self.state();
        state.live -= 1;
        state.ended = now;
        state.free.extend(lease.block);
        state.live == 0 && (self.is_cut() || state.next == self.launch.count())
    }

    /// Ends its waves as soon as they are looked at, and launches no more.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
    }

    /// Whether it was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// A wave had a memory fault.
    pub fn fault(&self) {
        self.faulted.store(true, Ordering::Release);
    }

    /// Whether one had.
    pub fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// No more groups are launched.
    fn is_cut(&self) -> bool {
        self.is_killed() || self.is_faulted()
    }

    /// When its first wave began and its last one ended, if all have.
    pub fn times(&self) -> Option<(u64, u64)> {
        let state = self.state();
        let over = state.live == 0 && (self.is_cut() || state.next == self.launch.count());
        over.then(|| (state.started.unwrap_or(state.ended), state.ended))
    }
}
