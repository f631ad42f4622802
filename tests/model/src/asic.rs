// SPDX-License-Identifier: GPL-2.0
//! The chips that the model can be, and what tells them apart. A block that differs asks for the
//! fact, not for the chip.

use rkfd_shader::isa::Isa;

use crate::discovery::{self, Table};
use crate::psp::version::{self, Version};
use crate::regs::{self, Row};
use crate::smu::Interface;
use crate::sq::{self, Shape};

/// How doorbells are routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranges {
    /// By BIF_SDMAn_DOORBELL_RANGE and BIF_IH_DOORBELL_RANGE, as NBIO 7.4 does.
    Bif,
    /// By DOORBELL0_CTRL_ENTRY_n and S2A_DOORBELL_ENTRY_n_CTRL in the fabric, as NBIO 7.9 does.
    Fabric,
}

/// Versions of firmware.
#[derive(Debug, Clone, Copy)]
pub struct Firmware {
    /// What a driver before, or the board, has loaded into the MECs.
    pub mec: u32,
    /// The same for the SDMA engines.
    pub sdma: u32,
    /// The first version of the MECs' that runs a cleaner shader.
    pub cleans: u32,
    /// The first version of the MECs' that can chain processes with XNACK on and off in one list.
    pub chains_xnack: u32,
}

/// A chip, as the board has it.
#[derive(Debug)]
pub struct Asic {
    /// Its name on the command line.
    pub name: &'static str,
    /// PCI device id.
    pub device: u16,
    /// PCI class and revision.
    pub class: u32,
    /// PCI subsystem's device id; the vendor is AMD.
    pub subsystem: u16,
    /// PCI device id of the virtual function.
    pub virtual_function: u16,
    /// VRAM of such a board, MiB.
    pub vram: u64,
    /// Its registers in BAR5.
    pub registers: &'static [Row],
    /// First dword of each SDMA engine's registers.
    pub sdma: &'static [u32],
    /// The way of doorbells.
    pub ranges: Ranges,
    /// The generation of the shader core.
    pub isa: Isa,
    /// The shader engines of an XCC.
    pub shape: Shape,
    /// Interrupt vectors name the node that they come from, and each node has a table of PASIDs.
    pub has_nodes: bool,
    /// Leaves in VRAM may snoop the CPU's caches.
    pub vram_snoops: bool,
    /// An AQL queue, too, has its read pointer reported: by the first of the XCCs that serve it
    /// (CP_HQD_PQ_CONTROL.NO_UPDATE_RPTR; amdgpu, init_mqd_v9_4_3).
    pub reports_aql: bool,
    /// Its SMU.
    pub smu: Interface,
    /// Its PSP.
    pub psp: &'static Version,
    /// Its firmware.
    pub firmware: Firmware,
    /// The IP discovery table, in VRAM.
    pub discovery: Option<&'static Table>,
}

/// MI210: Aldebaran with one die.
pub static GFX90A: Asic = Asic {
    name: "gfx90a",
    device: 0x740f,
    class: 0x0380_0002,
    subsystem: 0x0c34,
    virtual_function: 0x7410,
    // Its firmware keeps the last 16 MiB of 64 GiB.
    vram: 65_520,
    registers: regs::GFX90A,
    sdma: &regs::SDMA_BASE,
    ranges: Ranges::Bif,
    isa: Isa::Gfx90a,
    shape: sq::ALDEBARAN,
    has_nodes: false,
    vram_snoops: false,
    reports_aql: false,
    smu: Interface::V13_0_2,
    psp: &version::V13_0_2,
    // amdgpu: gfx_v9_0_sw_init, gfx_v9_4_2_init_sq.
    firmware: Firmware {
        mec: 0x44,
        sdma: 8,
        cleans: 88,
        chains_xnack: 98,
    },
    discovery: None,
};

/// MI300X, of which there is one XCC and one AID. Sources of the PCI function: public listings.
pub static GFX942: Asic = Asic {
    name: "gfx942",
    device: 0x74a1,
    class: 0x1200_0000,
    subsystem: 0x74a1,
    virtual_function: 0x74b5,
    vram: 196_592,
    registers: regs::GFX942,
    sdma: &[0x1260, 0x1860, 0x1_9400, 0x1_9800],
    ranges: Ranges::Fabric,
    isa: Isa::Gfx942,
    shape: sq::XCC,
    has_nodes: true,
    vram_snoops: true,
    reports_aql: true,
    smu: Interface::V13_0_6,
    psp: &version::V13_0_6,
    // As in linux-firmware of 2026, but for the MEC's 194: from 177 on ROCr expects that the CP
    // reclaims scratch, which this one does not.
    // amdgpu: gfx_v9_4_3_sw_init, gfx_v9_4_3_xcc_init_sq.
    firmware: Firmware {
        mec: 176,
        sdma: 27,
        cleans: 153,
        chains_xnack: 184,
    },
    discovery: Some(&discovery::GFX942),
};

impl Asic {
    /// The names of [`Asic::named`].
    pub const NAMES: &str = "gfx90a, gfx942";

    /// The chip of that name.
    pub fn named(name: &str) -> Result<&'static Asic, String> {
        let found = [&GFX90A, &GFX942].into_iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("{name}: none of {}", Asic::NAMES))
    }
}

impl Default for &'static Asic {
    fn default() -> &'static Asic {
        &GFX90A
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        for name in Asic::NAMES.split(", ") {
            assert_eq!(Asic::named(name).unwrap().name, name);
        }
        assert!(Asic::named("gfx950").is_err());
    }
}
