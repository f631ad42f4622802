// SPDX-License-Identifier: GPL-2.0
//! XCCs that are one partition, and the queues that they serve together.
//!
//! For the author of a driver:
//!
//! - *A partition* is a number of working XCCs in their order, in each of which CP_HYP_XCP_CTL has
//!   their number and its own place among them. Those out of reset are partitions of their own.
//! - *The HIQ* is mapped in each XCC of a partition, from an MQD of its own, with one ring and one
//!   doorbell. The first XCC acts on RUN_LIST, UNMAP_QUEUES, QUERY_STATUS and SET_RESOURCES, for
//!   all, when each of the others has come past the packet, too. A queue that does not leave is
//!   reported in the MQD of the HIQ of the XCC where it stays.
//! - *A queue of a runlist* is loaded into the same slot and VMID of each XCC: from the MQD at the
//!   address in MAP_QUEUES in the first one, and in the others from copies, each so many bytes
//!   further on as dword 226 says (cp_mqd_stride_size). An SDMA queue is the first XCC's.
//! - *A PM4 queue* is executed by the XCC that dword 225 names (pm4_target_xcc_in_xcp); it idles in
//!   the others.
//! - *An AQL queue* is read by all. Each launches the groups of a dispatch of which the number,
//!   divided by dword 41 (compute_tg_chunk_size), leaves the remainder in dword 39
//!   (compute_current_logic_xcc_id) when it is divided by the number of XCCs. The first XCC ends a
//!   packet when all of them have done their parts, and they begin the next one after that.
//!   Barriers, scratch, refusals and the signal are the first XCC's business; a buffer of PM4
//!   packets is executed by each. PRED_EXEC skips packets in XCCs that its mask lacks.
//! - *Scratch* of an XCC begins so many of the amd_queue_t's scratch_backing_memory_byte_size
//!   behind its location as XCCs come before it.

use super::Slot;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::layout::XCCS;
use crate::regs::gc::{self, cp_hyp_xcp_ctl as control};

/// The XCCs of a partition, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gang(u8);

impl Gang {
    /// One XCC.
    pub fn alone(xcc: usize) -> Gang {
        Gang(1 << xcc)
    }

    /// The partition that an XCC is in.
    pub fn of(gpu: &Gpu, xcc: usize) -> Result<Gang> {
        let layout = gpu.layout();
        let value = |xcc: usize| gpu.regs.of(xcc, 0).get(gc::CP_HYP_XCP_CTL);
        let size = control::NUM_XCC_IN_XCP.get(value(xcc)) as usize;
        if layout.xccs == 1 || size <= 1 {
            return Ok(Gang::alone(xcc));
        }
        let working: Vec<usize> = layout.working().collect();
        let place = control::VIRTUAL_XCC_ID.get(value(xcc)) as usize;
        let at = working.iter().position(|&other| other == xcc);
        let first = at.and_then(|at| at.checked_sub(place));
        let members = first.and_then(|first| working.get(first..first + size));
        let fits = |members: &&[usize]| {
            let mut numbered = members.iter().enumerate();
            numbered.all(|(n, &member)| {
                let wanted =
                    control::NUM_XCC_IN_XCP.of(size as u32) | control::VIRTUAL_XCC_ID.of(n as u32);
                value(member) == wanted
            })
        };
        let Some(members) = members.filter(fits) else {
            return Err(ModelError::Other(format!(
                "CP_HYP_XCP_CTL of XCC{xcc} is {:#x}, to which those of the others do not fit",
                value(xcc)
            )));
        };
        Ok(Gang(members.iter().fold(0, |mask, xcc| mask | 1 << xcc)))
    }

    /// Its XCCs, in their order.
    pub fn members(self) -> impl Iterator<Item = usize> {
        (0..XCCS).filter(move |xcc| self.0 >> xcc & 1 == 1)
    }

    /// How many they are.
    pub fn size(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The first one.
    pub fn lead(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// The place of an XCC among them.
    pub fn place(self, xcc: usize) -> usize {
        self.members().take_while(|&other| other < xcc).count()
    }

    /// The same slot in each of them.
    pub fn slots(self, slot: Slot) -> impl Iterator<Item = Slot> {
        self.members().map(move |xcc| slot.on(xcc))
    }
}

/// The part that an XCC has in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// All of them.
    pub gang: Gang,
    /// Which remainder's groups are this one's.
    pub index: u64,
    /// Groups in a row.
    pub chunk: u64,
    /// It executes nothing of the queue.
    pub idles: bool,
}

impl Share {
    /// All of a queue's work.
    pub fn whole(xcc: usize) -> Share {
        Share {
            gang: Gang::alone(xcc),
            index: 0,
            chunk: 1,
            idles: false,
        }
    }
}

/// The state of a queue in all XCCs of its gang when one of them begins a packet.
#[derive(Debug, Clone, Copy)]
pub struct Team {
    /// The place of this XCC.
    pub place: usize,
    /// The read pointer of the first XCC; None: the queue is not there.
    pub lead: Option<u64>,
    /// The least read pointer of the others; None: the queue is not in all of them.
    pub others: Option<u64>,
    /// From the begin of the others' first wave to the end of their last one.
    pub times: Option<(u64, u64)>,
}

impl Team {
    /// Returns whether it is the first XCC.
    pub fn leads(&self) -> bool {
        self.place == 0
    }
}
