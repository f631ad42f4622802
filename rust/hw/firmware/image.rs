// SPDX-License-Identifier: GPL-2.0
//! A signed image in the PSP's form: the part of a file, checked as far as its own header allows.
//! Only the PSP can check the signature.

use super::bytes_at;
use super::file::FirmwareFileError;
use super::part::FirmwarePart;

/// Bytes of the header that a signed image begins with.
const HEADER_BYTES: usize = 0x100;
/// Offsets in the header: of "$PS1", and of the number of bytes of the whole image.
const MAGIC_AT: usize = 0x10;
const TOTAL_AT: usize = 0x6c;
/// "$PS1".
const MAGIC: u32 = 0x3153_5024;

/// Most bytes of an image: the size of the memory in which the PSP receives one. The bootloader's
/// memory is that large (amdgpu: PSP_1_MEG), and no image for other parts comes near it.
pub const MOST_BYTES: usize = 1 << 20;

/// An image that agrees with its header.
#[derive(Clone, Copy, Debug)]
pub struct FirmwareImage<'a> {
    /// The part of the firmware.
    pub part: FirmwarePart,
    /// Its version according to its file.
    pub version: u32,
    /// All of the image.
    pub bytes: &'a [u8],
}

impl<'a> FirmwareImage<'a> {
    /// Returns the image of `part`, of `version`, in `bytes`.
    ///
    /// # Errors
    ///
    /// [`FirmwareFileError`] if it is no image, or larger than [`MOST_BYTES`].
    pub fn new(
        part: FirmwarePart,
        version: u32,
        bytes: &'a [u8],
    ) -> Result<Self, FirmwareFileError> {
        if bytes.is_empty() {
            return Err(FirmwareFileError::Missing(part));
        }
        if bytes.len() < HEADER_BYTES || word(bytes, MAGIC_AT) != Some(MAGIC) {
            return Err(FirmwareFileError::Unsigned(part));
        }
        let says = word(bytes, TOTAL_AT).unwrap_or(0);
        if usize::try_from(says) != Ok(bytes.len()) {
            let bytes = bytes.len();
            return Err(FirmwareFileError::ImageLength { part, says, bytes });
        }
        if bytes.len() > MOST_BYTES {
            let bytes = bytes.len();
            return Err(FirmwareFileError::Large { part, bytes });
        }
        Ok(Self {
            part,
            version,
            bytes,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}
