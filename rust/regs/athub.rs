// SPDX-License-Identifier: GPL-2.0
//! ATHUB: the mapping from VMIDs to processes.

use hw::ip::IpVersion;

use super::{registers, Register};

/// Registers that other versions have elsewhere.
pub(crate) struct MappingPlaces {
    /// [`ATC_VMID_PASID_MAPPING_UPDATE_STATUS`].
    pub(crate) status: Register,
    /// [`ATC_VMID0_PASID_MAPPING`].
    pub(crate) first: Register,
    /// [`ATC_VMID16_PASID_MAPPING`], where MMHUB's clients have mappings of their own.
    pub(crate) first_of_mmhub: Option<Register>,
}

/// Of 9.4.2.
const V9_4_2: MappingPlaces = MappingPlaces {
    status: ATC_VMID_PASID_MAPPING_UPDATE_STATUS,
    first: ATC_VMID0_PASID_MAPPING,
    first_of_mmhub: Some(ATC_VMID16_PASID_MAPPING),
};

/// Of 1.8.0.
const V1_8_0: MappingPlaces = MappingPlaces {
    status: Register::new(0, 0x3e),
    first: Register::new(0, 0x3f),
    first_of_mmhub: None,
};

impl MappingPlaces {
    /// Those of a block of `version`, which the driver knows.
    pub(crate) fn of(version: IpVersion) -> &'static Self {
        match (version.major, version.minor, version.rev) {
            (1, 8, 0) => &V1_8_0,
            _ => &V9_4_2,
        }
    }
}

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
