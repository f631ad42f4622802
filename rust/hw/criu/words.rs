// SPDX-License-Identifier: GPL-2.0
//! The fields of records.

use super::{is_user, MOST_DEVICES};
use crate::bits::{hi, join, lo};

/// Room for the fields of any record, apart from those of variable length.
const MOST: usize = 40;

/// The fields of a record that is written.
pub(super) struct FieldWriter {
    dwords: [u32; MOST],
    count: usize,
}

impl FieldWriter {
    /// No fields.
    pub(super) const fn new() -> Self {
        Self {
            dwords: [0; MOST],
            count: 0,
        }
    }

    /// Appends a dword.
    pub(super) fn u32(&mut self, value: u32) {
        if let Some(place) = self.dwords.get_mut(self.count) {
            *place = value;
            self.count += 1;
        }
    }

    /// Appends two dwords, the low one first.
    pub(super) fn u64(&mut self, value: u64) {
        self.u32(lo(value));
        self.u32(hi(value));
    }

    /// Appends 0 or 1.
    pub(super) fn flag(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// The fields so far.
    pub(super) fn dwords(&self) -> &[u32] {
        self.dwords.get(..self.count).unwrap_or(&[])
    }
}

/// The fields of a record that is read, from the first one on. Each function takes one, and
/// returns `None` if it is not there or has a value that it cannot have.
pub(super) struct FieldReader<'a>(&'a [u32]);

impl<'a> FieldReader<'a> {
    /// The fields in `dwords`.
    pub(super) const fn new(dwords: &'a [u32]) -> Self {
        Self(dwords)
    }

    /// A dword.
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Two dwords.
    pub(super) fn u64(&mut self) -> Option<u64> {
        let low = self.u32()?;
        Some(join(low, self.u32()?))
    }

    /// An address of the user, or 0.
    pub(super) fn address(&mut self) -> Option<u64> {
        self.u64().filter(|&address| is_user(address))
    }

    /// 0 or 1.
    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// The place of a GPU.
    pub(super) fn device(&mut self) -> Option<u8> {
        let device = self.u32()?;
        (device < MOST_DEVICES as u32).then_some(device as u8)
    }

    /// All dwords that are left.
    pub(super) fn rest(&mut self) -> &'a [u32] {
        core::mem::take(&mut self.0)
    }

    /// Whether no dword is left.
    pub(super) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
