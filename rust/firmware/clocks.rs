// SPDX-License-Identifier: GPL-2.0
//! Lets the SMU set clocks and hold the board within its limits (amdgpu: smu_smc_hw_setup, whose
//! order of messages this follows). Without that, the clocks stay as the card's own firmware has
//! set them, and only the hardware's limits hold.

use kernel::device::Device;
use kernel::prelude::*;

use hw::smu::limits::SmuLimits;
use hw::smu::{SmuClock, SmuFeatures, SmuMessage};

use super::limits::WITHOUT;
use super::tables::SmuTables;
use crate::ip::smu::{Smu, SmuFailure};

/// The SMU's control of clocks.
#[derive(Clone, Copy, Default)]
pub(super) struct ClockControl {
    /// The features that are enabled.
    pub(super) features: SmuFeatures,
    /// Ranges of the graphics and the memory clock, MHz, lowest and highest; `None` if the SMU does
    /// not set them or does not report them.
    pub(super) ranges: Option<[[u32; 2]; 2]>,
}

/// Disables the features that the previous driver has left enabled in `smu`: the limits that they
/// use are unknown.
///
/// # Errors
///
/// Those of [`Smu::ask`].
pub(super) fn stop(smu: &mut Smu, dev: &Device) -> Result<(), SmuFailure> {
    let left = smu.features()?;
    if left.are_any() {
        smu.ask(SmuMessage::DisableAllSmuFeatures)?;
        dev_info!(
            dev,
            "SMU: features {:#x}, which a driver has left on, are off\n",
            left.0
        );
    }
    Ok(())
}

/// Enables the features for which `limits` allow, which are uploaded through `tables`; `has_board`
/// tells that this die measures the board's power. Without features if the SMU refuses, for which
/// the log has one line. May sleep, for some milliseconds, or for seconds if the SMU does not
/// answer.
pub(super) fn start(
    smu: &mut Smu,
    tables: &SmuTables,
    limits: &SmuLimits,
    has_board: bool,
    dev: &Device,
) -> ClockControl {
    let features = match start_features(smu, tables, limits, has_board) {
        Ok(features) if features.are_any() => features,
        Ok(_) => {
            dev_warn!(
                dev,
                "SMU: {WITHOUT}: features {:#x} were to be on, and none is\n",
                limits.features().0
            );
            return ClockControl::default();
        }
        Err(failure) => {
            // Some features may already be enabled. No other recovery exists.
            let _ = smu.ask(SmuMessage::DisableAllSmuFeatures);
            if failure.is_news {
                dev_warn!(dev, "SMU: {WITHOUT}: {failure}\n");
            }
            return ClockControl::default();
        }
    };
    let ranges = ranges(smu, limits, features, dev);
    ClockControl { features, ranges }
}

fn start_features(
    smu: &mut Smu,
    tables: &SmuTables,
    limits: &SmuLimits,
    has_board: bool,
) -> Result<SmuFeatures, SmuFailure> {
    tables.set_tools_address(smu)?;
    tables.upload(smu, limits)?;
    smu.ask(SmuMessage::EnableAllSmuFeatures)?;
    smu.ask(SmuMessage::RunDcBtc)?;
    if has_board && smu.version().calibrates_board() {
        smu.ask(SmuMessage::BoardPowerCalibration)?;
    }
    smu.features()
}

/// The ranges of the clocks, which are logged too.
fn ranges(
    smu: &mut Smu,
    limits: &SmuLimits,
    features: SmuFeatures,
    dev: &Device,
) -> Option<[[u32; 2]; 2]> {
    let mut range = |clock| smu.range(clock);
    let reported = range(SmuClock::Soc)
        .and_then(|soc| Ok([soc, range(SmuClock::Memory)?, range(SmuClock::Fabric)?]))
        .inspect_err(|failure| {
            if failure.is_news {
                dev_warn!(
                    dev,
                    "SMU: it does not say how high clocks get: {}\n",
                    failure
                );
            }
        });
    let [soc, memory, fabric] = reported.ok()?;
    let graphics = limits.graphics().map(u32::from);
    dev_info!(
        dev,
        "SMU: features {:#x}, {} W; MHz: graphics {}-{}, memory {}-{}, SOC {}-{}, fabric {}-{}\n",
        features.0,
        limits.power(),
        graphics[0],
        graphics[1],
        memory[0],
        memory[1],
        soc[0],
        soc[1],
        fabric[0],
        fabric[1]
    );
    let are_set = features.sets_graphics_clock() && features.sets_memory_clock();
    are_set.then_some([graphics, memory])
}
