// SPDX-License-Identifier: GPL-2.0
//! Memory the device can reach: VRAM (a memfd that is also BAR0) and the guest RAM it may DMA to.
//!
//! The only module with `unsafe`. Both memories are shared with the guest's CPUs, which may read and
//! write them at any moment, so bytes are copied through raw pointers and single words through atomics;
//! no reference to plain data is ever made.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{ModelError, Result};

/// Which memory a physical address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Offset in VRAM.
    Vram,
    /// Bus address, as the DMA mappings know it.
    System,
}

/// An address after translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Phys {
    /// The memory.
    pub space: Space,
    /// Where in it, bytes.
    pub addr: u64,
}

impl Phys {
    /// `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Phys {
        Phys {
            space: self.space,
            addr: self.addr + bytes,
        }
    }
}

/// What an access does, for permissions and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes in one.
    Atomic,
}

impl Access {
    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic",
        }
    }

    /// Whether memory is read.
    pub const fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Whether memory is written.
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// A file mapped shared, readable and writeable, for as long as this lives.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all accesses go through raw pointer copies
// and atomics, which carry no thread affinity.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent access is what shared memory is for, and no reference to its bytes exists.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, len: usize) -> std::io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other object.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                0,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    fn span(&self, offset: usize, len: usize) -> Span<'_> {
        assert!(offset <= self.len && len <= self.len - offset);
        Span {
            // SAFETY: `offset` was checked to lie inside the mapping.
            start: unsafe { self.start.as_ptr().add(offset) },
            len,
            life: PhantomData,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that mmap gave; spans borrow the mapping, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

/// A stretch of mapped memory that is contiguous for this process.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    start: *mut u8,
    len: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> Span<'a> {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is left after the first `skip` bytes. Panics if there are fewer.
    pub fn tail(&self, skip: usize) -> Span<'a> {
        assert!(skip <= self.len);
        Span {
            // SAFETY: `skip` was checked to lie inside the span.
            start: unsafe { self.start.add(skip) },
            len: self.len - skip,
            life: PhantomData,
        }
    }

    /// Copies the first bytes out. Panics if there are fewer than `out` wants.
    pub fn read(&self, out: &mut [u8]) {
        assert!(out.len() <= self.len);
        // SAFETY: the span covers `out.len()` mapped bytes and `out` is this process's own memory.
        unsafe { std::ptr::copy_nonoverlapping(self.start, out.as_mut_ptr(), out.len()) }
    }

    /// Copies `data` to the first bytes. Panics if it does not fit.
    pub fn write(&self, data: &[u8]) {
        assert!(data.len() <= self.len);
        // SAFETY: the span covers `data.len()` mapped bytes and `data` is this process's own memory.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start, data.len()) }
    }

    /// Copies `len` bytes to `to`, which may overlap. Panics if either is shorter.
    pub fn copy_to(&self, to: &Span<'_>, len: usize) {
        assert!(len <= self.len && len <= to.len);
        // SAFETY: both spans cover `len` mapped bytes; `copy` allows them to overlap.
        unsafe { std::ptr::copy(self.start, to.start, len) }
    }

    /// Fills with zeros.
    pub fn zero(&self) {
        // SAFETY: the span covers `self.len` mapped bytes.
        unsafe { std::ptr::write_bytes(self.start, 0, self.len) }
    }

    /// The first four bytes as an atomic, if there are as many and they are aligned.
    pub fn atomic32(&self) -> Option<&'a AtomicU32> {
        let start = self.start.cast::<u32>();
        (self.len >= 4 && start.is_aligned())
            // SAFETY: mapped for 'a, aligned, and only ever accessed atomically or by raw copies.
            .then(|| unsafe { AtomicU32::from_ptr(start) })
    }

    /// The first eight bytes as an atomic, if there are as many and they are aligned.
    pub fn atomic64(&self) -> Option<&'a AtomicU64> {
        let start = self.start.cast::<u64>();
        (self.len >= 8 && start.is_aligned())
            // SAFETY: mapped for 'a, aligned, and only ever accessed atomically or by raw copies.
            .then(|| unsafe { AtomicU64::from_ptr(start) })
    }
}

/// One DMA mapping of the client.
struct DmaRegion {
    len: u64,
    /// None: memory for which no descriptor was given, so it cannot be reached.
    memory: Option<(Arc<Mapping>, u64)>,
    readable: bool,
    writeable: bool,
}

#[derive(Default)]
struct DmaMap {
    regions: BTreeMap<u64, DmaRegion>,
    /// Each file of guest RAM is mapped once and whole, and stays: a vIOMMU maps single pages at a high rate.
    files: Vec<(u64, u64, Arc<Mapping>)>,
}

impl DmaMap {
    fn file(&mut self, file: &File, end: u64) -> std::io::Result<Arc<Mapping>> {
        let meta = file.metadata()?;
        let key = (meta.dev(), meta.ino());
        let known = self
            .files
            .iter()
            .find(|(dev, ino, mapping)| (*dev, *ino) == key && mapping.len as u64 >= end);
        if let Some((_, _, mapping)) = known {
            return Ok(mapping.clone());
        }
        if meta.len() < end {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let mapping = Arc::new(Mapping::new(file.as_fd(), meta.len() as usize)?);
        self.files.push((key.0, key.1, mapping.clone()));
        Ok(mapping)
    }

    /// The region that covers `address`, with its start.
    fn find(&self, address: u64) -> Option<(u64, &DmaRegion)> {
        let (&start, region) = self.regions.range(..=address).next_back()?;
        (address - start < region.len).then_some((start, region))
    }

    fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let touched: Vec<u64> = self
            .regions
            .range(..end)
            .filter(|(start, region)| *start + region.len > address)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some(region) = self.regions.remove(&start) else {
                continue;
            };
            let piece = |from: u64, to: u64| DmaRegion {
                len: to - from,
                memory: region
                    .memory
                    .as_ref()
                    .map(|(file, offset)| (file.clone(), offset + (from - start))),
                readable: region.readable,
                writeable: region.writeable,
            };
            let old_end = start + region.len;
            if start < address {
                self.regions.insert(start, piece(start, address));
            }
            if old_end > end {
                self.regions.insert(end, piece(end, old_end));
            }
        }
    }
}

/// Everything the device can reach.
pub struct Bus {
    vram_file: OwnedFd,
    vram: Mapping,
    dma: RwLock<DmaMap>,
    master: AtomicBool,
}

impl Bus {
    /// A bus with `vram` bytes of empty VRAM and no DMA mapping.
    pub fn new(vram: u64) -> std::io::Result<Bus> {
        let vram_file = rustix::fs::memfd_create("vram", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&vram_file, vram)?;
        let vram = Mapping::new(vram_file.as_fd(), vram as usize)?;
        Ok(Bus {
            vram_file,
            vram,
            dma: RwLock::default(),
            master: AtomicBool::new(false),
        })
    }

    /// The file behind VRAM, for the client to map as BAR0.
    pub fn vram_file(&self) -> BorrowedFd<'_> {
        self.vram_file.as_fd()
    }

    /// Size of VRAM, bytes.
    pub fn vram_size(&self) -> u64 {
        self.vram.len as u64
    }

    /// Follows PCI_COMMAND bus master enable.
    pub fn set_master(&self, on: bool) {
        self.master.store(on, Ordering::Release);
    }

    /// Whether the device may DMA and send MSIs.
    pub fn is_master(&self) -> bool {
        self.master.load(Ordering::Acquire)
    }

    /// Adds a DMA mapping of `size` bytes at bus address `address`, backed by `file` from `offset` on.
    pub fn map(
        &self,
        address: u64,
        size: u64,
        file: Option<(&File, u64)>,
        (readable, writeable): (bool, bool),
    ) -> std::io::Result<()> {
        let mut dma = self.dma.write().unwrap_or_else(PoisonError::into_inner);
        let memory = match file {
            Some((file, offset)) => {
                let end = offset
                    .checked_add(size)
                    .ok_or(std::io::ErrorKind::InvalidInput)?;
                Some((dma.file(file, end)?, offset))
            }
            None => None,
        };
        if address.checked_add(size).is_none() {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        dma.remove(address, size);
        dma.regions.insert(
            address,
            DmaRegion {
                len: size,
                memory,
                readable,
                writeable,
            },
        );
        Ok(())
    }

    /// Takes the mappings in the range away; when this returns no engine accesses them any more.
    pub fn unmap(&self, address: u64, size: u64) {
        let mut dma = self.dma.write().unwrap_or_else(PoisonError::into_inner);
        dma.remove(address, size);
    }

    /// Takes all mappings away.
    pub fn unmap_all(&self) {
        let mut dma = self.dma.write().unwrap_or_else(PoisonError::into_inner);
        dma.regions.clear();
    }

    /// Access to the memories. Mappings do not change while this is held, so hold it for short.
    pub fn view(&self) -> View<'_> {
        View {
            bus: self,
            dma: self.dma.read().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// See [`Bus::view`].
pub struct View<'a> {
    bus: &'a Bus,
    dma: RwLockReadGuard<'a, DmaMap>,
}

impl View<'_> {
    /// Memory from `phys` on: at least one and at most `len` bytes (`len` is not zero).
    pub fn span(&self, phys: Phys, len: u64, access: Access) -> Result<Span<'_>> {
        match phys.space {
            Space::Vram => {
                let size = self.bus.vram_size();
                if phys.addr >= size {
                    return Err(ModelError::VramAddress {
                        access: access.name(),
                        address: phys.addr,
                        size,
                    });
                }
                let len = len.min(size - phys.addr);
                Ok(self.bus.vram.span(phys.addr as usize, len as usize))
            }
            Space::System => {
                if !self.bus.is_master() {
                    return Err(ModelError::NotMaster { what: "DMA" });
                }
                let unmapped = ModelError::BusAddress {
                    access: access.name(),
                    address: phys.addr,
                };
                let Some((start, region)) = self.dma.find(phys.addr) else {
                    return Err(unmapped);
                };
                if access.reads() && !region.readable || access.writes() && !region.writeable {
                    return Err(unmapped);
                }
                let Some((memory, offset)) = &region.memory else {
                    return Err(unmapped);
                };
                let skip = phys.addr - start;
                let len = len.min(region.len - skip);
                Ok(memory.span((offset + skip) as usize, len as usize))
            }
        }
    }

    /// Reads all of `out` at `phys`.
    pub fn read(&self, phys: Phys, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let rest = (out.len() - done) as u64;
            let span = self.span(phys.plus(done as u64), rest, Access::Read)?;
            span.read(&mut out[done..done + span.len()]);
            done += span.len();
        }
        Ok(())
    }

    /// Writes all of `data` at `phys`.
    pub fn write(&self, phys: Phys, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let rest = (data.len() - done) as u64;
            let span = self.span(phys.plus(done as u64), rest, Access::Write)?;
            span.write(&data[done..done + span.len()]);
            done += span.len();
        }
        Ok(())
    }

    /// One aligned 64-bit word, read whole.
    pub fn load64(&self, phys: Phys) -> Result<u64> {
        let span = self.span(phys, 8, Access::Read)?;
        match span.atomic64() {
            Some(word) => Ok(word.load(Ordering::Acquire)),
            None => Err(ModelError::Other(format!(
                "unaligned 64-bit read at {:?} {:#x}",
                phys.space, phys.addr
            ))),
        }
    }

    /// Writes one aligned 32-bit word whole.
    pub fn store32(&self, phys: Phys, value: u32) -> Result<()> {
        let span = self.span(phys, 4, Access::Write)?;
        match span.atomic32() {
            Some(word) => word.store(value, Ordering::Release),
            None => {
                return Err(ModelError::Other(format!(
                    "unaligned 32-bit write at {:?} {:#x}",
                    phys.space, phys.addr
                )))
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ram(size: u64) -> File {
        let fd = rustix::fs::memfd_create("ram", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, size).unwrap();
        File::from(fd)
    }

    fn system(addr: u64) -> Phys {
        Phys {
            space: Space::System,
            addr,
        }
    }

    #[test]
    fn mappings_come_and_go() {
        let bus = Bus::new(1 << 20).unwrap();
        bus.set_master(true);
        let file = ram(0x10000);
        bus.map(0x1_0000, 0x4000, Some((&file, 0x2000)), (true, true))
            .unwrap();
        bus.view().write(system(0x1_0ffe), b"abcd").unwrap();
        bus.unmap(0x1_1000, 0x1000);
        let mut out = [0; 2];
        bus.view().read(system(0x1_0ffe), &mut out).unwrap();
        assert_eq!(&out, b"ab");
        assert!(bus.view().read(system(0x1_1000), &mut out).is_err());
        bus.map(0x1_1000, 0x1000, Some((&file, 0x3000)), (true, false))
            .unwrap();
        bus.view().read(system(0x1_1000), &mut out).unwrap();
        assert_eq!(&out, b"cd");
        assert!(bus.view().write(system(0x1_1000), b"x").is_err());
        bus.view().write(system(0x1_2000), b"x").unwrap();
    }

    #[test]
    fn dma_needs_bus_master() {
        let bus = Bus::new(1 << 20).unwrap();
        let file = ram(0x1000);
        bus.map(0, 0x1000, Some((&file, 0)), (true, true)).unwrap();
        assert_eq!(
            bus.view().load64(system(0)),
            Err(ModelError::NotMaster { what: "DMA" })
        );
    }

    #[test]
    fn the_end_of_vram() {
        let bus = Bus::new(0x2000).unwrap();
        let phys = Phys {
            space: Space::Vram,
            addr: 0x1ffc,
        };
        assert!(bus.view().write(phys, &[0; 4]).is_ok());
        assert!(bus.view().write(phys, &[0; 5]).is_err());
    }
}
