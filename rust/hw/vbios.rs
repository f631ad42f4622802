// SPDX-License-Identifier: GPL-2.0
//! The BIOS of a card, as its flash chip has it: an option ROM with the tables of an ATOM BIOS. It is data here: nothing of it is executed
//! (amdgpu: amdgpu_bios.c, atom.c, atomfirmware.h). Little-endian; nothing of it is believed before it is checked.

use core::fmt;

use crate::firmware::bytes_at;

/// Bytes from the start in which [`length`] finds what it looks for.
pub const HEADER_BYTES: usize = 60;

/// Bytes in the unit of the image's length.
const UNIT: usize = 512;
/// What an option ROM begins with.
const MAGIC: [u8; 2] = [0x55, 0xaa];
/// Bytes that every table begins with: its bytes, and revisions of its format and of its content.
const TABLE_HEADER_BYTES: usize = 4;

/// Places.
mod at {
    /// How many units the image has.
    pub(super) const LENGTH: usize = 2;
    pub(super) const SIGNATURE: usize = 0x30;
    /// Where the header of the tables is.
    pub(super) const HEADER: usize = 0x48;
    /// In that: what it begins with behind its size, and where the list of data tables is.
    pub(super) const ATOM: usize = 4;
    pub(super) const DATA_TABLES: usize = 0x20;
}

/// Whose BIOS it is, and which kind of.
const SIGNATURE: [u8; 10] = *b" 761295520";
const ATOM: [u8; 4] = *b"ATOM";

/// A data table, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VbiosTableKind {
    /// What the board adds to the SMU's limits (smc_dpm_info).
    Board,
    /// What the BIOS says of itself (firmwareinfo).
    Firmware,
    /// Of power management (powerplayinfo).
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
    /// Of its format.
    pub format: u8,
    /// Of what is in it.
    pub content: u8,
}

impl fmt::Display for TableRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.format, self.content)
    }
}

/// What is wrong with a BIOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VbiosError {
    /// It is no option ROM of such a card: it begins with these two bytes.
    NoImage([u8; 2]),
    /// Reading it twice gave two images.
    Unsteady,
    /// The header of its tables is not in it, or is none.
    NoTables,
    /// There is no such table in it.
    Missing(VbiosTableKind),
    /// There is, and it does not lie in it as a whole.
    Outside(VbiosTableKind),
    /// A revision that is not known.
    Revision(VbiosTableKind, TableRevision),
    /// A table has `bytes`, fewer than `least`.
    Short {
        /// Which.
        kind: VbiosTableKind,
        /// What it has.
        bytes: usize,
        /// What it has to have.
        least: usize,
    },
    /// Its table of limits is not the one for this board, but that of this number, which is elsewhere.
    Elsewhere(u32),
    /// A limit is not what is sane.
    Limit {
        /// By its name in the SMU's interface.
        name: &'static str,
        /// What it is.
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

/// A place in the image that is in it, as it says.
fn place_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes_at(bytes, at).map(|half| u16::from_le_bytes(half).into())
}

/// How many bytes the image has that begins with `head`, [`HEADER_BYTES`] or more. [`VbiosError::NoImage`].
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
    /// Where the list of data tables is.
    list: usize,
}

impl<'a> Vbios<'a> {
    /// The image that is `bytes`, of which nothing counts behind its own length. [`VbiosError`] if it is not all there, or has no tables.
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

    /// The data table `kind`. [`VbiosError`] if there is none, or not all of it.
    pub fn table(&self, kind: VbiosTableKind) -> Result<VbiosTable<'a>, VbiosError> {
        let list = self.bytes.get(self.list..).ok_or(VbiosError::NoTables)?;
        let length = place_at(list, 0).ok_or(VbiosError::NoTables)?;
        // The list may be shorter than that, and then has no such table.
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

/// A data table, which is all in the image.
#[derive(Clone, Copy, Debug)]
pub struct VbiosTable<'a> {
    kind: VbiosTableKind,
    /// What its header says.
    pub revision: TableRevision,
    bytes: &'a [u8],
}

impl<'a> VbiosTable<'a> {
    /// All of it, with its header. [`VbiosError::Short`] if that is less than `least` bytes.
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

    /// The `N` bytes at `at`. [`VbiosError::Short`] if they are not all in it.
    pub fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], VbiosError> {
        let least = at.saturating_add(N);
        bytes_at(self.with(least)?, at).ok_or(VbiosError::Outside(self.kind))
    }

    /// That its revision is not known.
    pub fn unknown(&self) -> VbiosError {
        VbiosError::Revision(self.kind, self.revision)
    }
}
