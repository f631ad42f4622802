// SPDX-License-Identifier: GPL-2.0
//! A device with some guest RAM, page tables, an interrupt ring and SDMA rings, and a driver's
//! actions on it.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use crate::asic::Ranges;
use crate::board::Board;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::ih::ENTRY;
use crate::memory::{Phys, Space};
use crate::msi::Kind;
use crate::psp::start::Start;
use crate::regs::gc::{self, vm_context0_cntl as context, vm_invalidate_eng0_req as req};
use crate::regs::osssys::{self, ih_chicken, ih_doorbell_rptr, ih_rb_cntl};
use crate::regs::sdma::{
    self, cntl, f32_cntl, gfx_doorbell, gfx_doorbell_offset, gfx_ib_cntl, gfx_rb_cntl,
};
use crate::regs::{hdp, nbio, Reg, MMHUB_DELTA, SDMA_BASE, SDMA_GFX, SDMA_QUEUE_STRIDE, SDMA_RLC0};

pub const MIB: u64 = 1 << 20;
/// Size of VRAM.
pub const VRAM: u64 = 128 * MIB;
/// Bus address and size of guest RAM.
pub const RAM: u64 = 0x1000_0000;
pub const RAM_SIZE: u64 = 64 * MIB;
/// MC address of VRAM.
pub const FB: u64 = 0x200_0000_0000;
/// Bytes of a ring.
pub const RING: u64 = 4096;
/// Bytes of the interrupt ring.
pub const IH_RING: u32 = 1024;
/// FLUSH_TYPE.
pub const LIGHTWEIGHT: u32 = 1;
pub const HEAVYWEIGHT: u32 = 2;
/// Doorbell of the interrupt ring, dword index.
pub const IH_DOORBELL: u32 = 0x2f0;

// Places in RAM.
const IH_BASE: u64 = RAM + 0x10_0000;
const IH_WPTR: u64 = RAM + 0x20_0000;

pub const VALID: u64 = 1;
pub const SYSTEM: u64 = 2;
pub const SNOOPED: u64 = 4;
/// MTYPE_UC.
pub const UNCACHED: u64 = 3 << 57;
pub const READ: u64 = 1 << 5;
pub const WRITE: u64 = 1 << 6;
pub const RW: u64 = READ | WRITE;
pub const EXECUTE: u64 = 1 << 4;

/// A ring that the rig drives.
#[derive(Clone, Copy)]
pub struct Ring {
    pub engine: usize,
    /// 0 GFX, n RLC n - 1.
    pub queue: usize,
    pub vmid: u8,
    /// The ring's place in VRAM.
    pub vram: u64,
    pub wptr: u64,
    /// Dword index.
    pub doorbell: u32,
}

pub struct Rig {
    pub gpu: Arc<Gpu>,
    msis: File,
    seen: u64,
    ram_file: File,
    /// Next free byte of VRAM for tables and rings.
    next: u64,
    pub roots: [u64; 16],
}

pub fn vram(addr: u64) -> Phys {
    Phys {
        space: Space::Vram,
        addr,
    }
}

pub fn system(addr: u64) -> Phys {
    Phys {
        space: Space::System,
        addr,
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::on(Board::new(VRAM))
    }

    pub fn on(board: Board) -> Rig {
        let loaded = board.start.has_secure_os();
        let dirty = board.start == Start::Dirty;
        let gpu = Arc::new(Gpu::new(board, |error| panic!("{error}")).unwrap());
        let ram = rustix::fs::memfd_create("ram", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&ram, RAM_SIZE).unwrap();
        let ram_file = File::from(ram);
        gpu.bus
            .map(RAM, RAM_SIZE, Some((&ram_file, 0)), (true, true))
            .unwrap();
        gpu.write_config(4, &[6, 0]);
        // A file in place of an eventfd, to which eight bytes are appended for each MSI.
        let msis = rustix::fs::memfd_create("msi", MemfdFlags::CLOEXEC).unwrap();
        let msis = File::from(msis);
        gpu.msi.set(Kind::Msi, Some(msis.try_clone().unwrap()));
        let mut rig = Rig {
            gpu,
            msis,
            seen: 0,
            ram_file,
            next: 64 * MIB,
            roots: [0; 16],
        };
        if dirty {
            rig.halt_engines();
        }
        rig.bring_up();
        if loaded {
            rig.start_engines();
        }
        rig
    }

    pub fn set(&self, reg: Reg, value: u32) {
        self.gpu.write(reg, value).unwrap();
    }

    pub fn get(&self, reg: Reg) -> u32 {
        self.gpu.read(reg).unwrap()
    }

    fn hub_set64(&self, lo: Reg, value: u64) {
        for delta in [0, MMHUB_DELTA] {
            self.set(Reg(lo.0 + delta), value as u32);
            self.set(Reg(lo.0 + delta + 1), (value >> 32) as u32);
        }
    }

    fn bring_up(&mut self) {
        self.set(nbio::RCC_DOORBELL_APER_EN, 1);
        match self.gpu.regs.asic.ranges {
            Ranges::Bif => self.bif_ranges(),
            Ranges::Fabric => self.fabric_ranges(),
        }
        self.set(gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32, !0);
        for engine in 0..18 {
            self.hub_set64(
                gc::VM_INVALIDATE_ENG0_ADDR_RANGE_LO32.nth(engine, 2),
                0x1f_ffff_ffff,
            );
        }
        // GART: all of RAM, from GPU address 0.
        let pages = RAM_SIZE >> 12;
        let table = self.alloc(pages * 8);
        for page in 0..pages {
            self.poke64(
                vram(table + page * 8),
                (RAM + (page << 12)) | VALID | SYSTEM | SNOOPED | UNCACHED | RW,
            );
        }
        self.hub_set64(gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, table | VALID);
        self.hub_set64(gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, 0);
        self.hub_set64(gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, pages - 1);
        let enable = context::ENABLE_CONTEXT.of(1);
        let fb = self.get(gc::MC_VM_FB_LOCATION_BASE);
        self.set(hdp::HDP_NONSURFACE_BASE, fb << 16);
        self.set(hdp::HDP_NONSURFACE_BASE_HI, fb >> 16);
        for delta in [0, MMHUB_DELTA] {
            self.set(Reg(gc::VM_CONTEXT0_CNTL.0 + delta), enable);
        }
        for vmid in 1..16u32 {
            self.roots[vmid as usize] = self.alloc(4096);
            self.hub_set64(
                gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.nth(vmid, 2),
                self.roots[vmid as usize] | VALID,
            );
            self.hub_set64(
                gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.nth(vmid, 2),
                (1 << 36) - 1,
            );
            let control = enable
                | context::PAGE_TABLE_DEPTH.of(2)
                | context::PAGE_TABLE_BLOCK_SIZE.of(9)
                | 0x2a_aa00;
            for delta in [0, MMHUB_DELTA] {
                self.set(Reg(gc::VM_CONTEXT0_CNTL.0 + vmid + delta), control);
            }
            self.set(osssys::IH_VMID_0_LUT_MM.nth(vmid, 1), 0x8000 + vmid);
            if self.gpu.regs.asic.has_nodes {
                self.set(osssys::IH_VMID_LUT_INDEX, 1);
            }
            self.set(osssys::IH_VMID_0_LUT.nth(vmid, 1), 0x8000 + vmid);
            if self.gpu.regs.asic.has_nodes {
                self.set(osssys::IH_VMID_LUT_INDEX, 0);
            }
        }
        self.bring_up_ih(true);
    }

    fn bif_ranges(&self) {
        for (engine, reg) in [
            nbio::BIF_SDMA0_DOORBELL_RANGE,
            nbio::BIF_SDMA1_DOORBELL_RANGE,
            nbio::BIF_SDMA2_DOORBELL_RANGE,
            nbio::BIF_SDMA3_DOORBELL_RANGE,
            nbio::BIF_SDMA4_DOORBELL_RANGE,
        ]
        .into_iter()
        .enumerate()
        {
            self.set(reg, (0x200 + 20 * engine as u32) << 2 | 20 << 16);
        }
        self.set(nbio::BIF_IH_DOORBELL_RANGE, IH_DOORBELL << 2 | 8 << 16);
    }

    /// Entry and port of each engine and of the IH, with what identifies them.
    fn fabric_ranges(&self) {
        for (entry, port, id, first, size) in [
            (1, 1, 0xe, 0x200, 20),
            (2, 2, 0x8, 0x214, 20),
            (3, 5, 0x9, 0x228, 20),
            (4, 6, 0xa, 0x23c, 20),
            (0, 3, 0x0, IH_DOORBELL, 8),
        ] {
            self.fabric(0x1013_3400 + 4 * entry, size << 10 | first);
            self.fabric(0x141_ea00 + 4 * port, size << 17 | id << 1 | 1);
        }
    }

    /// Writes to the fabric by its window.
    pub fn fabric(&self, address: u32, value: u32) {
        self.set(nbio::PCIE_INDEX2, address);
        self.set(nbio::PCIE_DATA2, value);
    }

    /// Halts the engines that a previous driver may have left at work.
    pub fn halt_engines(&self) {
        for n in 0..self.gpu.regs.asic.sdma.len() {
            let reg = sdma::F32_CNTL.of_sdma(n);
            self.set(reg, f32_cntl::RESET.of(1) | f32_cntl::HALT.of(1));
            self.set(reg, f32_cntl::HALT.of(1));
            self.set(Rig::queue_reg(n, 0, sdma::GFX_RB_CNTL), 0);
        }
        // Both MECs and all pipes.
        self.set(gc::CP_MEC_CNTL, 0x503f_0010);
        self.set(gc::CP_MEC_CNTL, 0x5000_0000);
        self.set(osssys::IH_RB_CNTL, 0);
    }

    /// SDMA runs, and the RLC, without which the MEC may not.
    fn start_engines(&self) {
        self.set(gc::RLC_CNTL, gc::rlc_cntl::RLC_ENABLE_F32.of(1));
        for n in 0..self.gpu.regs.asic.sdma.len() {
            let control =
                cntl::TRAP_ENABLE.of(1) | cntl::UTC_L1_ENABLE.of(1) | cntl::AUTO_CTXSW_ENABLE.of(1);
            self.set(sdma::CNTL.of_sdma(n), control);
            self.set(sdma::F32_CNTL.of_sdma(n), 0);
        }
    }

    /// The interrupt ring, with or without RPTR_REARM.
    pub fn bring_up_ih(&self, rearm: bool) {
        self.set(osssys::IH_CHICKEN, ih_chicken::MC_SPACE_GPA_ENABLE.of(1));
        self.set(osssys::IH_RB_BASE, (IH_BASE >> 8) as u32);
        self.set(osssys::IH_RB_BASE_HI, (IH_BASE >> 40) as u32);
        self.set(osssys::IH_RB_WPTR_ADDR_LO, IH_WPTR as u32);
        self.set(osssys::IH_RB_WPTR_ADDR_HI, (IH_WPTR >> 32) as u32);
        self.set(osssys::IH_RB_RPTR, 0);
        self.set(osssys::IH_RB_WPTR, 0);
        self.set(
            osssys::IH_DOORBELL_RPTR,
            ih_doorbell_rptr::OFFSET.of(IH_DOORBELL) | ih_doorbell_rptr::ENABLE.of(1),
        );
        self.set(osssys::IH_RB_CNTL, self.ih_control(rearm));
    }

    pub fn ih_control(&self, rearm: bool) -> u32 {
        ih_rb_cntl::RB_ENABLE.of(1)
            | ih_rb_cntl::RB_SIZE.of((IH_RING / 4).ilog2())
            | ih_rb_cntl::WPTR_WRITEBACK_ENABLE.of(1)
            | ih_rb_cntl::WPTR_OVERFLOW_ENABLE.of(1)
            | ih_rb_cntl::ENABLE_INTR.of(1)
            | ih_rb_cntl::RPTR_REARM.of(rearm.into())
            | ih_rb_cntl::MC_SPACE.of(1)
    }

    /// Zeroed VRAM, aligned to a page or to its size class if that is 2 MiB.
    pub fn alloc(&mut self, len: u64) -> u64 {
        let align = if len >= 2 * MIB { 2 * MIB } else { 4096 };
        let at = self.next.next_multiple_of(align);
        self.next = at + len.next_multiple_of(4096);
        assert!(self.next <= VRAM);
        at
    }

    pub fn poke(&self, at: Phys, data: &[u8]) {
        self.gpu.bus.view().write(at, data).unwrap();
    }

    pub fn poke64(&self, at: Phys, value: u64) {
        self.poke(at, &value.to_le_bytes());
    }

    pub fn peek(&self, at: Phys, len: u64) -> Vec<u8> {
        let mut data = vec![0; len as usize];
        self.gpu.bus.view().read(at, &mut data).unwrap();
        data
    }

    pub fn peek32(&self, at: Phys) -> u32 {
        u32::from_le_bytes(self.peek(at, 4).try_into().unwrap())
    }

    pub fn peek64(&self, at: Phys) -> u64 {
        u64::from_le_bytes(self.peek(at, 8).try_into().unwrap())
    }

    /// Flushes everything of `vmid` in MMHUB, and waits for its users.
    pub fn flush(&self, vmid: u8) {
        self.flush_as(vmid, HEAVYWEIGHT);
    }

    /// The same by FLUSH_TYPE `kind`.
    pub fn flush_as(&self, vmid: u8, kind: u32) {
        self.request_flush(vmid, kind);
        assert!(self.is_flushed(vmid));
    }

    /// Requests that, and does not wait.
    pub fn request_flush(&self, vmid: u8, kind: u32) {
        let value = req::PER_VMID_INVALIDATE_REQ.of(1 << vmid)
            | req::FLUSH_TYPE.of(kind)
            | req::INVALIDATE_L2_PTES.of(1)
            | req::INVALIDATE_L2_PDE0.of(1)
            | req::INVALIDATE_L2_PDE1.of(1)
            | req::INVALIDATE_L2_PDE2.of(1)
            | req::INVALIDATE_L1_PTES.of(1);
        self.set(Reg(gc::VM_INVALIDATE_ENG17_REQ.0 + MMHUB_DELTA), value);
    }

    /// Whether the last one was acknowledged.
    pub fn is_flushed(&self, vmid: u8) -> bool {
        let ack = self.get(Reg(gc::VM_INVALIDATE_ENG17_ACK.0 + MMHUB_DELTA));
        ack >> vmid & 1 == 1
    }

    /// Register `reg` of the GFX ring, for any queue of any engine.
    pub fn queue_reg(engine: usize, queue: usize, reg: Reg) -> Reg {
        let offset = reg.0 - SDMA_BASE[0] - SDMA_GFX;
        let first = match queue {
            0 => SDMA_GFX,
            n => SDMA_RLC0 + (n as u32 - 1) * SDMA_QUEUE_STRIDE,
        };
        Reg(SDMA_BASE[engine] + first + offset)
    }

    pub fn set_queue(&self, ring: &Ring, reg: Reg, value: u32) {
        self.set(Rig::queue_reg(ring.engine, ring.queue, reg), value);
    }

    pub fn get_queue(&self, ring: &Ring, reg: Reg) -> u32 {
        self.get(Rig::queue_reg(ring.engine, ring.queue, reg))
    }

    /// The place of a ring's read-pointer write-back, in VRAM.
    pub fn writeback(ring: &Ring) -> u64 {
        ring.vram + RING
    }

    /// Programs and enables a ring. VMID 0: by MC address; others at a fixed address of the VM.
    pub fn ring(&mut self, engine: usize, queue: usize, vmid: u8) -> Ring {
        let memory = self.alloc(RING + 4096);
        let va = if vmid == 0 {
            FB + memory
        } else {
            let va = 0x7f00_0000_0000 + memory;
            self.map(vmid, va, vram(memory), RING + 4096, RW);
            va
        };
        let ring = Ring {
            engine,
            queue,
            vmid,
            vram: memory,
            wptr: 0,
            // Queue q of an engine, in a process' slice from page 4 on, as the recipe says.
            doorbell: 0x200
                + 20 * engine as u32
                + match queue {
                    0 => 0,
                    n => 0x1000 + (n as u32 & 1) * 1024 + (n as u32 / 2) * 2,
                },
        };
        self.set_queue(&ring, sdma::GFX_RB_BASE, (va >> 8) as u32);
        self.set_queue(&ring, sdma::GFX_RB_BASE_HI, (va >> 40) as u32);
        let report = va + RING;
        self.set_queue(&ring, sdma::GFX_RB_RPTR_ADDR_LO, report as u32);
        self.set_queue(&ring, sdma::GFX_RB_RPTR_ADDR_HI, (report >> 32) as u32);
        self.set_queue(
            &ring,
            sdma::GFX_DOORBELL_OFFSET,
            gfx_doorbell_offset::OFFSET.of(ring.doorbell),
        );
        self.set_queue(&ring, sdma::GFX_DOORBELL, gfx_doorbell::ENABLE.of(1));
        self.set_queue(&ring, sdma::GFX_IB_CNTL, gfx_ib_cntl::IB_ENABLE.of(1));
        self.enable(&ring, true);
        ring
    }

    pub fn enable(&self, ring: &Ring, on: bool) {
        let control = gfx_rb_cntl::RB_ENABLE.of(on.into())
            | gfx_rb_cntl::RB_SIZE.of((RING / 4).ilog2())
            | gfx_rb_cntl::RPTR_WRITEBACK_ENABLE.of(1)
            | gfx_rb_cntl::RB_VMID.of(ring.vmid.into());
        self.set_queue(ring, sdma::GFX_RB_CNTL, control);
    }

    /// Puts packets into the ring and rings the doorbell.
    pub fn submit(&self, ring: &mut Ring, words: &[u32]) {
        for word in words {
            let at = ring.vram + ring.wptr % RING;
            self.poke(vram(at), &word.to_le_bytes());
            ring.wptr += 4;
        }
        self.doorbell(ring, ring.wptr);
    }

    pub fn doorbell(&self, ring: &Ring, wptr: u64) {
        let byte = u64::from(ring.doorbell) * 4;
        let gpu = &self.gpu;
        gpu.nbio.doorbell(gpu, byte, &wptr.to_le_bytes()).unwrap();
    }

    /// Steps an engine until it has nothing to do; fails after too many steps.
    pub fn drain(&self, engine: usize) -> Result<()> {
        for _ in 0..10_000 {
            if !self.gpu.sdma[engine].step(&self.gpu)? {
                return Ok(());
            }
        }
        panic!("SDMA{engine} does not come to rest");
    }

    /// Submits, drains, and checks that the ring is at its end.
    pub fn run(&self, ring: &mut Ring, words: &[u32]) {
        self.submit(ring, words);
        self.drain(ring.engine).unwrap();
        assert_eq!(self.rptr(ring), ring.wptr);
        assert_eq!(self.peek64(vram(Rig::writeback(ring))), ring.wptr);
    }

    pub fn rptr(&self, ring: &Ring) -> u64 {
        u64::from(self.get_queue(ring, sdma::GFX_RB_RPTR))
            | u64::from(self.get_queue(ring, sdma::GFX_RB_RPTR_HI)) << 32
    }

    /// The write pointer that the IH wrote to memory.
    pub fn ih_wptr(&self) -> u32 {
        self.peek32(system(IH_WPTR))
    }

    /// Entry number `n` of the interrupt ring.
    pub fn iv(&self, n: u32) -> [u32; 8] {
        let bytes = self.peek(system(IH_BASE + u64::from(n * ENTRY)), ENTRY.into());
        std::array::from_fn(|k| u32::from_le_bytes(bytes[k * 4..k * 4 + 4].try_into().unwrap()))
    }

    /// (client, source, ring, vmid) of entry `n`.
    pub fn iv_head(&self, n: u32) -> [u32; 4] {
        let [head, ..] = self.iv(n);
        [
            head & 0xff,
            head >> 8 & 0xff,
            head >> 16 & 0xff,
            head >> 24 & 0xf,
        ]
    }

    pub fn ih_entries(&self) -> u32 {
        (self.ih_wptr() & !3) / ENTRY
    }

    /// MSIs since the last call.
    pub fn msis(&mut self) -> u64 {
        let sent = self.msis.metadata().unwrap().len() / 8;
        sent - std::mem::replace(&mut self.seen, sent)
    }

    /// Removes a DMA mapping and restores it.
    pub fn unmap_ram(&self, address: u64, size: u64) {
        self.gpu.bus.unmap(address, size);
    }

    pub fn map_ram(&self, address: u64, size: u64) {
        self.gpu
            .bus
            .map(
                address,
                size,
                Some((&self.ram_file, address - RAM)),
                (true, true),
            )
            .unwrap();
    }
}

/// Waits for `condition`, for tests with the engines' threads.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_micros(100));
    }
}

pub fn lo(value: u64) -> u32 {
    value as u32
}

pub fn hi(value: u64) -> u32 {
    (value >> 32) as u32
}

pub fn copy(to: u64, from: u64, len: u64) -> [u32; 7] {
    [1, (len - 1) as u32, 0, lo(from), hi(from), lo(to), hi(to)]
}

pub fn fence(to: u64, value: u32) -> [u32; 4] {
    [5, lo(to), hi(to), value]
}

/// POLL_REGMEM of memory until it equals `value`, for ever.
pub fn poll(addr: u64, value: u32) -> [u32; 6] {
    [
        8 | 3 << 28 | 1 << 31,
        lo(addr),
        hi(addr),
        value,
        !0,
        10 | 0xfff << 16,
    ]
}
