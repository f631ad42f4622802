// SPDX-License-Identifier: GPL-2.0
//! Shared virtual memory: memory of the process that the GPU has at the process's own addresses, mapped in chunks as USERPTR
//! memory is ([`userptr`](super::userptr)).

use super::{mapping::Mapping, Part, Vm};
use crate::{
    kern::{mm_exit::AddressSpace, task},
    mem::{
        bo::{self, Usage},
        group::{Patience, Quiesced, Trigger},
    },
};
use hw::va::{VaRange, LARGE_PAGE_SIZE, USER_VA_END};
use kernel::{prelude::*, sync::Arc};

/// How long the queues are waited for before what they may use is mapped otherwise, milliseconds.
const PATIENCE_MS: i64 = 2000;

/// A chunk that is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    /// Where.
    pub(crate) range: VaRange,
    /// How the GPU may use it.
    pub(crate) usage: Usage,
    /// The process has unmapped a part of it.
    pub(crate) cut: bool,
}

impl Vm {
    /// What `pick` makes of the first mapping with something in `range` of which it makes anything.
    fn first_in<T>(&self, range: VaRange, pick: impl Fn(&Mapping) -> Option<T>) -> Option<T> {
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

    /// The first chunk that has something in `range`.
    pub(crate) fn first_chunk(&self, range: VaRange) -> Option<Chunk> {
        self.first_in(range, |mapping| {
            Some(Chunk {
                range: mapping.range(),
                usage: Usage {
                    access: mapping.bo().access(),
                    coherence: mapping.bo().coherence(),
                },
                cut: mapping.shared()?.is_cut(),
            })
        })
    }

    /// Whether chunks cover all of `range`, and the GPU may write where the process may.
    pub(crate) fn is_shared(&self, range: VaRange) -> bool {
        let mut at = range.start();
        while let Some(left) = VaRange::between(at, range.end()) {
            let chunk = self.first_chunk(left);
            let Some(chunk) = chunk.filter(|chunk| chunk.range.start() <= at) else {
                return false;
            };
            if !chunk.usage.access.write {
                return false;
            }
            at = chunk.range.end();
        }
        true
    }

    /// How many bytes of `range` are in VRAM, as far as that is known: where chunks are mapped, and none is in both kinds of memory.
    pub(crate) fn vram_of(&self, range: VaRange) -> Option<u64> {
        let (mut at, mut bytes) = (range.start(), 0);
        while let Some(left) = VaRange::between(at, range.end()) {
            let what = |mapping: &Mapping| Some((mapping.range(), mapping.shared()?.in_vram()));
            let (chunk, in_vram) = self.first_in(left, what)?;
            if chunk.start() > at {
                return None;
            }
            let common = chunk.end().min(range.end()) - at;
            // All of it or nothing is known of a part, too.
            bytes += match in_vram? {
                0 => 0,
                all if all == chunk.size() => common,
                _ => return None,
            };
            at = chunk.end();
        }
        Some(bytes)
    }

    /// Whether a buffer is mapped at a part of `range`.
    pub(crate) fn has_buffer(&self, range: VaRange) -> bool {
        let is_buffer = |mapping: &Mapping| mapping.shared().is_none().then_some(());
        self.first_in(range, is_buffer).is_some()
    }

    /// Maps what the process of `space` has in `range`, now and later, in chunks, as long as `go_on` does not fail, which is asked before
    /// each. `ENOMEM`, `EINTR`, and what `go_on` and [`Vm::map`] say: what was mapped until then stays.
    pub(crate) fn share(
        self: &Arc<Self>,
        space: &AddressSpace,
        range: VaRange,
        usage: Usage,
        go_on: impl Fn() -> Result,
    ) -> Result {
        let mut at = range.start();
        while let Some(rest) = VaRange::between(at, range.end()) {
            if task::is_killed() {
                return Err(EINTR);
            }
            go_on()?;
            // A chunk ends where a large page would, so that one of the process's is one of the GPU's.
            let end = (at / LARGE_PAGE_SIZE + 1) * LARGE_PAGE_SIZE;
            let chunk = VaRange::between(at, end.min(rest.end())).ok_or(EINVAL)?;
            let bo = bo::create::shared(&self.drm, &self.client, space, chunk, usage)?;
            let part = Part {
                bo,
                offset: 0,
                access: usage.access,
            };
            self.map(chunk, part)?;
            at = chunk.end();
        }
        Ok(())
    }

    /// Takes all chunks out: the process's queues here are gone. `ETIMEDOUT` when the device does not answer a flush.
    pub(crate) fn unshare_all(&self) -> Result {
        let mut at = 0;
        while let Some(left) = VaRange::between(at, USER_VA_END) {
            let Some(chunk) = self.first_chunk(left) else {
                break;
            };
            self.unmap(chunk.range)?;
            at = chunk.range.end();
        }
        Ok(())
    }

    /// Keeps the queues off the hardware while what they may use is mapped otherwise.
    pub(crate) fn quiesce_for_svm(&self) -> Quiesced {
        self.group
            .quiesce_within(Trigger::Svm, &Patience::of(PATIENCE_MS))
    }
}
