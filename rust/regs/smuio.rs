// SPDX-License-Identifier: GPL-2.0
//! SMUIO 13.0: what the SMU knows of the package.

use super::registers;

registers! {
    /// Where in the package the die is.
    SMUIO_MCM_CONFIG @ 0, 0x24 as smuio_mcm_config {
        /// Which die.
        DIE_ID[0:0]
        /// It is joined to the CPU by XGMI.
        TOPOLOGY_CPU[10:10]
    };
}
