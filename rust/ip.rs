// SPDX-License-Identifier: GPL-2.0
//! The hardware's blocks, a file each, and the order in which they are programmed. Registers are in
//! [`crate::regs`].
//!
//! [`Hardware`] holds all of them. Layers above use the hardware through it; it does not know them.

pub(crate) mod athub;
mod busy;
pub(crate) mod clock;
pub(crate) mod discovery;
pub(crate) mod dump;
pub(crate) mod gfx;
pub(crate) mod gmc;
mod halted;
pub(crate) mod hdp;
mod hive_id;
pub(crate) mod hive_reset;
pub(crate) mod hub;
pub(crate) mod ih;
pub(crate) mod interrupt_sink;
pub(crate) mod nbio;
pub(crate) mod psp;
pub(crate) mod retries;
pub(crate) mod rlc;
pub(crate) mod rom;
pub(crate) mod sdma;
pub(crate) mod sensor;
mod shader_array;
pub(crate) mod smu;
pub(crate) mod state;
mod version;
pub(crate) mod vmid;

use hw::asic::Asic;
use hw::firmware::state::{BootState, RunningEngines};
use hw::ip::{IpBlock, IpInstance, IpTable};
use hw::topology::cus::ComputeUnits;
use hw::topology::gpu_id::{GpuId, PciIdentity};
use hw::xgmi::XgmiPlace;
use kernel::device::{self, Bound, Core};
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SetOnce};

use crate::health::GpuHealth;
use crate::kern::doorbell_map::DoorbellMap;
use crate::kern::mmio::Mmio;
use crate::kern::params::SchedulerMode;
use crate::kern::pci_ext;
use crate::kern::vram_map::VramMap;
use crate::ledger::Ledger;
use crate::regs::gc::{CP_MEC_ME1_UCODE_ADDR, GB_ADDR_CONFIG};
use crate::regs::{sdma::UCODE_ADDR, RegisterWindow};
use crate::smi::Smi;
use busy::BusyMeter;
use clock::ReferenceClock;
use discovery::{ChipBlocks, DiscoveryTable};
use gfx::Gfx;
use gmc::Gmc;
use halted::{EngineSet, HaltedGpu};
use hdp::Hdp;
use hive_id::JoinedHive;
use ih::Ih;
use nbio::Nbio;
use retries::RetryFaults;
use rlc::Rlc;
use sdma::Sdma;
use sensor::SensorSource;
use state::BootObserver;
use vmid::VmidPool;

/// Bits of a bus address that the GPU can put out.
const DMA_BITS: u32 = 48;

/// The blocks of a GPU, the parts of it that the CPU reaches, and its identity. Fields are dropped
/// in this order: each only uses those below it.
#[pin_data]
pub(crate) struct Hardware {
    /// Its sensors, if it has any. They are not read any more once its firmware is given back.
    pub(crate) sensors: SetOnce<Arc<dyn SensorSource>>,
    /// The use of VMIDs.
    pub(crate) vmids: Arc<VmidPool>,
    /// The SDMA engines.
    pub(crate) sdma: KVec<Arc<Sdma>>,
    /// The command processor.
    pub(crate) gfx: Arc<Gfx>,
    /// The block that controls its clocks.
    pub(crate) rlc: Rlc,
    /// The interrupt ring.
    pub(crate) ih: Arc<Ih>,
    /// Page faults that are retried.
    pub(crate) faults: Arc<RetryFaults>,
    /// The reference clock.
    #[pin]
    pub(crate) clock: ReferenceClock,
    /// How busy it is.
    #[pin]
    busy: BusyMeter,
    /// Page tables and translations.
    pub(crate) gmc: Arc<Gmc>,
    /// The bus interface.
    nbio: Nbio,
    /// The CPU's path to VRAM.
    pub(crate) hdp: Arc<Hdp>,
    /// The doorbell BAR.
    pub(crate) doorbells: Arc<DoorbellMap>,
    /// The VRAM BAR.
    pub(crate) vram_map: Arc<VramMap>,
    /// The registers.
    pub(crate) mmio: Arc<Mmio>,
    /// Watchers of the GPU's events.
    pub(crate) smi: Arc<Smi>,
    /// Whether it still answers.
    pub(crate) health: Arc<GpuHealth>,
    /// Counts of the objects of this GPU.
    pub(crate) ledger: Arc<Ledger>,
    /// The state in which it was found.
    pub(crate) state: BootState,
    /// Its chip.
    pub(crate) asic: &'static Asic,
    /// Its blocks.
    ips: KVec<IpInstance>,
    /// Its discovery table, if it has one.
    pub(crate) table: Option<DiscoveryTable>,
    /// Its working compute units.
    pub(crate) cus: ComputeUnits,
    /// The number by which user space names it.
    pub(crate) id: GpuId,
    /// PCI domain.
    pub(crate) domain: u32,
    /// PCI bus in 15:8, device and function in 7:0.
    pub(crate) location: u32,
    /// Bytes of VRAM.
    pub(crate) vram_size: u64,
    /// The hive that it has joined.
    #[pin]
    pub(crate) hive: JoinedHive,
    /// Revision of the silicon (ATI_REV_ID).
    pub(crate) revision: u32,
    /// Revision in PCI's configuration space.
    pub(crate) pci_revision: u8,
    /// The subsystem's vendor and device in PCI's configuration space.
    pub(crate) subsystem: (u16, u16),
    /// The device, for messages and DMA.
    pub(crate) dev: ARef<device::Device>,
}

/// Checks that the GPU has the XCCs of its chip, and an MMHUB for each die of SDMA engines.
///
/// # Errors
///
/// `ENODEV` for a GPU with other ones; the log says so.
fn check_instances(dev: &device::Device, asic: &Asic, ips: IpTable<'_>) -> Result {
    let count = |block| ips.of(block).count();
    let (xccs, mmhubs) = (count(IpBlock::Gc), count(IpBlock::Mmhub));
    if xccs != asic.gfx.xccs as usize || mmhubs != asic.dies() {
        dev_err!(
            dev,
            "the GPU is left alone: it has {xccs} XCCs and {mmhubs} MMHUBs, which do not belong to \
             its SDMA engines\n"
        );
        return Err(ENODEV);
    }
    Ok(())
}

/// The state of the GPU, the engines that run, and its place in its hive. Context: may sleep.
///
/// # Errors
///
/// `ENODEV` for a GPU that the driver leaves alone; the log says why.
fn probe_state(
    dev: &device::Device,
    mmio: &Arc<Mmio>,
    ips: IpTable<'_>,
) -> Result<(BootState, RunningEngines, XgmiPlace)> {
    let seen = BootObserver::new(dev, mmio, ips)?.wait();
    let state = seen.state().map_err(|refusal| {
        dev_err!(
            dev,
            "the GPU is left alone: {}\n",
            format_args!("{refusal}")
        );
        ENODEV
    })?;
    if !seen.is_flash_ready {
        dev_warn!(
            dev,
            "the firmware of the flash chip does not say that it has run (C2PMSG_33)\n"
        );
    }
    Ok((state, seen.running, seen.xgmi))
}

impl Hardware {
    /// Brings the blocks of the GPU at `pdev`, which is enabled, up, as far as they need neither
    /// memory nor interrupts. Before that, engines that a previous driver has left running are
    /// halted. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU that the driver does not know or whose firmware is not up; `EIO` for an
    /// engine that does not stop; errors of the blocks.
    pub(crate) fn new(pdev: &pci::Device<Core<'_>>) -> Result<Arc<Self>> {
        let asic = Asic::find(pdev.device_id()).ok_or(ENODEV)?;
        pci_ext::set_dma_mask::<DMA_BITS>(pdev)?;
        let bound: &device::Device<Bound> = pdev.as_ref();
        let mmio = Arc::new(Mmio::new(pdev)?, GFP_KERNEL)?;
        let vram_map = Arc::new(VramMap::new(pdev)?, GFP_KERNEL)?;
        let doorbells = Arc::new(DoorbellMap::new(pdev)?, GFP_KERNEL)?;
        let ledger = Ledger::new()?;
        let health = GpuHealth::new()?;

        let ChipBlocks {
            asic,
            instances,
            table,
        } = ChipBlocks::find(bound, &mmio, asic)?;
        let ips = IpTable::new(&instances);
        check_instances(bound, asic, ips)?;
        version::check_known(bound, ips)?;
        let nbio = Nbio::new(bound, &mmio, ips, asic)?;
        nbio.check_partitioning(bound)?;
        let (state, running, place) = probe_state(bound, &mmio, ips)?;
        let engines = asic.sdma.engines();
        let mut sdma = KVec::with_capacity(engines.into(), GFP_KERNEL)?;
        for engine in 0..engines {
            sdma.push(Sdma::new(&mmio, ips, &asic.sdma, engine)?, GFP_KERNEL)?;
        }
        let gfx = Gfx::new(bound, &mmio, ips, asic)?;
        let rlc = Rlc::new(&mmio, ips, asic.gfx.shader_engines)?;
        let engines = EngineSet {
            sdma: &sdma,
            gfx: &gfx,
            rlc: &rlc,
        };
        let rest = HaltedGpu::halt(bound, &mmio, ips, &running, &engines)?;

        let size = nbio.vram_size()?;
        nbio.bring_up(&rest, doorbells.start());
        let revision = nbio.revision();
        let hdp = Arc::new(Hdp::new(bound, &mmio, ips, asic.hdp_page)?, GFP_KERNEL)?;
        let gmc = Gmc::new(bound, &rest, &hdp, &health, &vram_map, (size, place), asic)?;
        nbio.setup_interrupts(gmc.dummy_page());
        let vmids = VmidPool::new(&ledger, &asic.vmids, SchedulerMode::get())?;
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
        let faults = RetryFaults::new(&mmio, ips, &doorbells, &asic.doorbells, &gmc, &vmids, id)?;
        let ih = Ih::new(bound, &mmio, ips, asic, &doorbells, &faults)?;
        let cus = gfx.compute_units().ok_or_else(|| {
            if nbio.vram_size().is_ok() {
                dev_err!(bound, "no compute unit works, or so its fuses say\n");
            }
            ENODEV
        })?;
        let clock = ReferenceClock::new(&mmio, ips)?;

        Arc::pin_init(
            try_pin_init!(Self {
                sensors: SetOnce::new(),
                vmids,
                sdma,
                gfx,
                rlc,
                ih,
                faults,
                clock <- clock,
                busy <- BusyMeter::new(),
                gmc,
                nbio,
                hdp,
                doorbells,
                vram_map,
                mmio,
                smi: Smi::new(id.get())?,
                health,
                ledger,
                state,
                asic,
                ips: instances,
                table,
                cus,
                id,
                domain: identity.domain,
                location: identity.location(),
                vram_size: size,
                hive <- JoinedHive::new(),
                revision,
                pci_revision: pdev.revision_id(),
                subsystem: (pdev.subsystem_vendor_id(), pdev.subsystem_device_id()),
                dev: bound.into(),
            }),
            GFP_KERNEL,
        )
    }

    /// Its blocks.
    pub(crate) fn ips(&self) -> IpTable<'_> {
        IpTable::new(&self.ips)
    }

    /// Starts the engines, which have no work yet. The RLC starts before the MECs: the previous
    /// driver has stopped it (amdgpu: gfx_v9_0_hw_fini). The GART is on, as the engines may access
    /// it. Context: may sleep.
    pub(crate) fn bring_up_engines(&self) {
        self.sdma.iter().for_each(|engine| engine.bring_up());
        self.gfx.set_up(self.doorbells.size());
        self.rlc.start();
        self.gfx.run();
    }

    /// Brings the blocks up again as [`Hardware::new`] does, after a sleep in which the GPU may
    /// have lost all state. Returns the state in which it was found. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` and `EIO` as for [`Hardware::new`]; `EIO` also for a GPU whose VRAM has another
    /// size, or another place in its hive.
    pub(crate) fn resume(&self) -> Result<BootState> {
        let (state, running, place) = probe_state(&self.dev, &self.mmio, self.ips())?;
        if self.nbio.vram_size()? != self.vram_size || place != self.gmc.place() {
            return Err(EIO);
        }
        let engines = EngineSet {
            sdma: &self.sdma,
            gfx: &self.gfx,
            rlc: &self.rlc,
        };
        let rest = HaltedGpu::halt(&self.dev, &self.mmio, self.ips(), &running, &engines)?;
        self.nbio.bring_up(&rest, self.doorbells.start());
        self.gmc.bring_up(&rest, &self.vram_map)?;
        self.nbio.setup_interrupts(self.gmc.dummy_page());
        Ok(state)
    }

    /// Turns translation and doorbells off. Nothing runs any more.
    pub(crate) fn close(&self) {
        self.gmc.stop();
        self.nbio.close_doorbells();
    }

    /// Halts the engines, whatever they are doing. Context: may sleep.
    pub(crate) fn halt_engines(&self) {
        for engine in &self.sdma {
            // A caller that depends on the result checks itself whether the engine may still be at
            // work.
            let _ = engine.stop();
        }
        self.gfx.stop();
    }

    /// Whether it still answers.
    pub(crate) fn is_present(&self) -> bool {
        self.nbio.vram_size().is_ok()
    }

    /// How much of the time compute units, command processor or any engine of SDMA are at work,
    /// percent. Sampled for 20 ms; a block that only waits counts as well.
    pub(crate) fn busy_percent(&self) -> u32 {
        let idle = || self.gfx.is_idle() && self.sdma.iter().all(|engine| engine.is_idle());
        self.busy.percent(|| !idle())
    }

    /// Versions of the firmware of compute queues and of SDMA. A driver that loads firmware by
    /// registers leaves them in those registers (amdgpu: gfx_v9_0_cp_compute_load_microcode,
    /// sdma_v4_0_load_microcode). The PSP does not.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has no such blocks.
    pub(crate) fn firmware(&self) -> Result<(u32, u32)> {
        let gc = RegisterWindow::new(&self.mmio, self.ips(), IpBlock::Gc, 0)?;
        let sdma = RegisterWindow::new(&self.mmio, self.ips(), IpBlock::Sdma, 0)?;
        Ok((gc.read(CP_MEC_ME1_UCODE_ADDR), sdma.read(UCODE_ADDR)))
    }

    /// The value of GB_ADDR_CONFIG, which user space asks for.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the GPU has none.
    pub(crate) fn address_config(&self) -> Result<u32> {
        let gc = RegisterWindow::new(&self.mmio, self.ips(), IpBlock::Gc, 0)?;
        Ok(gc.read(GB_ADDR_CONFIG))
    }

    /// The value of the register at `dword` of BAR5, if user space may see it: GB_ADDR_CONFIG.
    ///
    /// # Errors
    ///
    /// `EFAULT` for other registers; `ENODEV` if the GPU has none.
    pub(crate) fn user_register(&self, dword: u32) -> Result<u32> {
        let gc = RegisterWindow::new(&self.mmio, self.ips(), IpBlock::Gc, 0)?;
        if gc.dword(GB_ADDR_CONFIG) != Some(dword) {
            return Err(EFAULT);
        }
        Ok(gc.read(GB_ADDR_CONFIG))
    }
}
