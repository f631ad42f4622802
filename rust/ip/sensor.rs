// SPDX-License-Identifier: GPL-2.0
//! The GPU's sensors, as an interface that does not depend on the SMU, which measures.

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
    /// Power of the socket, W: the average, or where that is not known the current one.
    Power,
    /// Current power of the socket, W.
    InputPower,
    /// Voltage of graphics, mV.
    GraphicsVoltage,
    /// The lowest clock of graphics that the SMU sets, MHz.
    LowestGraphicsClock,
    /// The lowest clock of memory, MHz.
    LowestMemoryClock,
    /// The highest clock of graphics, MHz.
    HighestGraphicsClock,
    /// The highest clock of memory, MHz.
    HighestMemoryClock,
}

/// A source of sensor values.
pub(crate) trait SensorSource: Send + Sync {
    /// The value of `sensor`. Context: may sleep, for some seconds if the SMU does not answer.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EIO` or `ENODATA` if the SMU gives no value; `ENODEV` if the device is gone;
    /// `EINTR` if the caller is killed.
    fn sense(&self, sensor: SensorKind) -> Result<u32>;
}
