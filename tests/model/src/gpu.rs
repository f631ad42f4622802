// SPDX-License-Identifier: GPL-2.0
//! The device: its blocks, its initial state, and its resets.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::activity::Activity;
use crate::board::{Board, Rom, UNIT};
use crate::clock::{Clock, HZ};
use crate::config::Config;
use crate::cp::Cp;
use crate::discovery;
use crate::error::ModelError;
use crate::fate::{mix, Fate, Site};
use crate::function::Function;
use crate::grbm::Grbm;
use crate::hive::Hive;
use crate::hub::{Flush, Hub, HubId};
use crate::ih::Ih;
use crate::layout::Layout;
use crate::memory::{Bus, Phys, Space};
use crate::msi::Msi;
use crate::nbio::Nbio;
use crate::psp::start::Start;
use crate::psp::{self, Psp};
use crate::regs::gc::{self, cp_mec_cntl};
use crate::regs::nbio::{partition_mem_cap as mem_cap, partition_mem_status as mem_status};
use crate::regs::{nbio, sdma, smuio, Reg, Store};
use crate::removal::Removal;
use crate::sdma::Engine;
use crate::smu::Smu;
use crate::sq::Pool;
use crate::summary::Summary;
use crate::timing::Timing;
use crate::tlb::VMIDS;

/// How much nicer threads are that execute programs. The runner starts models with -10.
const YIELDING: i32 = 8;
/// VM_L2_CNTL3 and VM_L2_CNTL4 out of reset.
const L2_CNTL3: u32 = 0x8010_0007;
const L2_CNTL4: u32 = 0xc1;
/// VM_L2_PROTECTION_FAULT_CNTL and VM_CONTEXT0_CNTL out of reset: faults go on with the dummy page,
/// and interrupt.
const FAULT_CNTL: u32 = 0x3fff_fffc;
const CONTEXT_CNTL: u32 = 0x007f_fe80;

/// Values out of reset that are only in the kernel's own header of the generation (GFX 9.0); gfx90a
/// is assumed to have the same.
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

/// Where the reference clock begins: anywhere, one in four times shortly before 32 or 48 bits of it
/// wrap around.
fn first_tick(fate: &Fate) -> u64 {
    let Some(value) = fate.value(Site::StartClock, 0, 1) else {
        return 0;
    };
    let shortly = 10 * HZ;
    match value % 8 {
        0 => (1 << 32) - shortly,
        1 => (1 << 48) - shortly,
        _ => mix(value) % (1 << 48),
    }
}

/// The device, as one of its XCCs and the AID below it see it: with their own registers and hubs.
/// Where that makes no difference, it is any of them.
#[derive(Clone)]
pub struct Gpu {
    all: Arc<Whole>,
    /// Plain registers.
    pub regs: Store,
    /// Banked registers.
    pub grbm: Arc<Grbm>,
}

impl Deref for Gpu {
    type Target = Whole;

    fn deref(&self) -> &Whole {
        &self.all
    }
}

/// What all XCCs and AIDs share, and all of those.
pub struct Whole {
    /// Memory.
    pub bus: Bus,
    /// Bytes of BAR0.
    pub bar0: u64,
    /// The PCI function.
    pub function: Function,
    /// The times that its engines take, if these are not the host's.
    pub timing: Option<Timing>,
    /// The driver maps host memory of its own write-combined.
    pub write_combined: bool,
    /// Leaves of page directories may begin at any page.
    pub unaligned_leaves: bool,
    /// The board's number.
    pub serial: u64,
    /// Configuration space.
    pub config: Mutex<Config>,
    /// MSI vector.
    pub msi: Msi,
    /// Doorbells and windows.
    pub nbio: Nbio,
    /// Interrupts.
    pub ih: Ih,
    /// Firmware.
    pub psp: Psp,
    /// Power.
    pub smu: Smu,
    /// SDMA engines.
    pub sdma: Vec<Engine>,
    /// Compute queues.
    pub cp: Cp,
    /// Load of the engines.
    pub sq: Pool,
    /// How busy engines are.
    pub activity: Activity,
    /// Whether the board is in its slot.
    pub removal: Removal,
    /// Counters.
    pub summary: Summary,
    /// Reference clock.
    pub clock: Clock,
    /// The freedoms of hardware that it takes.
    pub fate: Fate,
    pub(crate) rom: Rom,
    fb_base: u32,
    /// Its place in a hive.
    pub hive: Hive,
    die: u32,
    /// Banked registers and GFXHUB of each XCC, MMHUB of each AID.
    grbms: Vec<Arc<Grbm>>,
    gfxhubs: Vec<Hub>,
    mmhubs: Vec<Hub>,
    fail_copy: AtomicBool,
    /// It was in D3hot, and has not been used since.
    slept: AtomicBool,
    fatal: Box<dyn Fn(&ModelError) + Send + Sync>,
}

impl Gpu {
    /// Creates a device out of reset on `board`. `fatal` is called with the error that ends the
    /// run, on the thread where it occurs.
    pub fn new(
        board: Board,
        fatal: impl Fn(&ModelError) + Send + Sync + 'static,
    ) -> std::io::Result<Gpu> {
        let mut bus = Bus::new(board.vram)?;
        if let Some(folder) = &board.switch {
            bus.join(folder)?;
        }
        let mut hive = board.hive;
        if let Some(folder) = board.hive_folder.as_ref().filter(|_| hive.others != 0) {
            bus.join_hive(folder, &hive)?;
            hive.together = true;
        }
        let bar0 = board.bar0.min(board.vram.next_power_of_two());
        let fate = Fate::new(board.hostile);
        let layout = board.layout;
        let engines = board.asic.sdma.len();
        let all = Whole {
            bus,
            bar0,
            function: board.function,
            timing: board.timing,
            fb_base: board.fb_base,
            hive,
            die: board.die,
            write_combined: board.write_combined,
            unaligned_leaves: board.unaligned_leaves,
            serial: board.serial,
            config: Mutex::new(Config::new(board.asic, bar0, layout, board.function)),
            msi: Msi::default(),
            nbio: Nbio::default(),
            ih: Ih::default(),
            psp: Psp::new(board.start, board.signatures, board.faults),
            smu: Smu::default(),
            sdma: (0..engines * layout.aids())
                .map(|n| Engine::new(n, engines))
                .collect(),
            cp: Cp::new(layout.xccs),
            sq: Pool::new(layout.xccs),
            activity: Activity::default(),
            removal: Removal::default(),
            summary: Summary::new(engines * layout.aids(), layout.xccs),
            clock: Clock::new(first_tick(&fate)),
            fate,
            rom: Rom::new(board.rom),
            grbms: (0..layout.xccs).map(|_| Arc::default()).collect(),
            gfxhubs: (0..layout.xccs).map(|_| Hub::new(HubId::Gfx)).collect(),
            mmhubs: (0..layout.aids()).map(|_| Hub::new(HubId::Mm)).collect(),
            fail_copy: AtomicBool::new(false),
            slept: AtomicBool::new(false),
            fatal: Box::new(fatal),
        };
        let gpu = Gpu {
            regs: Store::of_parts(board.asic, layout),
            grbm: all.grbms[0].clone(),
            all: Arc::new(all),
        };
        gpu.reset_registers();
        Ok(gpu)
    }

    fn part(&self, xcc: usize, aid: usize) -> Gpu {
        Gpu {
            all: self.all.clone(),
            regs: self.regs.of(xcc, aid),
            grbm: self.all.grbms[xcc].clone(),
        }
    }

    /// Its XCCs and AIDs.
    pub fn layout(&self) -> Layout {
        self.regs.layout()
    }

    /// The device as one of its XCCs sees it.
    pub fn xcc(&self, xcc: usize) -> Gpu {
        self.part(xcc, self.layout().aid_of(xcc))
    }

    /// The device as one of its AIDs sees it.
    pub fn aid(&self, aid: usize) -> Gpu {
        self.part(self.layout().first_xcc(aid), aid)
    }

    /// As each XCC sees it.
    pub fn xccs(&self) -> impl Iterator<Item = Gpu> + '_ {
        (0..self.layout().xccs).map(|xcc| self.xcc(xcc))
    }

    /// As each AID sees it.
    pub fn aids(&self) -> impl Iterator<Item = Gpu> + '_ {
        (0..self.layout().aids()).map(|aid| self.aid(aid))
    }

    /// The banked registers of blocks outside of the XCCs, which the first one's have.
    pub fn banks(&self) -> &Grbm {
        &self.all.grbms[0]
    }

    /// Starts the threads of the engines, the workers and the command processor.
    pub fn start(self: &Arc<Self>) {
        for engine in 0..self.sdma.len() {
            let gpu = self.aid(self.sdma[engine].aid());
            std::thread::spawn(move || {
                if let Err(error) = gpu.sdma[engine].run(&gpu) {
                    gpu.fail(&error);
                }
            });
        }
        for _ in 0..self.sq.workers {
            let gpu = self.clone();
            std::thread::spawn(move || {
                yield_to_others();
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
            yield_to_others();
            if let Err(error) = gpu.cp.run(&gpu) {
                gpu.fail(&error);
            }
        });
        if self.fate.is_on() {
            let gpu = self.clone();
            std::thread::spawn(move || {
                if let Err(error) = gpu.fate.run(&gpu) {
                    gpu.fail(&error);
                }
            });
        }
    }

    /// Brings what is late and has waited long enough. Returns whether something still is.
    pub fn bring_late(&self) -> Result<bool, ModelError> {
        let mut more = self.ih.bring_late(self)?;
        for gpu in self.xccs() {
            more |= gpu.hub(HubId::Gfx).bring_late(&gpu);
        }
        for gpu in self.aids() {
            more |= gpu.hub(HubId::Mm).bring_late(&gpu);
        }
        Ok(more)
    }

    /// Memory and registers as they are at power-up.
    pub fn power_up(&self) {
        let is_filled = self.bus.is_filled();
        let seed = is_filled.then(|| self.fate.value(Site::StartVram, 0, 1));
        self.bus.fill(seed.flatten());
        self.describe();
        if let Some(seed) = self.fate.value(Site::WavePower, 0, 1) {
            self.sq.scramble(seed);
        }
    }

    /// The board's firmware takes its part of VRAM, and leaves the chip's IP discovery table there.
    fn describe(&self) {
        self.psp.take_memory(self);
        let Some(table) = self.regs.asic.discovery else {
            return;
        };
        let binary = table.binary(self.layout());
        let addr = self.bus.vram_size() - discovery::FROM_END;
        let space = Space::Vram;
        let written = self.bus.view().write(Phys { space, addr }, &binary);
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    /// The counters, and the freedoms taken, as JSON.
    pub fn json(&self) -> serde_json::Value {
        let mut summary = self.summary.json();
        summary["hostile"] = serde_json::json!(self.fate.counts());
        summary["hostile_idle"] = self.fate.is_idle().into();
        summary
    }

    /// Ends the run.
    pub fn fail(&self, error: &ModelError) {
        (self.fatal)(error);
    }

    /// Makes the next copy fail, on any engine.
    pub fn fail_next_copy(&self) {
        self.fail_copy.store(true, Ordering::Release);
    }

    /// Returns whether a test wants the current copy refused.
    pub fn take_failure(&self) -> bool {
        self.fail_copy.swap(false, Ordering::AcqRel)
    }

    /// A hub: of this XCC, or of this AID.
    pub fn hub(&self, id: HubId) -> &Hub {
        match id {
            HubId::Gfx => &self.all.gfxhubs[self.regs.xcc],
            HubId::Mm => &self.all.mmhubs[self.regs.aid],
        }
    }

    /// Enters D3hot, in which no engine may be at work. The error names the engine that is.
    pub(crate) fn fall_asleep(&self) -> Result<(), ModelError> {
        if let Some(engine) = psp::engines::Engine::all().find(|engine| engine.is_on(self)) {
            return Err(ModelError::Other(format!(
                "{} runs in D3hot",
                engine.name()
            )));
        }
        self.slept.store(true, Ordering::Release);
        Ok(())
    }

    /// The device is used: if it was asleep, it has not lost its power.
    pub(crate) fn is_used(&self) {
        if self.slept.load(Ordering::Acquire) {
            self.slept.store(false, Ordering::Release);
        }
    }

    /// Reset of the function: everything except the contents of VRAM. If the device was asleep, and
    /// has not been used since, it has lost its power, and VRAM too: that is its state when the
    /// machine comes back from suspend to RAM.
    pub fn reset(&self) {
        self.summary.resets.bump();
        if self.slept.swap(false, Ordering::AcqRel) {
            self.summary.power_losses.bump();
            self.bus.scramble();
        }
        self.reset_blocks();
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = Config::new(self.regs.asic, self.bar0, self.layout(), self.function);
        self.bus.set_master(false);
    }

    /// A function level reset, by configuration space. It is the same, but the BARs stay, for the
    /// reason at [`Config::cleared`].
    pub(crate) fn reset_function(&self) {
        self.summary.resets.bump();
        self.reset_blocks();
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = config.cleared();
        self.bus.set_master(false);
    }

    /// The board's power goes off and on, and its firmware gets as far as `start` says.
    /// Configuration space stays, as if the host had restored it; so does VRAM, whose content must
    /// not be relied on.
    pub fn power_cycle(&self, start: Start) {
        self.psp.set_start(start);
        self.reset_blocks();
    }

    /// The GPU is back after a reset by the SMU: as after power-up, including configuration space,
    /// with other content in VRAM. It answers at its BARs when the host has enabled them again.
    pub fn come_back(&self, start: Start) {
        self.bus.scramble();
        let scratch = self.regs.get(nbio::BIOS_SCRATCH_7);
        self.power_cycle(start);
        if !start.is_posted() {
            // Such a reset may keep the register; the board's POST writes it.
            self.regs.set(nbio::BIOS_SCRATCH_7, scratch);
        }
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = config.cleared();
        self.bus.set_master(false);
    }

    /// Pulls the board out, after `accesses` more to its registers, counted from the next line of
    /// the firmware's trace that begins with `line`, or from now on.
    pub fn remove(&self, accesses: u32, line: Option<String>) {
        if let Some(line) = line {
            self.removal.after_line(accesses);
            return self.psp.trace().wait_for(line);
        }
        self.removal.after(accesses);
        if accesses == 0 {
            self.is_gone();
        }
    }

    /// Returns whether it is pulled out, at this access to its registers.
    pub(crate) fn is_gone(&self) -> bool {
        if self.psp.trace().has_come() {
            self.removal.line_came();
        }
        if self.removal.happens() {
            // Its work ends, and all is as after power-up when it comes back.
            self.bus.scramble();
            self.reset_blocks();
        }
        self.removal.is_gone()
    }

    fn reset_blocks(&self) {
        for engine in &self.sdma {
            engine.reset();
        }
        self.cp.reset();
        self.ih.reset();
        self.rom.set_index(0);
        self.nbio.reset();
        self.all.grbms.iter().for_each(|grbm| grbm.reset());
        for hub in self.all.gfxhubs.iter().chain(&self.all.mmhubs) {
            hub.forget_late();
            hub.flush(self, 0xffff, crate::tlb::Scope::ALL, Flush::Heavy);
        }
        self.silence_hubs(&[]);
        self.reset_registers();
        self.describe();
    }

    /// Makes these hubs acknowledge no invalidations, and others all, until the GPU is reset.
    pub fn silence_hubs(&self, silent: &[HubId]) {
        for hub in self.all.gfxhubs.iter().chain(&self.all.mmhubs) {
            hub.set_silent(silent.contains(&hub.id()));
        }
    }

    fn reset_registers(&self) {
        let regs = &self.regs;
        regs.zero();
        for (reg, value) in [
            (
                nbio::RCC_CONFIG_MEMSIZE,
                (self.bus.vram_size() >> 20) as u32,
            ),
            (
                nbio::RCC_DEV0_EPF0_STRAP0,
                nbio::rcc_dev0_epf0_strap0::ATI_REV_ID.of(1),
            ),
            (
                smuio::SMUIO_MCM_CONFIG,
                smuio::smuio_mcm_config::DIE_ID.of(self.die),
            ),
            // NPS1, and no other mode.
            (nbio::PARTITION_MEM_CAP, mem_cap::NPS1_SUPPORT.of(1)),
            (nbio::PARTITION_MEM_STATUS, mem_status::NPS_MODE.of(1)),
        ] {
            regs.set(reg, value);
        }
        for gpu in self.xccs() {
            gpu.reset_xcc();
        }
        for gpu in self.aids() {
            gpu.reset_hub(HubId::Mm);
            for n in 0..gpu.regs.asic.sdma.len() {
                for &(reg, value) in SDMA_OUT_OF_RESET {
                    gpu.regs.set(reg.of_sdma(n), value);
                }
            }
        }
        self.psp.reset(self);
    }

    /// The registers of an XCC.
    fn reset_xcc(&self) {
        let regs = &self.regs;
        self.reset_hub(HubId::Gfx);
        let [place, segment] = self.hive.registers();
        let halt = cp_mec_cntl::MEC_ME1_HALT.of(1) | cp_mec_cntl::MEC_ME2_HALT.of(1);
        for (reg, value) in [
            (gc::MC_VM_XGMI_LFB_CNTL, place),
            (gc::MC_VM_XGMI_LFB_SIZE, segment),
            (gc::CP_MEC_CNTL, halt),
        ] {
            regs.set(reg, value);
        }
        for &(reg, value) in OUT_OF_RESET {
            regs.set(reg, value);
        }
    }

    /// The registers of a hub.
    fn reset_hub(&self, hub: HubId) {
        let size = self.hive.size(self.bus.vram_size());
        let top = self.fb_base + ((size / UNIT).max(1) - 1) as u32;
        for (reg, value) in [
            (gc::MC_VM_FB_LOCATION_BASE, self.fb_base),
            (gc::MC_VM_FB_LOCATION_TOP, top),
            // AGP is off: its bottom above its top.
            (gc::MC_VM_AGP_BOT, 0xff_ffff),
            (gc::VM_L2_CNTL3, L2_CNTL3),
            (gc::VM_L2_CNTL4, L2_CNTL4),
            (gc::VM_L2_PROTECTION_FAULT_CNTL, FAULT_CNTL),
        ] {
            self.regs.set(hub.reg(reg), value);
        }
        for vmid in 0..VMIDS as u32 {
            let context = gc::VM_CONTEXT0_CNTL.nth(vmid, 1);
            self.regs.set(hub.reg(context), CONTEXT_CNTL);
        }
    }
}

/// Lowers the priority of the calling thread. Programs of a guest may keep the threads that execute
/// them busy for as long as they like; the processors of guests and the other engines, whose work
/// has time limits, come before them.
fn yield_to_others() {
    // Without it the threads have the priority of the model.
    let _ = rustix::process::nice(YIELDING);
}
