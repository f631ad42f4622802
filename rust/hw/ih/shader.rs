// SPDX-License-Identifier: GPL-2.0
//! Interrupts of a shader engine's sequencer (SQ): a message of a wave, an error of a wave, or an
//! event of the sequencer.

use super::IvEntry;
use crate::bits::Field;
use crate::exceptions::QueueExceptions;

const DATA_LOW: Field = Field::new(11, 0);
const ARRAY: Field = Field::bit(12);
const PRIV: Field = Field::bit(13);
const WAVE: Field = Field::new(17, 14);
const SIMD: Field = Field::new(19, 18);
const CU: Field = Field::new(23, 20);
const ENGINE: Field = Field::new(25, 24);
const ENCODING: Field = Field::new(27, 26);
const DATA_MIDDLE: Field = Field::new(31, 28);
const DATA_HIGH: Field = Field::new(7, 0);
/// Field of the data of an error.
const ERROR: Field = Field::new(23, 20);

/// Cause of the sequencer's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaderCause {
    /// An event of the sequencer, which belongs to no wave.
    Sequencer,
    /// A wave has sent a message.
    Message,
    /// An uncorrectable error during the fetch of a wave's code.
    FetchUncorrectable,
    /// A wave reached an illegal instruction.
    IllegalInstruction,
    /// An access of a wave was refused: an aperture or an alignment.
    MemoryViolation,
    /// An uncorrectable error in data that a wave has read.
    DataUncorrectable,
    /// A cause that this list does not have.
    Other,
}

impl ShaderCause {
    /// The error of the wave; `None` if there is none.
    #[inline]
    pub const fn error(self) -> Option<&'static str> {
        match self {
            Self::Sequencer | Self::Message => None,
            Self::FetchUncorrectable => Some("uncorrectable error in code"),
            Self::IllegalInstruction => Some("illegal instruction"),
            Self::MemoryViolation => Some("memory violation"),
            Self::DataUncorrectable => Some("uncorrectable error in data"),
            Self::Other => Some("unknown error"),
        }
    }
}

/// A shader engine's sequencer interrupts for a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderMessage {
    /// The shader engine, one of those that have a client of their own.
    pub engine: u8,
    /// The wave's address space.
    pub vmid: u8,
    /// The wave's process.
    pub pasid: u16,
    /// The cause.
    pub cause: ShaderCause,
    /// The message: 24 bits. The sender defines its meaning: a trap handler (`privileged`) or the
    /// program.
    pub data: u32,
    /// Whether the wave was in a trap handler.
    pub privileged: bool,
    /// The wave's place: engine in 1:0, array in 4, CU in 11:8, SIMD in 13:12, slot in 19:16.
    pub place: u32,
}

impl ShaderMessage {
    pub(super) const fn decode(engine: u8, entry: &IvEntry) -> Self {
        let [low, high, ..] = entry.data;
        let data = DATA_LOW.get(low) | DATA_MIDDLE.get(low) << 12 | DATA_HIGH.get(high) << 16;
        Self {
            engine,
            vmid: entry.vmid,
            pasid: entry.pasid,
            cause: match (ENCODING.get(low), ERROR.get(data)) {
                (0, _) => ShaderCause::Sequencer,
                (1, _) => ShaderCause::Message,
                (2, 0) => ShaderCause::FetchUncorrectable,
                (2, 1) => ShaderCause::IllegalInstruction,
                (2, 2) => ShaderCause::MemoryViolation,
                (2, 3) => ShaderCause::DataUncorrectable,
                _ => ShaderCause::Other,
            },
            data,
            privileged: PRIV.is_set(low),
            place: ENGINE.get(low)
                | ARRAY.get(low) << 4
                | CU.get(low) << 8
                | SIMD.get(low) << 12
                | WAVE.get(low) << 16,
        }
    }

    /// The exceptions that a trap handler reports by the message; `None` if it is another message.
    pub fn exceptions(&self) -> Option<QueueExceptions> {
        match self.cause {
            ShaderCause::Message if self.privileged => QueueExceptions::of_wave(self.data),
            _ => None,
        }
    }
}
