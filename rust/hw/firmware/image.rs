// SPDX-License-Identifier: GPL-2.0
//! A signed image, as the PSP takes it: the part of a file, checked as far as its own header allows. Whether its signature is right only
//! the PSP knows.

use super::bytes_at;
use super::file::FirmwareFileError;
use super::part::FirmwarePart;

/// Bytes of the header that a signed image begins with.
const HEADER_BYTES: usize = 0x100;
/// Where in it "$PS1" is, and where the bytes of the whole image.
const MAGIC_AT: usize = 0x10;
const TOTAL_AT: usize = 0x6c;
/// "$PS1".
const MAGIC: u32 = 0x3153_5024;

/// Most bytes of an image: the memory in which the PSP is handed one over. The bootloader's is that large (amdgpu: PSP_1_MEG), and no image
/// for other parts comes near it.
pub const MOST_BYTES: usize = 1 << 20;

/// An image that is what its header says.
#[derive(Clone, Copy, Debug)]
pub struct FirmwareImage<'a> {
    /// What it is.
    pub part: FirmwarePart,
    /// Its version, as its file tells.
    pub version: u32,
    /// All of it.
    pub bytes: &'a [u8],
}

impl<'a> FirmwareImage<'a> {
    /// The image of `part`, of `version`, in `bytes`; [`FirmwareFileError`] if it is none, or larger than [`MOST_BYTES`].
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
