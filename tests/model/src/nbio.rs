// SPDX-License-Identifier: GPL-2.0
//! NBIO: doorbell routing, the windows on registers, the fabric and VRAM, HDP flushes.

pub mod fabric;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::asic::Ranges;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::memory::{Phys, Space};
use crate::regs::nbio::{
    self, bif_sdma0_doorbell_range as range, doorbell_selfring_gpa_aper_cntl as selfring, mm_index,
    rcc_doorbell_aper_en as aper, remap_hdp_mem_flush_cntl as remap,
};
use crate::regs::osssys::{self, ih_doorbell_rptr};
use crate::regs::{Reg, Store, SDMA_ENGINES};
use crate::smn;

/// The doorbells of a page repeat in each page: only these address bits route.
const ROUTED_BITS: u64 = 0xfff;
const SDMA_RANGES: [Reg; SDMA_ENGINES] = [
    nbio::BIF_SDMA0_DOORBELL_RANGE,
    nbio::BIF_SDMA1_DOORBELL_RANGE,
    nbio::BIF_SDMA2_DOORBELL_RANGE,
    nbio::BIF_SDMA3_DOORBELL_RANGE,
    nbio::BIF_SDMA4_DOORBELL_RANGE,
];

/// The destination of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// An SDMA engine.
    Sdma(usize),
    /// The interrupt handler.
    Ih,
    /// The command processor, which gets the rest.
    Cp,
}

/// State beside the plain registers.
#[derive(Default)]
pub struct Nbio {
    /// Low halves of 64-bit doorbells that came alone, by byte offset.
    halves: Mutex<HashMap<u64, u32>>,
    /// Registers that are only in the fabric.
    pub fabric: fabric::Registers,
}

/// Routes the doorbell at dword `dword` of a page by the ranges of BIF.
fn by_bif(regs: &Store, dword: u32) -> Route {
    let inside = |reg: Reg| {
        let value = regs.get(reg);
        let first = range::OFFSET.get(value);
        (first..first + range::SIZE.get(value)).contains(&dword)
    };
    if let Some(engine) = SDMA_RANGES.into_iter().position(inside) {
        Route::Sdma(engine)
    } else if inside(nbio::BIF_IH_DOORBELL_RANGE) {
        Route::Ih
    } else {
        Route::Cp
    }
}

impl Nbio {
    /// Routes the doorbell at `byte` of BAR2.
    pub fn route(&self, regs: &Store, byte: u64) -> Route {
        let dword = ((byte & ROUTED_BITS) / 4) as u32;
        match regs.asic.ranges {
            Ranges::Bif => by_bif(regs, dword),
            Ranges::Fabric => self.fabric.route(dword),
        }
    }

    /// Forgets half doorbells.
    pub fn reset(&self) {
        self.fabric.reset();
        self.halves
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// A store to BAR2. An SDMA engine reports each store that is not of the eight bytes of one
    /// doorbell, and joins two halves all the same.
    pub fn doorbell(&self, gpu: &Gpu, byte: u64, data: &[u8]) -> Result<()> {
        if !aper::BIF_DOORBELL_APER_EN.is_set(gpu.regs.get(nbio::RCC_DOORBELL_APER_EN)) {
            return Err(ModelError::Other(format!(
                "doorbell at {byte:#x} while RCC_DOORBELL_APER_EN is off"
            )));
        }
        if let Route::Sdma(engine) = self.route(&gpu.regs, byte) {
            if byte % 8 != 0 || data.len() != 8 {
                gpu.sdma[engine].partial_doorbell(gpu)?;
            }
        }
        // A process may store any number of bytes in its page; only whole doorbells ring.
        let odd = || {
            gpu.summary.doorbells_unattached.bump();
            Ok(())
        };
        if byte % 4 != 0 {
            return odd();
        }
        let whole = match *data {
            [a, b, c, d] => {
                let half = u32::from_le_bytes([a, b, c, d]);
                match self.route(&gpu.regs, byte) {
                    Route::Ih => return self.ih(gpu, byte, half),
                    _ => self.join(byte, half),
                }
            }
            [a, b, c, d, e, f, g, h] if byte % 8 == 0 => {
                Some((byte, u64::from_le_bytes([a, b, c, d, e, f, g, h])))
            }
            _ => return odd(),
        };
        let Some((byte, value)) = whole else {
            return Ok(());
        };
        match self.route(&gpu.regs, byte) {
            Route::Ih => self.ih(gpu, byte, value as u32),
            Route::Sdma(engine) => {
                let index = (byte / 4) as u32;
                if gpu.sdma[engine].doorbell(index, value)? || gpu.cp.sdma_doorbell(index) {
                    gpu.summary.doorbells_sdma.bump();
                } else {
                    gpu.summary.doorbells_unattached.bump();
                }
                Ok(())
            }
            Route::Cp => {
                if gpu.cp.doorbell(gpu, (byte / 4) as u32, value)? {
                    gpu.summary.doorbells_cp.bump();
                } else {
                    gpu.summary.doorbells_unattached.bump();
                }
                Ok(())
            }
        }
    }

    /// Handles a store of the device to its own doorbell BAR. Such stores only reach the aperture
    /// for them, which has to be at the BAR.
    pub fn self_ring(&self, gpu: &Gpu, byte: u64, data: &[u8]) -> Result<()> {
        let regs = &gpu.regs;
        let base = u64::from(regs.get(nbio::DOORBELL_SELFRING_GPA_APER_BASE_LOW))
            | u64::from(regs.get(nbio::DOORBELL_SELFRING_GPA_APER_BASE_HIGH)) << 32;
        let control = regs.get(nbio::DOORBELL_SELFRING_GPA_APER_CNTL);
        if !selfring::DOORBELL_SELFRING_GPA_APER_EN.is_set(control)
            || !selfring::DOORBELL_SELFRING_GPA_APER_MODE.is_set(control)
            || base != gpu.bus.doorbells()
        {
            return Err(ModelError::Other(format!(
                "the device's own store to its doorbell at {byte:#x}, \
                 but DOORBELL_SELFRING_GPA_APER is off or at {base:#x}"
            )));
        }
        let mut at = 0;
        while at < data.len() {
            let here = byte + at as u64;
            let size = if here % 8 == 0 && data.len() - at >= 8 {
                8
            } else {
                4
            };
            let end = data.len().min(at + size);
            self.doorbell(gpu, here, &data[at..end])?;
            at = end;
        }
        Ok(())
    }

    /// Joins a 64-bit doorbell that comes as two stores: it acts with the second, whichever half
    /// comes last.
    fn join(&self, byte: u64, half: u32) -> Option<(u64, u64)> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if byte % 8 == 0 {
            halves.insert(byte, half);
            return None;
        }
        let low = halves.remove(&(byte - 4))?;
        Some((byte - 4, u64::from(low) | u64::from(half) << 32))
    }

    fn ih(&self, gpu: &Gpu, byte: u64, value: u32) -> Result<()> {
        // The CAM's register has the same layout.
        let is = |reg| {
            let control = gpu.regs.get(reg);
            ih_doorbell_rptr::ENABLE.is_set(control)
                && u64::from(ih_doorbell_rptr::OFFSET.get(control)) == byte / 4
        };
        if is(osssys::IH_DOORBELL_RPTR) {
            gpu.summary.doorbells_ih.bump();
            return gpu.ih.set_rptr(gpu, value);
        }
        if is(osssys::IH_DOORBELL_RETRY_CAM) {
            gpu.ih.acknowledge(gpu, value);
        } else {
            gpu.summary.doorbells_unattached.bump();
        }
        Ok(())
    }
}

/// The role of a dword of BAR5 beside the HDP flush registers that the driver has placed there.
#[derive(PartialEq)]
pub enum Flush {
    /// One of them: it is for writing, and reads give 0.
    Register,
    /// In their page, which processes can map: there are no registers behind it
    /// (MMIO_REG_HOLE_OFFSET of soc15), so reads give 0 and writes go nowhere.
    Hole,
    /// Elsewhere.
    Neither,
}

/// The role of a dword; see [`Flush`].
pub fn flush(regs: &Store, dword: u32) -> Flush {
    let byte = u64::from(dword) * 4;
    let mut found = Flush::Neither;
    for remapped in [
        nbio::REMAP_HDP_MEM_FLUSH_CNTL,
        nbio::REMAP_HDP_REG_FLUSH_CNTL,
    ] {
        let address = u64::from(remap::ADDRESS.get(regs.get(remapped))) << 2;
        if address != 0 && address == byte {
            return Flush::Register;
        }
        if address != 0 && address >> 12 == byte >> 12 {
            found = Flush::Hole;
        }
    }
    found
}

/// The target of an indirect data register.
pub enum Window {
    /// A dword of BAR5.
    Register(u32),
    /// A dword of memory.
    Memory(Phys),
    /// An address of the fabric that has no place in BAR5.
    Fabric(u64),
}

/// The target of MM_DATA, PCIE_DATA and PCIE_DATA2; None if `reg` is none of them.
pub fn window(regs: &Store, reg: Reg) -> Result<Option<Window>> {
    let index = match reg {
        nbio::MM_DATA => {
            let index = regs.get(nbio::MM_INDEX);
            let offset = mm_index::MM_OFFSET.get(index);
            if mm_index::MM_APER.is_set(index) {
                let addr = u64::from(offset) | u64::from(regs.get(nbio::MM_INDEX_HI)) << 31;
                let space = Space::Vram;
                return Ok(Some(Window::Memory(Phys { space, addr })));
            }
            offset
        }
        nbio::PCIE_DATA => regs.get(nbio::PCIE_INDEX),
        nbio::PCIE_DATA2 => regs.get(nbio::PCIE_INDEX2),
        _ => return Ok(None),
    };
    // Chips whose fabric is wider have the rest of the address in a register of its own.
    let high = match reg {
        nbio::PCIE_DATA => regs.get(nbio::PCIE_INDEX_HI),
        nbio::PCIE_DATA2 => regs.get(nbio::PCIE_INDEX2_HI),
        _ => 0,
    };
    let address = u64::from(index) | u64::from(high) << 32;
    if smn::exists(regs, address) {
        return Ok(Some(Window::Fabric(address)));
    }
    let target = index / 4;
    let looped = matches!(
        regs.at(target),
        nbio::MM_DATA | nbio::PCIE_DATA | nbio::PCIE_DATA2
    );
    if high != 0 || index % 4 != 0 || !regs.is_inside(target) || looped {
        return Err(ModelError::UnknownRegister {
            access: "indirect access",
            byte: address,
            dword: target,
        });
    }
    Ok(Some(Window::Register(target)))
}
