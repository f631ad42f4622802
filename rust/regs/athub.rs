// SPDX-License-Identifier: GPL-2.0
//! ATHUB 9.4.2: which process a VMID belongs to.

use super::registers;

registers! {
    /// A bit for each mapping that has taken effect; cleared by writing it back.
    ATC_VMID_PASID_MAPPING_UPDATE_STATUS @ 0, 0xb;
    /// VMID 0's process for GFXHUB's clients; the others follow, one dword each.
    ATC_VMID0_PASID_MAPPING @ 0, 0xc as atc_vmid0_pasid_mapping {
        /// The process.
        PASID[15:0]
        /// There is one.
        VALID[31:31]
    };
    /// The same for MMHUB's clients.
    ATC_VMID16_PASID_MAPPING @ 0, 0x3d;
}
