// SPDX-License-Identifier: GPL-2.0
//! ATHUB 9.4.2: the mapping from VMIDs to processes.

use super::registers;

registers! {
    /// A bit for each mapping that has taken effect; cleared by writing it back.
    ATC_VMID_PASID_MAPPING_UPDATE_STATUS @ 0, 0xb;
    /// The process of VMID 0 for GFXHUB's clients; the others follow, one dword each.
    ATC_VMID0_PASID_MAPPING @ 0, 0xc as atc_vmid0_pasid_mapping {
        /// The process.
        PASID[15:0]
        /// The mapping is valid.
        VALID[31:31]
    };
    /// The same for MMHUB's clients.
    ATC_VMID16_PASID_MAPPING @ 0, 0x3d;
}
