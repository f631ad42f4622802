// SPDX-License-Identifier: GPL-2.0
//! What PSPs of different versions take. Sources: amdgpu, psp_v13_0.c, amdgpu_psp.c and psp_gfx_if.h;
//! the vendor's files.

use super::bootloader::Part;

/// A version of the PSP.
#[derive(Debug)]
pub struct Version {
    /// The version of a secure OS that another party has loaded.
    pub loaded: u32,
    /// The parts that its bootloader takes, in their order.
    pub parts: &'static [Part],
    /// The types of firmware that the secure OS takes.
    pub types: &'static [u32],
    /// Its memory is set apart before a driver comes: SETUP_TMR names none.
    pub has_memory: bool,
    /// The secure OS takes the number of partitions of the compute engines.
    pub partitions: bool,
    /// It halts RLCs and SDMA engines to load their firmware, and starts them then: amdgpu does not
    /// (gfx_v9_4_3_xcc_rlc_resume, sdma_v4_4_2_inst_enable). The MECs are the driver's to start.
    pub starts_engines: bool,
}

/// MI200's.
pub static V13_0_2: Version = Version {
    loaded: 0x0027_0085,
    parts: &[Part::KeyDatabase, Part::SysDriver, Part::SecureOs],
    types: &[4, 5, 8, 9, 10, 18, 20, 21, 22, 52, 53, 54, 67],
    has_memory: false,
    partitions: false,
    starts_engines: false,
};

/// MI300X's, with the engines of one AID. The SMU's own firmware is in the flash chip.
pub static V13_0_6: Version = Version {
    loaded: 0x0036_0256,
    parts: &[
        Part::KeyDatabase,
        Part::SysDriver,
        Part::SocDriver,
        Part::InterfaceDriver,
        Part::DebugDriver,
        Part::RasDriver,
        Part::SecureOs,
    ],
    types: &[4, 5, 8, 9, 10, 20, 21, 22, 52, 53, 67, 129],
    has_memory: true,
    partitions: true,
    starts_engines: true,
};
