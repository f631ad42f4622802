// SPDX-License-Identifier: GPL-2.0
//! The numbers of CREATE_QUEUE and UPDATE_QUEUE that can be checked without the kernel.

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

/// `queue_percentage`: the queue's share of the hardware, and the XCC that runs its PM4.
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

    /// The bits of the argument.
    #[inline]
    pub const fn raw(self) -> u32 {
        (self.pm4_xcc as u32) << 8 | self.percent as u32
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
    /// The priority of a queue without any particular one.
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

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
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

/// The place of an HQD, of any micro engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HqdLocation {
    /// Number of the micro engine, from 1 on.
    pub me: u8,
    /// The pipe.
    pub pipe: u8,
    /// The queue of the pipe.
    pub queue: u8,
}

/// The micro engines of compute (MECs) and their hardware queue slots (HQDs), of each XCC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MecInfo {
    /// Micro engines, numbered from 1 on.
    pub micro_engines: u8,
    /// The one whose HQDs user queues get. Another one has the queues of the driver itself.
    pub user: u8,
    /// Pipes of a micro engine.
    pub pipes: u8,
    /// Queues of a pipe.
    pub pipe_queues: u8,
    /// User queues of the CP, as the topology tells: `num_cp_queues`.
    pub cp_queues: u32,
    /// KIQ's HQD.
    pub kiq: HqdLocation,
    /// HIQ's HQD.
    pub hiq: HqdLocation,
    /// The version of the firmware from which on one runlist may have processes with XNACK on and
    /// such with it off; `None` if no version takes that.
    pub xnack_chain: Option<u32>,
}

impl MecInfo {
    /// HQDs that user queues get.
    #[inline]
    pub const fn user_hqds(&self) -> u8 {
        self.pipes.saturating_mul(self.pipe_queues)
    }

    /// A bit for each HQD that user queues get, as SET_RESOURCES has them: of the first micro
    /// engine first. HQDs for which there is no bit are left out.
    #[inline]
    pub const fn user_mask(&self) -> u64 {
        let hqds = self.user_hqds() as u32;
        let first = hqds * (self.user as u32).saturating_sub(1);
        let Some(mask) = u64::MAX.checked_shr(u64::BITS.saturating_sub(hqds)) else {
            return 0;
        };
        match mask.checked_shl(first) {
            Some(mask) => mask,
            None => 0,
        }
    }

    /// An HQD that no queue gets: the one behind KIQ's.
    #[inline]
    pub const fn unused(&self) -> HqdLocation {
        HqdLocation {
            queue: self.kiq.queue.saturating_add(1),
            ..self.kiq
        }
    }

    /// The bit of an HQD of any micro engine, as SET_RESOURCES has them; 0 if there is none.
    #[inline]
    pub const fn mask_of(&self, hqd: HqdLocation) -> u64 {
        let before = (hqd.me as u32).saturating_sub(1) * self.pipes as u32 + hqd.pipe as u32;
        match 1u64.checked_shl(before * self.pipe_queues as u32 + hqd.queue as u32) {
            Some(bit) => bit,
            None => 0,
        }
    }

    /// User HQD `index`: neighbours are on different pipes, so that few queues have a pipe each.
    /// `None` beyond the last.
    #[inline]
    pub const fn hqd(&self, index: u8) -> Option<Hqd> {
        if index >= self.user_hqds() {
            return None;
        }
        let (Some(pipe), Some(queue)) =
            (index.checked_rem(self.pipes), index.checked_div(self.pipes))
        else {
            return None;
        };
        Some(Hqd {
            index,
            location: HqdLocation {
                me: self.user,
                pipe,
                queue,
            },
            poll: pipe * self.pipe_queues + queue,
        })
    }

    /// The HQDs that user queues get.
    #[inline]
    pub fn hqds(&self) -> impl Iterator<Item = Hqd> + '_ {
        (0..self.user_hqds()).filter_map(|index| self.hqd(index))
    }

    /// The HQDs of all micro engines.
    pub fn all_hqds(&self) -> impl Iterator<Item = HqdLocation> {
        let (pipes, queues) = (self.pipes, self.pipe_queues);
        (1..=self.micro_engines).flat_map(move |me| {
            (0..pipes)
                .flat_map(move |pipe| (0..queues).map(move |queue| HqdLocation { me, pipe, queue }))
        })
    }

    /// Whether the driver drives such micro engines. There are two, as CP_MEC_CNTL halts two, and
    /// users have the first, whose pipes the driver resets. GRBM_GFX_CNTL can select each HQD,
    /// registers with a bit for each user HQD have room for them, and the driver's queues are on
    /// the second micro engine, in HQDs of their own.
    pub const fn is_consistent(&self) -> bool {
        self.micro_engines == 2
            && self.user == 1
            && self.pipes <= MAX_PIPES
            && self.pipe_queues <= MAX_PIPE_QUEUES
            && self.user_hqds() >= 1
            && self.user_hqds() <= MAX_USER_HQDS
            && self.has_for_driver(self.kiq)
            && self.has_for_driver(self.hiq)
            && (self.kiq.pipe != self.hiq.pipe || self.kiq.queue != self.hiq.queue)
            && self.has_for_driver(self.unused())
            && (self.kiq.pipe != self.hiq.pipe || self.unused().queue != self.hiq.queue)
    }

    /// Whether there is an HQD at `place`, on a micro engine that users do not have.
    const fn has_for_driver(&self, place: HqdLocation) -> bool {
        place.me >= 1
            && place.me <= self.micro_engines
            && place.me != self.user
            && place.pipe < self.pipes
            && place.queue < self.pipe_queues
    }
}

/// The most pipes of a micro engine: PIPEID of GRBM_GFX_CNTL.
const MAX_PIPES: u8 = 4;
/// The most queues of a pipe: QUEUEID of GRBM_GFX_CNTL.
const MAX_PIPE_QUEUES: u8 = 8;

/// The most user HQDs: CP_PQ_WPTR_POLL_CNTL1 and the driver's own masks have 32 bits.
pub const MAX_USER_HQDS: u8 = 32;

/// An HQD for user queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hqd {
    index: u8,
    location: HqdLocation,
    poll: u8,
}

impl Hqd {
    /// Its number.
    #[inline]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// Where it is.
    #[inline]
    pub const fn location(self) -> HqdLocation {
        self.location
    }

    /// Its pipe.
    #[inline]
    pub const fn pipe(self) -> u8 {
        self.location.pipe
    }

    /// Its number on the pipe.
    #[inline]
    pub const fn queue(self) -> u8 {
        self.location.queue
    }

    /// Its bit of CP_PQ_WPTR_POLL_CNTL1.
    #[inline]
    pub const fn poll_bit(self) -> u32 {
        self.poll as u32
    }
}
