// SPDX-License-Identifier: GPL-2.0
//! Accesses that are retried until there is a translation: what they raise, where they wait, and
//! how they end.
//!
//! A user context retries an access for which it finds no valid entry, or which the entry does not
//! allow (RETRY_PERMISSION_OR_INVALID_PAGE_FAULT, which 9.4.2 wants). Shaders are told not to
//! (SH_MEM_CONFIG.RETRY_DISABLE); an SDMA engine does, and stands there with all its queues. Each
//! try raises an entry. The IH's retry CAM lets one through for a page and a process, at a place of
//! its own until that is acknowledged (amdgpu: vega20_ih_irq_init, amdgpu_gmc_handle_retry_fault).
//! So there is room for all of them.
//!
//! Where the owner of a process maps what the process has at a page when the GPU comes there
//! (XNACK), the fault waits for that. Where it does not, and at a bad address, the first such fault
//! is the last: the process's address space is barred ([`Gmc::bar`]), in which the access ends, its
//! queues stop, and the VMID goes back, so that queues that the process makes later have its own
//! tables again. GFXHUB's tables stay: waves are saved through them, also waves that wait for a
//! page, and end where their queues are taken off the hardware.
//!
//! The stages of a fault, and the decisions about it, are in [`hw::faults`]. This file keeps them,
//! and has the hardware do what they say.

use kernel::io::poll::read_poll_timeout;
use kernel::prelude::*;
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::time::Delta;

use hw::doorbell::{Doorbell, DoorbellLayout, SliceIndex};
use hw::faults::{
    FaultArrival, FaultCursor, FaultPolicy, FaultReport, PendingFault, PendingFaults, ServedFault,
};
use hw::ih::{CamEntry, FaultStatus, HubKind, VmFault};
use hw::ip::{IpBlock, IpTable};
use hw::topology::gpu_id::GpuId;

use super::gmc::Gmc;
use super::ih::registers::start_cam;
use super::interrupt_sink::InterruptSink;
use super::vmid::{Vmid, VmidPool};
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::host;
use crate::kern::mmio::Mmio;
use crate::regs::RegisterWindow;

/// How long a sleep waits for faults that are being served: memory may be on its way to VRAM. And
/// the pause between two looks.
const SERVED_MOST: Delta = Delta::from_millis(20_000);
const SERVED_POLL: Delta = Delta::from_millis(1);

/// The owner of the processes that faults name by PASID; an unknown one has ended. Called by the
/// interrupt thread: allocates nothing and waits for nothing.
pub(crate) trait FaultOwner: Send + Sync {
    /// What becomes of retried page faults of the process on the GPU.
    fn policy(&self, gpu: GpuId, pasid: u16) -> FaultPolicy;
    /// `fault` of a process waits from now on: queues what serves it.
    fn queue(&self, fault: &VmFault);
}

/// A fault that the driver serves. It is over and acknowledged when this is dropped; if there is no
/// page by then, it is raised again.
pub(crate) struct PageFault {
    /// What was accessed, and how.
    pub(crate) fault: VmFault,
    /// Its position in the interrupt ring, see [`Ih::position`](super::ih::Ih::position).
    pub(crate) position: u64,
    /// None when it waits on.
    place: Option<CamEntry>,
    of: Arc<RetryFaults>,
}

impl PageFault {
    /// Has it wait on, for something that the driver cannot do by itself if it `awaits` that. If
    /// another fault has come to its place meanwhile, that one stands for it. Returns `false` if
    /// too many faults keep their places: it has its place until [`RetryFaults::release`].
    pub(crate) fn put_back(mut self, awaits: bool) -> bool {
        let Some(place) = self.place.take() else {
            return true;
        };
        let mut pending = self.of.pending.lock();
        pending.put_back(place, self.position, awaits)
    }
}

impl Drop for PageFault {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let mut pending = self.of.pending.lock();
            pending.end(place, self.position, host::boot_ms());
            drop(pending);
            self.of.acknowledge(place);
        }
    }
}

/// Others wait for an SDMA engine on which a queue of a process stands at page faults, until this
/// is dropped: those faults are the first of the process's to be served, and memory does not move
/// for any of its faults, which takes much longer than to map it where it is.
pub(crate) struct UrgentFaults {
    of: Arc<RetryFaults>,
    /// None: there was no room.
    key: Option<usize>,
}

impl Drop for UrgentFaults {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.of.pending.lock().clear_urgent(key);
        }
    }
}

/// No fault of the GPU is served until this is dropped; those that have come by then are served
/// after that.
pub(crate) struct SuspendedFaults(Arc<RetryFaults>);

impl Drop for SuspendedFaults {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// Both are above the driver's blocks.
#[derive(Default)]
struct FaultListeners {
    /// Set while the GPU is bound. Without it all faults are errors.
    owner: Option<Arc<dyn FaultOwner>>,
    /// The receiver of faults that are errors, between [`RetryFaults::listen`] and
    /// [`RetryFaults::stop`].
    sink: Option<Arc<dyn InterruptSink>>,
}

impl FaultListeners {
    fn policy(&self, gpu: GpuId, pasid: u16) -> FaultPolicy {
        let owner = self.owner.as_ref();
        owner.map_or(FaultPolicy::Error, |owner| owner.policy(gpu, pasid))
    }
}

/// The retried faults of a GPU: the CAM, the faults that wait, and the end of those that may not.
#[pin_data]
pub(crate) struct RetryFaults {
    regs: RegisterWindow,
    doorbells: Arc<DoorbellMap>,
    /// The doorbell by which the CAM's entries are acknowledged.
    doorbell: Doorbell,
    gmc: Arc<Gmc>,
    vmids: Arc<VmidPool>,
    gpu: GpuId,
    /// Held while a fault is decided and ended, so that the first of a process is reported, and no
    /// other. Inside `Ih::sink`, which need not be held.
    #[pin]
    listeners: Mutex<FaultListeners>,
    /// Innermost; nothing is allocated under it.
    #[pin]
    pending: SpinLock<PendingFaults<KVec<Option<PendingFault>>>>,
}

impl RetryFaults {
    /// The CAM of the GPU `gpu` whose blocks are `ips`, off, and no faults.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the ASIC has none; `ENOMEM`.
    pub(super) fn new(
        mmio: &Arc<Mmio>,
        ips: IpTable<'_>,
        doorbells: &Arc<DoorbellMap>,
        layout: &DoorbellLayout,
        gmc: &Arc<Gmc>,
        vmids: &Arc<VmidPool>,
        gpu: GpuId,
    ) -> Result<Arc<Self>> {
        let regs = RegisterWindow::new(mmio, ips, IpBlock::Osssys, 0)?;
        let mut places = KVec::with_capacity(CamEntry::COUNT, GFP_KERNEL)?;
        for _ in 0..CamEntry::COUNT {
            places.push(None, GFP_KERNEL)?;
        }
        let pending = PendingFaults::new(places);
        Arc::pin_init(
            pin_init!(Self {
                regs,
                doorbells: doorbells.clone(),
                doorbell: SliceIndex::KERNEL.doorbell(layout.ih_retry_cam()),
                gmc: gmc.clone(),
                vmids: vmids.clone(),
                gpu,
                listeners <- new_mutex!(FaultListeners::default(), "RetryFaults::listeners"),
                pending <- new_spinlock!(pending, "RetryFaults::pending"),
            }),
            GFP_KERNEL,
        )
    }

    /// Has `owner` say what becomes of the faults of its processes, or nothing any more.
    pub(crate) fn set_owner(&self, owner: Option<Arc<dyn FaultOwner>>) {
        let before = core::mem::replace(&mut self.listeners.lock().owner, owner);
        drop(before);
    }

    /// Has `sink` receive the faults that are errors, until [`RetryFaults::stop`].
    pub(super) fn listen(&self, sink: Arc<dyn InterruptSink>) {
        let before = self.listeners.lock().sink.replace(sink);
        drop(before);
    }

    /// No fault is reported any more. May sleep.
    pub(super) fn stop(&self) {
        let sink = self.listeners.lock().sink.take();
        drop(sink);
    }

    /// Turns the CAM on.
    pub(super) fn start(&self) {
        start_cam(&self.regs, self.doorbell);
    }

    /// Acknowledges all places: entries were lost, and it is not known which places they had. An
    /// access that is still retried is raised again.
    pub(super) fn drop_all(&self) {
        CamEntry::all().for_each(|place| self.acknowledge(place));
    }

    /// Lets the CAM have another fault at `place`. Any context.
    fn acknowledge(&self, place: CamEntry) {
        self.doorbells
            .ring32(self.doorbell.byte() as u32, place.acknowledgement());
    }

    /// Takes `fault`, which was at `position` of the interrupt ring, over: it waits for its page,
    /// or is ended and reported. May sleep.
    pub(super) fn raise(&self, fault: &VmFault, position: u64) {
        let listeners = self.listeners.lock();
        let status = self.gmc.take_fault(fault);
        let (policy, cut_off) = (
            listeners.policy(self.gpu, fault.pasid),
            self.is_cut_off(fault),
        );
        match (
            FaultArrival::new(fault.retry.is_some(), policy, cut_off),
            fault.retry,
        ) {
            (FaultArrival::Wait, Some(place)) => {
                self.pending.lock().raise(place, *fault, position);
                if let Some(owner) = &listeners.owner {
                    owner.queue(fault);
                }
                return;
            }
            (FaultArrival::Wait, None) => {}
            (FaultArrival::End, _) => self.cut_off(fault),
            (FaultArrival::Refuse, _) => {
                if let Some(sink) = &listeners.sink {
                    self.report(fault, status, &**sink);
                }
            }
        }
        if let Some(place) = fault.retry {
            self.acknowledge(place);
        }
    }

    /// Ends the access of `fault`, which waited for a page that the process has not: its queues
    /// stop, and it is notified. May sleep; called without locks that interrupts need.
    pub(crate) fn refuse(&self, fault: PageFault) {
        let listeners = self.listeners.lock();
        if let Some(sink) = &listeners.sink {
            self.report(&fault.fault, None, &**sink);
            sink.forget_stopped();
        }
        drop(listeners);
        drop(fault);
    }

    /// Ends the access of `fault` without a report: its process is at its end. May sleep.
    pub(crate) fn end(&self, fault: PageFault) {
        let listeners = self.listeners.lock();
        self.cut_off(&fault.fault);
        drop(listeners);
        drop(fault);
    }

    /// The VMID of a process in MMHUB that `fault` came by.
    fn vmid_in_mm(fault: &VmFault) -> Option<Vmid> {
        let vmid = Vmid::new(fault.vmid).filter(|_| fault.hub == HubKind::Mm);
        vmid.filter(|&vmid| vmid != Vmid::KERNEL)
    }

    /// Whether the process has had a fault for which it has lost its address space, until it is
    /// given another.
    fn is_cut_off(&self, fault: &VmFault) -> bool {
        Self::vmid_in_mm(fault).is_some_and(|vmid| self.gmc.is_barred(vmid, fault.pasid))
    }

    /// Ends the access of `fault` if it is in MMHUB, and whatever else its process does there. With
    /// `listeners` locked. May sleep.
    fn cut_off(&self, fault: &VmFault) {
        let vmid = Self::vmid_in_mm(fault).filter(|_| !self.is_cut_off(fault));
        if let Some(vmid) = vmid.filter(|vmid| self.vmids.recall(*vmid, fault.pasid)) {
            // If the hub does not answer the GPU is down.
            let _ = self.gmc.bar(vmid, fault.pasid);
        }
    }

    /// Ends the access of `fault`, and reports it to `sink` if it is the first of its process. With
    /// `listeners` locked. May sleep.
    fn report(&self, fault: &VmFault, status: Option<FaultStatus>, sink: &dyn InterruptSink) {
        let vmid = Self::vmid_in_mm(fault);
        let retried = fault.retry.is_some();
        let report = FaultReport::new(fault.hub, vmid.is_some(), retried, self.is_cut_off(fault));
        match (report, vmid) {
            (FaultReport::Follows, _) => {}
            (FaultReport::Report, _) | (FaultReport::CutOff, None) => sink.vm_fault(fault, status),
            (FaultReport::CutOff, Some(vmid)) => {
                // No queue comes in that has not failed: not one of the process's next queues.
                let had_it = self.vmids.recall(vmid, fault.pasid);
                if !had_it {
                    self.gmc.set_reported(vmid, fault.pasid);
                }
                // While the access stands the VMID cannot go back. Once it has ended it does, and
                // were the process's queues not stopped by then, they would be given a VMID again,
                // in which the faults that this one has caused would be taken for others.
                sink.vm_fault(fault, status);
                if had_it {
                    // If the hub does not answer the GPU is down.
                    let _ = self.gmc.bar(vmid, fault.pasid);
                }
            }
        }
    }

    /// A cursor for the faults of process `pasid` that there are now, for [`RetryFaults::serve`].
    pub(crate) fn cursor(&self, pasid: u16) -> FaultCursor {
        self.pending.lock().cursor(pasid)
    }

    /// Begins to serve the next fault of process `pasid` that `seen` has not passed, see
    /// [`PendingFaults::serve`]. If there was one for `seen`, it looks at all places, of which
    /// there are a thousand.
    pub(crate) fn serve(self: &Arc<Self>, pasid: u16, seen: &mut FaultCursor) -> Option<PageFault> {
        let served = self.pending.lock().serve(pasid, seen)?;
        let ServedFault {
            fault,
            position,
            place,
        } = served;
        Some(PageFault {
            fault,
            position,
            place: Some(place),
            of: self.clone(),
        })
    }

    /// Ends the faults of process `pasid` that wait and may not keep their places: they are raised
    /// again.
    pub(crate) fn release(&self, pasid: u16) {
        let at_ms = host::boot_ms();
        for place in CamEntry::all() {
            let is_over = self.pending.lock().release(place, pasid, at_ms);
            if is_over {
                self.acknowledge(place);
            }
        }
    }

    /// Ends the wait of all faults of process `pasid` that there are now: accesses that are still
    /// retried are raised again.
    pub(crate) fn cancel(self: &Arc<Self>, pasid: u16) {
        let mut seen = self.cursor(pasid);
        while let Some(fault) = self.serve(pasid, &mut seen) {
            drop(fault);
        }
    }

    /// Whether there are faults of process `pasid` for which the driver itself has to do something,
    /// or was doing it since `since_ms`, by [`host::boot_ms`], so far as their places were not
    /// taken by others.
    pub(crate) fn are_under_way(&self, pasid: u16, since_ms: u64) -> bool {
        self.pending.lock().are_under_way(pasid, since_ms)
    }

    /// Serves no fault from now on: the GPU is about to sleep, and its queues are off. Returns when
    /// none is being served. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if a fault is still being served after [`SERVED_MOST`]; faults are served again.
    pub(crate) fn suspend(self: &Arc<Self>) -> Result<SuspendedFaults> {
        self.pending.lock().set_suspended(true);
        let suspended = SuspendedFaults(self.clone());
        read_poll_timeout(
            || Ok(self.pending.lock().is_any_served()),
            |&is_any| !is_any,
            SERVED_POLL,
            SERVED_MOST,
        )?;
        Ok(suspended)
    }

    /// Serves faults again, and those first that have come meanwhile.
    fn resume(&self) {
        let listeners = self.listeners.lock();
        self.pending.lock().set_suspended(false);
        for place in CamEntry::all() {
            let fault = self.pending.lock().waiting_at(place);
            if let (Some(fault), Some(owner)) = (fault, &listeners.owner) {
                owner.queue(&fault);
            }
        }
    }

    /// Whether no fault is served, because the GPU is about to sleep or sleeps.
    pub(crate) fn is_suspended(&self) -> bool {
        self.pending.lock().is_suspended()
    }

    /// Makes the faults of process `pasid` urgent.
    pub(crate) fn set_urgent(self: &Arc<Self>, pasid: u16) -> UrgentFaults {
        UrgentFaults {
            of: self.clone(),
            key: self.pending.lock().set_urgent(pasid),
        }
    }

    /// Whether those of process `pasid` are [`UrgentFaults`].
    pub(crate) fn are_urgent(&self, pasid: u16) -> bool {
        self.pending.lock().is_urgent(pasid)
    }
}
