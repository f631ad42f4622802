// SPDX-License-Identifier: GPL-2.0
//! The generations of the shader core, which decide what an encoding means. Code is decoded for one
//! of them ([`crate::code::Code`]); where they differ, the handlers of its instructions do, too:
//! nothing asks for the generation again while it is executed.

/// A generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// MI210 (GC 9.4.2).
    Gfx90a,
    /// MI300X (GC 9.4.3).
    Gfx942,
}

impl Isa {
    /// Returns whether it is gfx942.
    pub fn is_gfx942(self) -> bool {
        self == Isa::Gfx942
    }
}
