// SPDX-License-Identifier: GPL-2.0
//! Which files hold a GPU's firmware, and in which order the PSP gets its parts (amdgpu:
//! psp_hw_start, psp_load_non_psp_fw).
//!
//! Source: amdgpu of Linux 7.3 (under MIT). Made by: hand.

use core::ffi::CStr;

use super::part::{FirmwarePart, FirmwareSource};
use crate::psp::{BootloaderCommand, PspImageType};
use crate::smu::interface::SmuInterface;

/// A part for LOAD_IP_FW, with what it is to the PSP.
pub type LoadStep = (FirmwarePart, PspImageType);

/// How a GPU's firmware is loaded.
#[derive(Clone, Copy, Debug)]
pub struct FirmwarePlan {
    /// The files, with names relative to /lib/firmware.
    pub files: &'static [(FirmwareSource, &'static CStr)],
    /// The file of trusted applications, which only a GPU of a hive needs.
    pub applications: &'static CStr,
    /// The first version of the application for XGMI that tells the number of links.
    pub links_version: u32,
    /// Parts for the bootloader, each with its command. The last one takes over.
    pub bootloader: &'static [(FirmwarePart, BootloaderCommand)],
    /// Parts for LOAD_IP_FW before the PSP has memory of its own. They answer from then on.
    pub before_tmr: &'static [LoadStep],
    /// Bytes of that memory, the trusted memory region (TMR): a power of two, to which the region
    /// is also aligned. 0 for a PSP that has set memory apart from the start.
    pub tmr_bytes: u64,
    /// Parts for LOAD_IP_FW after that.
    pub after_tmr: &'static [LoadStep],
    /// The PSP is told into how many partitions the XCCs are divided: one.
    pub tells_partitions: bool,
    /// The SMU's messages and tables.
    pub smu: SmuInterface,
}

impl FirmwarePlan {
    /// All parts in order. One that several engines get is there as often.
    pub fn parts(&self) -> impl Iterator<Item = FirmwarePart> {
        let booted = self.bootloader.iter().map(|(part, _)| *part);
        let loaded = self.before_tmr.iter().chain(self.after_tmr);
        booted.chain(loaded.map(|(part, _)| *part))
    }

    /// The name of a file; `None` if the plan does not have it.
    pub fn file(&self, source: FirmwareSource) -> Option<&'static CStr> {
        let mut files = self.files.iter();
        let found = files.find(|(which, _)| *which == source);
        match found {
            Some((_, name)) => Some(*name),
            None => (source == FirmwareSource::Ta).then_some(self.applications),
        }
    }
}
