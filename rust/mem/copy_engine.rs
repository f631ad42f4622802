// SPDX-License-Identifier: GPL-2.0
//! What memory needs of those who can write VRAM fast: the kernel's rings, which lie above it and need memory themselves.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::gart::JobMemory;
use super::vram::VramBlocks;

/// Which engines do it.
#[derive(Clone, Copy)]
pub(crate) enum CopyLane {
    /// All of them, in turn.
    All,
    /// The one at which no queue ever waits for a page: what has to be done before a page is there.
    Pages,
}

/// Clears and copies VRAM, and waits for the end. Sleeps, for as long as the engines may take; ENODEV when the device
/// goes.
pub(crate) trait CopyEngine: Send + Sync {
    /// Fills `blocks` with `value`. The blocks are kept as long as an engine writes to them. ENOMEM, ENODEV, EIO;
    /// ETIMEDOUT when an engine hangs; EINTR when the caller is killed, with the fill still under way.
    fn fill(&self, blocks: &Arc<VramBlocks>, value: u32, lane: CopyLane) -> Result;

    /// Fills `blocks` with zeros, for nobody: the jobs are not among those that are counted. As [`CopyEngine::fill`].
    fn scrub(&self, blocks: &Arc<VramBlocks>) -> Result;

    /// Copies each of `pieces` (MC addresses of source and destination, bytes), which lie in `memory`, whatever signals
    /// come. ENOMEM, ENODEV, EIO; ETIMEDOUT when an engine hangs.
    fn copy(
        &self,
        pieces: &mut dyn Iterator<Item = (u64, u64, u64)>,
        memory: JobMemory,
        lane: CopyLane,
    ) -> Result;
}
