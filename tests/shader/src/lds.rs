// SPDX-License-Identifier: GPL-2.0
//! Local data share: the memory of one group.

/// LDS of a group. All addresses are bytes from its start; unaligned ones are allowed.
#[derive(Debug, Clone, Default)]
pub struct Lds {
    bytes: Vec<u8>,
}

/// An access beyond the group's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside(pub u32);

impl Lds {
    /// Creates it with `size` bytes of zeros.
    pub fn new(size: u32) -> Lds {
        Lds {
            bytes: vec![0; size as usize],
        }
    }

    /// Starts anew with `size` bytes of zeros.
    pub fn reset(&mut self, size: u32) {
        self.bytes.clear();
        self.bytes.resize(size as usize, 0);
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// See above.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    #[inline(always)]
    fn range(&self, at: u32, len: usize) -> Result<std::ops::Range<usize>, Outside> {
        let start = at as usize;
        if self.bytes.len() < len || start > self.bytes.len() - len {
            return Err(Outside(at));
        }
        Ok(start..start + len)
    }

    /// Reads.
    pub fn read(&self, at: u32, out: &mut [u8]) -> Result<(), Outside> {
        let range = self.range(at, out.len())?;
        out.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    /// Writes.
    pub fn write(&mut self, at: u32, data: &[u8]) -> Result<(), Outside> {
        let range = self.range(at, data.len())?;
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    /// Reads a dword.
    pub fn read32(&self, at: u32) -> Result<u32, Outside> {
        let mut out = [0; 4];
        self.read(at, &mut out)?;
        Ok(u32::from_le_bytes(out))
    }

    /// Reads eight bytes.
    pub fn read64(&self, at: u32) -> Result<u64, Outside> {
        let mut out = [0; 8];
        self.read(at, &mut out)?;
        Ok(u64::from_le_bytes(out))
    }
}
