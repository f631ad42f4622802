// SPDX-License-Identifier: GPL-2.0
//! The BIOS of a card in its flash chip: an option ROM with the tables of an ATOM BIOS. It is only
//! data: nothing of it is executed (amdgpu: amdgpu_bios.c, atom.c, atomfirmware.h). Little-endian.
//! Everything is checked before it is used.

use core::fmt;

use crate::firmware::bytes_at;

/// Bytes from the start that [`length`] needs.
pub const HEADER_BYTES: usize = 60;

/// Bytes in the unit of the image's length.
const UNIT: usize = 512;
/// The first bytes of an option ROM.
const MAGIC: [u8; 2] = [0x55, 0xaa];
/// Bytes of the header of every table: the table's size, and revisions of its format and of its
/// content.
const TABLE_HEADER_BYTES: usize = 4;

/// Offsets in the image.
mod at {
    /// Length of the image, in units.
    pub(super) const LENGTH: usize = 2;
    pub(super) const SIGNATURE: usize = 0x30;
    /// Offset of the header of the tables.
    pub(super) const HEADER: usize = 0x48;
    /// In that header: the signature behind its size, and the offset of the list of data tables.
    pub(super) const ATOM: usize = 4;
    pub(super) const DATA_TABLES: usize = 0x20;
}

/// Owner and kind of the BIOS.
const SIGNATURE: [u8; 10] = *b" 761295520";
const ATOM: [u8; 4] = *b"ATOM";

/// A data table, by its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VbiosTableKind {
    /// The board's part of the SMU's limits (smc_dpm_info).
    Board,
    /// Facts about the BIOS itself (firmwareinfo).
    Firmware,
    /// Power management (powerplayinfo).
    Power,
}

impl VbiosTableKind {
    const fn number(self) -> usize {
        match self {
            Self::Board => 2,
            Self::Firmware => 4,
            Self::Power => 15,
        }
    }
}

impl fmt::Display for VbiosTableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Board => "smc_dpm_info",
            Self::Firmware => "firmwareinfo",
            Self::Power => "powerplayinfo",
        };
        write!(f, "its table {} ({name})", self.number())
    }
}

/// Revisions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRevision {
    /// Revision of its format.
    pub format: u8,
    /// Revision of its content.
    pub content: u8,
}

impl fmt::Display for TableRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.format, self.content)
    }
}

/// A defect of a BIOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VbiosError {
    /// The image is no option ROM of such a card: it begins with these two bytes.
    NoImage([u8; 2]),
    /// Two reads gave different images.
    Unsteady,
    /// The header of the tables is missing or invalid.
    NoTables,
    /// The image does not have this table.
    Missing(VbiosTableKind),
    /// The table is not completely inside the image.
    Outside(VbiosTableKind),
    /// An unknown revision of a table.
    Revision(VbiosTableKind, TableRevision),
    /// A table has `bytes`, fewer than `least`.
    Short {
        /// The table.
        kind: VbiosTableKind,
        /// Its bytes.
        bytes: usize,
        /// The least number of bytes that are needed.
        least: usize,
    },
    /// Its table of limits is not for this board. The board's table has this number and is
    /// elsewhere.
    Elsewhere(u32),
    /// A limit is not sane.
    Limit {
        /// Its name in the SMU's interface.
        name: &'static str,
        /// Its value.
        value: u16,
    },
}

impl fmt::Display for VbiosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoImage([a, b]) => write!(f, "there is none: it begins with {a:02x} {b:02x}"),
            Self::Unsteady => f.write_str("it reads as something else the second time"),
            Self::NoTables => f.write_str("it has no tables"),
            Self::Missing(kind) => write!(f, "{kind} is missing"),
            Self::Outside(kind) => write!(f, "{kind} is not all in it"),
            Self::Revision(kind, revision) => write!(f, "{kind} is of revision {revision}"),
            Self::Short { kind, bytes, least } => {
                write!(f, "{kind} has {bytes} bytes, not {least}")
            }
            Self::Elsewhere(number) => write!(f, "it wants table {number:#x} of another place"),
            Self::Limit { name, value } => write!(f, "{name} is {value}, which is not sane"),
        }
    }
}

/// Reads the offset at `at`, if it is inside the image.
fn place_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes_at(bytes, at).map(|half| u16::from_le_bytes(half).into())
}

/// Returns the number of bytes of the image that begins with `head`, which has [`HEADER_BYTES`] or
/// more.
///
/// # Errors
///
/// [`VbiosError::NoImage`].
pub fn length(head: &[u8]) -> Result<usize, VbiosError> {
    let begin = bytes_at(head, 0).unwrap_or_default();
    let units = head.get(at::LENGTH).copied().map_or(0, usize::from);
    let is_ours = bytes_at(head, at::SIGNATURE) == Some(SIGNATURE);
    if begin == MAGIC && is_ours && units > 0 {
        Ok(units * UNIT)
    } else {
        Err(VbiosError::NoImage(begin))
    }
}

/// An image with the header of its tables.
#[derive(Clone, Copy, Debug)]
pub struct Vbios<'a> {
    bytes: &'a [u8],
    /// Offset of the list of data tables.
    list: usize,
}

impl<'a> Vbios<'a> {
    /// Returns the image in `bytes`; bytes beyond the image's own length are ignored.
    ///
    /// # Errors
    ///
    /// [`VbiosError`] if the image is not complete, or has no tables.
    pub fn new(bytes: &'a [u8]) -> Result<Self, VbiosError> {
        let length = length(bytes)?;
        let image = bytes.get(..length).ok_or(VbiosError::NoTables)?;
        let list = || {
            let header = place_at(image, at::HEADER)?;
            let rest = image.get(header..)?;
            if bytes_at(rest, at::ATOM)? != ATOM {
                return None;
            }
            place_at(rest, at::DATA_TABLES).filter(|list| *list != 0)
        };
        Ok(Self {
            bytes: image,
            list: list().ok_or(VbiosError::NoTables)?,
        })
    }

    /// Returns the data table `kind`.
    ///
    /// # Errors
    ///
    /// [`VbiosError`] if the table is missing or not complete.
    pub fn table(&self, kind: VbiosTableKind) -> Result<VbiosTable<'a>, VbiosError> {
        let list = self.bytes.get(self.list..).ok_or(VbiosError::NoTables)?;
        let length = place_at(list, 0).ok_or(VbiosError::NoTables)?;
        // A list that is too short for `kind` does not have the table.
        let list = list.get(..length).ok_or(VbiosError::NoTables)?;
        let entry = TABLE_HEADER_BYTES + 2 * kind.number();
        let at = place_at(list, entry).filter(|at| *at != 0);
        let at = at.ok_or(VbiosError::Missing(kind))?;
        let table = || {
            let rest = self.bytes.get(at..)?;
            let [low, high, format, content] = bytes_at(rest, 0)?;
            let bytes = rest.get(..u16::from_le_bytes([low, high]).into())?;
            Some(VbiosTable {
                kind,
                revision: TableRevision { format, content },
                bytes,
            })
        };
        table().ok_or(VbiosError::Outside(kind))
    }
}

/// A data table that is completely inside the image.
#[derive(Clone, Copy, Debug)]
pub struct VbiosTable<'a> {
    kind: VbiosTableKind,
    /// The revisions in its header.
    pub revision: TableRevision,
    bytes: &'a [u8],
}

impl<'a> VbiosTable<'a> {
    /// The whole table with its header.
    ///
    /// # Errors
    ///
    /// [`VbiosError::Short`] if it has fewer than `least` bytes.
    pub fn with(&self, least: usize) -> Result<&'a [u8], VbiosError> {
        if self.bytes.len() < least {
            return Err(VbiosError::Short {
                kind: self.kind,
                bytes: self.bytes.len(),
                least,
            });
        }
        Ok(self.bytes)
    }

    /// The `N` bytes at `at`.
    ///
    /// # Errors
    ///
    /// [`VbiosError::Short`] if they are not all in the table.
    pub fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], VbiosError> {
        let least = at.saturating_add(N);
        bytes_at(self.with(least)?, at).ok_or(VbiosError::Outside(self.kind))
    }

    /// Returns the error for an unknown revision of the table.
    pub fn unknown(&self) -> VbiosError {
        VbiosError::Revision(self.kind, self.revision)
    }
}
