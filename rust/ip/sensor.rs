// SPDX-License-Identifier: GPL-2.0
//! The GPU's sensors, for who answers for them without knowing the SMU, which measures.

use kernel::prelude::*;

/// A sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SensorKind {
    /// Clock of graphics, MHz.
    GraphicsClock,
    /// Clock of memory, MHz.
    MemoryClock,
    /// Temperature at the edge of the die, millidegrees.
    Edge,
    /// What the socket takes on average, W.
    Power,
    /// Voltage of graphics, mV.
    GraphicsVoltage,
    /// The lowest clock of graphics that the SMU sets, MHz.
    LowestGraphicsClock,
    /// The lowest of memory.
    LowestMemoryClock,
    /// The highest of graphics.
    HighestGraphicsClock,
    /// The highest of memory.
    HighestMemoryClock,
}

/// Who has them.
pub(crate) trait SensorSource: Send + Sync {
    /// What `sensor` shows. ETIMEDOUT, EIO or ENODATA where the SMU does not say; ENODEV when the device is gone; EINTR when the caller is killed.
    /// Sleeps, for some seconds where the SMU does not answer.
    fn sense(&self, sensor: SensorKind) -> Result<u32>;
}
