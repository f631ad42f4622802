// SPDX-License-Identifier: GPL-2.0
//! The flash chip with the card's BIOS, which SMUIO 13.0 reads (amdgpu: smuio_v13_0.c,
//! amdgpu_soc15_read_bios_from_rom). It is always read from its first byte on: no source shows that
//! another start can be set.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

use hw::ip::{IpBlock, IpTable};

use crate::kern::mmio::Mmio;
use crate::regs::smuio::{has_board_registers, ROM_DATA, ROM_INDEX};
use crate::regs::RegisterWindow;

/// Bytes that are read without a pause, so that other threads get the CPU.
const PIECE: usize = 4096;
const REST: Delta = Delta::from_micros(20);

/// The chip. It has one reader at a time: the only owner of the GPU.
pub(crate) struct Rom {
    smuio: RegisterWindow,
}

impl Rom {
    /// The chip of the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none, or no registers to read it.
    pub(crate) fn new(mmio: &Arc<Mmio>, ips: IpTable<'_>) -> Result<Self> {
        let smuio = RegisterWindow::new(mmio, ips, IpBlock::Smuio, 0)?;
        if !has_board_registers(&smuio) {
            return Err(ENODEV);
        }
        Ok(Self { smuio })
    }

    /// The first `bytes` bytes, a multiple of four; ones if the device is gone. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn read(&self, bytes: usize) -> Result<KVVec<u8>> {
        let mut image = KVVec::with_capacity(bytes, GFP_KERNEL)?;
        self.each(bytes, |word| {
            image.extend_from_slice(&word, GFP_KERNEL)?;
            Ok(())
        })?;
        Ok(image)
    }

    /// Whether its contents begin with `image`, whose bytes are a multiple of four. Context: may
    /// sleep.
    pub(crate) fn is(&self, image: &[u8]) -> bool {
        let mut left = image.chunks_exact(4);
        let same = self.each(image.len(), |word| match left.next() {
            Some(wanted) if wanted == word => Ok(()),
            _ => Err(EIO),
        });
        same.is_ok()
    }

    fn each(&self, bytes: usize, mut take: impl FnMut([u8; 4]) -> Result) -> Result {
        self.smuio.write(ROM_INDEX, 0);
        for at in (0..bytes).step_by(4) {
            if at % PIECE == 0 && at > 0 {
                fsleep(REST);
            }
            take(self.smuio.read(ROM_DATA).to_le_bytes())?;
        }
        Ok(())
    }
}
