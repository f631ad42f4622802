// SPDX-License-Identifier: GPL-2.0
//! Accesses of the device to its own BARs, which lie in the bus addresses that page tables can lead
//! to.
//!
//! A process can have its doorbells and the page of HDP flush registers mapped (ALLOC with DOORBELL
//! or MMIO_REMAP), and then copy from and to them, and do atomics there, as with memory. So each of
//! these has a result, which is the host's for the same access: a store rings or flushes, a read
//! gives zero. An atomic is not done, as the function completes none (PCIe: Unsupported Request,
//! which gives the requester ones). Only a page table with a driver's error leads to other parts of
//! the BARs.

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::memory::{Access, Own};
use crate::nbio::{self, Flush};

const PAGE: u64 = 4096;

impl Gpu {
    /// The device reads from itself.
    pub fn load_own(&self, own: Own, out: &mut [u8]) -> Result<()> {
        if let Own::Register(byte) = own {
            self.check_flush(byte, out.len(), Access::Read)?;
        }
        out.fill(0);
        Ok(())
    }

    /// The device stores to itself. Must not be called with translations held, as the target of a
    /// doorbell may take them.
    pub fn store_own(&self, own: Own, data: &[u8]) -> Result<()> {
        match own {
            Own::Doorbell(byte) => self.nbio.self_ring(self, byte, data),
            // There is no buffer that would have to be flushed.
            Own::Register(byte) => self.check_flush(byte, data.len(), Access::Write),
        }
    }

    /// Checks that these bytes of BAR5 are in the page of flush registers.
    fn check_flush(&self, byte: u64, len: usize, access: Access) -> Result<()> {
        let inside = byte % PAGE + len as u64 <= PAGE;
        if inside && nbio::flush(&self.regs, (byte / 4) as u32) != Flush::Neither {
            return Ok(());
        }
        Err(ModelError::Other(format!(
            "the device's own {} of {len} bytes at its register {byte:#x}",
            access.name()
        )))
    }
}
