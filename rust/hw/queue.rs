// SPDX-License-Identifier: GPL-2.0
//! The numbers of CREATE_QUEUE and UPDATE_QUEUE that can be judged without the kernel.

/// What a queue is for: `queue_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueType {
    /// PM4 on the CP.
    Compute = 0,
    /// SDMA on an engine for host traffic.
    Sdma = 1,
    /// AQL on the CP.
    ComputeAql = 2,
    /// SDMA on an engine for traffic between GPUs.
    SdmaXgmi = 3,
    /// SDMA on the engine that the caller names.
    SdmaByEngine = 4,
}

impl QueueType {
    /// The type of number `value`, if there is one.
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Compute),
            1 => Some(Self::Sdma),
            2 => Some(Self::ComputeAql),
            3 => Some(Self::SdmaXgmi),
            4 => Some(Self::SdmaByEngine),
            _ => None,
        }
    }

    /// Whether SDMA serves it.
    #[inline]
    pub const fn is_sdma(self) -> bool {
        matches!(self, Self::Sdma | Self::SdmaXgmi | Self::SdmaByEngine)
    }
}

/// `queue_percentage`: how much of the hardware the queue may have, and the XCC that PM4 of it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePercentage {
    /// 0 to 100; a queue of 0 is created inactive.
    pub percent: u8,
    /// The target XCC of PM4 queues.
    pub pm4_xcc: u8,
}

impl QueuePercentage {
    /// The percentage in the bits of the argument: 7:0 percent, at most 100; 15:8 XCC; those
    /// above are ignored.
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        let percent = value as u8;
        if percent > 100 {
            return None;
        }
        Some(Self {
            percent,
            pm4_xcc: (value >> 8) as u8,
        })
    }

    /// Whether the queue is to run.
    #[inline]
    pub const fn is_active(self) -> bool {
        self.percent != 0
    }
}

/// `queue_priority`: 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePriority(u8);

impl QueuePriority {
    /// What a queue has whose creator has no wish.
    pub const NORMAL: Self = Self(7);

    /// Priority `value`, if it is in range.
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        if value <= 15 {
            Some(Self(value as u8))
        } else {
            None
        }
    }

    /// The CP's pipe priority (`CP_HQD_PIPE_PRIORITY`): 0 low, 1 medium, 2 high.
    #[inline]
    pub const fn pipe(self) -> u32 {
        match self.0 {
            0..=6 => 0,
            7..=10 => 1,
            _ => 2,
        }
    }
}

/// The micro engine whose HQDs user queues get. The other one has the queues of the driver itself.
pub const MEC1: u8 = 1;
/// Pipes of a micro engine.
pub const MEC_PIPES: u8 = 4;
/// Queues of a pipe.
const PIPE_QUEUES: u8 = 8;
/// HQDs that user queues get.
pub const USER_HQDS: u8 = MEC_PIPES * PIPE_QUEUES;

/// Micro engines.
const MECS: u8 = 2;

/// Where an HQD is, of whichever micro engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HqdLocation {
    /// Number of the micro engine, from 1 on.
    pub me: u8,
    /// The pipe.
    pub pipe: u8,
    /// The queue of the pipe.
    pub queue: u8,
}

/// The HQDs of both micro engines.
pub fn all_hqds() -> impl Iterator<Item = HqdLocation> {
    (MEC1..=MECS).flat_map(|me| {
        (0..MEC_PIPES).flat_map(move |pipe| {
            (0..PIPE_QUEUES).map(move |queue| HqdLocation { me, pipe, queue })
        })
    })
}

/// A hardware queue slot of MEC1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hqd(u8);

impl Hqd {
    /// HQD `index`: neighbours are on different pipes, so that few queues have a pipe each. `None` beyond the last.
    #[inline]
    pub const fn new(index: u8) -> Option<Self> {
        if index < USER_HQDS {
            Some(Self(index))
        } else {
            None
        }
    }

    /// Its number.
    #[inline]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Its pipe.
    #[inline]
    pub const fn pipe(self) -> u8 {
        self.0 % MEC_PIPES
    }

    /// Its number on the pipe.
    #[inline]
    pub const fn queue(self) -> u8 {
        self.0 / MEC_PIPES
    }

    /// Its bit of CP_PQ_WPTR_POLL_CNTL1.
    #[inline]
    pub const fn poll_bit(self) -> u32 {
        self.pipe() as u32 * PIPE_QUEUES as u32 + self.queue() as u32
    }
}
