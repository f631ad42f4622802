// SPDX-License-Identifier: GPL-2.0
//! The cleaner: shader code of the driver that the firmware of the MECs runs on all compute units
//! before a process gets them. It clears registers and LDS, in which the process would otherwise
//! find what others have left: the hardware clears neither for a new wave.

pub mod gfx9_4_2;

/// The cleaner of a chip.
#[derive(Clone, Copy, Debug)]
pub struct Cleaner {
    /// Its words.
    pub code: &'static [u32],
    /// The first version of the firmware that runs one.
    pub firmware: u32,
}

impl Cleaner {
    /// Its address in VMID 0 is a multiple of this many bytes: SET_RESOURCES has it in such units.
    pub const ALIGN: u64 = 256;

    /// The words for firmware of `version`, if that runs a cleaner.
    #[inline]
    pub const fn of(cleaner: Option<&Self>, version: u32) -> Option<&'static [u32]> {
        match cleaner {
            Some(cleaner) if version >= cleaner.firmware => Some(cleaner.code),
            _ => None,
        }
    }
}
