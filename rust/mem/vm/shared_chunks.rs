// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory: memory of the process that the GPU has at the process's own addresses,
//! mapped in chunks like USERPTR memory ([`userptr`](super::userptr)).

use super::{mapping::BoMapping, MappedPart, Vm};
use crate::{
    kern::{mm_exit::AddressSpace, task},
    mem::{
        bo::{self, BoUsage},
        queue_group::{EvictTrigger, QuiesceGuard, QuiesceTimeout},
    },
};
use hw::va::{VaRange, USER_VA_END};
use kernel::{prelude::*, sync::Arc};

/// How long a caller waits for the queues before it maps memory differently that they may use,
/// milliseconds.
const QUIESCE_MS: i64 = 2000;

/// A chunk that is mapped.
#[derive(Clone, Copy)]
pub(crate) struct SharedChunk {
    /// Its addresses.
    pub(crate) range: VaRange,
    /// How the GPU may use it.
    pub(crate) usage: BoUsage,
    /// It is mapped at all times, also if the GPU retries page faults.
    pub(crate) always: bool,
    /// The process has unmapped a part of it.
    pub(crate) cut: bool,
}

/// The kind of mapping at a page.
#[derive(Clone, Copy)]
pub(crate) enum MappedAt {
    /// No mapping.
    Nothing,
    /// A chunk.
    Chunk(SharedChunk),
    /// A buffer that the GPU may use in that way.
    Buffer,
    /// A buffer that is being moved, or of which the pages are being fetched: the queues wait for
    /// it.
    Awaited,
    /// A buffer that the GPU may not use in that way.
    Refused,
}

impl Vm {
    /// Returns the first `Some` that `pick` returns for a mapping with a part in `range`.
    fn first_in<T>(&self, range: VaRange, pick: impl Fn(&BoMapping) -> Option<T>) -> Option<T> {
        let mut at = range.start();
        loop {
            let mapping = self.state.lock().at_or_above(at)?;
            if !mapping.range().overlaps(range) {
                return None;
            }
            if let Some(picked) = pick(&mapping) {
                return Some(picked);
            }
            at = mapping.range().end();
        }
    }

    /// Returns the first chunk that has a part in `range`.
    pub(crate) fn first_chunk(&self, range: VaRange) -> Option<SharedChunk> {
        self.first_in(range, chunk)
    }

    /// Returns the chunks that have a part in `range`, in their order. Each is looked up when the
    /// iterator reaches it: earlier ones may have changed by then.
    pub(crate) fn chunks(&self, range: VaRange) -> impl Iterator<Item = SharedChunk> + '_ {
        let mut at = range.start();
        core::iter::from_fn(move || {
            let chunk = self.first_chunk(VaRange::between(at, range.end())?)?;
            at = chunk.range.end();
            Some(chunk)
        })
    }

    /// Returns the kind of mapping at `page`, for an access that `write`s.
    pub(crate) fn mapped_at(&self, page: VaRange, write: bool) -> MappedAt {
        let state = self.state.lock();
        let Some(mapping) = state.covering(page) else {
            return MappedAt::Nothing;
        };
        if let Some(chunk) = chunk(&mapping) {
            return MappedAt::Chunk(chunk);
        }
        let (is_awaited, is_allowed) = match mapping.userptr() {
            Some(userptr) => {
                let reaches = userptr.reaches(page, write);
                (userptr.is_invalid(), reaches == Some(true))
            }
            None => (!mapping.is_shown(), true),
        };
        match mapping.part().access.write || !write {
            _ if is_awaited => MappedAt::Awaited,
            true if is_allowed => MappedAt::Buffer,
            _ => MappedAt::Refused,
        }
    }

    /// Returns the part of `window` around `page`, which lies in it, without mappings. The page is
    /// not mapped.
    pub(crate) fn gap(&self, page: VaRange, window: VaRange) -> VaRange {
        let (mut start, mut end) = (window.start(), window.end());
        let mut at = window.start();
        while let Some(rest) = VaRange::between(at, window.end()) {
            let Some(other) = self.first_in(rest, |mapping| Some(mapping.range())) else {
                break;
            };
            if other.start() > page.start() {
                end = other.start();
                break;
            }
            start = other.end();
            at = other.end();
        }
        VaRange::between(start, end).unwrap_or(page)
    }

    /// Whether chunks cover all of `range` such that the GPU may write where the process may,
    /// without an access by the process first.
    pub(crate) fn is_shared(&self, range: VaRange) -> bool {
        let mut at = range.start();
        while let Some(rest) = VaRange::between(at, range.end()) {
            let chunk = self.first_chunk(rest);
            let Some(chunk) = chunk.filter(|chunk| chunk.range.start() <= at) else {
                return false;
            };
            if !chunk.usage.access.write || self.retries() && !chunk.always {
                return false;
            }
            at = chunk.range.end();
        }
        true
    }

    /// Returns how many bytes of `range` are in VRAM, as far as that is known: where chunks are
    /// mapped, and none is in both kinds of memory.
    pub(crate) fn vram_of(&self, range: VaRange) -> Option<u64> {
        let (mut at, mut bytes) = (range.start(), 0);
        while let Some(rest) = VaRange::between(at, range.end()) {
            let find_shared =
                |mapping: &BoMapping| Some((mapping.range(), mapping.shared()?.in_vram()));
            let (chunk, in_vram) = self.first_in(rest, find_shared)?;
            if chunk.start() > at {
                return None;
            }
            let common = chunk.end().min(range.end()) - at;
            // For a part of a chunk the number is known only if it is all or nothing.
            bytes += match in_vram? {
                0 => 0,
                all if all == chunk.size() => common,
                _ => return None,
            };
            at = chunk.end();
        }
        Some(bytes)
    }

    /// Whether there are chunks in `range` without which queues do not run.
    pub(crate) fn is_needed(&self, range: VaRange) -> bool {
        let is_needed = |mapping: &BoMapping| (!mapping.shared()?.refaults()).then_some(());
        self.first_in(range, is_needed).is_some()
    }

    /// Whether a buffer is mapped at a part of `range`.
    pub(crate) fn has_buffer(&self, range: VaRange) -> bool {
        let is_buffer = |mapping: &BoMapping| mapping.shared().is_none().then_some(());
        self.first_in(range, is_buffer).is_some()
    }

    /// Maps all memory that the process of `space` has in `range`, now and later, in chunks. No
    /// chunk crosses a multiple of `most` bytes (a multiple of a large page). The chunks are mapped
    /// at all times if `always`; otherwise, where page faults are retried, until they change. Calls
    /// `go_on` before each chunk, and stops with its error.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINTR`, those of `go_on` and [`Vm::map`]. The chunks that were mapped before
    /// stay.
    pub(crate) fn share(
        self: &Arc<Self>,
        space: &AddressSpace,
        range: VaRange,
        (usage, always): (BoUsage, bool),
        most: u64,
        go_on: impl Fn() -> Result,
    ) -> Result {
        let mut at = range.start();
        while let Some(rest) = VaRange::between(at, range.end()) {
            if task::is_killed() {
                return Err(EINTR);
            }
            go_on()?;
            // A chunk ends where a large page would, so that a large page of the process is one of
            // the GPU's.
            let end = (at / most + 1) * most;
            let chunk = VaRange::between(at, end.min(rest.end())).ok_or(EINVAL)?;
            let mapped_when = (always, self.retries() && !always);
            let bo = bo::create::shared(&self.drm, &self.client, space, chunk, usage, mapped_when)?;
            let part = MappedPart {
                bo,
                offset: 0,
                access: usage.access,
            };
            self.map(chunk, part)?;
            at = chunk.end();
        }
        Ok(())
    }

    /// Removes all chunks: the process has no queues here any more.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the device does not answer a flush.
    pub(crate) fn unshare_all(&self) -> Result {
        let all = VaRange::between(0, USER_VA_END).ok_or(EINVAL)?;
        self.chunks(all)
            .try_for_each(|chunk| self.unmap(chunk.range))
    }

    /// Keeps the queues off the hardware while memory that they may use is mapped differently.
    pub(crate) fn quiesce_for_svm(&self) -> QuiesceGuard {
        self.group
            .quiesce_within(EvictTrigger::Svm, &QuiesceTimeout::of(QUIESCE_MS))
    }
}

/// Returns the chunk, if `mapping` is one.
fn chunk(mapping: &BoMapping) -> Option<SharedChunk> {
    let shared = mapping.shared()?;
    Some(SharedChunk {
        range: mapping.range(),
        usage: BoUsage {
            access: mapping.bo().access(),
            coherence: mapping.bo().coherence(),
            ..BoUsage::default()
        },
        always: shared.is_always_mapped(),
        cut: shared.is_cut(),
    })
}
