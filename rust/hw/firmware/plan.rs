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

/// gfx90a on PCI Express: PSP 13.0.2.
pub const GFX90A: FirmwarePlan = FirmwarePlan {
    files: &[
        (FirmwareSource::Sos, c"amdgpu/aldebaran_sos.bin"),
        (FirmwareSource::Smc, c"amdgpu/aldebaran_smc.bin"),
        (FirmwareSource::Sdma, c"amdgpu/aldebaran_sdma.bin"),
        (FirmwareSource::Mec, c"amdgpu/aldebaran_mec.bin"),
        (FirmwareSource::Rlc, c"amdgpu/aldebaran_rlc.bin"),
    ],
    bootloader: &[
        (FirmwarePart::KeyDatabase, 0x8_0000),
        (FirmwarePart::SystemDriver, 0x1_0000),
        (FirmwarePart::SecureOs, 0x2_0000),
    ],
    // The SMU keeps the way to memory awake here.
    before_tmr: &[(FirmwarePart::Smu, 18)],
    tmr_bytes: 8 << 20,
    after_tmr: &[
        (FirmwarePart::Sdma, 9),
        (FirmwarePart::Sdma, 10),
        (FirmwarePart::Sdma, 52),
        (FirmwarePart::Sdma, 53),
        (FirmwarePart::Sdma, 54),
        (FirmwarePart::Mec, 4),
        (FirmwarePart::MecJumpTable, 5),
        (FirmwarePart::RestoreControl, 22),
        (FirmwarePart::RestoreGpm, 20),
        (FirmwarePart::RestoreSrm, 21),
        (FirmwarePart::Rlc, 8),
        (FirmwarePart::RegisterList, 67),
    ],
};
