// SPDX-License-Identifier: GPL-2.0
//! Fills of VRAM by the engines, all of them at once.

use super::Set;
use crate::kern::fence::Fence;
use crate::mem::vram::VramBlocks;
use hw::sdma::copy::Fills;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;

/// Bytes of one job, small enough to spread over the engines and never near a timeout.
const JOB_BYTES: u64 = 128 << 20;
/// Dwords of packets of one job.
const JOB_DWORDS: usize = 640;
/// Dwords of one packet.
const PACKET_DWORDS: usize = 5;
/// How long to wait for one job: longer than the ring lets it take.
const WAIT_MS: u32 = 30_000;

/// Jobs under way.
struct Jobs<'a> {
    set: &'a Set,
    next: &'a Atomic<u32>,
    blocks: &'a Arc<VramBlocks>,
    packets: KVec<u32>,
    bytes: u64,
    fences: KVec<ARef<Fence>>,
}

impl Jobs<'_> {
    fn add(&mut self, packet: &[u32; PACKET_DWORDS], bytes: u64) -> Result {
        if self.packets.len() + PACKET_DWORDS > JOB_DWORDS || self.bytes + bytes > JOB_BYTES {
            self.flush()?;
        }
        self.packets.extend_from_slice(packet, GFP_KERNEL)?;
        self.bytes += bytes;
        Ok(())
    }

    fn flush(&mut self) -> Result {
        if self.packets.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let packets = core::mem::replace(&mut self.packets, KVec::new());
        let fence = self.set.submit(self.next, packets, self.blocks)?;
        Ok(self.fences.push(fence, GFP_KERNEL)?)
    }

    /// Waits for every job.
    fn wait(&self) -> Result {
        for fence in &self.fences {
            if !fence.wait_interruptible_timeout(msecs_to_jiffies(WAIT_MS))? {
                return Err(ETIMEDOUT);
            }
            fence.status().unwrap_or(Err(ETIMEDOUT))?;
        }
        Ok(())
    }
}

/// See [`super::Rings::fill`].
pub(super) fn fill(set: &Set, next: &Atomic<u32>, blocks: &Arc<VramBlocks>, value: u32) -> Result {
    let mut jobs = Jobs {
        set,
        next,
        blocks,
        packets: KVec::new(),
        bytes: 0,
        fences: KVec::new(),
    };
    for run in blocks.runs() {
        for (offset, bytes) in pieces(run.size) {
            let fills = Fills::new(set.vram + run.offset + offset, value, bytes).ok_or(EINVAL)?;
            for packet in fills {
                jobs.add(&packet, bytes)?;
            }
        }
    }
    jobs.flush()?;
    jobs.wait()
}

/// A run of `bytes` in pieces of at most a job, each of which is one packet: offset and bytes.
fn pieces(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes.div_ceil(JOB_BYTES)).map(move |index| {
        let offset = index * JOB_BYTES;
        (offset, JOB_BYTES.min(bytes - offset))
    })
}
