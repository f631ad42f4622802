// SPDX-License-Identifier: GPL-2.0
//! Local data share: the memory of one group.

use std::cell::Cell;

/// LDS of a group. All addresses are bytes from its start; unaligned ones are allowed. What lies
/// beyond its size reads as zeros, and writes there do nothing: Tensile's kernels rely on that.
#[derive(Debug, Clone, Default)]
pub struct Lds {
    bytes: Vec<u8>,
    /// Accesses beyond its size, of one lane each.
    outside: Cell<u64>,
}

impl Lds {
    /// Creates it with `size` bytes of zeros.
    pub fn new(size: u32) -> Lds {
        Lds {
            bytes: vec![0; size as usize],
            outside: Cell::new(0),
        }
    }

    /// Starts anew with `size` bytes of zeros.
    pub fn reset(&mut self, size: u32) {
        self.bytes.clear();
        self.bytes.resize(size as usize, 0);
        self.outside.set(0);
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// See above.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The number of accesses beyond its size, of one lane each.
    pub fn outside(&self) -> u64 {
        self.outside.get()
    }

    /// Counts accesses beyond its size.
    pub fn count_outside(&self, lanes: u64) {
        self.outside.set(self.outside.get() + lanes);
    }

    /// The place of an access. None: it is counted, and to be ignored.
    #[inline(always)]
    fn range(&self, at: u32, len: usize) -> Option<std::ops::Range<usize>> {
        let start = at as usize;
        if self.bytes.len() < len || start > self.bytes.len() - len {
            self.count_outside(1);
            return None;
        }
        Some(start..start + len)
    }

    /// Reads.
    pub fn read(&self, at: u32, out: &mut [u8]) {
        match self.range(at, out.len()) {
            Some(range) => out.copy_from_slice(&self.bytes[range]),
            None => out.fill(0),
        }
    }

    /// Writes.
    pub fn write(&mut self, at: u32, data: &[u8]) {
        if let Some(range) = self.range(at, data.len()) {
            self.bytes[range].copy_from_slice(data);
        }
    }

    /// Replaces a word of `N` bytes. Returns the old one.
    pub fn change<const N: usize>(
        &mut self,
        at: u32,
        change: impl FnOnce([u8; N]) -> [u8; N],
    ) -> [u8; N] {
        let mut old = [0; N];
        if let Some(range) = self.range(at, N) {
            old.copy_from_slice(&self.bytes[range.clone()]);
            self.bytes[range].copy_from_slice(&change(old));
        }
        old
    }
}
