// SPDX-License-Identifier: GPL-2.0
//! The place of the GPU in a hive, whose GPUs XGMI joins. They have one physical address space,
//! with a segment for the VRAM of each. Unless they find one another in a folder ([`members`]) the
//! others are not there: an access to their memory ends the run.

pub mod links;
pub mod members;

use std::str::FromStr;

use crate::board::UNIT;
use crate::error::{ModelError, Result};
use crate::memory::{Phys, Space};
use crate::regs::gc::{mc_vm_xgmi_lfb_cntl as control, mc_vm_xgmi_lfb_size as size};

/// The place; by default in no hive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hive {
    /// The number of this GPU.
    pub node: u32,
    /// The number of the others.
    pub others: u32,
    /// Bytes of a segment.
    pub segment: u64,
    /// The others are there, too.
    pub together: bool,
}

impl Hive {
    /// Physical address of the first byte of this GPU's VRAM.
    pub fn start(&self) -> u64 {
        u64::from(self.node) * self.segment
    }

    /// Bytes of all segments, or of `vram` without a hive.
    pub fn size(&self, vram: u64) -> u64 {
        match self.others {
            0 => vram,
            others => u64::from(others + 1) * self.segment,
        }
    }

    /// MC_VM_XGMI_LFB_CNTL and MC_VM_XGMI_LFB_SIZE.
    pub fn registers(&self) -> [u32; 2] {
        [
            control::PF_LFB_REGION.of(self.node) | control::PF_MAX_REGION.of(self.others),
            size::PF_LFB_SIZE.of((self.segment / UNIT) as u32),
        ]
    }

    /// The first physical address of this GPU's own VRAM, and the one behind its segment.
    pub fn own_range(&self) -> (u64, u64) {
        match self.others {
            0 => (0, u64::MAX),
            _ => (self.start(), self.start() + self.segment),
        }
    }

    /// What a physical address of VRAM is: one in this GPU's own VRAM, or in [`Space::Hive`].
    pub fn own(&self, phys: Phys) -> Result<Phys> {
        if self.others == 0 || phys.space != Space::Vram {
            return Ok(phys);
        }
        match phys.addr.checked_sub(self.start()) {
            Some(addr) if addr < self.segment => Ok(Phys { addr, ..phys }),
            _ if self.together && phys.addr < self.size(0) => Ok(Phys {
                space: Space::Hive,
                ..phys
            }),
            _ => Err(ModelError::Other(format!(
                "VRAM address {:#x} is of node {} of the hive: this is node {}, the only one there",
                phys.addr,
                phys.addr / self.segment,
                self.node
            ))),
        }
    }
}

/// `NODE/NODES`, or `NODE/NODES:MIB` with the size of a segment, which is 64 GiB otherwise.
impl FromStr for Hive {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Hive, String> {
        let wrong = || format!("{text}: no NODE/NODES[:MIB]");
        let (place, segment) = match text.split_once(':') {
            Some((place, mib)) => (place, mib.parse::<u64>().map_err(|_| wrong())? << 20),
            None => (text, 64 << 30),
        };
        let (node, nodes) = place.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (node, nodes) = (number(node)?, number(nodes)?);
        // The registers have four bits for both, and 17 for the size.
        let is_possible = (2..=16).contains(&nodes)
            && node < 16
            && segment % UNIT == 0
            && (1..1 << 17).contains(&(segment / UNIT));
        if !is_possible {
            return Err(wrong());
        }
        Ok(Hive {
            node,
            others: nodes - 1,
            segment,
            together: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_begin_at_the_own_segment() {
        let hive: Hive = "1/4:4096".parse().unwrap();
        assert_eq!(hive.start(), 4 << 30);
        assert_eq!(hive.size(1 << 30), 16 << 30);
        assert_eq!(hive.registers(), [0x31, 0x100]);
        let vram = |addr| Phys {
            space: Space::Vram,
            addr,
        };
        assert_eq!(hive.own(vram((4 << 30) + 8)).unwrap(), vram(8));
        let together = Hive {
            together: true,
            ..hive
        };
        for other in [0, (4 << 30) - 8, 8 << 30] {
            assert!(hive.own(vram(other)).is_err());
            let found = together.own(vram(other)).unwrap();
            assert_eq!((found.space, found.addr), (Space::Hive, other));
        }
        assert!(together.own(vram(16 << 30)).is_err());
        let host = Phys {
            space: Space::System,
            addr: 8,
        };
        assert_eq!(hive.own(host).unwrap(), host);
    }

    #[test]
    fn without_a_hive_nothing_moves() {
        let alone = Hive::default();
        assert_eq!(alone.size(5), 5);
        assert_eq!(alone.registers(), [0, 0]);
        let phys = Phys {
            space: Space::Vram,
            addr: 1 << 40,
        };
        assert_eq!(alone.own(phys).unwrap(), phys);
    }

    #[test]
    fn places_that_registers_cannot_tell() {
        for text in [
            "",
            "1",
            "0/1",
            "16/16",
            "0/17",
            "0/2:8",
            "0/2:2097152",
            "a/2",
        ] {
            assert!(text.parse::<Hive>().is_err(), "{text}");
        }
        // One that contradicts itself is for the driver to refuse.
        assert_eq!("5/2".parse::<Hive>().unwrap().node, 5);
    }
}
