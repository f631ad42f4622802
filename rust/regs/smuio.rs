// SPDX-License-Identifier: GPL-2.0
//! SMUIO 13.0: the SMU's information about the package.

use super::registers;

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
    /// The die's place in the package.
    SMUIO_MCM_CONFIG @ 0, 0x24 as smuio_mcm_config {
        /// The number of the die.
        DIE_ID[0:0]
        /// It is connected to the CPU by XGMI.
        TOPOLOGY_CPU[10:10]
    };
}
