// SPDX-License-Identifier: GPL-2.0
//! The PSP (MP0 13.0): its bootloader, which starts its secure OS, and the ring that tells the
//! secure OS which firmware to load.
//!
//! All that it reads and writes is in VRAM: neither the GART nor the host's memory is used.

mod bootloader;
mod ring;
pub(crate) mod xgmi;

use core::fmt;

use kernel::device;
use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::Delta;

use hw::firmware::image::{FirmwareImage, MOST_BYTES};
use hw::ip::{IpBlock, IpTable};
use hw::psp::READY;

use super::hdp::Hdp;
use super::hub::FbLocation;
use crate::kern::mmio::{Mmio, GONE};
use crate::kern::vram_map::VramMap;
use crate::regs::{mp, Register, RegisterWindow};

/// How long an answer in a mailbox may take.
const TIMEOUT: Delta = Delta::from_millis(1000);
/// Between two polls of it.
const POLL: Delta = Delta::from_millis(1);

pub(crate) use ring::{PspRing, Tmr};

/// Bytes of the memory for images, which is also its alignment, and of the pages for ring, command
/// and fence.
pub(crate) const IMAGE_BYTES: u64 = MOST_BYTES as u64;
pub(crate) const PAGES_BYTES: u64 = 3 * hw::va::PAGE_SIZE;

/// VRAM offsets of the memory that the PSP reads and writes. The GPU has nothing else in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PspBuffers {
    /// [`IMAGE_BYTES`] for an image.
    pub(crate) image: u64,
    /// [`PAGES_BYTES`] for the rest.
    pub(crate) pages: u64,
}

/// A register that passes commands to the PSP, and answers back.
#[derive(Clone, Copy)]
struct PspMailbox {
    reg: Register,
    name: &'static str,
}

/// The block, and the memory that it reads.
pub(crate) struct Psp {
    regs: RegisterWindow,
    vram: Arc<VramMap>,
    hdp: Arc<Hdp>,
    fb: FbLocation,
    places: PspBuffers,
    dev: ARef<device::Device>,
}

impl Psp {
    /// The block of the ASIC whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it has none.
    pub(crate) fn new(
        dev: &ARef<device::Device>,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        (vram, hdp, fb): (&Arc<VramMap>, &Arc<Hdp>, FbLocation),
        places: PspBuffers,
    ) -> Result<Self> {
        Ok(Self {
            regs: RegisterWindow::new(mmio, ips, IpBlock::Mp, 0)?,
            vram: vram.clone(),
            hdp: hdp.clone(),
            fb,
            places,
            dev: dev.clone(),
        })
    }

    /// Version of the secure OS; `None` if none runs.
    pub(crate) fn secure_os(&self) -> Option<u32> {
        match self.regs.read(mp::MP0_C2PMSG_81) {
            0 | GONE => None,
            _ => Some(self.regs.read(mp::MP0_C2PMSG_58)),
        }
    }

    /// Waits until the PSP has handled the last command of `mailbox`, and returns the value that
    /// the mailbox then holds. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is gone; `ETIMEDOUT` without an answer to `what`, which the log then
    /// says.
    fn wait_ready(&self, mailbox: PspMailbox, what: fmt::Arguments<'_>) -> Result<u32> {
        let read = || self.regs.read(mailbox.reg);
        match read_poll_timeout(|| Ok(read()), |word| word & READY != 0, POLL, TIMEOUT) {
            Ok(GONE) => Err(ENODEV),
            Err(error) => {
                let (name, word) = (mailbox.name, read());
                dev_err!(self.dev, "{what}: no answer ({name} = {word:#010x})\n");
                Err(error)
            }
            answer => answer,
        }
    }

    /// Puts `image` where the PSP reads it, followed by zeros, and returns its MC address.
    fn stage(&self, image: &FirmwareImage<'_>) -> Result<u64> {
        let at = self.places.image;
        let rest = image.bytes.len().next_multiple_of(8);
        self.vram
            .fill64(at + rest as u64 - 8, 0, (MOST_BYTES - rest) / 8 + 1)?;
        self.vram.write_bytes(at, image.bytes)?;
        self.hdp.flush();
        Ok(self.mc(at))
    }

    /// MC address of a VRAM offset.
    fn mc(&self, offset: u64) -> u64 {
        self.fb.base + offset
    }
}
