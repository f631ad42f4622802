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
    /// `size` bytes of zeros.
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

    /// Reads `N` dwords.
    #[inline(always)]
    pub fn words<const N: usize>(&self, at: u32) -> Result<[u32; N], Outside> {
        let range = self.range(at, 4 * N)?;
        let bytes = &self.bytes[range];
        let mut words = [0; N];
        for (n, word) in words.iter_mut().enumerate() {
            let at = 4 * n;
            *word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        }
        Ok(words)
    }

    /// Writes `N` dwords.
    #[inline(always)]
    pub fn put_words<const N: usize>(&mut self, at: u32, words: &[u32; N]) -> Result<(), Outside> {
        let range = self.range(at, 4 * N)?;
        let bytes = &mut self.bytes[range];
        for (n, word) in words.iter().enumerate() {
            bytes[4 * n..4 * n + 4].copy_from_slice(&word.to_le_bytes());
        }
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
