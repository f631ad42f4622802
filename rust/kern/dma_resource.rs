// SPDX-License-Identifier: GPL-2.0
//! Registers of a device as DMA reaches them: a part of a BAR, by its bus address.

use kernel::device::{Bound, Device};
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering::Full, AtomicFlag, Relaxed};

use super::dma_map::DmaRun;
use super::{device, pci_ext};
use crate::ffi;

/// A part of a BAR, mapped for a device. Unmapped when dropped, or before that by [`DmaResource::unmap`], which the
/// unbinding of the device needs.
pub(crate) struct DmaResource {
    start: u64,
    run: DmaRun,
    /// It is reached by its bus address, for which nothing was mapped.
    is_switched: bool,
    mapped: AtomicFlag,
    dev: ARef<Device>,
}

impl DmaResource {
    /// Maps the `size` bytes at CPU address `start`, which are of a BAR, for `dev`. ENOMEM if `dev` cannot reach them.
    pub(crate) fn new(dev: &Device<Bound>, start: u64, size: u64) -> Result<Self> {
        Self::mapped((&**dev).into(), start, size)
    }

    /// The same where the BAR is that of `other`, which `dev` reaches ([`pci_ext::reaches`]): both must be bound, and the other
    /// one stay so as long as `dev` uses this. What a switch passes on by itself has its bus address: an IOMMU never sees it.
    pub(crate) fn of_peer(
        dev: &ARef<Device>,
        other: &Device,
        start: u64,
        size: u64,
    ) -> Result<Self> {
        match pci_ext::switched(dev, other, start, size)? {
            None => Self::mapped(dev.clone(), start, size),
            Some(address) => Ok(Self {
                start,
                run: DmaRun { address, size },
                is_switched: true,
                mapped: AtomicFlag::new(true),
                dev: dev.clone(),
            }),
        }
    }

    fn mapped(dev: ARef<Device>, start: u64, size: u64) -> Result<Self> {
        // SAFETY: The device is bound, and a BAR is no memory.
        let address = unsafe {
            ffi::dma_map_resource(
                device::as_raw(&dev),
                start,
                usize::try_from(size).map_err(|_| EINVAL)?,
                DataDirection::Bidirectional.into(),
                0,
            )
        };
        // SAFETY: The device is bound, and the address is what mapping for it has given.
        if unsafe { ffi::rkfd_dma_mapping_error(device::as_raw(&dev), address) } {
            return Err(ENOMEM);
        }
        Ok(Self {
            start,
            run: DmaRun { address, size },
            is_switched: false,
            mapped: AtomicFlag::new(true),
            dev,
        })
    }

    /// Whether the addresses still lead there.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.load(Relaxed)
    }

    /// All of the addresses.
    pub(crate) fn run(&self) -> DmaRun {
        self.run
    }

    /// The CPU address of what is at DMA address `address`, which is among them.
    pub(crate) fn cpu_address(&self, address: u64) -> u64 {
        self.start + (address - self.run.address)
    }

    /// The addresses of `size` bytes from byte `offset` on. EINVAL for more than there is.
    pub(crate) fn part(&self, offset: u64, size: u64) -> Result<DmaRun> {
        let end = offset.checked_add(size).ok_or(EINVAL)?;
        if end > self.run.size {
            return Err(EINVAL);
        }
        Ok(DmaRun {
            address: self.run.address + offset,
            size,
        })
    }

    /// Takes it away from the device, once; the caller has seen to it that the device uses it no more, and that it is still
    /// bound.
    pub(crate) fn unmap(&self) {
        if self.mapped.xchg(false, Full) && !self.is_switched {
            // SAFETY: It was mapped by `mapped` with the same arguments; the exchange lets one caller through.
            unsafe {
                ffi::dma_unmap_resource(
                    device::as_raw(&self.dev),
                    self.run.address,
                    self.run.size as usize,
                    DataDirection::Bidirectional.into(),
                    0,
                );
            }
        }
    }
}

impl Drop for DmaResource {
    fn drop(&mut self) {
        self.unmap();
    }
}
