// SPDX-License-Identifier: GPL-2.0
//! The interrupt handler (OSSSYS 4.4): a ring in system memory that the hardware fills with
//! entries.
//!
//! The interrupt's thread handles as many entries as take a moment, and leaves the rest of a flood
//! to a work item, which the scheduler can make wait. A thread that suspects a lost interrupt
//! queues the work item. No other thread handles entries: they are of all processes, and a waiter
//! may have any priority.

pub(super) mod registers;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::time::Delta;
use kernel::workqueue::{impl_has_delayed_work, new_delayed_work, DelayedWork, WorkItem};

use hw::asic::Asic;
use hw::bits::{hi, lo};
use hw::doorbell::{Doorbell, SliceIndex};
use hw::ih::{
    IhRing, IhWritePointer, IvEntry, IvEvent, VmidBinding, VmidOwners, ENTRY_BYTES, ENTRY_DWORDS,
    VMID_BINDINGS,
};
use hw::ip::{IpBlock, IpTable};

use super::interrupt_sink::InterruptSink;
use super::retries::RetryFaults;
use super::vmid::Vmid;
use crate::kern::barrier;
use crate::kern::dma_words::DmaWords;
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::mmio::{Mmio, GONE};
use crate::kern::{trace, workqueue};
use crate::regs::hub::VMIDS;
use crate::regs::osssys::{
    self as regs, ih_chicken, ih_doorbell_rptr, ih_rb_base_hi, ih_rb_cntl as cntl, ih_rb_wptr,
    ih_rb_wptr_addr_hi,
};
use crate::regs::RegisterWindow;
use registers::turn_off;

/// Log2 of the ring's dwords: 256 KiB.
const ORDER: u32 = 16;
/// The ring's dwords.
const DWORDS: usize = 1 << ORDER;
/// The ring's bytes.
const BYTES: u32 = 4 << ORDER;
/// Entries that the interrupt's thread handles at a time: it runs before all else.
const BUDGET: u32 = 256;
/// Entries after which the read pointer is written and the sink flushed.
const BATCH: u32 = 64;
/// The ring's arithmetic.
const RING: IhRing = IhRing::new(BYTES, BATCH);
/// Entries that the work item handles at a time.
const SHARE: u32 = 2048;
/// How long a thread waits for entries of which none is handled meanwhile, and between two looks.
const SETTLE_TIMEOUT: Delta = Delta::from_millis(10_000);
const SETTLE_POLL: Delta = Delta::from_micros(200);
/// MC_SPACE: bus addresses.
const SPACE_BUS: u32 = 1;

/// The block with its ring.
#[pin_data]
pub(crate) struct Ih {
    regs: RegisterWindow,
    asic: &'static Asic,
    doorbells: Arc<DoorbellMap>,
    /// How often entries were lost because the ring was full.
    overflows: Atomic<u64>,
    /// The ring, and behind it the dword of the write pointer.
    ring: DmaWords,
    /// Bytes of entries that were handled, or lost: the read pointer, as a count that never wraps.
    /// Changed by the holder of `sink`.
    handled: Atomic<u64>,
    /// A thread that did not get `sink` wants the ring to be looked at.
    wanted: Atomic<bool>,
    /// The receiver of entries, between [`Ih::listen`] and [`Ih::stop`]. Held while they are
    /// handled, so that they keep their order. Otherwise only tried: its holder looks again.
    #[pin]
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
    #[pin]
    work: DelayedWork<Self>,
    faults: Arc<RetryFaults>,
    /// The processes that entries without a PASID are of. Guards positions too: no binding is
    /// recorded while the driver passes over entries that an overflow has lost.
    #[pin]
    owners: SpinLock<VmidOwners<KVec<VmidBinding>>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Ih { self.work }
}

impl WorkItem for Ih {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.drain(SHARE, false);
    }
}

impl Ih {
    /// The block with a ring, not running.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the ASIC has none; `ENOMEM`.
    pub(super) fn new(
        dev: &Device<Bound>,
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        asic: &'static Asic,
        doorbells: &Arc<DoorbellMap>,
        faults: &Arc<RetryFaults>,
    ) -> Result<Arc<Self>> {
        let regs = RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?;
        let doorbells = doorbells.clone();
        let ring = DmaWords::new(dev, DWORDS + 1)?;
        let bindings = KVec::from_elem(
            VmidBinding::default(),
            VMIDS as usize * VMID_BINDINGS,
            GFP_KERNEL,
        )?;
        let owners = VmidOwners::new(bindings);
        Arc::pin_init(
            pin_init!(Self {
                regs,
                asic,
                doorbells,
                overflows: Atomic::new(0),
                ring,
                handled: Atomic::new(0),
                wanted: Atomic::new(false),
                sink <- new_mutex!(None, "Ih::sink"),
                work <- new_delayed_work!("Ih::work"),
                faults: faults.clone(),
                owners <- new_spinlock!(owners, "Ih::owners"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has `sink` receive the entries, until the ring is stopped.
    pub(crate) fn listen(&self, sink: Arc<dyn InterruptSink>) {
        self.faults.listen(sink.clone());
        let before = self.sink.lock().replace(sink);
        drop(before);
    }

    /// Starts the ring. Bus mastering is on. No sink listens yet: entries of before a sleep are not
    /// handled again. May sleep.
    pub(crate) fn start(&self) {
        turn_off(&self.regs);
        // No thread handles entries while the ring begins anew.
        let _sink = self.sink.lock();
        // The hardware writes this only with an entry: until then it would be that of before a
        // sleep.
        self.ring.write(DWORDS, 0);
        self.handled.store(0, Relaxed);
        self.owners.lock().forget_before(0);
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
            ih_doorbell_rptr::OFFSET.put(self.doorbell().dword())
                | ih_doorbell_rptr::ENABLE.flag(true),
        );
        self.faults.start();
        r.write(
            regs::IH_RB_CNTL,
            control | cntl::RB_ENABLE.flag(true) | cntl::ENABLE_INTR.flag(true),
        );
    }

    /// How often entries were lost because the ring was full. The watchdogs of queues and rings
    /// find the clients that wait for these interrupts.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Relaxed)
    }

    /// Stops the ring: no entry and no interrupt comes after it, and none is handled. May sleep.
    pub(crate) fn stop(self: &Arc<Self>) {
        turn_off(&self.regs);
        let sink = self.sink.lock().take();
        workqueue::cancel(self);
        self.faults.stop();
        drop(sink);
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

    /// The interrupt: handles the entries in the ring, in their order, or has that be done. May
    /// sleep; called without locks.
    pub(crate) fn interrupt(self: &Arc<Self>) {
        // May be spurious: the entries were handled already. The read pointer is written anyway, or
        // the hardware sends no interrupt again.
        self.drain(BUDGET, true);
    }

    /// The end of the interrupt ring, as far as memory tells: entries at or behind this come after
    /// the call, those before it had come.
    pub(crate) fn position(&self) -> u64 {
        self.last()
    }

    /// Handles the entries in the ring, `most` at most; the work item does the rest. The read
    /// pointer is written even if there are none if the hardware `waits` for that.
    fn drain(self: &Arc<Self>, most: u32, waits: bool) {
        let mut count = 0;
        loop {
            self.wanted.xchg(true, Full);
            let Some(sink) = self.sink.try_lock() else {
                // Its holder sees `wanted` when it is through.
                return;
            };
            self.wanted.xchg(false, Full);
            if let Some(sink) = &*sink {
                count += self.handle(&**sink, most - count);
            }
            if waits && count == 0 {
                self.write_rptr();
            }
            drop(sink);
            if count >= most {
                self.kick();
                return;
            }
            if !self.wanted.xchg(false, Full) {
                return;
            }
        }
    }

    /// Has the work item look at the ring. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        workqueue::run_in(workqueue::highpri(), self.clone(), 0);
    }

    /// Queues the work item if there is something in the ring: the interrupt may be lost. Any
    /// context.
    pub(crate) fn poll(self: &Arc<Self>) {
        if !self.is_empty() {
            self.kick();
        }
    }

    /// Waits until the entries that are there by now are handled, a full ring of them at most, or
    /// none is handled within ten seconds: [`BATCH`] of them count at once, and each may take
    /// several slow registers. May sleep; called without locks.
    pub(crate) fn wait_drained(self: &Arc<Self>) {
        let last = self.last();
        loop {
            let before = self.handled.load(Acquire);
            if before >= last {
                return;
            }
            self.kick();
            let done = kernel::io::poll::read_poll_timeout(
                || Ok(self.handled.load(Acquire)),
                |&handled| handled >= last || self.is_empty() || !self.regs.is_present(),
                SETTLE_POLL,
                SETTLE_TIMEOUT,
            );
            // A flood takes its time, and an entry that is reported too late counts against a
            // process that did nothing.
            if done.is_ok() || self.handled.load(Acquire) == before {
                return;
            }
        }
    }

    /// Whether all entries are handled, as far as memory tells. While some are being handled, true
    /// may come late. Any context.
    pub(crate) fn is_empty(&self) -> bool {
        RING.is_empty(self.handled.load(Acquire), self.wptr())
    }

    /// The most that `handled` will be after the entries that are there, as far as memory tells.
    fn last(&self) -> u64 {
        let mut handled = self.handled.load(Acquire);
        loop {
            let end = RING.end(handled, self.wptr());
            // The one of now, for the other of before, would be a ring full too few.
            let now = self.handled.load(Acquire);
            if now == handled {
                return end;
            }
            handled = now;
        }
    }

    /// The write pointer. When it has passed the read pointer, the copy of it in memory may be old,
    /// and the register is read. A device that is gone has no entries any more.
    fn wptr(&self) -> IhWritePointer {
        let mut value = self.ring.read(DWORDS);
        if ih_rb_wptr::RB_OVERFLOW.is_set(value) {
            value = self.regs.read(regs::IH_RB_WPTR);
            if value == GONE {
                return IhWritePointer {
                    offset: RING.offset(self.handled.load(Acquire)),
                    overflow: false,
                };
            }
        }
        IhWritePointer {
            offset: offset(value),
            overflow: ih_rb_wptr::RB_OVERFLOW.is_set(value),
        }
    }

    /// Handles entries, `most` at most, and says how many. The caller holds `sink`.
    fn handle(&self, sink: &dyn InterruptSink, most: u32) -> u32 {
        let mut count = 0;
        while count < most {
            let wptr = self.write_pointer();
            let mut handled = self.handled.load(Relaxed);
            if RING.offset(handled) == wptr {
                break;
            }
            // Entries are read after the pointer that says that they are there.
            barrier::rmb();
            let batch = count + BATCH;
            while RING.offset(handled) != wptr && count < most && count < batch {
                let entry = self.named(self.entry(RING.offset(handled)), handled);
                dispatch(&entry, handled, &self.faults, sink);
                handled += u64::from(ENTRY_BYTES);
                count += 1;
            }
            sink.flush();
            self.handled.store(handled, Release);
            self.write_rptr();
        }
        count
    }

    fn write_rptr(&self) {
        let rptr = RING.offset(self.handled.load(Relaxed));
        self.doorbells.ring32(self.doorbell().byte() as u32, rptr);
    }

    /// The write pointer, bytes. Entries that an overflow has lost are passed over. The caller
    /// holds `sink`.
    fn write_pointer(&self) -> u32 {
        let wptr = self.wptr();
        if wptr.overflow && self.regs.is_present() {
            return self.skip_lost();
        }
        wptr.offset
    }

    /// Skips the entries that an overflow has lost. Returns the write pointer, bytes. The caller
    /// holds `sink`.
    fn skip_lost(&self) -> u32 {
        self.overflows.add(1, Relaxed);
        let mut owners = self.owners.lock();
        // Read with the lock held: all bindings that are recorded are of before.
        let wptr = self.wptr();
        let handled = self.handled.load(Relaxed);
        let handled = handled + u64::from(RING.lost(handled, wptr));
        self.handled.store(handled, Release);
        // First: a further overflow is measured from the read pointer that was written last.
        self.write_rptr();
        self.set_control(crate::regs::with(
            self.regs.read(regs::IH_RB_CNTL),
            cntl::WPTR_OVERFLOW_CLEAR,
            0,
        ));
        let remaining = IhWritePointer {
            overflow: false,
            ..wptr
        };
        owners.forget_before(RING.end(handled, remaining));
        drop(owners);
        self.faults.drop_all();
        wptr.offset
    }

    /// The doorbell of the read pointer.
    fn doorbell(&self) -> Doorbell {
        SliceIndex::KERNEL.doorbell(self.asic.doorbells.ih_ring0())
    }

    fn entry(&self, at: u32) -> IvEntry {
        let first = at as usize / 4;
        let dwords = core::array::from_fn::<_, ENTRY_DWORDS, _>(|n| self.ring.read(first + n));
        IvEntry::decode(&dwords, &self.asic.interrupts)
    }

    /// `entry`, which is at `position` of the ring, with its process. Where the driver assigns the
    /// VMIDs, gfx9 is known to leave PAS_ID 0, whatever the IH's table says (amdkfd's
    /// event_interrupt_isr_v9). The process is then the one that had the VMID when the entry came.
    /// Where the firmware assigns them, the entry has none: amdkfd calls that a bug, and drops it.
    fn named(&self, entry: IvEntry, position: u64) -> IvEntry {
        if entry.pasid != 0 || entry.vmid == Vmid::KERNEL.get() {
            return entry;
        }
        let pasid = self.owners.lock().owner(entry.vmid, position);
        // The hardware may have overwritten the entry with one of another position. It says that
        // it begins to overwrite before it does.
        barrier::rmb();
        let is_overwritten = self.wptr().overflow;
        IvEntry {
            pasid: if is_overwritten { 0 } else { pasid },
            ..entry
        }
    }

    /// Process `pasid` is about to get `vmid`, whose last owner has no queue on the hardware:
    /// entries of `vmid` that come from now on are of `pasid`. Any context.
    pub(crate) fn set_owner(&self, vmid: Vmid, pasid: u16) {
        let mut owners = self.owners.lock();
        let position = self.last();
        owners.bind(vmid.get(), pasid, position);
    }
}

/// Byte offset in a value of WPTR; inside the ring and on an entry whatever the value.
const fn offset(value: u32) -> u32 {
    let bytes = ih_rb_wptr::OFFSET.get(value) * 4;
    bytes - bytes % ENTRY_BYTES
}

/// Reports what an entry announces, which is at `position` of the ring, to `sink`, or to `faults`.
fn dispatch(entry: &IvEntry, position: u64, faults: &RetryFaults, sink: &dyn InterruptSink) {
    trace::interrupt(
        entry.client_id.into(),
        entry.source.into(),
        entry.ring.into(),
        entry.vmid.into(),
        entry.pasid.into(),
        entry.data[0],
    );
    match entry.event() {
        IvEvent::SdmaTrap(trap) => sink.sdma_trap(trap.engine, trap.vmid, trap.pasid, trap.context),
        IvEvent::SdmaError(error) => sink.sdma_error(&error),
        IvEvent::SdmaPartialDoorbell(engine) => sink.sdma_partial_doorbell(engine),
        IvEvent::VmFault(fault) => faults.raise(&fault, position),
        IvEvent::CpEop(eop) => sink.cp_eop(&eop),
        IvEvent::CpError(error) => sink.cp_error(&error),
        IvEvent::ShaderMessage(message) => sink.shader_message(&message),
        IvEvent::Unknown => {}
    }
}
