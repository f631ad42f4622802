// SPDX-License-Identifier: GPL-2.0
//! Registers of a device as a DMA target: a part of a BAR, by its bus address.

use kernel::device::{Bound, Device};
use kernel::dma::DataDirection;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering::Full, AtomicFlag, Relaxed};

use super::dma_map::DmaRun;
use super::{device, pci_ext};
use crate::ffi;

/// A part of a BAR, mapped for a device. The mapping ends when this is dropped, or before that by
/// [`DmaResource::unmap`], which the unbinding of the device needs.
pub(crate) struct DmaResource {
    start: u64,
    run: DmaRun,
    /// Whether it is reached by its bus address through a switch, without a mapping.
    is_switched: bool,
    mapped: AtomicFlag,
    dev: ARef<Device>,
}

impl DmaResource {
    /// Maps the `size` bytes at CPU address `start`, which are part of a BAR, for `dev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if `dev` cannot reach them.
    pub(crate) fn new(dev: &Device<Bound>, start: u64, size: u64) -> Result<Self> {
        Self::mapped((&**dev).into(), start, size)
    }

    /// Maps a part of a BAR of `other`, which `dev` reaches ([`pci_ext::reaches`]). Both must be
    /// bound, and `other` must stay bound as long as `dev` uses this. Accesses that a switch
    /// forwards by itself use the bus address: an IOMMU never sees them.
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
        // SAFETY: The device is bound, and a BAR is not memory.
        let address = unsafe {
            ffi::dma_map_resource(
                device::as_raw(&dev),
                start,
                usize::try_from(size).map_err(|_| EINVAL)?,
                DataDirection::Bidirectional.into(),
                0,
            )
        };
        // SAFETY: The device is bound, and the address is the result of mapping for it.
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

    /// Whether the addresses are still mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.load(Relaxed)
    }

    /// All of the addresses.
    pub(crate) fn run(&self) -> DmaRun {
        self.run
    }

    /// The CPU address behind DMA address `address`, which must be one of these.
    pub(crate) fn cpu_address(&self, address: u64) -> u64 {
        self.start + (address - self.run.address)
    }

    /// The addresses of `size` bytes from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside.
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

    /// Takes it away from the device, once. The caller has ensured that the device no longer uses
    /// it, and that it is still bound.
    pub(crate) fn unmap(&self) {
        if self.mapped.xchg(false, Full) && !self.is_switched {
            // SAFETY: It was mapped by `mapped` with the same arguments; the exchange lets one
            // caller through.
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
