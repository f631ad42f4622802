// SPDX-License-Identifier: GPL-2.0
//! Versions of blocks that the driver knows. The HAL of a block is chosen by its version; blocks
//! without a HAL have their versions in a table here.

use kernel::device::Device;
use kernel::prelude::*;

use hw::ip::{IpBlock, IpTable, IpVersion};

/// The versions that the driver knows of each block that has no HAL: their registers are as in
/// [`crate::regs`]. GC, MMHUB and NBIO are not here, as their HALs refuse versions.
const KNOWN_VERSIONS: [(IpBlock, &str, &[IpVersion]); 7] = [
    (
        IpBlock::Osssys,
        "OSSSYS",
        &[IpVersion::new(4, 4, 0), IpVersion::new(4, 4, 2)],
    ),
    (
        IpBlock::Athub,
        "ATHUB",
        &[IpVersion::new(9, 4, 2), IpVersion::new(1, 8, 0)],
    ),
    (
        IpBlock::Hdp,
        "HDP",
        &[IpVersion::new(4, 4, 0), IpVersion::new(4, 4, 2)],
    ),
    (
        IpBlock::Sdma,
        "SDMA",
        &[IpVersion::new(4, 4, 0), IpVersion::new(4, 4, 2)],
    ),
    (
        IpBlock::Mp,
        "MP",
        &[IpVersion::new(13, 0, 2), IpVersion::new(13, 0, 6)],
    ),
    (
        IpBlock::Smuio,
        "SMUIO",
        &[IpVersion::new(13, 0, 2), IpVersion::new(13, 0, 3)],
    ),
    (
        IpBlock::Df,
        "DF",
        &[IpVersion::new(3, 6, 0), IpVersion::new(4, 6, 2)],
    ),
];

/// Checks the blocks without a HAL, every instance of them. Reads and writes no register.
///
/// # Errors
///
/// `ENODEV` for a version that the driver does not know, which the log says.
pub(super) fn check_known(dev: &Device, ips: IpTable<'_>) -> Result {
    for (block, name, known) in KNOWN_VERSIONS {
        if let Some(other) = ips.of(block).find(|ip| !known.contains(&ip.version)) {
            return Err(refuse(dev, name, other.version));
        }
    }
    Ok(())
}

/// Says in the log that `version` of `block` is unknown, and gives the error for it: `ENODEV`.
pub(super) fn refuse(dev: &Device, block: &str, version: IpVersion) -> Error {
    dev_err!(
        dev,
        "{block} {} is not known to this driver\n",
        format_args!("{version}")
    );
    ENODEV
}
