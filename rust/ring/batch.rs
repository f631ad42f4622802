// SPDX-License-Identifier: GPL-2.0
//! Fills and copies by all engines at once.

use super::{EngineTurn, KeptMemory, RingSet};
use crate::kern::fence::Fence;
use crate::kern::task;
use crate::mem::gart::JobMemory;
use crate::mem::vram::VramBlocks;
use hw::sdma::copy::{CopyPackets, FillPackets};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;

/// Bytes of one fill job: small enough to spread over the engines, and to be far from a timeout.
const FILL_BYTES: u64 = 128 << 20;
/// Bytes of one copy job. The limit is small because the engines share a window.
const COPY_BYTES: u64 = 8 << 20;
/// Dwords of packets of one job.
const JOB_DWORDS: usize = 640;
/// The most jobs of one call that are under way: more than the rings hold, so that they never run
/// dry.
const MOST: usize = 256;
/// How long to wait for one job, which is longer than the ring allows it to take, and how often to
/// check meanwhile whether the caller is being killed.
const WAIT_MS: u32 = 30_000;
const LOOK_MS: u32 = 50;

/// How long to wait for jobs.
#[derive(Clone, Copy, PartialEq)]
enum JobTimeout {
    /// Until the caller is killed. Other signals do not end the wait: a caller that starts again
    /// after each signal would never finish if signals come faster than memory is filled.
    Killable,
    /// Until all of them end, also after an error.
    All,
}

/// Jobs of one call that are under way: at most [`MOST`] at a time.
struct JobBatch<'a> {
    set: &'a RingSet,
    turns: EngineTurn<'a>,
    keep: Arc<KeptMemory>,
    counted: bool,
    timeout: JobTimeout,
    /// The most bytes of one job.
    limit: u64,
    packets: KVec<u32>,
    bytes: u64,
    fences: KVec<ARef<Fence>>,
}

impl<'a> JobBatch<'a> {
    fn new(
        set: &'a RingSet,
        turns: EngineTurn<'a>,
        memory: JobMemory,
        limit: u64,
        counted: bool,
        timeout: JobTimeout,
    ) -> Result<Self> {
        Ok(Self {
            set,
            turns,
            keep: KeptMemory::new(memory)?,
            counted,
            timeout,
            limit,
            packets: KVec::new(),
            bytes: 0,
            fences: KVec::new(),
        })
    }

    fn add(&mut self, packet: &[u32], bytes: u64) -> Result {
        if self.packets.len() + packet.len() > JOB_DWORDS || self.bytes + bytes > self.limit {
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
        if self.fences.len() == MOST {
            self.wait_for(MOST / 2)?;
        }
        // The room for the fence comes first, because every submitted job has to be waited for.
        self.fences.reserve(1, GFP_KERNEL)?;
        let packets = core::mem::replace(&mut self.packets, KVec::new());
        let fence = self
            .set
            .submit(self.turns, packets, &self.keep, self.counted)?;
        Ok(self.fences.push(fence, GFP_KERNEL)?)
    }

    fn copies(&mut self, pieces: impl Iterator<Item = (u64, u64, u64)>) -> Result {
        for (from, to, bytes) in pieces {
            for (offset, bytes) in parts(bytes, COPY_BYTES) {
                let copies = CopyPackets::new(from + offset, to + offset, bytes).ok_or(EINVAL)?;
                for packet in copies {
                    self.add(&packet, bytes)?;
                }
            }
        }
        self.flush()
    }

    /// Waits for the oldest `count` jobs.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed first and the wait is killable.
    fn wait_for(&mut self, count: usize) -> Result {
        let mut result = Ok(());
        for fence in self.fences.iter().take(count) {
            if self.timeout == JobTimeout::All {
                fence.wait_timeout(msecs_to_jiffies(WAIT_MS));
            } else {
                wait_killable(fence)?;
            }
            result = result.and(fence.status().unwrap_or(Err(ETIMEDOUT)));
            if self.timeout != JobTimeout::All {
                result?;
            }
        }
        let all = self.fences.len();
        let left = all.saturating_sub(count);
        self.fences.rotate_left(all - left);
        self.fences.truncate(left);
        result
    }

    /// Waits for every job; `given` is the result of submitting them. Unless everything went well,
    /// the memory is used as long as one of the jobs exists.
    fn wait(mut self, given: Result) -> Result {
        let waited = self.wait_for(self.fences.len());
        given.and(waited)?;
        self.keep.release();
        Ok(())
    }
}

/// Waits for one job.
///
/// # Errors
///
/// `EINTR` if the caller is killed first.
fn wait_killable(fence: &Fence) -> Result {
    for _ in 0..WAIT_MS / LOOK_MS {
        if fence.wait_timeout(msecs_to_jiffies(LOOK_MS)) {
            break;
        } else if task::is_killed() {
            return Err(EINTR);
        }
    }
    Ok(())
}

/// See [`crate::mem::copy_engine::CopyEngine::fill`]; `counted` says whether the jobs count as
/// existing ones.
pub(super) fn fill(
    set: &RingSet,
    turns: EngineTurn<'_>,
    blocks: &Arc<VramBlocks>,
    value: u32,
    counted: bool,
) -> Result {
    let mut jobs = JobBatch::new(
        set,
        turns,
        JobMemory::vram(blocks),
        FILL_BYTES,
        counted,
        JobTimeout::Killable,
    )?;
    for run in blocks.runs() {
        for (offset, bytes) in parts(run.size, FILL_BYTES) {
            let fills =
                FillPackets::new(set.vram + run.offset + offset, value, bytes).ok_or(EINVAL)?;
            for packet in fills {
                jobs.add(&packet, bytes)?;
            }
        }
    }
    jobs.flush()?;
    jobs.wait(Ok(()))
}

/// See [`crate::mem::copy_engine::CopyEngine::copy`].
pub(super) fn copy(
    set: &RingSet,
    turns: EngineTurn<'_>,
    pieces: impl Iterator<Item = (u64, u64, u64)>,
    memory: JobMemory,
) -> Result {
    let mut jobs = JobBatch::new(set, turns, memory, COPY_BYTES, true, JobTimeout::All)?;
    let given = jobs.copies(pieces);
    // Submitted jobs are waited for in any case: they use the memory until they end.
    jobs.wait(given)
}

/// Splits a run of `bytes` into parts of at most `limit`, each of which is one packet. Returns
/// offset and bytes of each.
fn parts(bytes: u64, limit: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes.div_ceil(limit)).map(move |index| {
        let offset = index * limit;
        (offset, limit.min(bytes - offset))
    })
}
