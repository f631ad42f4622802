// SPDX-License-Identifier: GPL-2.0
//! A firmware file: the header that all files begin with, and words behind it. Little-endian.
//! Everything is checked before it is used.

use core::fmt;
use core::ops::Range;

use super::bytes_at;
use super::part::FirmwarePart;

/// Bytes of the header that all files begin with (`common_firmware_header`).
const COMMON_BYTES: usize = 32;

/// Offsets of the header's fields.
mod at {
    pub(super) const SIZE: usize = 0x0;
    pub(super) const HEADER_SIZE: usize = 0x4;
    pub(super) const HEADER_MAJOR: usize = 0x8;
    pub(super) const HEADER_MINOR: usize = 0xa;
    pub(super) const VERSION: usize = 0x10;
    pub(super) const UCODE_SIZE: usize = 0x14;
    pub(super) const UCODE_OFFSET: usize = 0x18;
}

/// A defect of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareFileError {
    /// The file ends before byte `end` of a part that must be in it; it has `bytes`.
    Cut {
        /// Where that part ends.
        end: u64,
        /// Bytes of the file.
        bytes: usize,
    },
    /// The file has `bytes` bytes, but its header says `says`.
    Length {
        /// Bytes according to the header.
        says: u32,
        /// Bytes of the file.
        bytes: usize,
    },
    /// A version of the header that is not known.
    Header {
        /// Major.
        major: u16,
        /// Minor.
        minor: u16,
    },
    /// A required part is not in the file.
    Missing(FirmwarePart),
    /// The part does not begin like a signed image.
    Unsigned(FirmwarePart),
    /// The part has `bytes` bytes, but its own header says `says`.
    ImageLength {
        /// The part.
        part: FirmwarePart,
        /// Bytes according to its header.
        says: u32,
        /// Bytes of the part.
        bytes: usize,
    },
    /// The part is larger than `most` bytes, the memory in which it is passed on.
    Large {
        /// The part.
        part: FirmwarePart,
        /// Its bytes.
        bytes: usize,
    },
}

impl fmt::Display for FirmwareFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { end, bytes } => {
                write!(
                    f,
                    "it has {bytes} bytes, and something in it reaches to {end}"
                )
            }
            Self::Length { says, bytes } => {
                write!(f, "it has {bytes} bytes, and its header says {says}")
            }
            Self::Header { major, minor } => write!(f, "unknown header version {major}.{minor}"),
            Self::Missing(part) => write!(f, "it has no {part}"),
            Self::Unsigned(part) => write!(f, "{part} is no signed image"),
            Self::ImageLength { part, says, bytes } => {
                write!(f, "{part} has {bytes} bytes, and its header says {says}")
            }
            Self::Large { part, bytes } => write!(f, "{part} is too large: {bytes} bytes"),
        }
    }
}

/// A file whose length is that in its header.
#[derive(Clone, Copy, Debug)]
pub struct FirmwareFile<'a> {
    bytes: &'a [u8],
}

impl<'a> FirmwareFile<'a> {
    /// Returns the file with these contents.
    ///
    /// # Errors
    ///
    /// [`FirmwareFileError`] if its header and its length do not agree.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FirmwareFileError> {
        let file = Self { bytes };
        file.slice(0..COMMON_BYTES as u64)?;
        let says = file.word(at::SIZE)?;
        if usize::try_from(says) != Ok(bytes.len()) {
            return Err(FirmwareFileError::Length {
                says,
                bytes: bytes.len(),
            });
        }
        let header = file.word(at::HEADER_SIZE)?;
        file.slice(0..header.into())?;
        Ok(file)
    }

    /// Version of the header: major and minor.
    pub fn header(&self) -> Result<(u16, u16), FirmwareFileError> {
        Ok((self.half(at::HEADER_MAJOR)?, self.half(at::HEADER_MINOR)?))
    }

    /// Returns [`FirmwareFileError::Header`], for code that does not know this version of the
    /// header.
    pub(super) fn unknown<T>(&self) -> Result<T, FirmwareFileError> {
        let (major, minor) = self.header()?;
        Err(FirmwareFileError::Header { major, minor })
    }

    /// Version of the firmware.
    pub fn version(&self) -> Result<u32, FirmwareFileError> {
        self.word(at::VERSION)
    }

    /// The range of the firmware itself, bytes in the file.
    pub(super) fn ucode(&self) -> Result<Range<u64>, FirmwareFileError> {
        let start = u64::from(self.word(at::UCODE_OFFSET)?);
        Ok(start..start + u64::from(self.word(at::UCODE_SIZE)?))
    }

    /// The word at `at`.
    pub(super) fn word(&self, at: usize) -> Result<u32, FirmwareFileError> {
        self.at(at).map(u32::from_le_bytes)
    }

    fn half(&self, at: usize) -> Result<u16, FirmwareFileError> {
        self.at(at).map(u16::from_le_bytes)
    }

    fn at<const N: usize>(&self, at: usize) -> Result<[u8; N], FirmwareFileError> {
        bytes_at(self.bytes, at).ok_or(FirmwareFileError::Cut {
            end: at as u64 + N as u64,
            bytes: self.bytes.len(),
        })
    }

    /// The bytes of `range`.
    ///
    /// # Errors
    ///
    /// [`FirmwareFileError::Cut`] if the file is too short.
    pub(super) fn slice(&self, range: Range<u64>) -> Result<&'a [u8], FirmwareFileError> {
        let cut = FirmwareFileError::Cut {
            end: range.end,
            bytes: self.bytes.len(),
        };
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let (Ok(start), Ok(end)) = (start, end) else {
            return Err(cut);
        };
        self.bytes.get(start..end).ok_or(cut)
    }
}
