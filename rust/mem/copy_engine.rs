// SPDX-License-Identifier: GPL-2.0
//! The interface to the engines that write VRAM fast: the kernel's rings. They are in a layer
//! above, and need memory themselves.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::gart::JobMemory;
use super::vram::VramBlocks;

/// The engines to use.
#[derive(Clone, Copy)]
pub(crate) enum CopyLane {
    /// All engines, in turn.
    All,
    /// The engine on which no queue ever waits for a page: for work that has to be done before a
    /// page is present.
    Pages,
}

/// Clears and copies VRAM, and waits for the end. May sleep, for as long as the engines may take.
///
/// # Errors
///
/// `ENODEV` if the device is removed meanwhile.
pub(crate) trait CopyEngine: Send + Sync {
    /// Fills `blocks` with `value`. The blocks are kept as long as an engine writes to them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV`, `EIO`; `ETIMEDOUT` if an engine hangs; `EINTR` if the caller is killed,
    /// while the fill continues.
    fn fill(&self, blocks: &Arc<VramBlocks>, value: u32, lane: CopyLane) -> Result;

    /// Fills `blocks` with zeros, for no client: the jobs are not counted.
    ///
    /// # Errors
    ///
    /// Those of [`CopyEngine::fill`].
    fn scrub(&self, blocks: &Arc<VramBlocks>) -> Result;

    /// Copies each of `pieces` (MC addresses of source and destination, bytes), which lie in
    /// `memory`. Signals do not interrupt it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV`, `EIO`; `ETIMEDOUT` if an engine hangs.
    fn copy(
        &self,
        pieces: &mut dyn Iterator<Item = (u64, u64, u64)>,
        memory: JobMemory,
        lane: CopyLane,
    ) -> Result;
}
