// SPDX-License-Identifier: GPL-2.0
//! Registers that each shader array has. GRBM_GFX_INDEX selects the array that is accessed.

use crate::regs::gc::{self as regs, grbm_gfx_index as index};
use crate::regs::RegisterWindow;

/// Selects a shader array for accesses to registers until dropped: then writes go to all arrays
/// again. There is one at a time.
pub(super) struct ShaderArray<'a>(&'a RegisterWindow);

impl<'a> ShaderArray<'a> {
    /// Array `array` of shader engine `engine` of the GC block `gc`.
    pub(super) fn select(gc: &'a RegisterWindow, engine: u32, array: u32) -> Self {
        gc.write(
            regs::GRBM_GFX_INDEX,
            index::INSTANCE_BROADCAST_WRITES.flag(true)
                | index::SE_INDEX.put(engine)
                | index::SH_INDEX.put(array),
        );
        Self(gc)
    }
}

impl Drop for ShaderArray<'_> {
    fn drop(&mut self) {
        self.0.write(
            regs::GRBM_GFX_INDEX,
            index::INSTANCE_BROADCAST_WRITES.flag(true)
                | index::SE_BROADCAST_WRITES.flag(true)
                | index::SH_BROADCAST_WRITES.flag(true),
        );
    }
}
