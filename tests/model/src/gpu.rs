// SPDX-License-Identifier: GPL-2.0
//! The device: its blocks, reset values, and which block a register access reaches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::activity::Activity;
use crate::board::{Board, Rom};
use crate::clock::Clock;
use crate::config::Config;
use crate::cp::Cp;
use crate::error::{ModelError, Result};
use crate::grbm::Grbm;
use crate::hub::{Flush, Hub, HubId};
use crate::ih::Ih;
use crate::memory::{Access, Bus};
use crate::msi::Msi;
use crate::nbio::{self as bif, Nbio, Window};
use crate::psp::start::Start;
use crate::psp::Psp;
use crate::regs::gc::{self, cp_mec_cntl, rlc_safe_mode};
use crate::regs::{athub, df, mmhub, mp0, nbio, osssys, sdma, smuio};
use crate::regs::{Reg, Store, SDMA_BASE, SDMA_ENGINES, SDMA_QUEUE_STRIDE, SDMA_RLC0};
use crate::sdma::Engine;
use crate::smn;
use crate::smu::Smu;
use crate::sq::Pool;
use crate::summary::Summary;
use crate::tlb::VMIDS;

/// MC address of VRAM's first byte, in units of 16 MiB.
const FB_BASE: u32 = 0x8000;
/// Dwords of an SDMA engine's registers.
const SDMA_SPAN: u32 = SDMA_RLC0 + 8 * SDMA_QUEUE_STRIDE;
/// VM_L2_CNTL3 and VM_L2_CNTL4 out of reset.
const L2_CNTL3: u32 = 0x8010_0007;
const L2_CNTL4: u32 = 0xc1;
/// VM_L2_PROTECTION_FAULT_CNTL and VM_CONTEXT0_CNTL out of reset: faults go on with the dummy page, and interrupt.
const FAULT_CNTL: u32 = 0x3fff_fffc;
const CONTEXT_CNTL: u32 = 0x007f_fe80;

/// Registers that only the device writes, besides those of single blocks.
const READ_ONLY: &[Reg] = &[
    nbio::RCC_CONFIG_MEMSIZE,
    nbio::RCC_DEV0_EPF0_STRAP0,
    nbio::GPU_HDP_FLUSH_DONE,
    gc::GRBM_STATUS,
    gc::GRBM_STATUS2,
    gc::CP_STAT,
    gc::CP_CPC_STATUS,
    gc::RLC_STAT,
    gc::RLC_GPU_CLOCK_COUNT_LSB,
    gc::RLC_GPU_CLOCK_COUNT_MSB,
    gc::SPI_CSQ_WF_ACTIVE_STATUS,
    gc::RLC_SERDES_CU_MASTER_BUSY,
    gc::RLC_SERDES_NONCU_MASTER_BUSY,
    nbio::RCC_IOV_FUNC_IDENTIFIER,
    nbio::UNASSIGNED_7,
    smuio::SMUIO_MCM_CONFIG,
    smuio::SMUSVI0_TEL_PLANE0,
    smuio::IP_DISCOVERY_VERSION,
    df::GCM_AON0_DRAM_MEGA_BASE_ADDRESS0,
    mp0::MP0_SMN_C2PMSG_33,
    mp0::MP0_SMN_C2PMSG_58,
    mp0::MP0_SMN_C2PMSG_68,
    mp0::MP0_SMN_C2PMSG_81,
];

/// What registers hold out of reset that only the kernel's own header of the generation (GFX 9.0) says; it is taken to
/// hold for gfx90a.
const OUT_OF_RESET: &[(Reg, u32)] = &[
    // This one is measured: 850 mV, in steps of 6.25 below 1550.
    (smuio::SMUSVI0_TEL_PLANE0, 112 << 16),
    (gc::CP_MEM_SLP_CNTL, 0x0002_0200),
    (gc::RLC_MEM_SLP_CNTL, 0x0002_0200),
    (gc::RLC_CGTT_MGCG_OVERRIDE, 0xffff_ffff),
    (gc::SPI_WCL_PIPE_PERCENT_GFX, 0x07ff_ffff),
    (gc::SPI_WCL_PIPE_PERCENT_CS1, 0x7f),
    (gc::SPI_WCL_PIPE_PERCENT_CS2, 0x7f),
    (gc::SPI_WCL_PIPE_PERCENT_CS3, 0x7f),
    (gc::TCP_ADDR_CONFIG, 0xff),
    (gc::TCP_UTCL1_CNTL1, 0x0080_0400),
];
/// The same for each SDMA engine.
const SDMA_OUT_OF_RESET: &[(Reg, u32)] = &[
    (sdma::CLK_CTRL, 0xff00_0100),
    (sdma::POWER_CNTL, 0x0003_c000),
];

/// The whole device.
pub struct Gpu {
    /// Memory.
    pub bus: Bus,
    /// Bytes of VRAM behind BAR0.
    pub bar0: u64,
    /// Plain registers.
    pub regs: Store,
    /// Configuration space.
    pub config: Mutex<Config>,
    /// MSI vector.
    pub msi: Msi,
    /// Doorbells and windows.
    pub nbio: Nbio,
    /// Banked registers.
    pub grbm: Grbm,
    /// Interrupts.
    pub ih: Ih,
    /// Firmware.
    pub psp: Psp,
    /// Power.
    pub smu: Smu,
    /// SDMA engines.
    pub sdma: [Engine; SDMA_ENGINES],
    /// Compute queues.
    pub cp: Cp,
    /// Waves.
    pub sq: Pool,
    /// How busy engines are.
    pub activity: Activity,
    /// Counters.
    pub summary: Summary,
    /// Reference clock.
    pub clock: Clock,
    rom: Rom,
    gfxhub: Hub,
    mmhub: Hub,
    fail_copy: AtomicBool,
    fatal: Box<dyn Fn(&ModelError) + Send + Sync>,
}

impl Gpu {
    /// A device out of reset on `board`. `fatal` is called, on whatever thread it happens, with the error that ends
    /// the run.
    pub fn new(
        board: Board,
        fatal: impl Fn(&ModelError) + Send + Sync + 'static,
    ) -> std::io::Result<Gpu> {
        let mut bus = Bus::new(board.vram)?;
        if let Some(folder) = &board.switch {
            bus.join(folder)?;
        }
        let gpu = Gpu {
            bus,
            bar0: board.bar0.min(board.vram),
            regs: Store::new(),
            config: Mutex::new(Config::new(board.bar0.min(board.vram))),
            msi: Msi::default(),
            nbio: Nbio::default(),
            grbm: Grbm::default(),
            ih: Ih::default(),
            psp: Psp::new(board.start, board.signatures, board.faults),
            smu: Smu::default(),
            sdma: std::array::from_fn(Engine::new),
            cp: Cp::new(),
            sq: Pool::new(),
            activity: Activity::default(),
            summary: Summary::default(),
            clock: Clock::new(),
            rom: Rom::new(board.rom),
            gfxhub: Hub::new(HubId::Gfx),
            mmhub: Hub::new(HubId::Mm),
            fail_copy: AtomicBool::new(false),
            fatal: Box::new(fatal),
        };
        gpu.reset_registers();
        Ok(gpu)
    }

    /// Starts the threads of the engines, the workers and the command processor.
    pub fn start(self: &Arc<Self>) {
        for engine in 0..SDMA_ENGINES {
            let gpu = self.clone();
            std::thread::spawn(move || {
                if let Err(error) = gpu.sdma[engine].run(&gpu) {
                    gpu.fail(&error);
                }
            });
        }
        for _ in 0..Pool::workers() {
            let gpu = self.clone();
            std::thread::spawn(move || {
                if let Err(error) = gpu.sq.run(&gpu) {
                    gpu.fail(&error);
                }
            });
        }
        let psp = self.clone();
        std::thread::spawn(move || {
            if let Err(error) = psp.psp.run(&psp) {
                psp.fail(&error);
            }
        });
        let gpu = self.clone();
        std::thread::spawn(move || {
            if let Err(error) = gpu.cp.run(&gpu) {
                gpu.fail(&error);
            }
        });
    }

    /// Ends the run.
    pub fn fail(&self, error: &ModelError) {
        (self.fatal)(error);
    }

    /// The next copy, on whichever engine, is refused.
    pub fn fail_next_copy(&self) {
        self.fail_copy.store(true, Ordering::Release);
    }

    /// Whether the copy at hand is one that a test wants refused.
    pub fn take_failure(&self) -> bool {
        self.fail_copy.swap(false, Ordering::AcqRel)
    }

    /// A hub.
    pub fn hub(&self, id: HubId) -> &Hub {
        match id {
            HubId::Gfx => &self.gfxhub,
            HubId::Mm => &self.mmhub,
        }
    }

    /// Reset of the function: everything but the contents of VRAM.
    pub fn reset(&self) {
        self.summary.resets.bump();
        self.reset_blocks();
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = Config::new(self.bar0);
        self.bus.set_master(false);
    }

    /// The board's power goes off and on, and its firmware gets as far as `start` says. Configuration space stays, as if
    /// the host had put it back; so does VRAM, of which nobody may expect anything.
    pub fn power_cycle(&self, start: Start) {
        self.psp.set_start(start);
        self.reset_blocks();
    }

    /// The GPU is back after a reset by the SMU: as after power-up, configuration space included, with something else in VRAM. It answers at
    /// its BARs when the host has enabled them again.
    pub fn come_back(&self, start: Start) {
        self.bus.scramble();
        self.power_cycle(start);
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = config.cleared(self.bar0);
        self.bus.set_master(false);
    }

    fn reset_blocks(&self) {
        for engine in &self.sdma {
            engine.reset();
        }
        self.cp.reset();
        self.ih.reset();
        self.rom.set_index(0);
        self.nbio.reset();
        self.grbm.reset();
        for id in [HubId::Gfx, HubId::Mm] {
            self.hub(id)
                .flush(self, 0xffff, crate::tlb::Scope::ALL, Flush::Heavy);
        }
        self.reset_registers();
    }

    fn reset_registers(&self) {
        let regs = &self.regs;
        regs.zero();
        let vram = self.bus.vram_size();
        let fb_top = FB_BASE + ((vram >> 24).max(1) - 1) as u32;
        for (reg, value) in [
            (nbio::RCC_CONFIG_MEMSIZE, (vram >> 20) as u32),
            (
                nbio::RCC_DEV0_EPF0_STRAP0,
                nbio::rcc_dev0_epf0_strap0::ATI_REV_ID.of(1),
            ),
            (gc::MC_VM_FB_LOCATION_BASE, FB_BASE),
            (mmhub::MC_VM_FB_LOCATION_BASE, FB_BASE),
            (gc::MC_VM_FB_LOCATION_TOP, fb_top),
            (mmhub::MC_VM_FB_LOCATION_TOP, fb_top),
            // AGP is off: its bottom above its top.
            (gc::MC_VM_AGP_BOT, 0xff_ffff),
            (mmhub::MC_VM_AGP_BOT, 0xff_ffff),
            (gc::VM_L2_CNTL3, L2_CNTL3),
            (mmhub::VM_L2_CNTL3, L2_CNTL3),
            (gc::VM_L2_CNTL4, L2_CNTL4),
            (mmhub::VM_L2_CNTL4, L2_CNTL4),
            (
                gc::CP_MEC_CNTL,
                cp_mec_cntl::MEC_ME1_HALT.of(1) | cp_mec_cntl::MEC_ME2_HALT.of(1),
            ),
        ] {
            regs.set(reg, value);
        }
        for &(reg, value) in OUT_OF_RESET {
            regs.set(reg, value);
        }
        for hub in [HubId::Gfx, HubId::Mm] {
            regs.set(hub.reg(gc::VM_L2_PROTECTION_FAULT_CNTL), FAULT_CNTL);
            for vmid in 0..VMIDS as u32 {
                regs.set(hub.reg(gc::VM_CONTEXT0_CNTL.nth(vmid, 1)), CONTEXT_CNTL);
            }
        }
        for n in 0..SDMA_ENGINES {
            for &(reg, value) in SDMA_OUT_OF_RESET {
                regs.set(reg.of_sdma(n), value);
            }
        }
        self.psp.reset(self);
    }

    /// A 32-bit read of BAR5.
    pub fn read(&self, reg: Reg) -> Result<u32> {
        if self.smu.is_away(self) {
            return Ok(!0);
        }
        if bif::flush(&self.regs, reg) != bif::Flush::Neither {
            return Ok(0);
        }
        self.regs.check("read", reg)?;
        match bif::window(&self.regs, reg)? {
            Some(Window::Register(target)) => return self.read(target),
            Some(Window::Fabric(address)) => return smn::read(self, address),
            Some(Window::Memory(phys)) => {
                let mut data = [0; 4];
                self.bus.view().read(phys, &mut data)?;
                return Ok(u32::from_le_bytes(data));
            }
            None => {}
        }
        match reg {
            smuio::ROM_INDEX => return Ok(self.rom.index()),
            smuio::ROM_DATA => return Ok(self.rom.read()),
            _ => {}
        }
        if let Some(value) = self.psp.read(self, reg) {
            return Ok(value);
        }
        if let Some(value) = self.smu.read(self, reg)? {
            return Ok(value);
        }
        if let Some(value) = self.ih.read(reg) {
            return Ok(value);
        }
        if let Some(value) = self.cp.read(self, reg) {
            return Ok(value);
        }
        if let Some(value) = self.grbm.read(&self.regs, reg) {
            return Ok(value);
        }
        if let Some((engine, offset)) = sdma_owner(reg) {
            return Ok(self.sdma[engine].read(self, reg, offset));
        }
        if let Some(hub) = HubId::owner(reg) {
            return Ok(self.hub(hub).read(self, reg));
        }
        Ok(self.regs.get(reg))
    }

    /// A 32-bit write of BAR5.
    pub fn write(&self, reg: Reg, value: u32) -> Result<()> {
        if self.smu.is_away(self) {
            return Ok(());
        }
        if bif::flush(&self.regs, reg) != bif::Flush::Neither {
            // Nothing is buffered between the CPU and VRAM.
            return Ok(());
        }
        self.regs.check("write", reg)?;
        match bif::window(&self.regs, reg)? {
            Some(Window::Register(target)) => return self.write(target, value),
            Some(Window::Fabric(address)) => return Err(smn::unknown("write", address)),
            Some(Window::Memory(phys)) => {
                return self.bus.view().write(phys, &value.to_le_bytes());
            }
            None => {}
        }
        if READ_ONLY.contains(&reg) {
            return Err(self.regs.refuse(reg, value, "the register is read-only"));
        }
        self.psp.watch(self, reg, value)?;
        if let Some((engine, offset)) = sdma_owner(reg) {
            return self.sdma[engine].write(self, reg, offset, value);
        }
        if let Some(hub) = HubId::owner(reg) {
            return self.hub(hub).write(self, reg, value);
        }
        if (osssys::IH_RB_CNTL.0..=osssys::IH_DOORBELL_RPTR_RING2.0).contains(&reg.0) {
            return self.ih.write(self, reg, value);
        }
        if self.cp.write(self, reg, value)?
            || self.grbm.write(&self.regs, reg, value)?
            || self.psp.write(self, reg, value)?
            || self.smu.write(self, reg, value)?
        {
            return Ok(());
        }
        self.write_plain(reg, value)
    }

    /// Registers that store what is written, some with an effect besides.
    fn write_plain(&self, reg: Reg, value: u32) -> Result<()> {
        let regs = &self.regs;
        let stored = match reg {
            nbio::GPU_HDP_FLUSH_REQ => {
                // Each client has a bit; one's request does not take away what another waits for.
                regs.or(nbio::GPU_HDP_FLUSH_DONE, value);
                value
            }
            athub::ATC_VMID_PASID_MAPPING_UPDATE_STATUS => regs.get(reg) & !value,
            gc::RLC_CAPTURE_GPU_CLOCK_COUNT => {
                // The count stands while the RLC does.
                if self.psp.clock_counts(self) {
                    let now = self.clock.now();
                    regs.set(gc::RLC_GPU_CLOCK_COUNT_LSB, now as u32);
                    regs.set(gc::RLC_GPU_CLOCK_COUNT_MSB, (now >> 32) as u32);
                }
                0
            }
            smuio::ROM_INDEX => {
                self.rom.set_index(value);
                0
            }
            smuio::ROM_DATA => {
                return Err(regs.refuse(reg, value, "the flash chip is not written"))
            }
            // The request is taken at once.
            gc::RLC_SAFE_MODE => rlc_safe_mode::CMD.put(value, 0),
            _ => {
                if let Some(vmid) = pasid_mapping(reg) {
                    regs.or(athub::ATC_VMID_PASID_MAPPING_UPDATE_STATUS, 1 << vmid);
                }
                value
            }
        };
        regs.set(reg, stored);
        self.check_lead(reg, value)
    }

    /// Configuration space write.
    pub fn write_config(&self, offset: u64, data: &[u8]) {
        if self.smu.is_resetting(self) {
            return;
        }
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        config.write(offset, data);
        if self.bus.is_master() && !config.is_master() {
            self.summary.without_master.clear();
        }
        self.bus.set_master(config.is_master());
        let size = if config.decodes() { self.bar0 } else { 0 };
        if config.decodes() {
            self.smu.host_is_back();
        }
        self.bus.set_window(config.bar_address(0), size);
        self.bus
            .set_bars(config.bar_address(2), config.bar_address(5));
    }

    /// Configuration space read.
    pub fn read_config(&self, offset: u64, data: &mut [u8]) {
        self.smu.is_resetting(self);
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        config.read(offset, data);
    }
}

/// The SDMA engine that `reg` belongs to, and the dwords from its base.
fn sdma_owner(reg: Reg) -> Option<(usize, u32)> {
    SDMA_BASE
        .into_iter()
        .position(|base| (base..base + SDMA_SPAN).contains(&reg.0))
        .map(|engine| (engine, reg.0 - SDMA_BASE[engine]))
}

/// The bit of UPDATE_STATUS for a PASID mapping register: 0..=15 graphics, 16..=31 MMHUB clients.
fn pasid_mapping(reg: Reg) -> Option<u32> {
    let graphics = athub::ATC_VMID0_PASID_MAPPING.0;
    let memory = athub::ATC_VMID16_PASID_MAPPING.0;
    match reg.0 {
        n if (graphics..graphics + 16).contains(&n) => Some(n - graphics),
        n if (memory..memory + 16).contains(&n) => Some(n - memory + 16),
        _ => None,
    }
}

/// For messages about accesses of a width that no register has.
pub fn bad_access(access: Access, region: &'static str, offset: u64, size: usize) -> ModelError {
    ModelError::Access {
        access: access.name(),
        region,
        offset,
        size,
    }
}
