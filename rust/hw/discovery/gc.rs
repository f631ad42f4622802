// SPDX-License-Identifier: GPL-2.0
//! The GC table of a discovery table: the size of an XCC (gc_info_v2_0 and later of amdgpu).

use super::{check_signature, check_sum, half_at, word_at, DiscoveryError, DiscoveryPart};

/// The first word.
const ID: u32 = 0x4347;

/// Offsets of words.
mod at {
    pub(super) const MAJOR: usize = 4;
    pub(super) const MINOR: usize = 6;
    pub(super) const SIZE: usize = 8;
    pub(super) const ENGINES: usize = 12;
    pub(super) const CUS: usize = 16;
    pub(super) const ARRAYS: usize = 20;
    pub(super) const WAVE: usize = 56;
}

/// Figures of an XCC, fused-off units included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcFigures {
    /// Shader engines.
    pub shader_engines: u32,
    /// Shader arrays in an engine.
    pub arrays_per_engine: u32,
    /// Compute units in an array.
    pub cus_per_array: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
}

impl GcFigures {
    /// Those of the table at `place` of `binary`, whose sum is `said`.
    pub(super) fn new(binary: &[u8], place: usize, said: u16) -> Result<Self, DiscoveryError> {
        const PART: DiscoveryPart = DiscoveryPart::Gc;
        let outside = DiscoveryError::Outside(PART);
        let table = binary.get(place..).ok_or(outside)?;
        check_signature(PART, table, ID)?;
        let size = word_at(table, at::SIZE).ok_or(outside)?;
        let table = table.get(..size as usize).ok_or(outside)?;
        check_sum(PART, table, said)?;
        let half = |at| half_at(table, at).ok_or(outside);
        let version = (half(at::MAJOR)?, half(at::MINOR)?);
        if version.0 != 2 {
            return Err(DiscoveryError::Version(PART, version));
        }
        let word = |at| word_at(table, at).ok_or(outside);
        Ok(Self {
            shader_engines: word(at::ENGINES)?,
            arrays_per_engine: word(at::ARRAYS)?,
            cus_per_array: word(at::CUS)?,
            wave_size: word(at::WAVE)?,
        })
    }
}
