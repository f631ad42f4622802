// SPDX-License-Identifier: GPL-2.0
//! The parts of the firmware, with the file of each and its place there.

use core::fmt;

use super::file::{FirmwareFile, FirmwareFileError};
use super::image::FirmwareImage;

/// The files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareSource {
    /// The file of the PSP.
    Sos,
    /// The file of the SMU.
    Smc,
    /// The file of the SDMA engines.
    Sdma,
    /// The file of the compute micro engines.
    Mec,
    /// The file of the RLC.
    Rlc,
    /// The file of the PSP's trusted applications.
    Ta,
}

/// A part of the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwarePart {
    /// The PSP's data base of keys.
    KeyDatabase,
    /// The PSP's system driver.
    SystemDriver,
    /// The PSP's driver of the chip.
    SocDriver,
    /// The PSP's driver of interfaces.
    InterfaceDriver,
    /// The PSP's driver of debuggers.
    DebugDriver,
    /// The PSP's driver of error reports.
    RasDriver,
    /// The PSP's secure OS.
    SecureOs,
    /// The list of registers that the PSP lets others write.
    RegisterList,
    /// The SMU's firmware.
    Smu,
    /// The table for the SMU of MI300X, whose own firmware is in the flash chip ("P2S").
    SmuTableX,
    /// The same for that of MI325X.
    SmuTable3,
    /// The firmware of SDMA engines, the same for all.
    Sdma,
    /// The code of the MECs.
    Mec,
    /// The jump table of the MECs.
    MecJumpTable,
    /// The RLC's firmware.
    Rlc,
    /// Save and restore of the RLC for sleeping graphics: the control list.
    RestoreControl,
    /// Save and restore: the list for the GPM.
    RestoreGpm,
    /// Save and restore: the list for the SRM.
    RestoreSrm,
    /// The PSP's trusted application for XGMI.
    XgmiTa,
}

impl fmt::Display for FirmwarePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fields behind the common header of a file of the PSP.
mod psp {
    /// In a file of version 1: words with version, place and size, one group for each part.
    pub(super) const KEY_DATABASE: usize = 0x38;
    pub(super) const REGISTER_LIST: usize = 0x50;
    pub(super) const SYSTEM_DRIVER_AUX: usize = 0x5c;
    pub(super) const SOS_AUX: usize = 0x68;
    /// In a file of version 2: number of groups.
    pub(super) const COUNT: usize = 0x20;
    /// Where the groups begin in 2.0, and in 2.1, which has one more word.
    pub(super) const GROUPS: [usize; 2] = [0x24, 0x28];
    /// Bytes of a group: part, version, place and size.
    pub(super) const GROUP_BYTES: usize = 16;
    /// More groups than a file can have (amdgpu: UCODE_MAX_PSP_PACKAGING is less).
    pub(super) const MOST: u32 = 64;
    /// Numbers of the parts.
    pub(super) const TYPE_SOS: u32 = 1;
    pub(super) const TYPE_SYSTEM_DRIVER: u32 = 2;
    pub(super) const TYPE_KEY_DATABASE: u32 = 3;
    pub(super) const TYPE_REGISTER_LIST: u32 = 6;
    pub(super) const TYPE_SOC_DRIVER: u32 = 7;
    pub(super) const TYPE_INTERFACE_DRIVER: u32 = 8;
    pub(super) const TYPE_DEBUG_DRIVER: u32 = 9;
    pub(super) const TYPE_RAS_DRIVER: u32 = 10;
}

/// Fields behind the common header of a file of the SMU of version 2.1.
mod smu {
    /// The number of tables, and where the list of them begins.
    pub(super) const COUNT: usize = 0x2c;
    pub(super) const FIRST: usize = 0x30;
    /// Bytes of an entry: the table's id, its place in the file and its size.
    pub(super) const ENTRY_BYTES: u64 = 12;
    /// More tables than a file can have.
    pub(super) const MOST: u32 = 64;
    /// Ids (smu_v13_0_6_ppt.c of amdgpu: P2S_TABLE_ID_X, P2S_TABLE_ID_3).
    pub(super) const TABLE_X: u32 = 0x5032_5358;
    pub(super) const TABLE_3: u32 = 0x5032_5303;
}

/// Fields behind the common header of a file of trusted applications.
mod ta {
    /// In a file of version 1: version, place and size of that for XGMI.
    pub(super) const XGMI: usize = 0x20;
    /// In a file of version 2: the number of groups, and where they begin.
    pub(super) const COUNT: usize = 0x20;
    pub(super) const GROUPS: usize = 0x24;
    /// Bytes of a group: type, version, place and size.
    pub(super) const GROUP_BYTES: usize = 16;
    /// More groups than a file can have.
    pub(super) const MOST: u32 = 64;
    /// The type of that for XGMI.
    pub(super) const TYPE_XGMI: u32 = 2;
}

/// Fields of the MEC's file: its jump table's place in the firmware and length, dwords.
const MEC_JUMP_TABLE_OFFSET: usize = 0x24;
const MEC_JUMP_TABLE_SIZE: usize = 0x28;
/// Fields of the RLC's file from version 2.1 on: size and place in the file of each list.
const RLC_CONTROL_SIZE: usize = 0x74;
const RLC_GPM_SIZE: usize = 0x84;
const RLC_SRM_SIZE: usize = 0x94;

impl FirmwarePart {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyDatabase => "the PSP's key database",
            Self::SystemDriver => "the PSP's system driver",
            Self::SocDriver => "the PSP's driver of the chip",
            Self::InterfaceDriver => "the PSP's driver of interfaces",
            Self::DebugDriver => "the PSP's driver of debuggers",
            Self::RasDriver => "the PSP's driver of error reports",
            Self::SecureOs => "the PSP's secure OS",
            Self::RegisterList => "the register list",
            Self::Smu => "SMU firmware",
            Self::SmuTableX | Self::SmuTable3 => "the SMU's table",
            Self::Sdma => "SDMA firmware",
            Self::Mec => "MEC firmware",
            Self::MecJumpTable => "the MEC's jump table",
            Self::Rlc => "RLC firmware",
            Self::RestoreControl => "the RLC's restore control",
            Self::RestoreGpm => "the RLC's GPM list",
            Self::RestoreSrm => "the RLC's SRM list",
            Self::XgmiTa => "the PSP's application for XGMI",
        }
    }

    /// Whether nothing works without it: the code of a processor. The others are lists, for saving
    /// power and for registers that only the PSP sets, and what tells of links to other GPUs.
    pub const fn is_needed(self) -> bool {
        !matches!(
            self,
            Self::RegisterList
                | Self::RestoreControl
                | Self::RestoreGpm
                | Self::RestoreSrm
                | Self::XgmiTa
        )
    }

    /// The file that it is in.
    pub const fn source(self) -> FirmwareSource {
        match self {
            Self::KeyDatabase
            | Self::SystemDriver
            | Self::SocDriver
            | Self::InterfaceDriver
            | Self::DebugDriver
            | Self::RasDriver
            | Self::SecureOs
            | Self::RegisterList => FirmwareSource::Sos,
            Self::Smu | Self::SmuTableX | Self::SmuTable3 => FirmwareSource::Smc,
            Self::Sdma => FirmwareSource::Sdma,
            Self::Mec | Self::MecJumpTable => FirmwareSource::Mec,
            Self::Rlc | Self::RestoreControl | Self::RestoreGpm | Self::RestoreSrm => {
                FirmwareSource::Rlc
            }
            Self::XgmiTa => FirmwareSource::Ta,
        }
    }

    /// Returns this part of `file`, which is the file of [`FirmwarePart::source`].
    ///
    /// # Errors
    ///
    /// [`FirmwareFileError`] if the file does not have the part, or has something there that is no
    /// image.
    pub fn find<'a>(self, file: &FirmwareFile<'a>) -> Result<FirmwareImage<'a>, FirmwareFileError> {
        let mut version = file.version()?;
        let bytes = match self.source() {
            FirmwareSource::Sos => {
                let (own, bytes) = self.of_psp(file)?;
                version = own;
                bytes
            }
            FirmwareSource::Ta => {
                let (own, bytes) = self.of_ta(file)?;
                version = own;
                bytes
            }
            FirmwareSource::Mec => self.of_mec(file)?,
            FirmwareSource::Rlc => self.of_rlc(file)?,
            FirmwareSource::Smc => self.of_smu(file)?,
            FirmwareSource::Sdma => match file.header()? {
                (1, _) => file.slice(file.ucode()?)?,
                _ => return file.unknown(),
            },
        };
        FirmwareImage::new(self, version, bytes)
    }

    /// The parts for PCI Express (amdgpu: psp_init_sos_base_fw). Parts for GPUs on the CPU's own
    /// links are in the same file.
    fn of_psp<'a>(self, file: &FirmwareFile<'a>) -> Result<(u32, &'a [u8]), FirmwareFileError> {
        match file.header()? {
            (1, 3) => {
                let group = match self {
                    Self::KeyDatabase => psp::KEY_DATABASE,
                    Self::RegisterList => psp::REGISTER_LIST,
                    Self::SystemDriver => psp::SYSTEM_DRIVER_AUX,
                    Self::SecureOs => psp::SOS_AUX,
                    _ => return Err(FirmwareFileError::Missing(self)),
                };
                in_ucode(file, group)
            }
            (2, minor @ 0..=1) => {
                let number = match self {
                    Self::KeyDatabase => psp::TYPE_KEY_DATABASE,
                    Self::RegisterList => psp::TYPE_REGISTER_LIST,
                    Self::SystemDriver => psp::TYPE_SYSTEM_DRIVER,
                    Self::SocDriver => psp::TYPE_SOC_DRIVER,
                    Self::InterfaceDriver => psp::TYPE_INTERFACE_DRIVER,
                    Self::DebugDriver => psp::TYPE_DEBUG_DRIVER,
                    Self::RasDriver => psp::TYPE_RAS_DRIVER,
                    Self::SecureOs => psp::TYPE_SOS,
                    _ => return Err(FirmwareFileError::Missing(self)),
                };
                let first = psp::GROUPS[usize::from(minor)];
                for n in 0..file.word(psp::COUNT)?.min(psp::MOST) {
                    let group = first + n as usize * psp::GROUP_BYTES;
                    if file.word(group)? == number {
                        return in_ucode(file, group + 4);
                    }
                }
                Err(FirmwareFileError::Missing(self))
            }
            _ => file.unknown(),
        }
    }

    /// A file of version 1 has a group for each application, that for XGMI first; one of version 2
    /// has a list (amdgpu: parse_ta_v1_microcode, parse_ta_v2_microcode).
    fn of_ta<'a>(self, file: &FirmwareFile<'a>) -> Result<(u32, &'a [u8]), FirmwareFileError> {
        match file.header()? {
            (1, _) => in_ucode(file, ta::XGMI),
            (2, _) => {
                for n in 0..file.word(ta::COUNT)?.min(ta::MOST) {
                    let group = ta::GROUPS + n as usize * ta::GROUP_BYTES;
                    if file.word(group)? == ta::TYPE_XGMI {
                        return in_ucode(file, group + 4);
                    }
                }
                Err(FirmwareFileError::Missing(self))
            }
            _ => file.unknown(),
        }
    }

    /// A file has the SMU's own firmware, or only tables for it, of which each chip has its own.
    fn of_smu<'a>(self, file: &FirmwareFile<'a>) -> Result<&'a [u8], FirmwareFileError> {
        let table = match (self, file.header()?) {
            (Self::SmuTableX, (2, 1)) => smu::TABLE_X,
            (Self::SmuTable3, (2, 1)) => smu::TABLE_3,
            (Self::Smu, (2, _)) => return file.slice(file.ucode()?),
            _ => return file.unknown(),
        };
        let first = file.word(smu::FIRST)?;
        for n in 0..file.word(smu::COUNT)?.min(smu::MOST) {
            let entry = u64::from(first) + u64::from(n) * smu::ENTRY_BYTES;
            let entry = usize::try_from(entry).map_err(|_| FirmwareFileError::Missing(self))?;
            if file.word(entry)? == table {
                let (start, size) = (file.word(entry + 4)?, file.word(entry + 8)?);
                return file.slice(start.into()..u64::from(start) + u64::from(size));
            }
        }
        Err(FirmwareFileError::Missing(self))
    }

    /// The jump table is the end of the code, and also an image of its own.
    fn of_mec<'a>(self, file: &FirmwareFile<'a>) -> Result<&'a [u8], FirmwareFileError> {
        let (1, _) = file.header()? else {
            return file.unknown();
        };
        let ucode = file.ucode()?;
        let dwords = |at| Ok(u64::from(file.word(at)?) * 4);
        let size = dwords(MEC_JUMP_TABLE_SIZE)?;
        if self == Self::MecJumpTable {
            let start = ucode.start + dwords(MEC_JUMP_TABLE_OFFSET)?;
            return file.slice(start..start + size);
        }
        let length = ucode.end - ucode.start;
        let code = length
            .checked_sub(size)
            .ok_or(FirmwareFileError::Missing(self))?;
        file.slice(ucode.start..ucode.start + code)
    }

    fn of_rlc<'a>(self, file: &FirmwareFile<'a>) -> Result<&'a [u8], FirmwareFileError> {
        let (2, 1..) = file.header()? else {
            return file.unknown();
        };
        let list = |at| {
            let (size, offset) = (file.word(at)?, file.word(at + 4)?);
            file.slice(u64::from(offset)..u64::from(offset) + u64::from(size))
        };
        match self {
            Self::RestoreControl => list(RLC_CONTROL_SIZE),
            Self::RestoreGpm => list(RLC_GPM_SIZE),
            Self::RestoreSrm => list(RLC_SRM_SIZE),
            _ => file.slice(file.ucode()?),
        }
    }
}

/// The part whose version is the word at `at`, with that version. The next two words are its place
/// in the firmware and its size.
fn in_ucode<'a>(file: &FirmwareFile<'a>, at: usize) -> Result<(u32, &'a [u8]), FirmwareFileError> {
    let (offset, size) = (file.word(at + 4)?, file.word(at + 8)?);
    let start = file.ucode()?.start + u64::from(offset);
    Ok((file.word(at)?, file.slice(start..start + u64::from(size))?))
}
