// SPDX-License-Identifier: GPL-2.0
//! Memory the device can reach: VRAM (a memfd that is also BAR0) and the guest RAM it may DMA to.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{MemfdFlags, SeekFrom};

use crate::config::DOORBELL_SIZE;
use crate::dma::{DmaMap, DmaRegion};
use crate::error::{ModelError, Result};
use crate::fate::mix;
use crate::hdp::Hdp;
use crate::hive::members::Members;
use crate::hive::Hive;
use crate::mapping::{Mapping, Span};
use crate::peers::Switch;

/// Content of VRAM whose data is lost: a page that no program would write.
const LOST: [u8; 4096] = [0xb7; 4096];

/// The amount of VRAM that [`Bus::fill`] fills, bytes.
const FILLED: u64 = 512 << 20;

/// Which memory a physical address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// Offset in VRAM.
    Vram,
    /// Bus address, as in the DMA mappings.
    System,
    /// Physical address of VRAM of another GPU of the hive.
    Hive,
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

/// Kind of an access, for permissions and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes in one.
    Atomic,
    /// Reads instructions.
    Execute,
}

impl Access {
    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic",
            Access::Execute => "fetch",
        }
    }

    /// Returns whether memory is read.
    pub const fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Returns whether memory is written.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Atomic)
    }
}

/// A register or doorbell of the device itself that the device accesses over the bus; see
/// [`crate::own`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Byte of BAR2.
    Doorbell(u64),
    /// Byte of BAR5.
    Register(u64),
}

impl Own {
    /// `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Own {
        match self {
            Own::Doorbell(at) => Own::Doorbell(at + bytes),
            Own::Register(at) => Own::Register(at + bytes),
        }
    }
}

/// Everything the device can reach.
pub struct Bus {
    doorbells: AtomicU64,
    registers: AtomicU64,
    register_size: AtomicU64,
    vram_file: OwnedFd,
    /// VRAM, and behind it the rest of the power of two that BAR0 has to be.
    vram: Mapping,
    vram_size: u64,
    dma: RwLock<DmaMap>,
    master: AtomicBool,
    /// The PSP's trusted memory region: first byte and the one behind it; empty if there is none.
    trusted: [AtomicU64; 2],
    /// The switch above it, if there is one.
    switch: Option<Switch>,
    /// The others of the hive, if they are there.
    members: Option<Members>,
    /// The path of the host's stores to VRAM.
    pub hdp: Hdp,
}

impl Bus {
    /// A bus with `vram_size` bytes of empty VRAM and no DMA mapping.
    pub fn new(vram_size: u64) -> std::io::Result<Bus> {
        let hdp = Hdp::new(vram_size);
        let vram_file = rustix::fs::memfd_create("vram", MemfdFlags::CLOEXEC)?;
        let len = vram_size.next_power_of_two();
        rustix::fs::ftruncate(&vram_file, len)?;
        let vram = Mapping::new(vram_file.as_fd(), len as usize)?;
        Ok(Bus {
            doorbells: AtomicU64::new(0),
            registers: AtomicU64::new(0),
            register_size: AtomicU64::new(0),
            vram_file,
            vram,
            vram_size,
            dma: RwLock::default(),
            master: AtomicBool::new(false),
            trusted: Default::default(),
            switch: None,
            members: None,
            hdp,
        })
    }

    /// Joins the devices of a switch, see [`Switch::join`].
    pub fn join(&mut self, folder: &Path) -> std::io::Result<()> {
        self.switch = Some(Switch::join(folder, self.vram_file.as_fd())?);
        Ok(())
    }

    /// Joins the GPUs of a hive, see [`Members::join`].
    pub fn join_hive(&mut self, folder: &Path, hive: &Hive) -> std::io::Result<()> {
        let members = Members::join(folder, hive, self.vram_file.as_fd(), self.vram_size)?;
        self.members = Some(members);
        Ok(())
    }

    /// The GPU is reset, see [`Members::note_reset`].
    pub fn note_reset(&self) {
        if let Some(members) = &self.members {
            members.note_reset();
        }
    }

    /// Follows BAR0: its address and bytes, none while the device does not decode it.
    pub fn set_window(&self, address: u64, size: u64) {
        if let Some(switch) = &self.switch {
            switch.set_window(address, size);
        }
    }

    /// VRAM of another device, reached by the switch.
    fn peer(&self, address: u64, len: u64) -> Option<Span<'_>> {
        self.switch.as_ref()?.span(address, len)
    }

    /// The file behind VRAM, for the client to map as BAR0.
    pub fn vram_file(&self) -> BorrowedFd<'_> {
        self.vram_file.as_fd()
    }

    /// Size of VRAM, bytes.
    pub fn vram_size(&self) -> u64 {
        self.vram_size
    }

    /// Whether [`Bus::fill`] fills VRAM: more than [`FILLED`] bytes stay empty, which costs the
    /// host no memory.
    pub fn is_filled(&self) -> bool {
        self.vram_size() <= FILLED
    }

    /// Makes all of VRAM read as lost content, or as random content for a seed, so that uses of
    /// uninitialised memory by the driver show.
    pub fn fill(&self, seed: Option<u64>) {
        if !self.is_filled() {
            return;
        }
        let mut content = LOST;
        if let Some(seed) = seed {
            for (n, bytes) in (0..).zip(content.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&mix(seed ^ n).to_le_bytes());
            }
        }
        for page in (0..self.vram_size()).step_by(LOST.len()) {
            self.vram.span(page as usize, LOST.len()).write(&content);
        }
    }

    /// Loses the contents of VRAM.
    pub fn scramble(&self) {
        let mut at = 0;
        // Unwritten parts have no memory of the host's, and stay so.
        while let Ok(start) = rustix::fs::seek(&self.vram_file, SeekFrom::Data(at)) {
            let end = rustix::fs::seek(&self.vram_file, SeekFrom::Hole(start));
            let len = self.vram.len() as u64;
            at = end.unwrap_or(len).min(len);
            for page in (start..at).step_by(LOST.len()) {
                let len = LOST.len().min((at - page) as usize);
                self.vram.span(page as usize, len).write(&LOST[..len]);
            }
        }
    }

    /// Reserves these bytes of VRAM for the PSP from now on.
    pub fn trust(&self, offset: u64, size: u64) {
        let [first, end] = &self.trusted;
        // Never larger than the old or the new region while it changes.
        end.store(0, Ordering::Release);
        first.store(offset, Ordering::Release);
        end.store(offset + size, Ordering::Release);
    }

    /// A piece of that region, for the PSP. Panics if it is not all in VRAM.
    pub fn trusted(&self, offset: u64, len: usize) -> Span<'_> {
        self.vram.span(offset as usize, len)
    }

    /// The first of these bytes of VRAM that only the PSP may access.
    fn refused(&self, offset: u64, len: u64) -> Option<u64> {
        let [first, end] = self.trusted.each_ref().map(|at| at.load(Ordering::Acquire));
        (offset < end && offset + len > first).then(|| offset.max(first))
    }

    /// Follows PCI_COMMAND bus master enable.
    pub fn set_master(&self, on: bool) {
        self.master.store(on, Ordering::Release);
    }

    /// Follows BAR2 and BAR5.
    pub fn set_bars(&self, doorbells: u64, registers: u64, register_size: u64) {
        self.register_size.store(register_size, Ordering::Release);
        self.doorbells.store(doorbells, Ordering::Release);
        self.registers.store(registers, Ordering::Release);
    }

    /// The part of the device itself at `phys`, and the number of bytes from there on.
    pub fn own(&self, phys: Phys) -> Option<(Own, u64)> {
        if phys.space != Space::System {
            return None;
        }
        let inside = |bar: &AtomicU64, size: u64, own: fn(u64) -> Own| {
            let start = Some(bar.load(Ordering::Acquire)).filter(|start| *start != 0)?;
            let at = phys.addr.checked_sub(start).filter(|at| *at < size)?;
            Some((own(at), size - at))
        };
        let size = self.register_size.load(Ordering::Acquire);
        inside(&self.doorbells, DOORBELL_SIZE, Own::Doorbell)
            .or_else(|| inside(&self.registers, size, Own::Register))
    }

    /// The host's stores to VRAM so far are seen by everything from now on.
    pub fn flush_hdp(&self) {
        self.hdp
            .flush(|addr, bytes| self.vram.span(addr as usize, bytes.len()).read(bytes));
    }

    /// Where BAR2 is.
    pub fn doorbells(&self) -> u64 {
        self.doorbells.load(Ordering::Acquire)
    }

    /// Returns whether the device may DMA and send MSIs.
    pub fn is_master(&self) -> bool {
        self.master.load(Ordering::Acquire)
    }

    /// Adds a DMA mapping of `size` bytes at bus address `address`, backed by `file` from `offset`
    /// on.
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
        dma.insert(
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

    /// Removes the mappings in the range; when this returns no engine accesses them any more.
    pub fn unmap(&self, address: u64, size: u64) {
        let mut dma = self.dma.write().unwrap_or_else(PoisonError::into_inner);
        dma.remove(address, size);
    }

    /// Removes all mappings.
    pub fn unmap_all(&self) {
        let mut dma = self.dma.write().unwrap_or_else(PoisonError::into_inner);
        dma.clear();
    }

    /// Access to the memories. Mappings do not change while this is held, so hold it for a short
    /// time.
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
    /// Memory from `phys` on: at least one and at most `len` bytes (`len` is not zero). After a
    /// write to it [`View::has_written`] is called.
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
                if let Some(address) = self.bus.refused(phys.addr, len) {
                    return Err(ModelError::Trusted {
                        access: access.name(),
                        address,
                    });
                }
                Ok(self.bus.vram.span(phys.addr as usize, len as usize))
            }
            Space::Hive => {
                let members = self.bus.members.as_ref();
                let found = members.map(|members| members.span(phys.addr, len));
                found.unwrap_or(Err("without others")).map_err(|why| {
                    let (what, addr) = (access.name(), phys.addr);
                    ModelError::Other(format!("{what} at address {addr:#x} of the hive, {why}"))
                })
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
                    // An access that a switch routes to another device never reaches an IOMMU.
                    return self.bus.peer(phys.addr, len).ok_or(unmapped);
                };
                if access.reads() && !region.readable || access.writes() && !region.writeable {
                    return Err(unmapped);
                }
                let skip = phys.addr - start;
                let len = len.min(region.len - skip);
                let Some((memory, offset)) = &region.memory else {
                    // Not the guest's RAM: another device's memory, as far as a switch leads there.
                    return self.bus.peer(phys.addr, len).ok_or(unmapped);
                };
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
            self.has_written(phys.plus(done as u64), span.len() as u64);
            done += span.len();
        }
        Ok(())
    }

    /// The device itself has written `len` bytes at `phys`. Not before it does so: a walk beside
    /// the store would keep what was there until then.
    pub fn has_written(&self, phys: Phys, len: u64) {
        if phys.space == Space::Vram {
            self.bus.hdp.device_wrote(phys.addr, len);
        }
    }

    /// Reads one aligned 64-bit word whole.
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

    /// Reads an entry of a page table, as a walk sees it: see [`crate::hdp`]. With `early` it sees
    /// the host's stores to the entry and its neighbours before their flush.
    pub fn load_entry(&self, phys: Phys, early: bool) -> Result<u64> {
        if phys.space == Space::Hive {
            return Err(ModelError::Other(format!(
                "page table at {:#x}, in the memory of another GPU of the hive",
                phys.addr
            )));
        }
        if phys.space != Space::Vram || phys.addr % 8 != 0 {
            return self.load64(phys);
        }
        let space = phys.space;
        let hdp = &self.bus.hdp;
        if early {
            hdp.renew(phys.addr, |addr, bytes| {
                self.read(Phys { space, addr }, bytes)
            })?;
        }
        hdp.load64(phys.addr, |addr, bytes| {
            self.read(Phys { space, addr }, bytes)
        })
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
        self.has_written(phys, 4);
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
        // The rest of the power of two is behind BAR0 only.
        let bus = Bus::new(0x3000).unwrap();
        assert_eq!(bus.vram.len(), 0x4000);
        let phys = Phys {
            space: Space::Vram,
            addr: 0x2ffc,
        };
        assert!(bus.view().write(phys, &[0; 4]).is_ok());
        assert!(bus.view().write(phys, &[0; 5]).is_err());
    }

    #[test]
    fn a_walk_beside_a_store_keeps_nothing_old() {
        let bus = Bus::new(0x2000).unwrap();
        let phys = Phys {
            space: Space::Vram,
            addr: 0x1008,
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    bus.view().load_entry(phys, false).unwrap();
                }
            });
            let stale = (1..=50_000u64).find(|n| {
                bus.view().write(phys, &n.to_le_bytes()).unwrap();
                bus.view().load_entry(phys, false) != Ok(*n)
            });
            done.store(true, Ordering::Relaxed);
            assert_eq!(stale, None);
        });
    }
}
