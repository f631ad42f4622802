// SPDX-License-Identifier: GPL-2.0
//! The blocks of a GPU: those of its chip's description or, for a chip with a discovery table,
//! those of the table at the top of its VRAM (amdgpu: amdgpu_discovery_init). Apart from the memory
//! port's index, nothing on the GPU is changed.

use core::fmt;

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::asic::Asic;
use hw::discovery::{self, Discovery, FIXED, FROM_END, HEADER_BYTES};
use hw::ip::{IpBlock, IpInstance, IpTable};

use crate::kern::mmio::{Mmio, GONE};
use crate::regs::mp::{mp0_c2pmsg_33, MP0_C2PMSG_33};
use crate::regs::nbio::{mm_index, MM_DATA, MM_INDEX, MM_INDEX_HI, RCC_CONFIG_MEMSIZE};
use crate::regs::RegisterWindow;

/// How long the firmware of the flash chip, which writes the table, may take.
const FLASH: Delta = Delta::from_millis(2000);
/// Between two polls.
const POLL: Delta = Delta::from_millis(1);

/// What a GPU consists of.
pub(crate) struct ChipBlocks {
    /// Its chip, with as many XCCs and engines as it has.
    pub(crate) asic: &'static Asic,
    /// Its blocks, as [`IpTable`] wants them.
    pub(crate) instances: KVec<IpInstance>,
    /// Its table, if it has one.
    pub(crate) table: Option<DiscoveryTable>,
}

/// The bytes of a table that was checked.
pub(crate) struct DiscoveryTable(KVec<u8>);

impl DiscoveryTable {
    /// What it says.
    ///
    /// # Errors
    ///
    /// None: it was checked before.
    pub(crate) fn contents(&self) -> Result<Discovery<'_>> {
        Discovery::new(&self.0).map_err(|_| EIO)
    }
}

impl ChipBlocks {
    /// Finds the blocks of the GPU, whose chip by its device id is `asic`. Context: may sleep, for
    /// two seconds if the card's own firmware makes no progress.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU without a valid table, or of a kind that the driver does not know; the
    /// log says why. `ENOMEM`.
    pub(crate) fn find(dev: &Device, mmio: &Arc<Mmio>, asic: &'static Asic) -> Result<Self> {
        let mut instances = KVec::new();
        if !asic.is_discovered() {
            instances.extend_from_slice(asic.ips, GFP_KERNEL)?;
            return Ok(Self {
                asic,
                instances,
                table: None,
            });
        }
        let bytes = read(dev, mmio)?;
        let found = Discovery::new(&bytes).map_err(|error| refuse(dev, &error))?;
        dev_info!(
            dev,
            "discovery table: {}\n",
            format_args!("{}", Contents(&found))
        );
        for instance in found.instances() {
            instances.push(instance, GFP_KERNEL)?;
        }
        let asic = asic.of_discovery(&found).ok_or_else(|| {
            dev_err!(
                dev,
                "the GPU is left alone: no {} is known that has such XCCs and engines\n",
                asic.ids.name
            );
            ENODEV
        })?;
        Ok(Self {
            asic,
            instances,
            table: Some(DiscoveryTable(bytes)),
        })
    }
}

/// Says in the log that there is no table that could be used, and gives the error for that:
/// `ENODEV`.
fn refuse(dev: &Device, why: &dyn fmt::Display) -> Error {
    dev_err!(
        dev,
        "the GPU is left alone: its discovery table at the top of VRAM: {}\n",
        format_args!("{why}")
    );
    ENODEV
}

/// The bytes of the table.
fn read(dev: &Device, mmio: &Arc<Mmio>) -> Result<KVec<u8>> {
    let fixed = IpTable::new(&FIXED);
    let nbio = RegisterWindow::new(mmio, fixed, IpBlock::Nbio, 0)?;
    let mp = RegisterWindow::new(mmio, fixed, IpBlock::Mp, 0)?;
    // A card whose firmware does not say that it has run may have its table all the same.
    let _ = kernel::io::poll::read_poll_timeout(
        || Ok(mp.read(MP0_C2PMSG_33)),
        |word| mp0_c2pmsg_33::READY.is_set(*word),
        POLL,
        FLASH,
    );
    let vram = match nbio.read(RCC_CONFIG_MEMSIZE) {
        GONE => return Err(refuse(dev, &"the GPU does not answer")),
        mib => u64::from(mib) << 20,
    };
    let Some(place) = vram.checked_sub(FROM_END) else {
        return Err(refuse(dev, &"there is no VRAM, or it is not set up"));
    };
    let mut bytes = KVec::from_elem(0, HEADER_BYTES, GFP_KERNEL)?;
    read_vram(&nbio, place, &mut bytes);
    let length = discovery::length(&bytes).map_err(|error| refuse(dev, &error))?;
    let mut bytes = KVec::from_elem(0, length.next_multiple_of(4), GFP_KERNEL)?;
    read_vram(&nbio, place, &mut bytes);
    Ok(bytes)
}

/// Reads whole dwords of VRAM from byte `place` on through the memory port, which works before the
/// HDP is set up, and beyond the VRAM BAR.
fn read_vram(nbio: &RegisterWindow, place: u64, out: &mut [u8]) {
    for (at, word) in (place..).step_by(4).zip(out.chunks_exact_mut(4)) {
        nbio.write(MM_INDEX_HI, (at >> 31) as u32);
        let low = mm_index::MM_OFFSET.put(at as u32 & mm_index::MM_OFFSET.max());
        nbio.write(MM_INDEX, low | mm_index::MM_APER.flag(true));
        word.copy_from_slice(&nbio.read(MM_DATA).to_le_bytes());
    }
}

/// Prints what a table says.
struct Contents<'a>(&'a Discovery<'a>);

impl fmt::Display for Contents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.0;
        let gc = table.gc();
        let listed = table.entries();
        let off = listed.clone().filter(|entry| table.is_harvested(entry));
        write!(
            f,
            "{} blocks, {} of them fused off: {} XCCs of {} engines with {} arrays of {} CUs",
            listed.clone().count(),
            off.count(),
            table.count(IpBlock::Gc),
            gc.shader_engines,
            gc.arrays_per_engine,
            gc.cus_per_array,
        )?;
        write!(
            f,
            ", {} MMHUBs, {} SDMA engines",
            table.count(IpBlock::Mmhub),
            table.count(IpBlock::Sdma)
        )?;
        let versions = [IpBlock::Gc, IpBlock::Mmhub, IpBlock::Sdma, IpBlock::Nbio];
        let names = ["GC", "MMHUB", "SDMA", "NBIO"];
        for (name, block) in names.into_iter().zip(versions) {
            if let Some(ip) = listed.clone().find(|ip| ip.block() == Some(block)) {
                write!(f, ", {name} {}", ip.version)?;
            }
        }
        Ok(())
    }
}
