// SPDX-License-Identifier: GPL-2.0
//! The SMU's sensors: temperatures, power, energy, clocks. Its table goes through a page of VRAM.
//! One table serves all readers within a moment, so that a busy reader does not keep the SMU from
//! its work.

use kernel::device::Device;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::{Arc, SetOnce};
use kernel::time::{Instant, Monotonic};

use hw::ip::IpBlock;
use hw::smu::interface::SmuInterface;
use hw::smu::link::PcieLink;
use hw::smu::readings::{MetricsSurroundings, SmuMeasurement, SmuReadings};
use hw::smu::socket::{board_millivolts, tells_board, XccSet};
use hw::smu::{graphics_millivolts, SmuMessage};

use super::clocks::{self, ClockControl};
use super::limits::{ClockLimits, WITHOUT};
use super::tables::SmuTables;
use crate::ip::sensor::{SensorKind, SensorSource};
use crate::ip::smu::{Smu, SmuFailure};
use crate::kern::errno;
use crate::kern::host;
use crate::kern::killable::KillableMutex;
use crate::kern::mmio::GONE;
use crate::mem::GpuMemory;
use crate::regs::smuio::{has_board_registers, smusvi0_tel_plane0, DiePlace, SMUSVI0_TEL_PLANE0};
use crate::regs::RegisterWindow;

/// How long a table serves all readers, milliseconds (amdgpu: 1 for a value, 5 for gpu_metrics).
const FRESH_MS: i64 = 10;
/// The die that measures the board's power.
const FIRST_DIE: u32 = 0;

/// Whether there is a last table, or the error, and its time.
type Last = (Result, Instant<Monotonic>);

struct SensorCache {
    smu: Smu,
    clocks: ClockControl,
    last: Option<Last>,
    /// The last table.
    table: KVec<u32>,
}

/// A running SMU.
#[pin_data]
pub(crate) struct SmuSensors {
    /// Held while the driver waits for the SMU: two seconds if it does not answer, after which no
    /// message is sent until it has; four seconds for the reset of the GPU.
    #[pin]
    state: KillableMutex<SensorCache>,
    /// The board's number, 0 for none; unset if the SMU gives no table.
    serial: SetOnce<u64>,
    /// The voltage of the board's supply, mV; unset if the SMU does not tell it.
    board_millivolts: SetOnce<u32>,
    tables: SmuTables,
    /// The limits for setting clocks; `None` if it does not set them.
    limits: Option<ClockLimits>,
    interface: SmuInterface,
    xccs: XccSet,
    /// Whether this die measures the board's power.
    has_board: bool,
    smuio: RegisterWindow,
    dev: ARef<Device>,
}

impl SmuSensors {
    /// The sensors of `smu`, of the GPU of `memory`, which from now on sets clocks by `limits`.
    /// Messages that fail are logged: without a table there are no sensors, and the SMU only gets
    /// the notice that the driver goes. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the ASIC has no SMU.
    pub(super) fn new(
        memory: &GpuMemory,
        smu: Smu,
        limits: Option<ClockLimits>,
    ) -> Result<Arc<Self>> {
        let hw = &memory.hw;
        let interface = smu.interface();
        let smuio = RegisterWindow::new(&hw.mmio, hw.ips(), IpBlock::Smuio, 0)?;
        let state = SensorCache {
            smu,
            clocks: ClockControl::default(),
            last: None,
            table: KVec::from_elem(0, interface.table_dwords(), GFP_KERNEL)?,
        };
        let sensors = Arc::pin_init(
            try_pin_init!(Self {
                state <- KillableMutex::new(
                    state,
                    c"SmuSensors::state",
                    kernel::static_lock_class!()
                ),
                serial: SetOnce::new(),
                board_millivolts: SetOnce::new(),
                tables: SmuTables::new(memory)?,
                limits,
                interface,
                xccs: XccSet::new(hw.ips().of(IpBlock::Gc).map(|xcc| xcc.number)),
                has_board: DiePlace::read(&smuio).die == FIRST_DIE,
                smuio,
                dev: hw.dev.clone(),
            }),
            GFP_KERNEL,
        )?;
        sensors.start();
        Ok(sensors)
    }

    /// Sends the initial messages and takes the first measurement.
    fn start(&self) {
        let mut state = self.state.lock();
        if self.start_clocks(&mut state).is_err() {
            return;
        }
        if self.refresh(&mut state).is_err() {
            return;
        }
        if let Ok(measured) = self.measured(&state) {
            self.serial.populate(measured.serial());
        }
        self.read_supply(&mut state);
    }

    /// Reads the voltage of the board's supply, if the SMU tells it.
    fn read_supply(&self, state: &mut SensorCache) {
        let SensorCache { smu, table, .. } = state;
        let message = SmuMessage::GetStaticMetricsTable;
        if message.number(self.interface).is_none() || !tells_board(smu.version()) {
            return;
        }
        // The table for measurements holds it until the next one.
        state.last = None;
        // The failure is logged; the rest works without.
        if self.tables.receive(smu, message, table).is_err() {
            return;
        }
        if let Some(millivolts) = board_millivolts(table) {
            self.board_millivolts.populate(millivolts);
        }
    }

    /// Lets the SMU set clocks, if it may; messages that fail are logged.
    ///
    /// # Errors
    ///
    /// Those of [`Smu::ask`] if the address of the tables cannot be set.
    fn start_clocks(&self, state: &mut SensorCache) -> Result {
        let SensorCache { smu, clocks, .. } = state;
        let begun = self.tables.set_address(smu);
        match begun.and_then(|()| clocks::take_over(smu, &self.dev)) {
            Ok(found) => *clocks = found,
            Err(failure) => {
                self.log_failure(&failure);
                return Err(failure.error);
            }
        }
        if let Some(limits) = &self.limits {
            *clocks = clocks::start(smu, &self.tables, limits, self.has_board, &self.dev);
        }
        Ok(())
    }

    fn log_failure(&self, failure: &SmuFailure) {
        if failure.is_news {
            dev_err!(
                &*self.dev,
                "SMU: there are no sensors, and {WITHOUT}: {}\n",
                failure
            );
        }
    }

    /// Continues with `smu`, after its firmware was loaded again. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, `EIO` and `ENODEV` as for [`Smu::send`].
    pub(super) fn restart(&self, smu: Smu) -> Result {
        let mut state = self.state.lock();
        state.smu = smu;
        state.clocks = ClockControl::default();
        state.last = None;
        match self.start_clocks(&mut state) {
            Err(error) if self.is_measuring() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the SMU measures.
    pub(crate) fn is_measuring(&self) -> bool {
        self.serial.as_ref().is_some()
    }

    /// The number that the board got in production, as amdgpu's `unique_id`; 0 if the SMU does not
    /// report one.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.copy().unwrap_or(0)
    }

    /// Whether the temperature at the edge of the die is measured.
    pub(crate) fn measures_edge(&self) -> bool {
        self.interface.measures_edge()
    }

    /// Whether the power is an average; otherwise it is the current one.
    pub(crate) fn averages_power(&self) -> bool {
        self.interface.averages_power()
    }

    /// Single measurements, which are at most a moment old. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the SMU does not answer, or has not answered yet; `EIO` if it refuses;
    /// `ENODATA` if it has written nothing; `ENODEV` when the device is gone; `EINTR` when the
    /// caller is killed.
    pub(crate) fn read(&self) -> Result<SmuReadings> {
        let mut state = self.state.lock_killable()?;
        self.refresh(&mut state)?;
        Ok(self.measured(&state)?.readings(state.clocks.features))
    }

    /// Makes the table at most a moment old.
    fn refresh(&self, state: &mut SensorCache) -> Result {
        if let Some((result, at)) = &state.last {
            if at.elapsed().as_millis() < FRESH_MS {
                return *result;
            }
        }
        let result = self.tables.measure(&mut state.smu, &mut state.table);
        state.last = Some((result, Instant::now()));
        result
    }

    /// The table, after [`Self::refresh`].
    ///
    /// # Errors
    ///
    /// `ENODATA` if there is none.
    fn measured<'a>(&self, state: &'a SensorCache) -> Result<SmuMeasurement<'a>> {
        let measured = SmuMeasurement::new(self.interface, &state.table);
        let measured = measured.ok_or_else(errno::no_data)?;
        Ok(match self.has_board {
            true => measured,
            false => measured.without_board(),
        })
    }

    /// The measurements in the form that tools read.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`]; `ENOMEM`.
    pub(crate) fn gpu_metrics(&self) -> Result<KVec<u8>> {
        let mut bytes = KVec::from_elem(0, self.interface.gpu_metrics_bytes(), GFP_KERNEL)?;
        let mut state = self.state.lock_killable()?;
        self.refresh(&mut state)?;
        let around = MetricsSurroundings {
            link: match self.interface.takes_link() {
                true => state.smu.link(),
                false => PcieLink::UNKNOWN,
            },
            version: state.smu.version(),
            xccs: self.xccs,
            now: host::boot_ns(),
        };
        self.measured(&state)?.gpu_metrics(&around, &mut bytes);
        Ok(bytes)
    }

    /// The ranges within which the SMU sets the clocks of graphics and memory, MHz.
    ///
    /// # Errors
    ///
    /// `ENODATA` if it does not set them or does not report them; `EINTR` when the caller is
    /// killed.
    fn ranges(&self) -> Result<[[u32; 2]; 2]> {
        let state = self.state.lock_killable()?;
        state.clocks.ranges.ok_or_else(errno::no_data)
    }

    /// Whether the regulator reports the voltage of graphics.
    pub(crate) fn has_millivolts(&self) -> bool {
        has_board_registers(&self.smuio)
    }

    /// Voltage of the board's supply, mV, when the driver was bound.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a GPU that does not tell it.
    pub(crate) fn board_millivolts(&self) -> Result<u32> {
        self.board_millivolts.copy().ok_or(ENODEV)
    }

    /// Voltage of graphics, mV, as the regulator itself reports it.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is gone, and for a GPU that does not tell it.
    pub(crate) fn millivolts(&self) -> Result<u32> {
        if !self.has_millivolts() {
            return Err(ENODEV);
        }
        match self.smuio.read(SMUSVI0_TEL_PLANE0) {
            GONE => Err(ENODEV),
            word => Ok(graphics_millivolts(
                smusvi0_tel_plane0::SVI0_PLANE0_VDDCOR.get(word),
            )),
        }
    }

    /// Sends `message` to the SMU. A failure is logged. May sleep.
    pub(crate) fn send(&self, message: SmuMessage) {
        // The failure is logged; no other recovery exists.
        let _ = self.ask(message);
    }

    /// Sends `message` to the SMU.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` without an answer, `EIO` if it refuses, `ENODEV` when the device is gone;
    /// logged.
    pub(super) fn ask(&self, message: SmuMessage) -> Result {
        self.state.lock().smu.send(message).map(drop)
    }
}

impl SensorSource for SmuSensors {
    fn sense(&self, sensor: SensorKind) -> Result<u32> {
        Ok(match sensor {
            SensorKind::GraphicsClock => {
                let [graphics, _] = self.read()?.clocks;
                graphics
            }
            SensorKind::MemoryClock => {
                let [_, memory] = self.read()?.clocks;
                memory
            }
            SensorKind::Edge => self.read()?.edge.ok_or(ENODEV)?,
            SensorKind::Power => self.read()?.milliwatts / 1000,
            SensorKind::InputPower if self.averages_power() => return Err(ENODEV),
            SensorKind::InputPower => self.read()?.milliwatts / 1000,
            SensorKind::GraphicsVoltage => self.millivolts()?,
            SensorKind::LowestGraphicsClock => {
                let [[lowest, _], _] = self.ranges()?;
                lowest
            }
            SensorKind::HighestGraphicsClock => {
                let [[_, highest], _] = self.ranges()?;
                highest
            }
            SensorKind::LowestMemoryClock => {
                let [_, [lowest, _]] = self.ranges()?;
                lowest
            }
            SensorKind::HighestMemoryClock => {
                let [_, [_, highest]] = self.ranges()?;
                highest
            }
        })
    }
}
