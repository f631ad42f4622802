// SPDX-License-Identifier: GPL-2.0
//! The memory controller as the driver sees it: where VRAM is, the GART, which tables a VMID has,
//! and invalidation of translations, in both hubs alike.

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_mutex, Arc, Mutex};

use hw::asic::VmidSplit;
use hw::ih::FaultStatus;
use hw::ip::IpBlock;
use hw::no_retry::{self, NoRetryTables};
use hw::pte::ContextBase;
use hw::va::{PAGE_SIZE, TABLE_ENTRIES};

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
use crate::regs::{osssys, RegisterWindow};

/// Bytes at the start of VRAM that are reserved for the memory controller: its scratch page, and
/// the tables without retry.
pub(crate) const VRAM_RESERVED: u64 = NO_RETRY + no_retry::BYTES;

/// VRAM offset of the scratch page.
const SCRATCH: u64 = 0;
/// VRAM offset of the tables without retry.
const NO_RETRY: u64 = 4 * PAGE_SIZE;
/// Dwords of a page.
const PAGE_DWORDS: usize = 1024;

/// The memory controller.
#[pin_data]
pub(crate) struct Gmc {
    hdp: Arc<Hdp>,
    health: Arc<GpuHealth>,
    dev: ARef<Device>,
    fb: FbLocation,
    dummy: DmaWords,
    vmids: &'static VmidSplit,
    osssys: RegisterWindow,
    /// The tables in which no access is retried.
    no_retry: ContextBase,
    /// By VMID, the process that was last barred in it and has had no VMID since; 0 for none.
    /// Changed with `hubs` locked.
    barred: [Atomic<u32>; VMIDS as usize],
    /// One change or invalidation at a time: engine 17 has one request register.
    #[pin]
    hubs: Mutex<TranslationHubs>,
}

struct TranslationHubs {
    gfx: Hub,
    mm: Hub,
    athub: Athub,
}

impl TranslationHubs {
    fn each(&self) -> [&Hub; 2] {
        [&self.gfx, &self.mm]
    }
}

/// Sets up the paths to VRAM, which is at `fb`, and the memory controller's part of it. `dummy` is
/// the bus address of the page for accesses without a valid target. Returns the tables without
/// retry.
fn set_up(
    hubs: &TranslationHubs,
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
    for hub in hubs.each() {
        hub.bring_up(fb, ScratchPages { dummy, vram });
    }
    Ok(no_retry.base())
}

impl Gmc {
    /// Brings both hubs up, for `vram` bytes of VRAM, while they are not in use. A hub that does
    /// not answer a flush later is reported to `health`.
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
        vram: u64,
        vmids: &'static VmidSplit,
    ) -> Result<Arc<Self>> {
        let (mmio, ips) = rest.registers();
        let hubs = TranslationHubs {
            gfx: Hub::new(dev, mmio, ips, hw::ih::HubKind::Gfx)?,
            mm: Hub::new(dev, mmio, ips, hw::ih::HubKind::Mm)?,
            athub: Athub::new(mmio, ips)?,
        };
        let fb = hubs.mm.fb_location();
        let end = fb.base.checked_add(vram).ok_or(EIO)?;
        if end - 1 > fb.last {
            dev_err!(
                dev,
                "VRAM of {} MiB does not fit its aperture {:#x}-{:#x}\n",
                vram >> 20,
                fb.base,
                fb.last
            );
            return Err(EIO);
        }
        let dummy = DmaWords::new(dev, PAGE_DWORDS)?;
        let no_retry = set_up(&hubs, hdp, vram_map, fb, dummy.address())?;
        let hdp = hdp.clone();
        let osssys = RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?;
        Arc::pin_init(
            pin_init!(Self {
                hdp,
                health: health.clone(),
                dev: dev.into(),
                fb,
                dummy,
                vmids,
                osssys,
                no_retry,
                barred: [const { Atomic::new(0) }; VMIDS as usize],
                hubs <- new_mutex!(hubs, "Gmc::hubs"),
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
        let hubs = self.hubs.lock();
        if hubs.mm.fb_location() != self.fb {
            dev_err!(
                self.dev,
                "VRAM is not at the address that it had before the sleep\n"
            );
            return Err(EIO);
        }
        set_up(&hubs, &self.hdp, vram_map, self.fb, self.dummy.address()).map(drop)
    }

    /// The device, for messages.
    pub(crate) fn dev(&self) -> &Device {
        &self.dev
    }

    /// Where VRAM is.
    pub(crate) fn fb(&self) -> FbLocation {
        self.fb
    }

    /// MC address of VRAM's first byte.
    pub(crate) fn fb_base(&self) -> u64 {
        self.fb.base
    }

    /// The offset that page-table entries add to a VRAM offset; 0 without XGMI.
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
        if size == 0 || (start <= self.fb.last && end > self.fb.base) {
            return Err(EINVAL);
        }
        let gart = GartAperture { table, start, size };
        let hubs = self.hubs.lock();
        for hub in hubs.each() {
            hub.enable_gart(gart, self.fb);
        }
        self.invalidate(&hubs, Vmid::KERNEL, TlbFlush::Legacy)
    }

    /// Gives `vmid` to process `pasid` with the page tables at `root`. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the hardware does not answer.
    pub(crate) fn bind(&self, vmid: Vmid, pasid: u16, root: ContextBase) -> Result {
        let hubs = self.hubs.lock();
        for barred in &self.barred {
            if barred.load(Relaxed) == pasid.into() {
                barred.store(0, Relaxed);
            }
        }
        hubs.athub.map(vmid, Some(pasid))?;
        self.set_interrupt_pasid(vmid, pasid);
        for hub in hubs.each() {
            hub.set_base(vmid, root);
        }
        // The VMID's last owner has left no translation in it, see `unbind`. But the hubs must not
        // remember either that there were no tables.
        self.invalidate(&hubs, vmid, TlbFlush::Legacy)
    }

    /// Takes the tables from `vmid`. Its queues have been stopped before. After success, no access
    /// through the tables is under way, and no translation remains. May sleep.
    pub(crate) fn unbind(&self, vmid: Vmid) -> Result {
        let hubs = self.hubs.lock();
        for hub in hubs.each() {
            hub.set_base(vmid, ContextBase::NONE);
        }
        let flushed = self.invalidate(&hubs, vmid, TlbFlush::Heavyweight);
        self.set_interrupt_pasid(vmid, 0);
        hubs.athub.map(vmid, None)?;
        flushed
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
        let hubs = self.hubs.lock();
        for vmid in Vmid::of_firmware(self.vmids) {
            for hub in hubs.each() {
                hub.set_base(vmid, ContextBase::NONE);
            }
        }
        for vmid in Vmid::of_firmware(self.vmids) {
            self.invalidate(&hubs, vmid, TlbFlush::Heavyweight)?;
            self.set_interrupt_pasid(vmid, 0);
            hubs.athub.map(vmid, None)?;
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
        let owner = hubs.athub.process(vmid);
        if owner.is_none_or(|owner| owner == pasid) {
            self.set_barred(vmid, pasid);
        }
        if owner != Some(pasid) {
            return Ok(());
        }
        hubs.mm.set_base(vmid, self.no_retry);
        let kind = TlbFlush::Legacy;
        trace::tlb_flush(vmid.get().into(), kind as u32);
        self.invalidate_in(&hubs.mm, vmid, kind)
    }

    /// Remembers that process `pasid` has lost `vmid` and that a fault there is reported to it:
    /// further faults there are not reported. Nothing happens if a process has the VMID again. May
    /// sleep; allocates nothing.
    pub(crate) fn set_reported(&self, vmid: Vmid, pasid: u16) {
        let hubs = self.hubs.lock();
        if hubs.athub.process(vmid).is_none() {
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
        self.invalidate(&self.hubs.lock(), vmid, kind)
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
        let hubs = self.hubs.lock();
        self.hdp.flush();
        Vmid::of_firmware(self.vmids)
            .filter(|&vmid| hubs.athub.process(vmid) == Some(pasid))
            .try_for_each(|vmid| self.invalidate(&hubs, vmid, kind))
    }

    /// The process that the firmware has given `vmid` to.
    pub(crate) fn process(&self, vmid: Vmid) -> Option<u16> {
        self.hubs.lock().athub.process(vmid)
    }

    /// The fault that `hub` has latched; it latches the next one after this. May sleep.
    pub(crate) fn take_fault(&self, hub: hw::ih::HubKind) -> Option<FaultStatus> {
        let hubs = self.hubs.lock();
        match hub {
            hw::ih::HubKind::Gfx => hubs.gfx.take_fault(),
            hw::ih::HubKind::Mm => hubs.mm.take_fault(),
        }
    }

    /// Turns all translation off; nothing uses it any more. May sleep.
    pub(crate) fn stop(&self) {
        let hubs = self.hubs.lock();
        for hub in hubs.each() {
            hub.stop();
        }
    }

    /// See [`Gmc::flush`].
    fn invalidate(&self, hubs: &TranslationHubs, vmid: Vmid, kind: TlbFlush) -> Result {
        trace::tlb_flush(vmid.get().into(), kind as u32);
        self.hdp.flush();
        for hub in hubs.each() {
            self.invalidate_in(hub, vmid, kind)?;
        }
        Ok(())
    }

    /// As [`Gmc::flush`] in one hub, without regard to the CPU's writes. A hub that does not answer
    /// takes the GPU down: it may keep using translations that cannot be taken from it.
    fn invalidate_in(&self, hub: &Hub, vmid: Vmid, kind: TlbFlush) -> Result {
        let was_silent = hub.is_silent();
        hub.invalidate(vmid, kind).inspect_err(|_| {
            if !was_silent {
                let wedged = WedgeReport {
                    part: WedgedPart::Hub(hub.which()),
                    suspect: None,
                };
                dev_err!(
                    self.dev,
                    "{}: the GPU is wedged\n",
                    format_args!("{wedged}")
                );
                self.health.wedge(wedged);
            }
        })
    }

    /// Sets the PASID that the IH adds to entries of `vmid`.
    fn set_interrupt_pasid(&self, vmid: Vmid, pasid: u16) {
        for table in [osssys::IH_VMID_0_LUT, osssys::IH_VMID_0_LUT_MM] {
            self.osssys
                .write(table.nth(vmid.get().into(), 1), pasid.into());
        }
    }
}
