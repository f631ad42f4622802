// SPDX-License-Identifier: GPL-2.0
//! SMUIO 13.0: what the SMU knows of the package.

use super::registers;

registers! {
    /// What the voltage regulator says.
    SMUSVI0_TEL_PLANE0 @ 0, 0x4 as smusvi0_tel_plane0 {
        /// Voltage of graphics, as a code.
        SVI0_PLANE0_VDDCOR[24:16]
    };
    /// The flash chip with the card's BIOS: from which byte on ROM_DATA reads.
    ROM_INDEX @ 0, 0xe5;
    /// The dword there; the next read has the next.
    ROM_DATA @ 0, 0xe6;
    /// Where in the package the die is.
    SMUIO_MCM_CONFIG @ 0, 0x24 as smuio_mcm_config {
        /// Which die.
        DIE_ID[0:0]
        /// It is joined to the CPU by XGMI.
        TOPOLOGY_CPU[10:10]
    };
}
