// SPDX-License-Identifier: GPL-2.0
//! The memory controller as the driver sees it: where VRAM is, the GART, which tables a VMID has,
//! and invalidation of translations, in both hubs alike.
//!
//! Every map and unmap flushes, in the thread that makes the call, which the scheduler may keep
//! from the CPU for long. So no thread owns the hubs while it waits: see [`hw::flush`].

use core::hint::spin_loop;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

use hw::asic::{Asic, VmidSplit};
use hw::flush::{FlushProgress, FlushRequests, FlushTicket, HubSet, FLUSH_SPIN_US};
use hw::ih::{FaultStatus, HubKind, IhInfo, VmFault};
use hw::ip::IpBlock;
use hw::no_retry::{self, NoRetryTables};
use hw::pte::ContextBase;
use hw::va::{PAGE_SIZE, TABLE_ENTRIES};
use hw::xgmi::XgmiPlace;

use super::athub::Athub;
use super::halted::HaltedGpu;
use super::hdp::Hdp;
use super::hub::{FbLocation, GartAperture, Hub, ScratchPages, TlbFlush};
use super::vmid::Vmid;
use crate::health::{GpuHealth, WedgeReport, WedgedPart};
use crate::kern::dma_words::DmaWords;
use crate::kern::trace;
use crate::kern::vram_map::VramMap;
use crate::regs::hub::VMIDS;
use crate::regs::{osssys, Register, RegisterWindow};

/// Bytes at the start of VRAM that are reserved for the memory controller: its scratch page, and
/// the tables without retry.
pub(crate) const VRAM_RESERVED: u64 = NO_RETRY + no_retry::BYTES;

/// VRAM offset of the scratch page.
const SCRATCH: u64 = 0;
/// VRAM offset of the tables without retry.
const NO_RETRY: u64 = 4 * PAGE_SIZE;
/// Dwords of a page.
const PAGE_DWORDS: usize = 1024;
/// Between two polls of a request that a hub has not acknowledged at once.
const FLUSH_POLL: Delta = Delta::from_micros(50);

/// The memory controller.
#[pin_data]
pub(crate) struct Gmc {
    hdp: Arc<Hdp>,
    health: Arc<GpuHealth>,
    dev: ARef<Device>,
    /// Its place in its hive, and that of its VRAM.
    place: XgmiPlace,
    fb: FbLocation,
    dummy: DmaWords,
    vmids: &'static VmidSplit,
    osssys: RegisterWindow,
    /// The IH's nodes of each XCC and of its die, where it has PASIDs by node.
    nodes: KVec<[u32; 2]>,
    interrupts: &'static IhInfo,
    /// The tables in which no access is retried.
    no_retry: ContextBase,
    /// By VMID, the process that was last barred in it and has had no VMID since; 0 for none.
    /// Changed with `hubs` locked.
    barred: [Atomic<u32>; VMIDS as usize],
    /// GFXHUB of each XCC, and MMHUB of each die.
    gfx: KVec<Hub>,
    mm: KVec<Hub>,
    athub: Athub,
    /// Guards the invalidation engines, the latched faults, the tables of VMIDs, and the node that
    /// the IH's PASIDs are of. Held for twice
    /// [`FLUSH_SPIN_US`] at most.
    #[pin]
    hubs: SpinLock<HubsState>,
}

struct HubsState {
    flushes: FlushRequests,
    /// When the last request was made.
    since: Instant<Monotonic>,
    /// By VMID, the process that the driver has given it to; 0 for none.
    owners: [u16; VMIDS as usize],
}

impl HubsState {
    fn new() -> Self {
        Self {
            flushes: FlushRequests::new(),
            since: Instant::now(),
            owners: [0; VMIDS as usize],
        }
    }

    /// Microseconds since the last request was made.
    fn waited_us(&self) -> u64 {
        self.since
            .elapsed()
            .as_micros_ceil()
            .try_into()
            .unwrap_or(0)
    }

    fn owner(&self, vmid: Vmid) -> u16 {
        let owner = self.owners.get(usize::from(vmid.get()));
        owner.copied().unwrap_or(0)
    }

    fn set_owner(&mut self, vmid: Vmid, pasid: u16) {
        if let Some(owner) = self.owners.get_mut(usize::from(vmid.get())) {
            *owner = pasid;
        }
    }
}

/// Sets up the paths to VRAM, which is at `fb`, and the memory controller's part of it. `dummy` is
/// the bus address of the page for accesses without a valid target. Returns the tables without
/// retry.
fn set_up<'a>(
    hubs: impl Iterator<Item = &'a Hub>,
    hdp: &Hdp,
    vram_map: &VramMap,
    fb: FbLocation,
    dummy: u64,
) -> Result<ContextBase> {
    let vram = SCRATCH;
    hdp.bring_up(fb.base);
    let no_retry = NoRetryTables::at(NO_RETRY + fb.offset);
    for (offset, entry) in no_retry.tables() {
        vram_map.fill64(NO_RETRY + offset, entry, TABLE_ENTRIES)?;
    }
    for hub in hubs {
        hub.bring_up(fb, ScratchPages { dummy, vram });
    }
    Ok(no_retry.base())
}

impl Gmc {
    /// Brings both hubs up, for `vram` bytes of VRAM of a GPU at `place` in its hive, while they
    /// are not in use. A hub that does not answer a flush later is reported to `health`.
    ///
    /// # Errors
    ///
    /// `EIO` if VRAM does not fit the hubs' aperture; `ENOMEM`.
    pub(super) fn new(
        dev: &Device<Bound>,
        rest: &HaltedGpu<'_>,
        hdp: &Arc<Hdp>,
        health: &Arc<GpuHealth>,
        vram_map: &VramMap,
        (vram, place): (u64, XgmiPlace),
        asic: &'static Asic,
    ) -> Result<Arc<Self>> {
        let (mmio, ips) = rest.registers();
        let gfx = Hub::each(dev, mmio, ips, HubKind::Gfx)?;
        let mm = Hub::each(dev, mmio, ips, HubKind::Mm)?;
        let athub = Athub::new(mmio, ips)?;
        let fb = mm.first().ok_or(ENODEV)?.fb_location(place);
        let end = fb.base.checked_add(vram).ok_or(EIO)?;
        if end - 1 > fb.last {
            dev_err!(
                dev,
                "VRAM of {} MiB does not fit its aperture {:#x}-{:#x}\n",
                vram >> 20,
                fb.first,
                fb.last
            );
            return Err(EIO);
        }
        let dummy = DmaWords::new(dev, PAGE_DWORDS)?;
        let hubs = Iterator::chain(gfx.iter(), &mm);
        let no_retry = set_up(hubs, hdp, vram_map, fb, dummy.address())?;
        let hdp = hdp.clone();
        let osssys = RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?;
        let interrupts = &asic.interrupts;
        let mut nodes = KVec::with_capacity(gfx.len(), GFP_KERNEL)?;
        for xcc in ips.of(IpBlock::Gc) {
            if let Some(pair) = interrupts.nodes_of_xcc(xcc.number) {
                nodes.push(pair, GFP_KERNEL)?;
            }
        }
        let vmids = &asic.vmids;
        Arc::pin_init(
            pin_init!(Self {
                hdp,
                health: health.clone(),
                dev: dev.into(),
                place,
                fb,
                dummy,
                vmids,
                osssys,
                nodes,
                interrupts,
                no_retry,
                barred: [const { Atomic::new(0) }; VMIDS as usize],
                gfx,
                mm,
                athub,
                hubs <- new_spinlock!(HubsState::new(), "Gmc::hubs"),
            }),
            GFP_KERNEL,
        )
    }

    /// Brings both hubs up again, which have lost all their state: as [`Gmc::new`], and the GART is
    /// off.
    ///
    /// # Errors
    ///
    /// `EIO` if VRAM has another address than before.
    pub(super) fn bring_up(&self, _: &HaltedGpu<'_>, vram_map: &VramMap) -> Result {
        let fb = self.mm.first().map(|hub| hub.fb_location(self.place));
        if fb != Some(self.fb) {
            dev_err!(
                self.dev,
                "VRAM is not at the address that it had before the sleep\n"
            );
            return Err(EIO);
        }
        set_up(
            self.each(),
            &self.hdp,
            vram_map,
            self.fb,
            self.dummy.address(),
        )?;
        self.hubs.lock().flushes.reset();
        Ok(())
    }

    fn each(&self) -> impl Iterator<Item = &Hub> {
        Iterator::chain(self.gfx.iter(), &self.mm)
    }

    /// All hubs of a kind.
    fn hubs(&self, kind: HubKind) -> &[Hub] {
        match kind {
            HubKind::Gfx => &self.gfx,
            HubKind::Mm => &self.mm,
        }
    }

    /// The hub that raised `fault`.
    fn hub_of(&self, fault: &VmFault) -> Option<&Hub> {
        let index = match fault.hub {
            HubKind::Mm => self.interrupts.die(fault.node).into(),
            HubKind::Gfx => {
                let mut nodes = self.nodes.iter();
                let own = |[xcc, _]: &[u32; 2]| *xcc == fault.node.into();
                nodes.position(own).unwrap_or(0)
            }
        };
        self.hubs(fault.hub).get(index)
    }

    /// The device, for messages.
    pub(crate) fn dev(&self) -> &Device {
        &self.dev
    }

    /// The GPU's place in its hive.
    pub(crate) fn place(&self) -> XgmiPlace {
        self.place
    }

    /// Where VRAM is.
    pub(crate) fn fb(&self) -> FbLocation {
        self.fb
    }

    /// MC address of the first byte of the GPU's own VRAM.
    pub(crate) fn fb_base(&self) -> u64 {
        self.fb.base
    }

    /// The value that page-table entries add to an offset in the GPU's own VRAM; 0 without XGMI.
    pub(crate) fn fb_offset(&self) -> u64 {
        self.fb.offset
    }

    /// Bus address of the page for accesses without a valid target.
    pub(crate) fn dummy_page(&self) -> u64 {
        self.dummy.address()
    }

    /// Turns VMID 0's translation on: `size` bytes from MC address `start` on, by the flat table at
    /// VRAM offset `table`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range is empty or overlaps VRAM; `ETIMEDOUT` if a hub does not answer.
    pub(crate) fn enable_gart(&self, table: u64, start: u64, size: u64) -> Result {
        let end = start.checked_add(size).ok_or(EINVAL)?;
        if size == 0 || (start <= self.fb.last && end > self.fb.first) {
            return Err(EINVAL);
        }
        let gart = GartAperture { table, start, size };
        for hub in self.each() {
            hub.enable_gart(gart, self.fb);
        }
        self.flush(Vmid::KERNEL, TlbFlush::Legacy)
    }

    /// Gives `vmid` to process `pasid` with the page tables at `root`. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hardware does not answer.
    pub(crate) fn bind(&self, vmid: Vmid, pasid: u16, root: ContextBase) -> Result {
        self.athub.map(vmid, Some(pasid))?;
        self.set_interrupt_pasid(vmid, pasid);
        let mut hubs = self.hubs.lock();
        for barred in &self.barred {
            if barred.load(Relaxed) == pasid.into() {
                barred.store(0, Relaxed);
            }
        }
        hubs.set_owner(vmid, pasid);
        for hub in self.each() {
            hub.set_base(vmid, root);
        }
        drop(hubs);
        // The VMID's last owner has left no translation in it, see `unbind`. But the hubs must not
        // remember either that there were no tables.
        self.flush(vmid, TlbFlush::Legacy)
    }

    /// Takes the tables from `vmid`. Its queues have been stopped before. After success, no access
    /// through the tables is under way, and no translation remains. May sleep.
    pub(crate) fn unbind(&self, vmid: Vmid) -> Result {
        self.remove_tables(vmid);
        let flushed = self.flush(vmid, TlbFlush::Heavyweight);
        self.set_interrupt_pasid(vmid, 0);
        self.athub.map(vmid, None)?;
        flushed
    }

    /// From now on `vmid` has no tables and no owner. A flush has to follow.
    fn remove_tables(&self, vmid: Vmid) {
        let mut hubs = self.hubs.lock();
        hubs.set_owner(vmid, 0);
        for hub in self.each() {
            hub.set_base(vmid, ContextBase::NONE);
        }
    }

    /// Takes the tables from all VMIDs of the firmware, which has been halted: waves may still run.
    /// After success, no access through the tables is under way. After an error, VMIDs that may
    /// have such accesses keep their process, so that [`Gmc::flush_process`] for it does not
    /// succeed before the hub answers. May sleep; allocates nothing.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`.
    pub(crate) fn unbind_firmware(&self) -> Result {
        for vmid in Vmid::of_firmware(self.vmids) {
            self.remove_tables(vmid);
        }
        for vmid in Vmid::of_firmware(self.vmids) {
            self.flush(vmid, TlbFlush::Heavyweight)?;
            self.set_interrupt_pasid(vmid, 0);
            self.athub.map(vmid, None)?;
        }
        Ok(())
    }

    /// Ends the accesses of process `pasid` that are being retried in MMHUB, and makes all others
    /// fault, until `vmid`, which the driver gave it, is bound or unbound ([`Gmc::bind`],
    /// [`Gmc::unbind`]). The process's own tables stay as they are. Nothing happens if another
    /// process has the VMID; if none has it, this is [`Gmc::set_reported`]. May sleep; allocates
    /// nothing.
    ///
    /// amdgpu writes an entry that is not retried into the process's tables, for the page at hand.
    /// A packet may come to millions of such pages, in tables that have yet to be made. Here all
    /// pages are dealt with at once, and nothing has to be taken back.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hub does not answer within a second.
    pub(crate) fn bar(&self, vmid: Vmid, pasid: u16) -> Result {
        let hubs = self.hubs.lock();
        let owner = hubs.owner(vmid);
        if owner == 0 || owner == pasid {
            self.set_barred(vmid, pasid);
        }
        if owner != pasid {
            return Ok(());
        }
        for hub in &self.mm {
            hub.set_base(vmid, self.no_retry);
        }
        drop(hubs);
        self.invalidate(HubSet::MM, vmid, TlbFlush::Legacy)
    }

    /// Remembers that process `pasid` has lost `vmid` and that a fault there is reported to it:
    /// further faults there are not reported. Nothing happens if a process has the VMID again. Any
    /// context.
    pub(crate) fn set_reported(&self, vmid: Vmid, pasid: u16) {
        let hubs = self.hubs.lock();
        if hubs.owner(vmid) == 0 {
            self.set_barred(vmid, pasid);
        }
    }

    /// With `hubs` locked.
    fn set_barred(&self, vmid: Vmid, pasid: u16) {
        if let Some(barred) = self.barred.get(usize::from(vmid.get())) {
            barred.store(pasid.into(), Relaxed);
        }
    }

    /// Whether all accesses of process `pasid` through `vmid` fault in MMHUB, or did and the
    /// process has had no VMID since, see [`Gmc::bar`]. Any context.
    pub(crate) fn is_barred(&self, vmid: Vmid, pasid: u16) -> bool {
        let barred = self.barred.get(usize::from(vmid.get()));
        pasid != 0 && barred.is_some_and(|barred| barred.load(Relaxed) == pasid.into())
    }

    /// Drops the cached translations of `vmid` in both hubs, after the CPU's writes to VRAM are
    /// visible. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if a hub does not answer within a second.
    pub(crate) fn flush(&self, vmid: Vmid, kind: TlbFlush) -> Result {
        self.hdp.flush();
        self.invalidate(HubSet::BOTH, vmid, kind)
    }

    /// Drops the cached translations of process `pasid` from the VMIDs that the firmware has given
    /// it, if any. A VMID is clean when a process gets it after another; whether it is after the
    /// same process, no source says. So it has to be flushed when a process stops using compute
    /// queues, too. The PASID stays until another process has the VMID: amdkfd (kfd_flush_tlb)
    /// flushes by it, whether or not there are queues. May sleep; allocates nothing.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if a hub does not answer within a second.
    pub(crate) fn flush_process(&self, pasid: u16, kind: TlbFlush) -> Result {
        self.hdp.flush();
        Vmid::of_firmware(self.vmids)
            .filter(|&vmid| self.process(vmid) == Some(pasid))
            .try_for_each(|vmid| self.invalidate(HubSet::BOTH, vmid, kind))
    }

    /// The process that the firmware has given `vmid` to. Any context.
    pub(crate) fn process(&self, vmid: Vmid) -> Option<u16> {
        self.athub.process(vmid)
    }

    /// The fault that the hub of `fault` has latched; it latches the next one after this. Any
    /// context.
    pub(crate) fn take_fault(&self, fault: &VmFault) -> Option<FaultStatus> {
        let _hubs = self.hubs.lock();
        self.hub_of(fault)?.take_fault()
    }

    /// Turns all translation off; nothing uses it any more. Any context.
    pub(crate) fn stop(&self) {
        let _hubs = self.hubs.lock();
        for hub in self.each() {
            hub.stop();
        }
    }

    /// As [`Gmc::flush`] in some hubs, without regard to the CPU's writes. A hub that does not
    /// answer takes the GPU down: it may keep using translations that cannot be taken from it.
    fn invalidate(&self, hubs: HubSet, vmid: Vmid, kind: TlbFlush) -> Result {
        trace::tlb_flush(vmid.get().into(), kind as u32);
        let mut ticket = None;
        loop {
            let (progress, silent) = self.step_flush(hubs, vmid, kind, &mut ticket);
            self.report(silent);
            match progress {
                FlushProgress::Done => return Ok(()),
                FlushProgress::Failed => return Err(ETIMEDOUT),
                FlushProgress::Pending => fsleep(FLUSH_POLL),
            }
        }
    }

    /// Polls the request that is under way, makes that of the caller when there is none, and polls
    /// it for as long as one usually takes. Returns what became of it, and the hubs that are found
    /// silent. Any context.
    fn step_flush(
        &self,
        hubs: HubSet,
        vmid: Vmid,
        kind: TlbFlush,
        ticket: &mut Option<FlushTicket>,
    ) -> (FlushProgress, HubSet) {
        let mut silent = HubSet::NONE;
        let mut state = self.hubs.lock();
        loop {
            silent = silent.with(self.poll_flush(&mut state));
            if ticket.is_none() {
                *ticket = state.flushes.request(hubs, vmid.get());
                if ticket.is_some() {
                    state.since = Instant::now();
                    for hub in hubs.kinds().flat_map(|which| self.hubs(which)) {
                        hub.request_flush(vmid, kind);
                    }
                    continue;
                }
            }
            let progress = ticket.map_or(FlushProgress::Pending, |ticket| {
                state.flushes.progress(ticket)
            });
            if progress != FlushProgress::Pending || state.waited_us() >= FLUSH_SPIN_US {
                return (progress, silent);
            }
            spin_loop();
        }
    }

    /// Polls the request that is under way. Returns the hubs that are found silent.
    fn poll_flush(&self, state: &mut HubsState) -> HubSet {
        let Some(pending) = state.flushes.pending() else {
            return HubSet::NONE;
        };
        // The hubs are polled after the clock: a thread that comes late still finds an answer that
        // came in time.
        let waited = state.waited_us();
        for hub in pending.awaited.kinds() {
            let mut all = self.hubs(hub).iter();
            if all.all(|hub| hub.has_flushed(pending.vmid)) {
                state.flushes.acknowledge(hub);
            }
        }
        state.flushes.expire(waited)
    }

    /// Reports hubs that are found silent.
    fn report(&self, silent: HubSet) {
        for hub in silent.kinds() {
            let wedged = WedgeReport {
                part: WedgedPart::Hub(hub),
                suspect: None,
            };
            dev_err!(
                self.dev,
                "{}: the GPU is wedged\n",
                format_args!("{wedged}")
            );
            self.health.wedge(wedged);
        }
    }

    /// Sets the PASID that the IH adds to entries of `vmid`.
    fn set_interrupt_pasid(&self, vmid: Vmid, pasid: u16) {
        let tables = [osssys::IH_VMID_0_LUT, osssys::IH_VMID_0_LUT_MM];
        let set = |table: Register| {
            self.osssys
                .write(table.nth(vmid.get().into(), 1), pasid.into());
        };
        if self.nodes.is_empty() {
            return tables.into_iter().for_each(set);
        }
        let _hubs = self.hubs.lock();
        for nodes in &self.nodes {
            for (table, node) in tables.into_iter().zip(*nodes) {
                self.osssys.write(osssys::IH_VMID_LUT_INDEX, node);
                set(table);
            }
        }
        self.osssys.write(osssys::IH_VMID_LUT_INDEX, 0);
    }
}
