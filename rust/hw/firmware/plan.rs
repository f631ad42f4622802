// SPDX-License-Identifier: GPL-2.0
//! Which files a GPU's firmware is in, and what is handed to the PSP in which order (amdgpu: psp_hw_start, psp_load_non_psp_fw).

use core::ffi::CStr;

use super::part::{FirmwarePart, FirmwareSource};

/// A number by which the PSP knows a part: a command of its bootloader, or a type in LOAD_IP_FW.
pub type Step = (FirmwarePart, u32);

/// How a GPU's firmware is loaded.
#[derive(Clone, Copy, Debug)]
pub struct FirmwarePlan {
    /// The files, as below /lib/firmware.
    pub files: &'static [(FirmwareSource, &'static CStr)],
    /// For the bootloader, with its command. The last one takes over.
    pub bootloader: &'static [Step],
    /// By LOAD_IP_FW, before the PSP has memory of its own. Those that answer from then on.
    pub before_tmr: &'static [Step],
    /// Bytes of that memory, the trusted memory region (TMR): a power of two, and it is as well aligned.
    pub tmr_bytes: u64,
    /// By LOAD_IP_FW, after that.
    pub after_tmr: &'static [Step],
}

impl FirmwarePlan {
    /// The steps of all of it, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let all = [self.bootloader, self.before_tmr, self.after_tmr];
        all.into_iter().flatten().copied()
    }

    /// The name of a file; None if there is no such.
    pub fn file(&self, source: FirmwareSource) -> Option<&'static CStr> {
        let mut files = self.files.iter();
        files
            .find(|(which, _)| *which == source)
            .map(|(_, name)| *name)
    }
}
