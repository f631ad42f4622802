// SPDX-License-Identifier: GPL-2.0
//! Versions of blocks by which HALs are chosen.

use kernel::device::Device;
use kernel::prelude::*;

use hw::ip::IpVersion;

/// Says in the log that `version` of `block` is unknown, and gives the error for it: `ENODEV`.
pub(super) fn refuse(dev: &Device, block: &str, version: IpVersion) -> Error {
    dev_err!(
        dev,
        "{block} {} is not known to this driver\n",
        format_args!("{version}")
    );
    ENODEV
}
