// SPDX-License-Identifier: GPL-2.0
//! A GPU's firmware: the PSP loads it from files into the engines, and it is unloaded again.
//! [`hw::firmware::plan`] has the files' contents and the order.

mod clocks;
pub(crate) mod files;
mod limits;
pub(crate) mod reset;
pub(crate) mod sensors;
mod tables;

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

use hw::firmware::part::FirmwarePart;
use hw::firmware::plan::LoadStep;
use hw::firmware::state::BootState;
use hw::smu::SmuMessage;
use hw::va::PAGE_SIZE;
use hw::xgmi::ta::BUFFER_BYTES;

use crate::ip::psp::xgmi::{log_without_xgmi, SharedPsp};
use crate::ip::psp::{Psp, PspBuffers, PspRing, Tmr, IMAGE_BYTES, PAGES_BYTES};
use crate::ip::smu::Smu;
use crate::ip::Hardware;
use crate::mem::vram::{VramBlocks, VramManager, VramRun};
use crate::mem::GpuMemory;
use files::{FirmwareFiles, MissingFile};
use sensors::SmuSensors;

/// How long the GPU's clock is observed: more than a hundred ticks.
const TICKS: Delta = Delta::from_micros(100);

/// The firmware that the engines run. When this is dropped the engines are halted. If the driver
/// has loaded the firmware, the SMU is then notified and the PSP returns its memory, so that the
/// next driver finds the state that it needs (amdgpu unloads in this order). The owner has stopped
/// all users of the engines before.
pub(crate) struct LoadedFirmware {
    own: Option<OwnFirmware>,
    hw: Arc<Hardware>,
}

/// State of firmware that this driver has loaded.
struct OwnFirmware {
    /// Versions of the files of MEC and SDMA.
    versions: (u32, u32),
    smu: Arc<SmuSensors>,
    /// Stopped before the PSP's memory is freed.
    psp: Arc<SharedPsp>,
    /// The PSP's application for XGMI runs.
    has_ta: bool,
    memory: PspMemory,
}

/// VRAM that only the PSP uses.
struct PspMemory {
    image: VramBlocks,
    pages: VramBlocks,
    /// The buffer of the application for XGMI; `None` for a GPU that is in no hive.
    ta: Option<VramBlocks>,
    /// `None` where the PSP has set memory apart.
    tmr: Option<VramBlocks>,
}

impl PspMemory {
    /// Allocates it, with `tmr` bytes for the PSP's own use; `in_hive` tells that the GPU is in a
    /// hive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(vram: &VramManager, tmr: u64, in_hive: bool) -> Result<Self> {
        Ok(Self {
            image: vram.alloc_own(IMAGE_BYTES, IMAGE_BYTES)?,
            pages: vram.alloc_own(PAGES_BYTES, PAGE_SIZE)?,
            ta: match in_hive {
                true => Some(vram.alloc_own(BUFFER_BYTES, PAGE_SIZE)?),
                false => None,
            },
            tmr: match tmr {
                0 => None,
                bytes => Some(vram.alloc_own(bytes, bytes)?),
            },
        })
    }

    fn places(&self) -> PspBuffers {
        PspBuffers {
            image: self.image.start(),
            pages: self.pages.start(),
        }
    }

    /// All of its runs.
    fn runs(&self) -> impl Iterator<Item = VramRun> + '_ {
        let (ta, tmr) = (self.ta.as_ref(), self.tmr.as_ref());
        let parts = [Some(&self.image), Some(&self.pages), ta, tmr];
        let parts = parts.into_iter().flatten();
        parts.flat_map(|part| part.runs()).copied()
    }
}

/// Loads the firmware of the GPU of `memory`. Its hubs are up, its engines not yet. If another
/// driver has loaded firmware and there are no files for a different one, that is kept. May sleep,
/// for a quarter of a second if there is no trouble.
///
/// # Errors
///
/// `ENOENT` without a file that is needed; `EINVAL` for a damaged one; `ETIMEDOUT` and `EIO` if PSP
/// or SMU fail; `ENOMEM`. The log names the cause.
pub(crate) fn load(memory: &GpuMemory) -> Result<LoadedFirmware> {
    let hw = &memory.hw;
    let plan = hw.asic.firmware;
    let in_hive = hw.gmc.place().is_in_hive();
    let files = match FirmwareFiles::request(&hw.dev, plan, in_hive) {
        Ok(files) => files,
        Err(MissingFile(name, error)) if hw.state != BootState::Cold && error == ENOENT => {
            dev_info!(
                &*hw.dev,
                "the firmware that was loaded before is used: there is no file {name} \
                 (Debian: package firmware-amd-graphics)\n"
            );
            return Ok(LoadedFirmware {
                own: None,
                hw: hw.clone(),
            });
        }
        Err(missing) => return Err(missing.log_error(&hw.dev)),
    };
    files.check(&hw.dev)?;
    // Read before any firmware runs that may claim the flash chip, as in amdgpu.
    let limits = limits::find(hw)?;
    let blocks = PspMemory::new(&memory.vram, plan.tmr_bytes, in_hive)?;
    let (tmr, smu) = hand_over(hw, hw.state, &files, &blocks)?;
    let psp = SharedPsp::new(tmr)?;
    let has_ta = start_ta(hw, &psp, &files, &blocks);
    let version = |part| files.image(part).map_or(0, |image| image.version);
    Ok(LoadedFirmware {
        own: Some(OwnFirmware {
            versions: (version(FirmwarePart::Mec), version(FirmwarePart::Sdma)),
            smu: SmuSensors::new(memory, smu, limits)?,
            psp,
            has_ta,
            memory: blocks,
        }),
        hw: hw.clone(),
    })
}

/// Hands all images of `files` to the PSP of a GPU that was found in `state`.
///
/// # Errors
///
/// As [`load`].
fn hand_over(
    hw: &Hardware,
    state: BootState,
    files: &FirmwareFiles,
    blocks: &PspMemory,
) -> Result<(Tmr, Smu)> {
    let plan = hw.asic.firmware;
    let start = Instant::<Monotonic>::now();
    let bus = (&hw.vram_map, &hw.hdp, hw.gmc.fb());
    let psp = Psp::new(&hw.dev, &hw.mmio, hw.ips(), bus, blocks.places())?;
    start_secure_os(hw, state, &psp, files)?;
    let mut ring = psp.make_ring(state == BootState::Dirty)?;
    each(plan.before_tmr, files, &mut ring)?;
    let place = blocks.tmr.as_ref().map(|tmr| (tmr.start(), plan.tmr_bytes));
    let mut tmr = ring.set_up_tmr(place)?;
    each(plan.after_tmr, files, tmr.ring())?;
    if plan.tells_partitions {
        tmr.ring().unite()?;
    }
    let smu = Smu::start(&hw.dev, &hw.mmio, hw.ips(), plan.smu)?;
    let version = |part| files.image(part).map_or(0, |image| image.version);
    dev_info!(
        &*hw.dev,
        "firmware loaded in {} ms: secure OS {:#x}, SDMA {}, MEC {}, RLC {}\n",
        start.elapsed().as_millis(),
        version(FirmwarePart::SecureOs),
        version(FirmwarePart::Sdma),
        version(FirmwarePart::Mec),
        version(FirmwarePart::Rlc)
    );
    Ok((tmr, smu))
}

/// Starts the PSP's application for XGMI, if the GPU is in a hive, and tells it of the GPUs that it
/// was told of before. Returns whether it runs. If not, the GPU works alone, and the log has one
/// line that says why.
fn start_ta(hw: &Hardware, psp: &SharedPsp, files: &FirmwareFiles, blocks: &PspMemory) -> bool {
    let Some(buffer) = &blocks.ta else {
        return false;
    };
    let plan = hw.asic.firmware;
    let Ok(image) = files.image(FirmwarePart::XgmiTa) else {
        dev_warn!(
            &*hw.dev,
            "XGMI is not used: there is no application for it in {}\n",
            plan.applications
        );
        return false;
    };
    let loaded = psp.load_ta(&image, buffer.start(), plan.links_version);
    let nodes = psp.nodes();
    let told = loaded.and_then(|()| match nodes.is_empty() {
        true => Ok(()),
        false => psp.set_nodes(&nodes),
    });
    told.map_err(|failure| log_without_xgmi(hw, &failure))
        .is_ok()
}

/// Reads and checks all firmware files of `hw`, for [`LoadedFirmware::reload`]. May sleep.
///
/// # Errors
///
/// `ENOENT`, `EINVAL` and `ENOMEM` as for [`load`]. The log names the cause.
pub(crate) fn files(hw: &Hardware) -> Result<FirmwareFiles> {
    let dev = &hw.dev;
    let in_hive = hw.gmc.place().is_in_hive();
    let files = FirmwareFiles::request(dev, hw.asic.firmware, in_hive)
        .map_err(|missing| missing.log_error(dev))?;
    files.check(dev)?;
    Ok(files)
}

/// Lets the bootloader start the secure OS, unless one is alive: then that one is used.
fn start_secure_os(hw: &Hardware, state: BootState, psp: &Psp, files: &FirmwareFiles) -> Result {
    let Some((&(last, command), others)) = hw.asic.firmware.bootloader.split_last() else {
        return Ok(());
    };
    let secure_os = files.image(last)?;
    if state == BootState::Cold {
        for &(part, command) in others {
            psp.boot(&files.image(part)?, command)?;
        }
        psp.boot_secure_os(&secure_os, command)?;
    }
    let lives = psp.secure_os().ok_or(ENODEV)?;
    if lives != secure_os.version {
        dev_warn!(
            &*hw.dev,
            "PSP: the secure OS that lives is {lives:#x}, that of the file is {:#x}\n",
            secure_os.version
        );
    }
    Ok(())
}

fn each(steps: &[LoadStep], files: &FirmwareFiles, ring: &mut PspRing) -> Result {
    for &(part, kind) in steps {
        ring.load(&files.image(part)?, kind)?;
    }
    Ok(())
}

impl LoadedFirmware {
    /// Whether this driver has loaded the firmware.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Versions of the firmware of MEC and SDMA: those of the files, or, if another driver has
    /// loaded it, the contents of the engines' registers.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the ASIC has no such registers.
    pub(crate) fn versions(&self) -> Result<(u32, u32)> {
        match &self.own {
            Some(own) => Ok(own.versions),
            None => self.hw.firmware(),
        }
    }

    /// The SMU's sensors; `None` if they cannot be had.
    pub(crate) fn sensors(&self) -> Option<Arc<SmuSensors>> {
        let smu = self.smu()?;
        smu.is_measuring().then(|| smu.clone())
    }

    /// The PSP, if its application for XGMI runs.
    pub(crate) fn xgmi(&self) -> Option<&Arc<SharedPsp>> {
        let own = self.own.as_ref().filter(|own| own.has_ta)?;
        Some(&own.psp)
    }

    /// The PSP's part of VRAM, of which nothing is saved.
    pub(crate) fn memory(&self) -> impl Iterator<Item = VramRun> + '_ {
        self.own.iter().flat_map(|own| own.memory.runs())
    }

    /// Unloads the firmware, as on unbind. The users of the engines have stopped. May sleep.
    pub(crate) fn stop(&mut self) {
        self.hw.halt_engines();
        if self.hw.is_present() {
            self.unload_smu();
        }
        if let Some(own) = &self.own {
            own.psp.stop();
        }
    }

    /// Loads the firmware again from `files`, after [`LoadedFirmware::stop`]. The GPU was found in
    /// `state`; its hubs are up, its engines not yet.
    ///
    /// # Errors
    ///
    /// `EBUSY` if another driver had loaded it; otherwise as [`load`].
    pub(crate) fn reload(&mut self, files: &FirmwareFiles, state: BootState) -> Result {
        let own = self.own.as_mut().ok_or(EBUSY)?;
        let (tmr, smu) = hand_over(&self.hw, state, files, &own.memory)?;
        own.psp.restart(tmr);
        own.has_ta = own.has_ta && start_ta(&self.hw, &own.psp, files, &own.memory);
        own.smu.restart(smu)
    }

    /// The SMU, if this driver has started it.
    fn smu(&self) -> Option<&Arc<SmuSensors>> {
        self.own.as_ref().map(|own| &own.smu)
    }

    /// Checks that the RLC runs after its start: then the GPU's clock counts. May sleep.
    ///
    /// # Errors
    ///
    /// `EIO` if the clock stands, which is logged; `ENODEV` when the device is gone.
    pub(crate) fn check_clock(&self) -> Result {
        let before = self.hw.clock.now();
        fsleep(TICKS);
        if self.hw.clock.now() != before {
            return Ok(());
        }
        if !self.hw.is_present() {
            return Err(ENODEV);
        }
        dev_err!(
            &*self.hw.dev,
            "RLC: it was started, and the GPU's clock stands\n"
        );
        Err(EIO)
    }
}

impl LoadedFirmware {
    /// Unloads the SMU's firmware after the engines were halted. Messages that fail are logged.
    fn unload_smu(&self) {
        let is_reset_due = reset::is_due(&self.hw);
        let send = |message: SmuMessage| match self.smu() {
            // The SMU accepts no more messages after this one, and it must still reset the GPU.
            Some(_) if is_reset_due && message == SmuMessage::PrepareMp1ForUnload => {}
            Some(smu) => smu.send(message),
            None => {}
        };
        // Features end before the RLC does, since they change its clock.
        let farewell = self.hw.asic.firmware.smu.farewell();
        send(farewell.before);
        self.hw.rlc.stop();
        if let Some(message) = farewell.after {
            send(message);
        }
    }
}

impl Drop for LoadedFirmware {
    fn drop(&mut self) {
        self.stop();
    }
}
