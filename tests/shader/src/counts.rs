// SPDX-License-Identifier: GPL-2.0
//! Counts of executed instructions, by class.

/// Classes of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// SOP1, SOP2, SOPC, SOPK, SOPP.
    Scalar,
    /// SMEM.
    ScalarMemory,
    /// VOP1, VOP2, VOPC, VOP3, VOP3P.
    Vector,
    /// MFMA and moves of accumulation VGPRs.
    Matrix,
    /// FLAT, GLOBAL, SCRATCH, MUBUF.
    Memory,
    /// DS.
    Lds,
}

impl Class {
    /// All of them, in order, and their names.
    pub const ALL: [(Class, &'static str); 6] = [
        (Class::Scalar, "scalar"),
        (Class::ScalarMemory, "scalar memory"),
        (Class::Vector, "vector"),
        (Class::Matrix, "matrix"),
        (Class::Memory, "memory"),
        (Class::Lds, "lds"),
    ];

    /// Returns whether it is done for each lane.
    #[inline(always)]
    pub fn has_lanes(self) -> bool {
        !matches!(self, Class::Scalar | Class::ScalarMemory)
    }
}

/// Wave instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of each class, in the order of [`Class::ALL`].
    pub classes: [u64; Class::ALL.len()],
    /// Lanes that were active in those that have lanes.
    pub lanes: u64,
    /// Accesses of lanes to LDS beyond the group's size.
    pub outside: u64,
}

impl Counts {
    /// All instructions.
    pub fn all(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The sum with another one.
    pub fn plus(mut self, other: &Counts) -> Counts {
        for (count, more) in self.classes.iter_mut().zip(other.classes) {
            *count += more;
        }
        self.lanes += other.lanes;
        self.outside += other.outside;
        self
    }

    /// The difference to an earlier state.
    pub fn since(mut self, before: &Counts) -> Counts {
        for (count, less) in self.classes.iter_mut().zip(before.classes) {
            *count -= less;
        }
        self.lanes -= before.lanes;
        self.outside -= before.outside;
        self
    }
}
