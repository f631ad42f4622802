// SPDX-License-Identifier: GPL-2.0
//! Resets a whole GPU through its SMU (mode-1). The GPU is then as after power-on: without
//! firmware, which its driver can load again, and without the contents of VRAM.

use kernel::pci;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

use hw::smu::SmuMessage;

use super::sensors::SmuSensors;
use super::LoadedFirmware;
use crate::ip::state::BootObserver;
use crate::ip::Hardware;
use crate::kern::params;
use crate::kern::pci_ext::SavedConfig;

/// How long the GPU is left alone after it has acknowledged the reset (amdgpu:
/// aldebaran_mode1_reset).
const AWAY: Delta = Delta::from_millis(500);

/// Resets a wedged GPU when this is dropped, if the driver has loaded its firmware. It is dropped
/// after everything that stops the GPU's activity, bus mastering included, and while the registers
/// can still be accessed.
pub(crate) struct FirmwareReset {
    smu: Option<Arc<SmuSensors>>,
    hw: Arc<Hardware>,
    pdev: ARef<pci::Device>,
}

/// Whether `hw` is wedged and may be reset. A GPU of a hive may only be reset with all others.
pub(super) fn is_due(hw: &Hardware) -> bool {
    hw.health.cause().is_some() && params::resets() > 0 && may_be_reset(hw)
}

fn may_be_reset(hw: &Hardware) -> bool {
    !hw.gmc.place().is_in_hive() || hw.hive.reset().is_some()
}

impl FirmwareReset {
    /// For the GPU at `pdev`, with its `loaded` firmware.
    pub(crate) fn new(pdev: &pci::Device, loaded: &LoadedFirmware) -> Self {
        Self {
            smu: loaded.smu().cloned(),
            hw: loaded.hw.clone(),
            pdev: pdev.into(),
        }
    }

    /// Resets the GPU.
    ///
    /// # Errors
    ///
    /// `EIO` if its own firmware has not set the GPU up afterwards; `ETIMEDOUT` if others of its
    /// hive, which are reset with it, are not ready; errors of the SMU, which are logged.
    fn reset(&self, smu: &SmuSensors) -> Result {
        let start = Instant::<Monotonic>::now();
        let observer = BootObserver::new(&self.hw.dev, &self.hw.mmio, self.hw.ips())?;
        let config = SavedConfig::save(&self.pdev)?;
        if self.hw.hive.reset().is_some_and(|reset| !reset.wait()) {
            return Err(ETIMEDOUT);
        }
        observer.mark_posted(false);
        smu.ask(SmuMessage::GfxDriverReset).inspect_err(|error| {
            // `EIO` means that the SMU refused. Without an answer the outcome is unknown.
            if *error == EIO {
                observer.mark_posted(true);
            }
        })?;
        fsleep(AWAY);
        config.restore();
        let seen = observer.wait_for_post();
        if !seen.is_present() || !seen.is_posted {
            return Err(EIO);
        }
        dev_info!(
            &*self.hw.dev,
            "GPU reset succeeded, trying to resume: it took {} ms (mode-1), and VRAM is lost\n",
            start.elapsed().as_millis()
        );
        Ok(())
    }
}

impl Drop for FirmwareReset {
    fn drop(&mut self) {
        let Some(smu) = &self.smu else { return };
        if !is_due(&self.hw) || !self.hw.is_present() {
            return;
        }
        if let Err(error) = self.reset(smu) {
            self.hw.health.set_lost();
            dev_err!(
                &*self.hw.dev,
                "GPU reset failed: the GPU does not come back from it (mode-1): {error:?}: \
                 the machine has to be switched off and on\n"
            );
        }
    }
}
