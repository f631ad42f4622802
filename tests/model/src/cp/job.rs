// SPDX-License-Identifier: GPL-2.0
//! A queue's next packet, for its executor.

use std::sync::Arc;
use std::time::Duration;

use super::compute::ComputeRegisters;
use super::eop::Eop;
use super::gang::{Share, Team};
use super::Slot;
use crate::indirect::Ib;
use crate::sq::image::Area;
use crate::sq::Grid;

/// The executor's view of a queue, copied so that no lock is held.
#[derive(Clone)]
pub struct Job {
    /// The queue.
    pub slot: Slot,
    /// What the other XCCs have done of the queue, if there are others.
    pub team: Option<Team>,
    /// The part that this XCC has in its dispatches.
    pub share: Share,
    /// From the begin of the packet's first wave to the end of its last one.
    pub times: Option<(u64, u64)>,
    /// The number of this load of the HQD.
    pub generation: u64,
    /// Its address space.
    pub vmid: u8,
    /// AQL packets, not PM4.
    pub aql: bool,
    /// Ring address, and size in dwords (a power of two).
    pub base: u64,
    /// See above.
    pub size: u64,
    /// Dwords, never wrapping.
    pub rptr: u64,
    /// See above.
    pub wptr: u64,
    /// Where the read pointer is reported, if anywhere.
    pub report: Option<u64>,
    /// Dword index of its doorbell.
    pub doorbell: u32,
    /// The EOP buffer, if there is one.
    pub eop: Option<Eop>,
    /// Its COMPUTE_* registers.
    pub compute: ComputeRegisters,
    /// The save area of its waves, if there is one.
    pub area: Option<Area>,
    /// The dispatch that was launched last, until the queue has checked its end.
    pub grid: Option<Arc<Grid>>,
    /// The executor saw that these have ended.
    pub ended: bool,
    /// The queue's owner was asked to reclaim the scratch of that dispatch, and has not yet.
    pub reclaims: bool,
    /// The current indirect buffer.
    pub ib: Option<Ib>,
    /// Tries of the packet at the read pointer, and since its first.
    pub tries: u32,
    /// See above.
    pub waited: Duration,
}
