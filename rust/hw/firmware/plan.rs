// SPDX-License-Identifier: GPL-2.0
//! Which files hold a GPU's firmware, and in which order the PSP gets its parts (amdgpu:
//! psp_hw_start, psp_load_non_psp_fw).

use core::ffi::CStr;

use super::part::{FirmwarePart, FirmwareSource};

/// A part with the PSP's number for it: a command of its bootloader, or a type in LOAD_IP_FW.
pub type Step = (FirmwarePart, u32);

/// How a GPU's firmware is loaded.
#[derive(Clone, Copy, Debug)]
pub struct FirmwarePlan {
    /// The files, with names relative to /lib/firmware.
    pub files: &'static [(FirmwareSource, &'static CStr)],
    /// Parts for the bootloader, each with its command. The last one takes over.
    pub bootloader: &'static [Step],
    /// Parts for LOAD_IP_FW before the PSP has memory of its own. They answer from then on.
    pub before_tmr: &'static [Step],
    /// Bytes of that memory, the trusted memory region (TMR): a power of two, to which the region
    /// is also aligned.
    pub tmr_bytes: u64,
    /// Parts for LOAD_IP_FW after that.
    pub after_tmr: &'static [Step],
}

impl FirmwarePlan {
    /// All steps in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let all = [self.bootloader, self.before_tmr, self.after_tmr];
        all.into_iter().flatten().copied()
    }

    /// The name of a file; `None` if the plan does not have it.
    pub fn file(&self, source: FirmwareSource) -> Option<&'static CStr> {
        let mut files = self.files.iter();
        files
            .find(|(which, _)| *which == source)
            .map(|(_, name)| *name)
    }
}
