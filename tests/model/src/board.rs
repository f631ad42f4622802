// SPDX-License-Identifier: GPL-2.0
//! The board around the GPU: memory, the flash chip with the BIOS, and the progress of its
//! firmware.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::asic::Asic;
use crate::fate::Spec;
use crate::function::Function;
use crate::hive::Hive;
use crate::layout::Layout;
use crate::psp::faults::{number, Faults};
use crate::psp::image::Signatures;
use crate::psp::start::Start;
use crate::timing::Timing;

/// The unit of VRAM's place and size in the hubs' registers.
pub const UNIT: u64 = 16 << 20;
/// The place of VRAM in the logs of such cards.
const FB_BASE: u32 = 0x2_0000;
/// ROM_INDEX: byte offset in the flash chip.
const OFFSET: u32 = 0x1ff_ffff;
/// The default number of a board.
const SERIAL: u64 = 0x0001_0203_90a0_0210;
/// A blank flash chip's bytes.
const BLANK: u8 = 0xff;

/// A board.
#[derive(Debug, Clone, Default)]
pub struct Board {
    /// The chip.
    pub asic: &'static Asic,
    /// Its XCCs and AIDs.
    pub layout: Layout,
    /// The number from its maker.
    pub serial: u64,
    /// Bytes of VRAM, a multiple of [`UNIT`].
    pub vram: u64,
    /// The size of BAR0, a power of two. What it has beyond VRAM is the firmware's.
    pub bar0: u64,
    /// MC address of VRAM's first byte, in [`UNIT`]s.
    pub fb_base: u32,
    /// Its place in a hive.
    pub hive: Hive,
    /// Where the GPUs of its hive find one another; without it the others are not there.
    pub hive_folder: Option<PathBuf>,
    /// The number of the die in its package.
    pub die: u32,
    /// The PCI function.
    pub function: Function,
    /// Contents of the flash chip; blank behind its end.
    pub rom: Vec<u8>,
    /// The progress of its firmware.
    pub start: Start,
    /// The signatures that its PSP accepts.
    pub signatures: Signatures,
    /// The faults of its PSP.
    pub faults: Faults,
    /// The times that its engines take, if these are not the host's.
    pub timing: Option<Timing>,
    /// The driver maps host memory of its own write-combined, as amdgpu does.
    pub write_combined: bool,
    /// Leaves of page directories may begin at any page, as amdgpu's do.
    pub unaligned_leaves: bool,
    /// The freedoms of hardware that the model takes.
    pub hostile: Option<Spec>,
    /// The folder of the devices behind the same PCI Express switch, if it is behind one.
    pub switch: Option<PathBuf>,
}

impl Board {
    /// Creates a board of an MI210 with `vram` bytes of VRAM, a blank flash chip, the default
    /// number, and its firmware up.
    pub fn new(vram: u64) -> Board {
        Board {
            serial: SERIAL,
            vram,
            bar0: vram.next_power_of_two(),
            fb_base: FB_BASE,
            ..Board::default()
        }
    }
}

/// ROM_INDEX and ROM_DATA: the flash chip, dword by dword.
#[derive(Debug)]
pub struct Rom {
    image: Vec<u8>,
    /// Its present content: less than that, or other bytes.
    chip: Mutex<Vec<u8>>,
    at: AtomicU32,
}

impl Rom {
    /// Creates the chip with `image` in it.
    pub fn new(image: Vec<u8>) -> Rom {
        Rom {
            chip: Mutex::new(image.clone()),
            image,
            at: AtomicU32::new(0),
        }
    }

    /// Changes the chip: to `blank`, or `whole` as at the board's beginning, or with another byte
    /// in a place (`AT=BYTE`).
    pub fn change(&self, how: &str) -> Result<(), String> {
        let mut chip = self.chip.lock().unwrap_or_else(PoisonError::into_inner);
        match how {
            "blank" => chip.clear(),
            "whole" => chip.clone_from(&self.image),
            poke => {
                let words = poke.split_once('=');
                let (at, byte) = words.ok_or_else(|| format!("{poke}: no place and byte"))?;
                let (place, byte): (usize, u8) = (number(at)?, number(byte)?);
                let cell = chip.get_mut(place);
                *cell.ok_or_else(|| format!("{at}: the chip has not so much"))? = byte;
            }
        }
        Ok(())
    }

    /// ROM_INDEX.
    pub fn index(&self) -> u32 {
        self.at.load(Ordering::Relaxed)
    }

    /// Writes ROM_INDEX.
    pub fn set_index(&self, value: u32) {
        self.at.store(value & OFFSET & !3, Ordering::Relaxed);
    }

    /// ROM_DATA: the dword at the index, which moves on to the next.
    pub fn read(&self) -> u32 {
        let at = self.index();
        self.set_index(at.wrapping_add(4));
        let chip = self.chip.lock().unwrap_or_else(PoisonError::into_inner);
        let byte = |n: u32| chip.get((at + n) as usize).copied();
        u32::from_le_bytes([0, 1, 2, 3].map(|n| byte(n).unwrap_or(BLANK)))
    }

    /// Bytes of the chip from `offset` on, as the expansion ROM shows them.
    pub fn copy(&self, offset: u64, out: &mut [u8]) {
        let chip = self.chip.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, byte) in (offset as usize..).zip(out) {
            *byte = chip.get(at).copied().unwrap_or(BLANK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_contents() {
        let rom = Rom::new(vec![0x55, 0xaa, 4, 0]);
        let read = || {
            rom.set_index(0);
            rom.read()
        };
        rom.change("1=0x12").unwrap();
        assert_eq!(read(), 0x0004_1255);
        rom.change("blank").unwrap();
        assert_eq!(read(), !0);
        rom.change("whole").unwrap();
        assert_eq!(read(), 0x0004_aa55);
        for how in ["4=1", "0=256", "x=1", "1"] {
            assert!(rom.change(how).is_err(), "{how}");
        }
    }

    #[test]
    fn the_index_moves_on() {
        let rom = Rom::new(vec![0x55, 0xaa, 4, 0, 1, 2]);
        rom.set_index(0);
        assert_eq!(rom.read(), 0x0004_aa55);
        assert_eq!(rom.index(), 4);
        assert_eq!(rom.read(), 0xffff_0201);
        assert_eq!(rom.read(), 0xffff_ffff);
        let mut out = [0; 4];
        rom.copy(3, &mut out);
        assert_eq!(out, [0, 1, 2, 0xff]);
        rom.set_index(3);
        assert_eq!(rom.read(), 0x0004_aa55);
        rom.set_index(OFFSET);
        rom.read();
        assert_eq!(rom.index(), 0);
    }
}
