// SPDX-License-Identifier: GPL-2.0
//! Memory that consists of a few vectors.

use std::cell::RefCell;

use rkfd_shader::env::{Fault, Host};
use rkfd_shader::image::{Shape, Word};
use rkfd_shader::wave::LANES;
use rkfd_shader::with_size;

/// Addresses of code, data and scratch.
pub const CODE: u64 = 0x10_0000_0000;
pub const DATA: u64 = 0x20_0000_0000;
pub const SCRATCH: u64 = 0x30_0000_0000;

/// The number of the XCC.
pub const XCC: u32 = 5;

/// The value of all clocks.
const NOW: u64 = 12345;

/// Memory in three pieces.
pub struct Memory {
    pieces: [(u64, RefCell<Vec<u8>>); 3],
}

impl Memory {
    pub fn new(code: Vec<u8>, data: usize, scratch: usize) -> Memory {
        Memory {
            pieces: [
                (CODE, RefCell::new(code)),
                (DATA, RefCell::new(vec![0; data])),
                (SCRATCH, RefCell::new(vec![0; scratch])),
            ],
        }
    }

    fn find(&self, address: u64, len: usize) -> Result<(&RefCell<Vec<u8>>, usize), Fault> {
        self.pieces
            .iter()
            .find_map(|(start, bytes)| {
                let at = usize::try_from(address.checked_sub(*start)?).ok()?;
                (at + len <= bytes.borrow().len()).then_some((bytes, at))
            })
            .ok_or(Fault { address })
    }

    /// Calls `step` with the place of each lane's `N` bytes in the first one's piece, until one is
    /// not there. Returns the lanes that are left.
    fn each_lane<const N: usize>(
        at: &[u64; LANES],
        lanes: u64,
        (start, len): (u64, usize),
        mut step: impl FnMut(usize, usize),
    ) -> u64 {
        let Some(last) = len.checked_sub(N) else {
            return lanes;
        };
        let mut left = lanes;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let place = at[lane].wrapping_sub(start) as usize;
            if place > last {
                break;
            }
            step(lane, place);
            left &= left - 1;
        }
        left
    }

    fn load_sized<const N: usize>(&self, at: &[u64; LANES], lanes: u64, out: &mut [u8]) -> u64 {
        let Ok((start, piece)) = self.piece(at, lanes) else {
            return lanes;
        };
        let bytes = &piece.borrow()[..];
        Self::each_lane::<N>(at, lanes, (start, bytes.len()), |lane, place| {
            out[lane * N..(lane + 1) * N].copy_from_slice(&bytes[place..place + N]);
        })
    }

    fn store_sized<const N: usize>(&self, at: &[u64; LANES], lanes: u64, data: &[u8]) -> u64 {
        let Ok((start, piece)) = self.piece(at, lanes) else {
            return lanes;
        };
        let bytes = &mut piece.borrow_mut()[..];
        Self::each_lane::<N>(at, lanes, (start, bytes.len()), |lane, place| {
            bytes[place..place + N].copy_from_slice(&data[lane * N..(lane + 1) * N]);
        })
    }

    fn change_lanes<const N: usize>(
        &self,
        at: &[u64; LANES],
        lanes: u64,
        mut change: impl FnMut(usize, &mut [u8; N]),
    ) -> u64 {
        let Ok((start, piece)) = self.piece(at, lanes) else {
            return lanes;
        };
        let bytes = &mut piece.borrow_mut()[..];
        Self::each_lane::<N>(at, lanes, (start, bytes.len()), |lane, place| {
            change(lane, bytes[place..].first_chunk_mut().unwrap());
        })
    }

    /// The piece that the first of `lanes` accesses.
    fn piece(&self, at: &[u64; LANES], lanes: u64) -> Result<(u64, &RefCell<Vec<u8>>), Fault> {
        let address = at[lanes.trailing_zeros() as usize];
        let (piece, offset) = self.find(address, 1)?;
        Ok((address - offset as u64, piece))
    }
}

impl Host for Memory {
    fn xcc(&self) -> u32 {
        XCC
    }

    fn load(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        let (bytes, at) = self.find(address, out.len())?;
        out.copy_from_slice(&bytes.borrow()[at..at + out.len()]);
        Ok(())
    }

    fn store(&self, address: u64, data: &[u8]) -> Result<(), Fault> {
        let (bytes, at) = self.find(address, data.len())?;
        bytes.borrow_mut()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn load_lanes(&self, at: &[u64; LANES], lanes: u64, size: usize, out: &mut [u8]) -> u64 {
        with_size!(size, self.load_sized(at, lanes, out), lanes)
    }

    fn store_lanes(&self, at: &[u64; LANES], lanes: u64, size: usize, data: &[u8]) -> u64 {
        with_size!(size, self.store_sized(at, lanes, data), lanes)
    }

    fn atomic32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault> {
        let mut old = [0; 4];
        self.load(address, &mut old)?;
        let old = u32::from_le_bytes(old);
        self.store(address, &change(old).to_le_bytes())?;
        Ok(old)
    }

    fn atomic64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        let mut old = [0; 8];
        self.load(address, &mut old)?;
        let old = u64::from_le_bytes(old);
        self.store(address, &change(old).to_le_bytes())?;
        Ok(old)
    }

    fn atomic32_lanes(
        &self,
        at: &[u64; LANES],
        lanes: u64,
        change: &mut dyn FnMut(usize, u32) -> u32,
        old: &mut [u32; LANES],
    ) -> u64 {
        self.change_lanes::<4>(at, lanes, |lane, word| {
            old[lane] = u32::from_le_bytes(*word);
            *word = change(lane, old[lane]).to_le_bytes();
        })
    }

    fn atomic64_lanes(
        &self,
        at: &[u64; LANES],
        lanes: u64,
        change: &mut dyn FnMut(usize, u64) -> u64,
        old: &mut [u64; LANES],
    ) -> u64 {
        self.change_lanes::<8>(at, lanes, |lane, word| {
            old[lane] = u64::from_le_bytes(*word);
            *word = change(lane, old[lane]).to_le_bytes();
        })
    }

    fn fetch(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        if !(CODE..DATA).contains(&address) {
            return Err(Fault { address });
        }
        self.load(address, out)
    }

    fn realtime(&self) -> u64 {
        NOW
    }

    fn cycles(&self) -> u64 {
        NOW
    }

    fn load_scalar(&self, address: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.load(address, out)
    }

    fn store_scalar(&self, address: u64, data: &[u8]) -> Result<(), Fault> {
        self.store(address, data)
    }

    fn interrupt(&self, _: u32, _: u32, _: bool) {}

    fn illegal(&self, _: u32) {}

    fn doorbell(&self) -> u32 {
        0
    }

    fn trap_handler(&self) -> u64 {
        0
    }

    fn trap_memory(&self) -> u64 {
        0
    }

    fn reserve(&self, _: Shape, _: &[Word]) -> Option<Vec<u64>> {
        None
    }
}
