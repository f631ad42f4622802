// SPDX-License-Identifier: GPL-2.0
//! The trusted memory region: a piece of VRAM that the driver gives the PSP for good, where the
//! engines' firmware lies.
//!
//! Only the PSP may access it from then on. Accesses by the device (engines, page walks, the
//! windows, BAR0 where it is not mapped) are refused at once. Stores of a CPU through a mapping of
//! BAR0 cannot be seen, so the region is filled with a pattern, which each command checks; reads
//! there go unnoticed.

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;

/// The minimum size for this generation.
pub const LEAST: u64 = 0x80_0000;
const PAGE: u64 = 4096;
/// Bytes from the region that a PSP has of its own to the end of VRAM.
const OWN_FROM_END: u64 = 16 << 20;
/// A value that no program clears or fills memory with.
const PATTERN: u64 = 0x5b50_5350_9e37_79b9;
const BLOCK: usize = 1 << 16;

/// The region, in VRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tmr {
    /// Offset in VRAM.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Offset of the next image from its start.
    next: u64,
    /// It was filled.
    filled: bool,
}

impl Tmr {
    /// The region of a previous driver, which has content.
    pub fn left(gpu: &Gpu, offset: u64) -> Tmr {
        let tmr = Tmr {
            offset,
            size: LEAST,
            next: 0,
            filled: false,
        };
        gpu.bus.trust(tmr.offset, tmr.size);
        tmr
    }

    /// The region that a PSP has of its own, in the part of VRAM that is the board's firmware's.
    pub fn own(gpu: &Gpu) -> Tmr {
        Tmr::filled(gpu, gpu.bus.vram_size() - OWN_FROM_END, LEAST)
    }

    /// Creates it from SETUP_TMR's arguments: GPU address, bytes, physical address; None if these
    /// are not valid.
    pub fn set_up(gpu: &Gpu, address: u64, size: u64, physical: u64) -> Result<Option<Tmr>> {
        let Some(offset) = address.checked_sub(gpu.vram_base()) else {
            return Ok(None);
        };
        let inside = offset
            .checked_add(size)
            .is_some_and(|end| end <= gpu.bus.vram_size());
        let fits = inside && size >= LEAST && address % PAGE == 0 && size % PAGE == 0;
        if !fits || physical != offset + gpu.hive.start() {
            return Ok(None);
        }
        Ok(Some(Tmr::filled(gpu, offset, size)))
    }

    /// A region with the pattern.
    fn filled(gpu: &Gpu, offset: u64, size: u64) -> Tmr {
        let tmr = Tmr {
            offset,
            size,
            next: 0,
            filled: true,
        };
        gpu.bus.trust(offset, size);
        let block = PATTERN.to_le_bytes().repeat(BLOCK / 8);
        tmr.blocks(|at, len| gpu.bus.trusted(at, len).write(&block[..len]));
        tmr
    }

    fn blocks(&self, mut step: impl FnMut(u64, usize)) {
        let end = self.offset + self.size;
        let mut at = self.offset;
        while at < end {
            let len = ((end - at) as usize).min(BLOCK);
            step(at, len);
            at += len as u64;
        }
    }

    /// Checks the pattern. Fails if the region has been written to.
    pub fn look(&self, gpu: &Gpu) -> Result<()> {
        if !self.filled {
            return Ok(());
        }
        let block = PATTERN.to_le_bytes().repeat(BLOCK / 8);
        let mut found = vec![0; BLOCK];
        let mut written = None;
        self.blocks(|at, len| {
            if written.is_some() {
                return;
            }
            gpu.bus.trusted(at, len).read(&mut found[..len]);
            if found[..len] != block[..len] {
                let byte = (0..len).find(|&n| found[n] != block[n]).unwrap_or(0);
                written = Some(at + byte as u64);
            }
        });
        match written {
            Some(address) => Err(ModelError::Trusted {
                access: "write",
                address,
            }),
            None => Ok(()),
        }
    }

    /// The place of an image of `len` bytes, as offset in VRAM. A full region begins anew: there is
    /// no content.
    pub fn place(&mut self, len: usize) -> u64 {
        let len = (len as u64).next_multiple_of(PAGE);
        if self.next + len > self.size {
            self.next = 0;
        }
        let at = self.offset + self.next;
        self.next += len;
        at
    }

    /// Makes it ordinary memory again.
    pub fn give_back(self, gpu: &Gpu) {
        gpu.bus.trust(0, 0);
    }
}
