// SPDX-License-Identifier: GPL-2.0
//! Coherent DMA memory of dwords, for rings and pages that the device writes.

use kernel::device::{Bound, Device};
use kernel::devres::Devres;
use kernel::dma::Coherent;
use kernel::prelude::*;

use super::series;

/// Dwords that CPU and device share. After unbind, reads return 0 and writes are dropped. Any
/// context.
pub(crate) struct DmaWords {
    memory: Devres<Coherent<[u32]>>,
    address: u64,
    len: usize,
}

impl DmaWords {
    /// `len` dwords, all zero.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(dev: &Device<Bound>, len: usize) -> Result<Self> {
        let memory = Coherent::<u32>::zeroed_slice(dev, len, GFP_KERNEL)?;
        let address = series::dma_address(&memory);
        Ok(Self {
            memory: Devres::new(dev, memory)?,
            address,
            len,
        })
    }

    /// The bus address of the first dword.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Writes dword `index` once; dropped outside. The device does not write it at the same time.
    pub(crate) fn write(&self, index: usize, value: u32) {
        let Some(memory) = self.memory.try_access() else {
            return;
        };
        if index >= self.len {
            return;
        }
        let first = memory.as_mut_ptr().cast::<u32>();
        // SAFETY: `index` is inside the allocation. The store is volatile, since the device reads
        // and writes the memory.
        unsafe { first.add(index).write_volatile(value) };
    }

    /// Dword `index`, read once; 0 outside.
    pub(crate) fn read(&self, index: usize) -> u32 {
        let Some(memory) = self.memory.try_access() else {
            return 0;
        };
        if index >= self.len {
            return 0;
        }
        // SAFETY: `index` is inside the allocation; volatile, since the device may write it at the
        // same time.
        unsafe { memory.as_ptr().cast::<u32>().add(index).read_volatile() }
    }
}
