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
use hw::smu::limits::SmuLimits;
use hw::smu::metrics::{SmuMetrics, GPU_METRICS_BYTES};
use hw::smu::{graphics_millivolts, SmuMessage};

use super::clocks::{self, ClockControl};
use super::limits::WITHOUT;
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

/// The last table, or the error, and its time.
type Last = (Result<SmuMetrics>, Instant<Monotonic>);

struct SensorCache {
    smu: Smu,
    clocks: ClockControl,
    last: Option<Last>,
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
    tables: SmuTables,
    /// The limits for setting clocks; `None` if it does not set them.
    limits: Option<KBox<SmuLimits>>,
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
        limits: Option<KBox<SmuLimits>>,
    ) -> Result<Arc<Self>> {
        let hw = &memory.hw;
        let smuio = RegisterWindow::new(&hw.mmio, hw.ips(), IpBlock::Smuio, 0)?;
        let state = SensorCache {
            smu,
            clocks: ClockControl::default(),
            last: None,
        };
        let sensors = Arc::pin_init(
            try_pin_init!(Self {
                state <- KillableMutex::new(
                    state,
                    c"SmuSensors::state",
                    kernel::static_lock_class!()
                ),
                serial: SetOnce::new(),
                tables: SmuTables::new(memory)?,
                limits,
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
        if let Ok(metrics) = self.tables.measure(&mut state.smu) {
            self.serial.populate(metrics.serial);
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
        if let Err(failure) = begun.and_then(|()| clocks::stop(smu, &self.dev)) {
            self.log_failure(&failure);
            return Err(failure.error);
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
        *state = SensorCache {
            smu,
            clocks: ClockControl::default(),
            last: None,
        };
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

    /// The measurements, which are at most a moment old. May sleep.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the SMU does not answer, or has not answered yet; `EIO` if it refuses;
    /// `ENODATA` if it has written nothing; `ENODEV` when the device is gone; `EINTR` when the
    /// caller is killed.
    pub(crate) fn read(&self) -> Result<SmuMetrics> {
        self.refresh(&mut *self.state.lock_killable()?)
    }

    fn refresh(&self, state: &mut SensorCache) -> Result<SmuMetrics> {
        if let Some((metrics, at)) = &state.last {
            if at.elapsed().as_millis() < FRESH_MS {
                return *metrics;
            }
        }
        let mut metrics = self.tables.measure(&mut state.smu);
        if !self.has_board {
            metrics = metrics.map(SmuMetrics::without_board);
        }
        state.last = Some((metrics, Instant::now()));
        metrics
    }

    /// The measurements in the form that tools read.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub(crate) fn gpu_metrics(&self) -> Result<[u8; GPU_METRICS_BYTES]> {
        let mut state = self.state.lock_killable()?;
        let metrics = self.refresh(&mut state)?;
        let link = state.smu.link();
        Ok(metrics.gpu_metrics(link, host::boot_ns()))
    }

    /// Clocks of graphics and memory, MHz: current ones if the SMU sets them, otherwise averages
    /// (as in amdgpu).
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`].
    pub(crate) fn clocks(&self) -> Result<[u16; 2]> {
        let mut state = self.state.lock_killable()?;
        let metrics = self.refresh(&mut state)?;
        let features = state.clocks.features;
        let of = |set, now, average| if set { now } else { average };
        let (now, average) = (metrics.current, metrics.average);
        Ok([
            of(
                features.sets_graphics_clock(),
                now.graphics,
                average.graphics,
            ),
            of(features.sets_memory_clock(), now.memory, average.memory),
        ])
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

    /// Voltage of graphics, mV, as the regulator itself reports it.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is gone, and for a GPU that does not tell it.
    pub(crate) fn millivolts(&self) -> Result<u32> {
        if !has_board_registers(&self.smuio) {
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
                let [graphics, _] = self.clocks()?;
                graphics.into()
            }
            SensorKind::MemoryClock => {
                let [_, memory] = self.clocks()?;
                memory.into()
            }
            SensorKind::Edge => {
                let [edge, ..] = self.read()?.temperatures;
                u32::from(edge) * 1000
            }
            SensorKind::Power => self.read()?.power.into(),
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
