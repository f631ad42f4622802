// SPDX-License-Identifier: GPL-2.0
//! A GPU: all its parts, brought up in the order in which each needs the other.

use hw::ip::{Block, GFX90A_SDMA_ENGINES};
use hw::topology::asic::Asic;
use hw::topology::gpu_id::{GpuId, PciIdentity};
use kernel::device::{self, Bound, Core};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SetOnce};

use crate::ip::clock::Clock;
use crate::ip::gfx::Gfx;
use crate::ip::gmc::{Gmc, VRAM_RESERVED};
use crate::ip::hdp::Hdp;
use crate::ip::ih::Ih;
use crate::ip::nbio::Nbio;
use crate::ip::sdma::Sdma;
use crate::ip::vmid::Vmids;
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::drm::objects::Objects;
use crate::kern::mmio::Mmio;
use crate::kern::params::Sched;
use crate::kern::pci_ext;
use crate::kern::vram_map::VramMap;
use crate::ledger::Ledger;
use crate::mem::account::Budget;
use crate::mem::bo::Buffer;
use crate::mem::evict::Evictor;
use crate::mem::gart::Gart;
use crate::mem::vram::Vram;
use crate::queue::compute::{self, Scheduler};
use crate::queue::doorbell::Slices;
use crate::queue::interrupts::Dispatch;
use crate::queue::slots::Slots;
use crate::queue::turns::Turns;
use crate::regs::{gc::GB_ADDR_CONFIG, Window};
use crate::ring::Rings;
use crate::smi::{Happening, Smi};

/// Bits of a bus address that the GPU can put out.
const DMA_BITS: u32 = 48;
/// MC address of the GART: VRAM is placed far above.
const GART_START: u64 = 0;
/// Bytes of the GART.
const GART_BYTES: u64 = 512 << 20;

/// A GPU, kept by the PCI driver while bound, and by whatever was made on it. Fields are dropped in this order:
/// each only uses what is below it.
#[pin_data]
pub(crate) struct Gpu {
    /// Who takes its interrupts, once it does.
    pub(crate) interrupts: SetOnce<Arc<Dispatch>>,
    /// The driver's own rings.
    pub(crate) rings: Arc<Rings>,
    /// Who has which hardware slot.
    pub(crate) slots: Arc<Slots>,
    /// Which compute queues are on the hardware.
    pub(crate) compute: Arc<dyn Scheduler>,
    /// Who has which doorbells.
    #[pin]
    pub(crate) slices: Slices,
    /// The window of system memory that VMID 0 sees.
    pub(crate) gart: Gart,
    /// Who yields VRAM to whom.
    pub(crate) evictor: Arc<Evictor>,
    /// Who may have how much VRAM.
    pub(crate) budget: Arc<Budget>,
    /// Who has which VRAM.
    pub(crate) vram: Vram,
    /// The buffers.
    #[pin]
    pub(crate) bos: Objects<Buffer>,
    /// Who has which VMID.
    pub(crate) vmids: Arc<Vmids>,
    /// The SDMA engines.
    pub(crate) sdma: [Arc<Sdma>; GFX90A_SDMA_ENGINES],
    /// The command processor.
    pub(crate) gfx: Arc<Gfx>,
    /// The interrupt ring.
    pub(crate) ih: Arc<Ih>,
    /// The reference clock.
    #[pin]
    pub(crate) clock: Clock,
    /// Page tables and translations.
    pub(crate) gmc: Arc<Gmc>,
    /// The CPU's path to VRAM.
    pub(crate) hdp: Arc<Hdp>,
    /// The doorbell BAR.
    pub(crate) doorbells: Arc<DoorbellMap>,
    /// The VRAM BAR.
    pub(crate) vram_map: Arc<VramMap>,
    /// The registers.
    pub(crate) mmio: Arc<Mmio>,
    /// Who watches what happens to it.
    pub(crate) smi: Arc<Smi>,
    /// What there is on this GPU, counted.
    pub(crate) ledger: Arc<Ledger>,
    /// What kind of GPU it is.
    pub(crate) asic: &'static Asic,
    /// The number by which user space names it.
    pub(crate) id: GpuId,
    /// PCI domain.
    pub(crate) domain: u32,
    /// PCI bus in 15:8, device and function in 7:0.
    pub(crate) location: u32,
    /// Revision of the silicon (ATI_REV_ID).
    pub(crate) revision: u32,
    /// Revision in PCI's configuration space.
    pub(crate) pci_revision: u8,
    /// The device, for messages and DMA.
    pub(crate) dev: ARef<device::Device>,
}

impl Gpu {
    /// Brings the GPU at `pdev` up as far as it needs no interrupt. ENODEV for one that the driver does not know or
    /// whose firmware is not up; errors of the parts.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Arc<Self>> {
        let asic = Asic::find(pdev.device_id()).ok_or(ENODEV)?;
        pdev.enable_device_mem()?;
        pci_ext::set_dma_mask::<DMA_BITS>(pdev)?;
        pdev.set_master();
        let bound: &device::Device<Bound> = pdev.as_ref();
        let mmio = Arc::new(Mmio::new(pdev)?, GFP_KERNEL)?;
        let vram_map = Arc::new(VramMap::new(pdev)?, GFP_KERNEL)?;
        let doorbells = Arc::new(DoorbellMap::new(pdev)?, GFP_KERNEL)?;
        let ledger = Ledger::new()?;
        let sched = Sched::get();

        let nbio = Nbio::new(&mmio, asic.ips)?;
        let size = nbio.vram_size().inspect_err(|_| {
            dev_err!(
                bound,
                "the GPU tells no VRAM size: its firmware is not up\n"
            );
        })?;
        nbio.bring_up();
        let revision = nbio.revision();
        let hdp = Arc::new(Hdp::new(&mmio, asic.ips)?, GFP_KERNEL)?;
        let gmc = Gmc::new(bound, &mmio, asic.ips, &hdp, size)?;
        nbio.setup_interrupts(gmc.dummy_page());
        let vram = Vram::new(size, VRAM_RESERVED, vram_map.size(), ledger.clone())?;
        let gart = Gart::new(&vram, &vram_map, &gmc, &ledger, GART_START, GART_BYTES)?;
        gmc.enable_gart(gart.table(), GART_START, GART_BYTES)?;
        let ih = Ih::new(bound, &mmio, asic.ips, &doorbells)?;
        let engine = |n| -> Result<Arc<Sdma>> {
            let sdma = Sdma::new(&mmio, asic.ips, n)?;
            sdma.bring_up();
            Ok(sdma)
        };
        let sdma = [engine(0)?, engine(1)?, engine(2)?, engine(3)?, engine(4)?];
        let gfx = Gfx::new(&mmio, asic.ips)?;
        gfx.bring_up(doorbells.size());
        let clock = Clock::new(&mmio, asic.ips)?;
        let vmids = Vmids::new(&ledger, sched)?;
        let rings = Arc::pin_init(Rings::new(), GFP_KERNEL)?;
        let slots = Slots::new()?;
        let compute = compute::scheduler(sched, &gfx, &bound.into())?;

        let [devfn, bus] = pdev.dev_id().to_le_bytes();
        let identity = PciIdentity {
            domain: pci_ext::domain(pdev),
            bus,
            devfn,
            device: pdev.device_id(),
            subsystem_vendor: pdev.subsystem_vendor_id(),
            subsystem: pdev.subsystem_device_id(),
            vram: size,
        };
        let id = GpuId::new(&identity);
        Arc::pin_init(
            try_pin_init!(Self {
                interrupts: SetOnce::new(),
                rings,
                slots,
                compute,
                slices <- Slices::new(),
                gart,
                evictor: Evictor::new()?,
                budget: Budget::new()?,
                vram,
                bos <- Objects::new(),
                vmids,
                sdma,
                gfx,
                ih,
                clock <- clock,
                gmc,
                hdp,
                doorbells,
                vram_map,
                mmio,
                smi: Smi::new(id.get())?,
                ledger,
                asic,
                id,
                domain: identity.domain,
                location: identity.location(),
                revision,
                pci_revision: pdev.revision_id(),
                dev: bound.into(),
            }),
            GFP_KERNEL,
        )
    }

    /// The value of GB_ADDR_CONFIG, which user space asks for. ENODEV if the ASIC has none.
    pub(crate) fn address_config(&self) -> Result<u32> {
        let gc = Window::new(&self.mmio, self.asic.ips, Block::Gc, 0)?;
        Ok(gc.read(GB_ADDR_CONFIG))
    }

    /// Handles the interrupts that there are, whether or not the CPU was told. Sleeps; called without locks.
    pub(crate) fn poll_interrupts(&self) {
        if let Some(dispatch) = self.interrupts.as_ref() {
            self.ih.drain(&self.gmc, &**dispatch);
        }
    }

    /// Runs `stop`, which takes a queue of the process `pasid` off the hardware that hung, as `cause` says: the process
    /// is told, and who watches the GPU. Itself allocates nothing and waits for nothing.
    pub(crate) fn queue_hung(&self, pasid: u16, cause: &CStr, stop: impl FnOnce()) {
        self.smi.tell(&Happening::Resetting(cause));
        stop();
        if let Some(dispatch) = self.interrupts.as_ref() {
            dispatch.stopped(pasid);
        }
        self.smi.tell(&Happening::Reset(cause));
    }

    /// Starts what runs by itself: the driver's own rings, and the scheduler of compute queues.
    pub(crate) fn start(self: &Arc<Self>) -> Result {
        self.ih.start();
        self.rings.start(self)?;
        let turns = Turns::new(self)?;
        self.compute.start(self)?;
        self.vmids.watch(Some(turns));
        Ok(())
    }

    /// Stops what runs by itself; the device is about to go. Nobody uses it any more.
    pub(crate) fn stop(&self) {
        self.evictor.stop();
        self.rings.stop();
        self.ih.stop();
        for engine in &self.sdma {
            engine.stop();
        }
        self.compute.stop();
        self.gfx.stop();
        // What a queue that hung still had, the engines no longer reach.
        self.slots.close();
        self.compute.close();
        self.vmids.watch(None);
        self.gmc.stop();
    }
}
