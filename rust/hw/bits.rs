// SPDX-License-Identifier: GPL-2.0
//! Bit fields of registers, packets and page-table entries, and the halves of 64-bit values.

/// A field of a 32-bit word, written as in the register headers: `Field::new(high, low)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    shift: u32,
    mask: u32,
}

impl Field {
    /// The field of bits `high` down to `low`, both inclusive.
    #[inline]
    pub const fn new(high: u32, low: u32) -> Self {
        assert!(high < 32 && low <= high);
        Self {
            shift: low,
            mask: u32::MAX >> (31 - (high - low)),
        }
    }

    /// The field of one bit.
    #[inline]
    pub const fn bit(bit: u32) -> Self {
        Self::new(bit, bit)
    }

    /// `value` shifted to the field; bits that do not fit are dropped.
    #[inline]
    pub const fn put(self, value: u32) -> u32 {
        (value & self.mask) << self.shift
    }

    /// The field's bit set when `on`.
    #[inline]
    pub const fn flag(self, on: bool) -> u32 {
        self.put(on as u32)
    }

    /// The field's value in `word`.
    #[inline]
    pub const fn get(self, word: u32) -> u32 {
        (word >> self.shift) & self.mask
    }

    /// Whether any bit of the field is set in `word`.
    #[inline]
    pub const fn is_set(self, word: u32) -> bool {
        self.get(word) != 0
    }

    /// The largest value that the field holds.
    #[inline]
    pub const fn max(self) -> u32 {
        self.mask
    }
}

/// A field of a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field64 {
    shift: u32,
    mask: u64,
}

impl Field64 {
    /// The field of bits `high` down to `low`, both inclusive.
    #[inline]
    pub const fn new(high: u32, low: u32) -> Self {
        assert!(high < 64 && low <= high);
        Self {
            shift: low,
            mask: u64::MAX >> (63 - (high - low)),
        }
    }

    /// The field of one bit.
    #[inline]
    pub const fn bit(bit: u32) -> Self {
        Self::new(bit, bit)
    }

    /// `value` shifted to the field; bits that do not fit are dropped.
    #[inline]
    pub const fn put(self, value: u64) -> u64 {
        (value & self.mask) << self.shift
    }

    /// The field's bit set when `on`.
    #[inline]
    pub const fn flag(self, on: bool) -> u64 {
        self.put(on as u64)
    }

    /// The field's value in `word`.
    #[inline]
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.mask
    }

    /// Whether any bit of the field is set in `word`.
    #[inline]
    pub const fn is_set(self, word: u64) -> bool {
        self.get(word) != 0
    }

    /// The bits of the field in place: the mask to keep them in a word.
    #[inline]
    pub const fn in_place(self) -> u64 {
        self.mask << self.shift
    }
}

/// The low dword of `value`.
#[inline]
pub const fn lo(value: u64) -> u32 {
    value as u32
}

/// The high dword of `value`.
#[inline]
pub const fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

/// The 64-bit value of two dwords.
#[inline]
pub const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}
