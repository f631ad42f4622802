// SPDX-License-Identifier: GPL-2.0
//! The descriptor of a compute queue as a checkpoint has it, and the descriptor with which the
//! queue goes on in another process.
//!
//! A checkpoint comes from a file. So the driver makes a descriptor of its own from the checked
//! arguments of the queue, and takes over what a program can set by packets and what the CP has
//! saved: COMPUTE_* registers, positions in ring, buffers and dispatch. Addresses, privileges and
//! sizes are those of the new descriptor.

use super::compute::{
    ComputeMqd, MqdInfo, XccSplit, CNTL_STACK_OFFSET, CNTL_STACK_SIZE, CTX_SAVE_SIZE, DWORDS,
    IB_CONTROL, PERSISTENT_STATE, PQ_RPTR, PRELOAD_REQ, PRELOAD_SIZE, QSWITCH_MODE,
    WG_STATE_OFFSET,
};
use crate::bits::Field;
use crate::sdma::ring::RingSize;

/// Dwords of a descriptor that a checkpoint has: COMPUTE_* and HQD registers, and what the CP
/// counts of the queue. Those behind them are the driver's.
pub const SAVED: usize = 184;

/// The bit of CP_HQD_IB_CONTROL by which later chips make a buffer privileged.
const IB_PRIV_STATE: Field = Field::bit(30);

/// The dwords of the new descriptor that stay, in ascending order (amdgpu: `v9_structs.h`).
const OWN: [core::ops::RangeInclusive<usize>; 17] = [
    // The header.
    0..=0,
    // Counters for profilers, and what the driver alone sets: TBA, TMA, VMID.
    11..=12,
    15..=18,
    21..=21,
    // disable_queue.
    106..=106,
    // Addresses of GDS's copies, and of other areas.
    120..=127,
    // MQD_BASE, ACTIVE, VMID; priorities and QUANTUM.
    128..=131,
    133..=135,
    // PQ_BASE.
    136..=137,
    // RPTR_REPORT, WPTR_POLL, DOORBELL_CONTROL, PQ_CONTROL.
    139..=145,
    // DEQUEUE_REQUEST, DMA_OFFLOAD.
    152..=153,
    // HQ_CONTROL0, MQD_CONTROL.
    161..=162,
    // HQ_CONTROL1, EOP_BASE, EOP_CONTROL.
    164..=167,
    // CTX_SAVE_BASE, CTX_SAVE_CONTROL.
    171..=173,
    CNTL_STACK_SIZE..=CNTL_STACK_SIZE,
    // CTX_SAVE_SIZE, GDS_RESOURCE_STATE.
    CTX_SAVE_SIZE..=178,
    // AQL_CONTROL.
    181..=181,
];

/// The descriptor and the control stack of one XCC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedMqd<'a> {
    dwords: &'a [u32; SAVED],
    stack: &'a [u32],
}

impl<'a> SavedMqd<'a> {
    /// The first one in `words`, and the words behind it.
    fn split(words: &'a [u32]) -> Option<(Self, &'a [u32])> {
        let (dwords, rest) = words.split_first_chunk::<SAVED>()?;
        let used = dwords[CNTL_STACK_SIZE].checked_sub(dwords[CNTL_STACK_OFFSET])?;
        if used % 4 != 0 {
            return None;
        }
        let (stack, rest) = rest.split_at_checked(usize::try_from(used / 4).ok()?)?;
        Some((Self { dwords, stack }, rest))
    }

    /// The used dwords of the control stack, which are its last.
    pub const fn stack(&self) -> &'a [u32] {
        self.stack
    }

    /// The dwords of the descriptor.
    pub const fn dwords(&self) -> &'a [u32; SAVED] {
        self.dwords
    }
}

/// The descriptors of all XCCs of a queue, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedXccs<'a>(&'a [u32]);

impl<'a> SavedXccs<'a> {
    /// Those in `words`, without anything behind them: for each XCC [`SAVED`] dwords, and those of
    /// the control stack that are used.
    pub fn new(words: &'a [u32]) -> Option<Self> {
        let mut rest = words;
        while {
            rest = SavedMqd::split(rest)?.1;
            !rest.is_empty()
        } {}
        Some(Self(words))
    }

    /// The descriptors.
    pub fn iter(&self) -> impl Iterator<Item = SavedMqd<'a>> + 'a {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (saved, behind) = SavedMqd::split(rest)?;
            rest = behind;
            Some(saved)
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// The place of the XCC that got the first workgroups, among `count` in the form that `split`
    /// describes. `None` if there is no such XCC.
    pub fn first(&self, split: &XccSplit, count: u32) -> Option<u32> {
        let first = *self.iter().next()?.dwords.get(split.xcc)?;
        (first < count).then_some(first)
    }
}

impl ComputeMqd {
    /// The descriptor with which the queue of `saved` goes on: this one, a new one of a ring of
    /// `size`, in the form that `info` describes, with the progress of `saved`. `None` if that is
    /// no progress which such a queue can have: a control stack or waves outside of the save area,
    /// a read pointer outside of the ring, or no compute unit.
    pub fn resumed(&self, info: &MqdInfo, size: RingSize, saved: &SavedMqd<'_>) -> Option<Self> {
        let from = saved.dwords;
        let fresh = self.dwords();
        let (stack, area) = (fresh[CNTL_STACK_SIZE], fresh[CTX_SAVE_SIZE]);
        let (offset, waves) = (from[CNTL_STACK_OFFSET], from[WG_STATE_OFFSET]);
        if from[CNTL_STACK_SIZE] != stack
            || offset > stack
            || waves < stack
            || waves > area
            || waves % 4 != 0
            || from[PQ_RPTR] >= size.dwords()
        {
            return None;
        }
        let mask = |engine: &usize| from.get(*engine).copied().unwrap_or(0);
        if info.cu_masks.iter().all(|engine| mask(engine) == 0) {
            return None;
        }
        let is_split = |place: usize| {
            info.split
                .is_some_and(|split| place == split.xcc || place == split.chunk)
        };
        let mut dwords: [u32; DWORDS] = *fresh;
        for (place, (to, &value)) in dwords.iter_mut().zip(from).enumerate() {
            if !is_split(place) && !OWN.iter().any(|own| own.contains(&place)) {
                *to = value;
            }
        }
        // Fields of both kinds.
        let own = PRELOAD_REQ.put(1) | PRELOAD_SIZE.put(u32::MAX) | QSWITCH_MODE.put(1);
        for (place, own) in [(PERSISTENT_STATE, own), (IB_CONTROL, IB_PRIV_STATE.put(1))] {
            dwords[place] = from[place] & !own | fresh[place] & own;
        }
        Some(Self::from_dwords(dwords))
    }
}
