// SPDX-License-Identifier: GPL-2.0
//! SMUIO 13.0: the SMU's information about the package.

use hw::bits::Field;
use hw::ip::IpVersion;

use super::{registers, Register, RegisterWindow};

/// Whether the block has the registers of the voltage regulator and of the flash chip, as 13.0.2
/// does.
pub(crate) fn has_board_registers(smuio: &RegisterWindow) -> bool {
    smuio.version() == IpVersion::new(13, 0, 2)
}

/// Where a version of the block tells about the package.
pub(crate) struct PackagePlaces {
    register: Register,
    /// The number of the die.
    die: Field,
    /// The field, and its value where XGMI connects the die to a CPU.
    cpu_link: (Field, u32),
}

/// Of 13.0.2.
const V13_0_2: PackagePlaces = PackagePlaces {
    register: SMUIO_MCM_CONFIG,
    die: smuio_mcm_config::DIE_ID,
    cpu_link: (smuio_mcm_config::TOPOLOGY_CPU, 1),
};

/// Of 13.0.3.
const V13_0_3: PackagePlaces = PackagePlaces {
    register: SMUIO_MCM_CONFIG_13_0_3,
    die: smuio_mcm_config_13_0_3::DIE_ID,
    cpu_link: (smuio_mcm_config_13_0_3::PKG_TYPE, 2),
};

/// The die's place in its package.
#[derive(Clone, Copy)]
pub(crate) struct DiePlace {
    /// Its number.
    pub(crate) die: u32,
    /// XGMI connects it to the CPU.
    pub(crate) is_on_cpu_link: bool,
}

impl DiePlace {
    /// The place that the block of `smuio` tells.
    pub(crate) fn read(smuio: &RegisterWindow) -> Self {
        let version = smuio.version();
        let places = match (version.major, version.minor, version.rev) {
            (13, 0, 3) => &V13_0_3,
            _ => &V13_0_2,
        };
        let word = smuio.read(places.register);
        let (field, linked) = places.cpu_link;
        Self {
            die: places.die.get(word),
            is_on_cpu_link: field.get(word) == linked,
        }
    }
}

registers! {
    /// Telemetry of the voltage regulator.
    SMUSVI0_TEL_PLANE0 @ 0, 0x4 as smusvi0_tel_plane0 {
        /// Voltage of graphics, as a code.
        SVI0_PLANE0_VDDCOR[24:16]
    };
    /// The flash chip with the card's BIOS: the byte from which ROM_DATA reads.
    ROM_INDEX @ 0, 0xe5;
    /// The dword there; the next read returns the following one.
    ROM_DATA @ 0, 0xe6;
    /// The die's place in the package, of SMUIO 13.0.2.
    SMUIO_MCM_CONFIG @ 0, 0x24 as smuio_mcm_config {
        /// The number of the die.
        DIE_ID[0:0]
        /// It is connected to the CPU by XGMI.
        TOPOLOGY_CPU[10:10]
    };
    /// The same of SMUIO 13.0.3.
    SMUIO_MCM_CONFIG_13_0_3 @ 1, 0x23 as smuio_mcm_config_13_0_3 {
        /// The number of the die.
        DIE_ID[1:0]
        /// The kind of package; 2: a GPU and a CPU.
        PKG_TYPE[3:2]
    };
}
