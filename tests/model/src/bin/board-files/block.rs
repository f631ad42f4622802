// SPDX-License-Identifier: GPL-2.0
//! Little-endian data, filled in by offset.

/// A block of little-endian data that is filled in by offset.
pub struct Block(pub Vec<u8>);

impl Block {
    pub fn new(len: usize) -> Block {
        Block(vec![0; len])
    }

    pub fn bytes(&mut self, at: usize, data: &[u8]) {
        self.0[at..at + data.len()].copy_from_slice(data);
    }

    pub fn byte(&mut self, at: usize, value: u8) {
        self.bytes(at, &[value]);
    }

    pub fn word(&mut self, at: usize, value: usize) {
        self.bytes(at, &(value as u16).to_le_bytes());
    }

    pub fn dword(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    /// The header that all ATOM tables have.
    pub fn table(&mut self, at: usize, len: usize, format: u8, content: u8) {
        self.word(at, len);
        self.bytes(at + 2, &[format, content]);
    }
}
