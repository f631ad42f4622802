// SPDX-License-Identifier: GPL-2.0
//! The state of a GPU as a driver finds it, from its registers. Nothing is written, except where a
//! reset is about to change that state.

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

use hw::firmware::state::{ObservedState, RunningEngines};
use hw::ip::{IpBlock, IpTable};
use hw::xgmi::XgmiPlace;

use super::hub::XgmiRegisters;
use crate::kern::mmio::Mmio;
use crate::regs::gc::{self, cp_mec_cntl, rlc_cntl};
use crate::regs::mp::{self, mp0_c2pmsg_33};
use crate::regs::nbio::{self, bios_scratch_7, rcc_iov_func_identifier};
use crate::regs::osssys::{ih_rb_cntl, other_rings, IH_RB_CNTL};
use crate::regs::sdma::{f32_cntl, EnginePlaces};
use crate::regs::smuio::DiePlace;
use crate::regs::RegisterWindow;

/// How long a GPU may take to answer after a reset.
const PRESENT: Delta = Delta::from_millis(100);
/// How long the firmware of its flash chip may take, and after that the PSP's bootloader.
const FLASH: Delta = Delta::from_millis(2000);
const BOOTLOADER: Delta = Delta::from_millis(1000);
/// How long the firmware may take to set the GPU up after a reset.
const POST: Delta = Delta::from_millis(5000);
/// Between two polls.
const POLL: Delta = Delta::from_millis(1);

/// Reader of that state.
pub(crate) struct BootObserver {
    nbio: RegisterWindow,
    mp: RegisterWindow,
    smuio: RegisterWindow,
    /// Each XCC.
    gc: KVec<RegisterWindow>,
    /// Registers of the first of `gc`.
    xgmi: XgmiRegisters,
    osssys: RegisterWindow,
    sdma: KVec<RegisterWindow>,
}

impl BootObserver {
    /// For the GPU whose blocks are `ips`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it lacks one, or has one of a version that the driver does not know; `ENOMEM`.
    pub(crate) fn new(dev: &Device, mmio: &Arc<Mmio>, ips: IpTable<'_>) -> Result<Self> {
        let window = |block| RegisterWindow::new(mmio, ips, block, 0);
        // So that there is a first one.
        window(IpBlock::Gc)?;
        Ok(Self {
            nbio: window(IpBlock::Nbio)?,
            mp: window(IpBlock::Mp)?,
            smuio: window(IpBlock::Smuio)?,
            gc: RegisterWindow::each(mmio, ips, IpBlock::Gc)?,
            xgmi: XgmiRegisters::new(dev, ips)?,
            osssys: window(IpBlock::Osssys)?,
            sdma: RegisterWindow::each(mmio, ips, IpBlock::Sdma)?,
        })
    }

    /// The state that registers show now.
    pub(crate) fn read(&self) -> ObservedState {
        let place = DiePlace::read(&self.smuio);
        ObservedState {
            is_virtual: rcc_iov_func_identifier::FUNC_IDENTIFIER
                .is_set(self.nbio.read(nbio::RCC_IOV_FUNC_IDENTIFIER)),
            is_posted: bios_scratch_7::ASIC_INIT_COMPLETE
                .is_set(self.nbio.read(nbio::BIOS_SCRATCH_7)),
            is_flash_ready: mp0_c2pmsg_33::READY.is_set(self.mp.read(mp::MP0_C2PMSG_33)),
            bootloader: self.mp.read(mp::MP0_C2PMSG_35),
            secure_os: self.mp.read(mp::MP0_C2PMSG_81),
            secure_os_version: self.mp.read(mp::MP0_C2PMSG_58),
            is_on_cpu_link: place.is_on_cpu_link,
            die: place.die,
            xgmi: self
                .gc
                .first()
                .map_or_else(XgmiPlace::default, |gc| self.xgmi.read(gc)),
            running: self.running(),
            // Last: if the GPU vanishes meanwhile, the values read before are not taken for its
            // state.
            memory: self.nbio.read(nbio::RCC_CONFIG_MEMSIZE),
        }
    }

    fn running(&self) -> RunningEngines {
        let halts = [cp_mec_cntl::MEC_ME1_HALT, cp_mec_cntl::MEC_ME2_HALT];
        let runs_mec = |gc: &RegisterWindow| {
            let control = gc.read(gc::CP_MEC_CNTL);
            halts.iter().any(|halt| !halt.is_set(control))
        };
        let runs_rlc = |gc: &RegisterWindow| rlc_cntl::RLC_ENABLE_F32.is_set(gc.read(gc::RLC_CNTL));
        let is_on = |ring| ih_rb_cntl::RB_ENABLE.is_set(self.osssys.read(ring));
        let engines = (0..).zip(&self.sdma);
        let running = engines
            .filter(|(_, engine)| {
                let places = EnginePlaces::of(engine.version());
                !f32_cntl::HALT.is_set(engine.read(places.f32_cntl))
            })
            .map(|(number, _)| number);
        RunningEngines {
            mec: self.gc.iter().any(runs_mec),
            rlc: self.gc.iter().any(runs_rlc),
            sdma: running.collect(),
            ih: is_on(IH_RB_CNTL)
                || other_rings(self.osssys.version())
                    .iter()
                    .any(|&ring| is_on(ring)),
        }
    }

    /// The state that registers show once the GPU has started as far as it does by itself: after
    /// three seconds at most. Context: may sleep.
    pub(crate) fn wait(&self) -> ObservedState {
        let seen = self.wait_for(PRESENT, |seen| seen.is_present());
        if !seen.is_present() || seen.is_virtual {
            return seen;
        }
        self.wait_for(FLASH, |seen| seen.is_flash_ready);
        self.wait_for(BOOTLOADER, |seen| {
            seen.secure_os != 0 || seen.is_bootloader_ready()
        })
    }

    /// Notes that the GPU is posted, or is not. Called before a reset, which spares the PCI
    /// function and may spare this word. So the old word is not taken for the one that the firmware
    /// writes after posting. Also called where there was no reset.
    pub(crate) fn mark_posted(&self, is_posted: bool) {
        let field = bios_scratch_7::ASIC_INIT_COMPLETE;
        self.nbio
            .update(nbio::BIOS_SCRATCH_7, &[(field, is_posted.into())]);
    }

    /// The state that registers show once the GPU, which was reset, is set up by its own firmware
    /// again: after five seconds at most. Context: may sleep.
    pub(crate) fn wait_for_post(&self) -> ObservedState {
        let seen = self.wait_for(PRESENT, |seen| seen.is_present());
        if !seen.is_present() {
            return seen;
        }
        self.wait_for(POST, |seen| seen.is_posted)
    }

    fn wait_for(&self, time: Delta, is_there: impl Fn(&ObservedState) -> bool) -> ObservedState {
        let start = Instant::<Monotonic>::now();
        loop {
            let seen = self.read();
            if is_there(&seen) || start.elapsed() > time {
                return seen;
            }
            fsleep(POLL);
        }
    }
}
