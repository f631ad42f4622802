// SPDX-License-Identifier: GPL-2.0
//! The interrupt handler (OSSSYS 4.4): a ring in system memory that the hardware fills with entries, drained
//! by a threaded interrupt handler or on demand.

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

use hw::bits::{hi, lo};
use hw::doorbell::{SliceIndex, Slot};
use hw::ih::{
    CpEop, CpError, Event, FaultStatus, IvEntry, ShaderMessage, VmFault, ENTRY_BYTES, ENTRY_DWORDS,
};
use hw::ip::{Block, Ip};

use super::gmc::Gmc;
use super::vmid::Vmid;
use crate::kern::barrier;
use crate::kern::dma_words::DmaWords;
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::mmio::Mmio;
use crate::kern::trace;
use crate::regs::osssys::{
    self as regs, ih_chicken, ih_doorbell_rptr, ih_rb_base_hi, ih_rb_cntl as cntl, ih_rb_wptr,
    ih_rb_wptr_addr_hi,
};
use crate::regs::Window;

/// Log2 of the ring's dwords: 256 KiB.
const ORDER: u32 = 16;
/// The ring's dwords.
const DWORDS: usize = 1 << ORDER;
/// The ring's bytes.
const BYTES: u32 = 4 << ORDER;
/// Entries that one drain handles at most: two rings full, so that a flood does not hold it for ever. The
/// device interrupts again for the rest.
const MOST: u32 = 2 * BYTES / ENTRY_BYTES;
/// MC_SPACE: bus addresses.
const SPACE_BUS: u32 = 1;

/// Who is told what the entries announce. Called by a thread that may sleep, one entry at a time in the
/// ring's order; fences depend on it, so nothing in it waits for memory.
pub(crate) trait InterruptSink: Send + Sync {
    /// A TRAP packet with `context` was reached. `vmid` 0 is the engine's kernel ring.
    fn sdma_trap(&self, engine: u8, vmid: u8, pasid: u16, context: u32);
    /// SDMA refused something, see `hw::ih::source`; the queue that did it has stopped.
    fn sdma_error(&self, engine: u8, source: u8, vmid: u8, pasid: u16);
    /// A compute queue reached an end-of-pipe event that interrupts.
    fn cp_eop(&self, eop: &CpEop);
    /// The CP refused something of a compute queue.
    fn cp_error(&self, error: &CpError);
    /// A shader sent a message.
    fn shader_message(&self, message: &ShaderMessage);
    /// An access could not be translated. `status` is what the hub has latched, if it was the first.
    fn vm_fault(&self, fault: &VmFault, status: Option<FaultStatus>);
}

/// The block with its ring.
#[pin_data]
pub(crate) struct Ih {
    regs: Window,
    doorbells: Arc<DoorbellMap>,
    /// How often entries were lost because the ring was full.
    overflows: Atomic<u64>,
    /// The ring, and behind it the dword of the write pointer.
    ring: DmaWords,
    /// The read pointer, bytes. Held while entries are handled: they keep their order.
    #[pin]
    rptr: Mutex<u32>,
}

impl Ih {
    /// The block with a ring, not running. ENOMEM.
    pub(crate) fn new(
        dev: &Device<Bound>,
        mmio: &Arc<Mmio>,
        ips: &'static [Ip],
        doorbells: &Arc<DoorbellMap>,
    ) -> Result<Arc<Self>> {
        let regs = Window::new(mmio, ips, Block::Osssys, 0)?;
        let doorbells = doorbells.clone();
        let ring = DmaWords::new(dev, DWORDS + 1)?;
        Arc::pin_init(
            pin_init!(Self {
                regs,
                doorbells,
                overflows: Atomic::new(0),
                ring,
                rptr <- new_mutex!(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Starts the ring. Bus mastering is on.
    pub(crate) fn start(&self) {
        self.stop();
        let mut rptr = self.rptr.lock();
        *rptr = 0;
        let r = &self.regs;
        let base = self.ring.address();
        r.write(regs::IH_RB_BASE, lo(base >> 8));
        r.write(regs::IH_RB_BASE_HI, ih_rb_base_hi::ADDR.put(lo(base >> 40)));
        let control = cntl::RB_SIZE.put(ORDER)
            | cntl::RB_GPU_TS_ENABLE.flag(true)
            | cntl::WPTR_WRITEBACK_ENABLE.flag(true)
            | cntl::WPTR_OVERFLOW_ENABLE.flag(true)
            | cntl::MC_SNOOP.flag(true)
            | cntl::RPTR_REARM.flag(true)
            | cntl::MC_VMID.put(0)
            | cntl::MC_SPACE.put(SPACE_BUS);
        r.update(regs::IH_CHICKEN, &[(ih_chicken::MC_SPACE_GPA_ENABLE, 1)]);
        self.set_control(control);
        let writeback = base + u64::from(BYTES);
        r.write(regs::IH_RB_WPTR_ADDR_LO, lo(writeback));
        r.write(
            regs::IH_RB_WPTR_ADDR_HI,
            ih_rb_wptr_addr_hi::ADDR.put(hi(writeback)),
        );
        r.write(regs::IH_RB_WPTR, 0);
        r.write(regs::IH_RB_RPTR, 0);
        r.write(
            regs::IH_DOORBELL_RPTR,
            ih_doorbell_rptr::OFFSET.put(doorbell().dword()) | ih_doorbell_rptr::ENABLE.flag(true),
        );
        r.write(
            regs::IH_RB_CNTL,
            control | cntl::RB_ENABLE.flag(true) | cntl::ENABLE_INTR.flag(true),
        );
    }

    /// How often entries were lost because the ring was full; clients whose interrupts these were are found by
    /// the watchdogs of queues and rings.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Relaxed)
    }

    /// Stops the ring: no entry and no interrupt after it.
    pub(crate) fn stop(&self) {
        self.regs.update(
            regs::IH_RB_CNTL,
            &[(cntl::RB_ENABLE, 0), (cntl::ENABLE_INTR, 0)],
        );
        self.regs.write(regs::IH_DOORBELL_RPTR, 0);
    }

    /// Writes the control word; the overflow bit is cleared by its rise.
    fn set_control(&self, control: u32) {
        let clear = cntl::WPTR_OVERFLOW_CLEAR;
        for overflow in [0, 1, 0] {
            self.regs.write(
                regs::IH_RB_CNTL,
                crate::regs::with(control, clear, overflow),
            );
        }
    }

    /// Handles what is in the ring, in its order. Sleeps: takes the ring's lock and what the sink takes, so it
    /// is called without locks.
    pub(crate) fn drain(&self, gmc: &Gmc, sink: &dyn InterruptSink) {
        let mut rptr = self.rptr.lock();
        let mut handled = 0;
        while handled < MOST {
            let wptr = self.write_pointer(&mut rptr);
            if *rptr == wptr {
                break;
            }
            // Entries are read after the pointer that says that they are there.
            barrier::rmb();
            while *rptr != wptr {
                let entry = named(self.entry(*rptr), gmc);
                *rptr = advance(*rptr);
                handled += 1;
                dispatch(&entry, gmc, sink);
            }
            self.doorbells.ring32(doorbell().byte() as u32, *rptr);
        }
        if handled == 0 {
            // The interrupt of entries that a poll has taken, or one that was lost: the hardware sends none
            // until it is told the read pointer.
            self.doorbells.ring32(doorbell().byte() as u32, *rptr);
        }
    }

    /// The write pointer, bytes. After an overflow the oldest entry that is left is the one after it.
    fn write_pointer(&self, rptr: &mut u32) -> u32 {
        let value = self.ring.read(DWORDS);
        if !ih_rb_wptr::RB_OVERFLOW.is_set(value) {
            return offset(value);
        }
        // The copy in memory may be old.
        let value = self.regs.read(regs::IH_RB_WPTR);
        let wptr = offset(value);
        if ih_rb_wptr::RB_OVERFLOW.is_set(value) && self.regs.is_present() {
            self.overflows.add(1, Relaxed);
            *rptr = advance(wptr);
            self.set_control(crate::regs::with(
                self.regs.read(regs::IH_RB_CNTL),
                cntl::WPTR_OVERFLOW_CLEAR,
                0,
            ));
        }
        wptr
    }

    fn entry(&self, at: u32) -> IvEntry {
        let first = at as usize / 4;
        IvEntry::decode(&core::array::from_fn::<_, ENTRY_DWORDS, _>(|n| {
            self.ring.read(first + n)
        }))
    }
}

/// The doorbell of the read pointer.
const fn doorbell() -> hw::doorbell::Doorbell {
    SliceIndex::KERNEL.doorbell(Slot::IH_RING0)
}

/// Byte offset in a value of WPTR; inside the ring and on an entry whatever the value.
const fn offset(value: u32) -> u32 {
    let bytes = ih_rb_wptr::OFFSET.get(value) * 4;
    bytes - bytes % ENTRY_BYTES
}

/// The offset of the entry after the one at `at`.
const fn advance(at: u32) -> u32 {
    (at + ENTRY_BYTES) % BYTES
}

/// The entry with its process. Where the driver gives the VMIDs away, gfx9 is known to leave PAS_ID 0, whatever the IH's
/// table says (amdkfd's event_interrupt_isr_v9); then it is who has the VMID now, if anybody.
fn named(entry: IvEntry, gmc: &Gmc) -> IvEntry {
    let vmid = match Vmid::new(entry.vmid) {
        Some(vmid) if entry.pasid == 0 && vmid != Vmid::KERNEL => vmid,
        _ => return entry,
    };
    let pasid = gmc.process(vmid).unwrap_or(0);
    IvEntry { pasid, ..entry }
}

fn dispatch(entry: &IvEntry, gmc: &Gmc, sink: &dyn InterruptSink) {
    trace::interrupt(
        entry.client.id().into(),
        entry.source.into(),
        entry.ring.into(),
        entry.vmid.into(),
        entry.pasid.into(),
        entry.data[0],
    );
    match entry.event() {
        Event::SdmaTrap(trap) => sink.sdma_trap(trap.engine, trap.vmid, trap.pasid, trap.context),
        Event::SdmaError(error) => {
            sink.sdma_error(error.engine, entry.source, error.vmid, error.pasid)
        }
        Event::VmFault(fault) => sink.vm_fault(&fault, gmc.take_fault(fault.hub)),
        Event::CpEop(eop) => sink.cp_eop(&eop),
        Event::CpError(error) => sink.cp_error(&error),
        Event::ShaderMessage(message) => sink.shader_message(&message),
        Event::Unknown => {}
    }
}
