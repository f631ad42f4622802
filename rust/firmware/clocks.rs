// SPDX-License-Identifier: GPL-2.0
//! Lets the SMU set clocks and hold the board within its limits (amdgpu: smu_smc_hw_setup, whose
//! order of messages this follows). Without that, the clocks stay as the card's own firmware has
//! set them, and only the hardware's limits hold.

use kernel::device::Device;
use kernel::prelude::*;

use hw::smu::limits::SmuLimits;
use hw::smu::{SmuClock, SmuFeatures, SmuMessage};

use super::limits::{ClockLimits, WITHOUT};
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

/// The state of `smu` before [`start`]. Features that the previous driver has left enabled are
/// disabled if their limits are a table, because it is unknown.
///
/// # Errors
///
/// Those of [`Smu::ask`].
pub(super) fn take_over(smu: &mut Smu, dev: &Device) -> Result<ClockControl, SmuFailure> {
    let mut features = smu.features()?;
    if features.are_any() && smu.interface().takes_limits() {
        smu.ask(SmuMessage::DisableAllSmuFeatures)?;
        dev_info!(
            dev,
            "SMU: features {:#x}, which a driver has left on, are off\n",
            features.0
        );
        features = SmuFeatures::default();
    }
    Ok(ClockControl {
        features,
        ranges: None,
    })
}

/// Enables the features for which `limits` allow: a table is uploaded through `tables`. `has_board`
/// tells that this die measures the board's power. Without features if the SMU refuses, for which
/// the log has one line. May sleep, for some milliseconds, or for seconds if the SMU does not
/// answer.
pub(super) fn start(
    smu: &mut Smu,
    tables: &SmuTables,
    limits: &ClockLimits,
    has_board: bool,
    dev: &Device,
) -> ClockControl {
    let started = match limits {
        ClockLimits::Table(limits) => start_by_table(smu, tables, limits, has_board),
        ClockLimits::Own => start_by_own(smu, tables),
    };
    match started {
        Ok(features) if features.are_any() => ClockControl {
            features,
            ranges: ranges(smu, limits, features, dev),
        },
        Ok(_) => {
            match limits {
                ClockLimits::Table(limits) => dev_warn!(
                    dev,
                    "SMU: {WITHOUT}: features {:#x} were to be on, and none is\n",
                    limits.features().0
                ),
                ClockLimits::Own => {
                    dev_warn!(
                        dev,
                        "SMU: {WITHOUT}: its own features were to be on, and none is\n"
                    )
                }
            }
            ClockControl::default()
        }
        Err(failure) => {
            // Some features may already be enabled. No other recovery exists.
            let _ = smu.ask(SmuMessage::DisableAllSmuFeatures);
            if failure.is_news {
                dev_warn!(dev, "SMU: {WITHOUT}: {failure}\n");
            }
            ClockControl::default()
        }
    }
}

fn start_by_table(
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

fn start_by_own(smu: &mut Smu, tables: &SmuTables) -> Result<SmuFeatures, SmuFailure> {
    tables.set_tools_address(smu)?;
    smu.ask(SmuMessage::EnableAllSmuFeatures)?;
    smu.features()
}

/// The power of the socket, W, and the range of the graphics clock, MHz, within `limits`.
///
/// # Errors
///
/// Those of [`Smu::ask`].
fn bounds(smu: &mut Smu, limits: &ClockLimits) -> Result<(u32, [u32; 2]), SmuFailure> {
    Ok(match limits {
        ClockLimits::Table(limits) => (limits.power().into(), limits.graphics().map(u32::from)),
        ClockLimits::Own => (
            smu.ask(SmuMessage::GetPptLimit)?,
            [
                smu.ask(SmuMessage::GetMinGfxDpmFreq)?,
                smu.ask(SmuMessage::GetMaxGfxDpmFreq)?,
            ],
        ),
    })
}

/// The ranges of the clocks, which are logged too.
fn ranges(
    smu: &mut Smu,
    limits: &ClockLimits,
    features: SmuFeatures,
    dev: &Device,
) -> Option<[[u32; 2]; 2]> {
    let reported = smu
        .range(SmuClock::Soc)
        .and_then(|soc| {
            let others = [smu.range(SmuClock::Memory)?, smu.range(SmuClock::Fabric)?];
            Ok((soc, others, bounds(smu, limits)?))
        })
        .inspect_err(|failure| {
            if failure.is_news {
                dev_warn!(
                    dev,
                    "SMU: it does not say how high clocks get: {}\n",
                    failure
                );
            }
        });
    let (soc, [memory, fabric], (power, graphics)) = reported.ok()?;
    dev_info!(
        dev,
        "SMU: features {:#x}, {} W; MHz: graphics {}-{}, memory {}-{}, SOC {}-{}, fabric {}-{}\n",
        features.0,
        power,
        graphics[0],
        graphics[1],
        memory[0],
        memory[1],
        soc[0],
        soc[1],
        fabric[0],
        fabric[1]
    );
    let interface = smu.interface();
    let are_set = interface.sets_graphics_clock(features) && interface.sets_memory_clock(features);
    are_set.then_some([graphics, memory])
}
