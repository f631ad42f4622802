// SPDX-License-Identifier: GPL-2.0
//! Defects of a discovery table.

use core::fmt;

/// A part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryPart {
    /// All of it.
    Whole,
    /// The list of blocks.
    Blocks,
    /// Figures of GC.
    Gc,
    /// The list of instances that are fused off.
    Harvest,
}

impl fmt::Display for DiscoveryPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "it",
            Self::Blocks => "its list of blocks",
            Self::Gc => "its GC table",
            Self::Harvest => "its harvest table",
        })
    }
}

/// A defect of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryError {
    /// A part begins with `found`, which is not its signature.
    Signature {
        /// The part.
        part: DiscoveryPart,
        /// Its first word.
        found: u32,
    },
    /// A part has an unknown version, major and minor.
    Version(DiscoveryPart, (u16, u16)),
    /// A part is not all in the bytes that hold it.
    Outside(DiscoveryPart),
    /// The bytes of a part have another sum than the table says.
    Checksum {
        /// The part.
        part: DiscoveryPart,
        /// The sum of its bytes.
        sum: u16,
        /// The sum that the table says.
        said: u16,
    },
    /// A part is missing.
    Missing(DiscoveryPart),
    /// It has no die, or more dies than its list of them has room for.
    Dies(u16),
    /// Die `index` of the list says that it is another one.
    Die {
        /// Its place in the list.
        index: u16,
        /// Its number.
        id: u16,
    },
    /// An instance of a block is listed twice, or has too high a number.
    Instance {
        /// The block's hardware id.
        id: u16,
        /// The instance.
        number: u8,
    },
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature { part, found } => write!(f, "{part} begins with {found:#010x}"),
            Self::Version(part, (major, minor)) => {
                write!(f, "{part} is of unknown version {major}.{minor}")
            }
            Self::Outside(part) => write!(f, "{part} is not all there"),
            Self::Checksum { part, sum, said } => {
                write!(
                    f,
                    "{part} is damaged: its bytes sum up to {sum:#06x}, not {said:#06x}"
                )
            }
            Self::Missing(part) => write!(f, "{part} is missing"),
            Self::Dies(count) => write!(f, "it has {count} dies"),
            Self::Die { index, id } => write!(f, "die {index} of its list is die {id}"),
            Self::Instance { id, number } => {
                write!(f, "instance {number} of block {id} is one too many")
            }
        }
    }
}
