// SPDX-License-Identifier: GPL-2.0
//! Has the SMU set clocks and hold the board within its limits (amdgpu: smu_smc_hw_setup, in whose order messages are). Without that clocks are
//! what the card's own firmware has left, and of limits those that hardware has.

use kernel::device::Device;
use kernel::prelude::*;

use hw::smu::limits::SmuLimits;
use hw::smu::{SmuClock, SmuFeatures, SmuMessage};

use super::limits::WITHOUT;
use super::tables::SmuTables;
use crate::ip::smu::{Smu, SmuFailure};

/// What the SMU does.
#[derive(Clone, Copy, Default)]
pub(super) struct ClockControl {
    /// By itself.
    pub(super) features: SmuFeatures,
    /// Of graphics and memory, MHz, from the lowest to the highest; None where it does not set them, or does not say.
    pub(super) ranges: Option<[[u32; 2]; 2]>,
}

/// Ends what a driver before has left `smu` doing: by whose limits, nobody knows. Errors of [`Smu::ask`].
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

/// Has `smu` do what `limits` say, by way of `tables`; with `has_board` it is the one that the board's power goes by. Without features where it does not do that: the log says
/// why, in one line. Sleeps, for some milliseconds; for seconds where it does not answer.
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
            // On its way it may have begun. That is all there is to do about it.
            let _ = smu.ask(SmuMessage::DisableAllSmuFeatures);
            if failure.is_news {
                dev_warn!(dev, "SMU: {WITHOUT}: {}\n", format_args!("{failure}"));
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

/// Within what clocks are set, for the log as well.
fn ranges(
    smu: &mut Smu,
    limits: &SmuLimits,
    features: SmuFeatures,
    dev: &Device,
) -> Option<[[u32; 2]; 2]> {
    let mut range = |clock| smu.range(clock);
    let told = range(SmuClock::Soc)
        .and_then(|soc| Ok([soc, range(SmuClock::Memory)?, range(SmuClock::Fabric)?]))
        .inspect_err(|failure| {
            if failure.is_news {
                dev_warn!(
                    dev,
                    "SMU: it does not say how high clocks get: {}\n",
                    format_args!("{failure}")
                );
            }
        });
    let [soc, memory, fabric] = told.ok()?;
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
