// SPDX-License-Identifier: GPL-2.0
//! The vfio-user side: regions, interrupts and DMA mappings.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    vfio_region_info, vfio_region_sparse_mmap_area, VFIO_IRQ_INFO_EVENTFD,
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_BAR4_REGION_INDEX, VFIO_PCI_BAR5_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_PCI_ROM_REGION_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{
    DmaMapFlags, DmaUnmapFlags, Error, IrqInfo, Server, ServerBackend, ServerRegion, SparseArea,
};

use crate::access::bad_access;
use crate::config;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::memory::Access;
use crate::msi::Kind;
use crate::nbio as bif;

/// Serves one client at `path` until it goes away.
pub fn serve(gpu: &Arc<Gpu>, path: &Path) -> std::result::Result<(), Error> {
    let server = Server::new(path, true, interrupts(gpu), regions(gpu))?;
    match server.run(&mut Backend { gpu: gpu.clone() }) {
        // A client that is killed may leave the socket in the middle of a message.
        Err(Error::ReceiveWithFd(_) | Error::StreamRead(_) | Error::StreamWrite(_)) => Ok(()),
        result => result,
    }
}

fn interrupts(gpu: &Gpu) -> Vec<IrqInfo> {
    let function = &gpu.function;
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| IrqInfo {
            index,
            flags: VFIO_IRQ_INFO_EVENTFD,
            count: match index {
                VFIO_PCI_MSI_IRQ_INDEX => u32::from(function.msi),
                VFIO_PCI_MSIX_IRQ_INDEX if function.msix => config::MSIX_VECTORS.into(),
                _ => 0,
            },
        })
        .collect()
}

fn regions(gpu: &Gpu) -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => gpu.bar0,
                VFIO_PCI_BAR2_REGION_INDEX => config::DOORBELL_SIZE,
                VFIO_PCI_BAR4_REGION_INDEX if gpu.function.io => config::IO_SIZE,
                VFIO_PCI_BAR5_REGION_INDEX => gpu.layout().register_size(),
                VFIO_PCI_ROM_REGION_INDEX if gpu.function.rom => config::ROM_SIZE,
                VFIO_PCI_CONFIG_REGION_INDEX => config::SIZE as u64,
                _ => 0,
            };
            let mapped = index == VFIO_PCI_BAR0_REGION_INDEX;
            let mut flags = 0;
            if size > 0 {
                flags |= VFIO_REGION_INFO_FLAG_READ;
            }
            if size > 0 && index != VFIO_PCI_ROM_REGION_INDEX {
                flags |= VFIO_REGION_INFO_FLAG_WRITE;
            }
            if mapped {
                flags |= VFIO_REGION_INFO_FLAG_MMAP;
            }
            ServerRegion {
                region_info: vfio_region_info {
                    argsz: size_of::<vfio_region_info>() as u32,
                    index,
                    flags,
                    size,
                    ..Default::default()
                },
                // Without an area the client gets no descriptor to map.
                sparse_areas: if mapped {
                    vec![SparseArea {
                        area: vfio_region_sparse_mmap_area { offset: 0, size },
                    }]
                } else {
                    Vec::new()
                },
                mmap_fd: mapped.then(|| gpu.bus.vram_file().as_raw_fd()),
            }
        })
        .collect()
}

struct Backend {
    gpu: Arc<Gpu>,
}

impl Backend {
    fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<()> {
        let gpu = &self.gpu;
        self.count(region);
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => gpu.read_config(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => gpu.read_vram(offset, data)?,
            // Doorbells do not read back.
            VFIO_PCI_BAR2_REGION_INDEX => data.fill(0),
            VFIO_PCI_BAR5_REGION_INDEX if self.is_odd(offset, data.len()) => data.fill(0),
            VFIO_PCI_ROM_REGION_INDEX => gpu.read_rom(offset, data),
            VFIO_PCI_BAR4_REGION_INDEX | VFIO_PCI_BAR5_REGION_INDEX => {
                check_registers(gpu, region, Access::Read, offset, data.len())?;
                for (n, bytes) in data.chunks_exact_mut(4).enumerate() {
                    gpu.summary.register_reads.bump();
                    let value = gpu.read_at((offset / 4) as u32 + n as u32)?;
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            _ => data.fill(0),
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<()> {
        let gpu = &self.gpu;
        self.count(region);
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => gpu.write_config(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => gpu.write_vram(offset, data)?,
            VFIO_PCI_BAR2_REGION_INDEX => gpu.ring(offset, data)?,
            VFIO_PCI_BAR5_REGION_INDEX if self.is_odd(offset, data.len()) => {}
            VFIO_PCI_BAR4_REGION_INDEX | VFIO_PCI_BAR5_REGION_INDEX => {
                check_registers(gpu, region, Access::Write, offset, data.len())?;
                for (n, bytes) in data.chunks_exact(4).enumerate() {
                    gpu.summary.register_writes.bump();
                    let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    gpu.write_at((offset / 4) as u32 + n as u32, value)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts accesses to registers or doorbells of a device that is not bus master.
    fn count(&self, region: u32) {
        let counts = matches!(
            region,
            VFIO_PCI_BAR2_REGION_INDEX | VFIO_PCI_BAR4_REGION_INDEX | VFIO_PCI_BAR5_REGION_INDEX
        );
        if counts {
            self.gpu.is_used();
        }
        if counts && !self.gpu.bus.is_master() {
            self.gpu.summary.without_master.bump();
        }
    }

    /// Returns whether this access to BAR5 is not a register's. It may be one to the table of MSI-X
    /// or its pending bits, which are the client's. Or it is one that a process could make: any
    /// number of bytes of the page of HDP flush registers. The kernel copies to and from it for a
    /// process that names it in a call.
    fn is_odd(&self, offset: u64, size: usize) -> bool {
        if self.gpu.function.msix && config::is_msix(offset) {
            return true;
        }
        let whole = offset % 4 == 0 && matches!(size, 4 | 8);
        !whole && bif::flush(&self.gpu.regs, (offset / 4) as u32) != bif::Flush::Neither
    }

    /// A model error ends the process in [`Gpu::fail`]; the client only gets it if that does not.
    fn report(&self, result: Result<()>) -> io::Result<()> {
        result.map_err(|error| {
            self.gpu.fail(&error);
            io::Error::other(error)
        })
    }
}

/// Checks an access to registers: all of them by BAR5, the first ones by BAR4, where they have the
/// same offsets.
fn check_registers(gpu: &Gpu, region: u32, access: Access, offset: u64, size: usize) -> Result<()> {
    let (name, bytes) = match region {
        VFIO_PCI_BAR4_REGION_INDEX => ("BAR4 (I/O)", config::IO_SIZE),
        _ => ("BAR5 (registers)", gpu.layout().register_size()),
    };
    let end = offset.checked_add(size as u64);
    let inside = end.is_some_and(|end| end <= bytes);
    if inside && offset % 4 == 0 && matches!(size, 4 | 8) {
        Ok(())
    } else {
        Err(bad_access(access, name, offset, size))
    }
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let result = self.read(region, offset, data);
        self.report(result)
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let result = self.write(region, offset, data);
        self.report(result)
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        self.gpu.summary.dma_maps.bump();
        let file = fd.as_ref().map(|file| (file, offset));
        let access = (
            flags.contains(DmaMapFlags::READ),
            flags.contains(DmaMapFlags::WRITE),
        );
        self.gpu.bus.map(address, size, file, access)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.gpu.summary.dma_unmaps.bump();
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            self.gpu.bus.unmap_all();
        } else {
            self.gpu.bus.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.gpu.reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        let kind = match index {
            VFIO_PCI_MSI_IRQ_INDEX => Kind::Msi,
            VFIO_PCI_MSIX_IRQ_INDEX => Kind::MsiX,
            _ => return Ok(()),
        };
        // The other vectors are never used.
        if start != 0 || flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return Ok(());
        }
        let eventfd = fds.into_iter().next();
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 || count == 0 {
            self.gpu.msi.set(kind, eventfd);
        }
        Ok(())
    }
}
