// SPDX-License-Identifier: GPL-2.0
//! What a process has said about how its shaders run on one GPU. Compute queues take it along when they are loaded.

/// The trap handler of a process's shaders.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct TrapHandler {
    /// GPU address of its code, SQ_SHADER_TBA; 0 for none.
    pub(crate) code: u64,
    /// GPU address of its memory, SQ_SHADER_TMA.
    pub(crate) memory: u64,
}

/// What the shaders of a process's queues find.
#[derive(Clone, Copy, Default)]
pub(crate) struct ShaderSettings {
    /// GPU address behind the scratch aperture in units of 64 KiB, SH_HIDDEN_PRIVATE_BASE_VMID; 0 for none.
    pub(crate) scratch: u64,
    /// The trap handler.
    pub(crate) trap: TrapHandler,
}
