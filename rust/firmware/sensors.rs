// SPDX-License-Identifier: GPL-2.0
//! What the SMU measures: temperatures, power, energy, clocks. Its table goes through a page of VRAM, and serves all who ask within a
//! moment, so that one who asks all the time does not keep it from its work.

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
use crate::regs::smuio::{
    smuio_mcm_config, smusvi0_tel_plane0, SMUIO_MCM_CONFIG, SMUSVI0_TEL_PLANE0,
};
use crate::regs::RegisterWindow;

/// For how long a table serves all who ask, milliseconds (amdgpu: 1 for a value, 5 for gpu_metrics).
const FRESH_MS: i64 = 10;
/// The die by which the board's power goes.
const FIRST_DIE: u32 = 0;

/// The last table, or why there is none, and when that was.
type Last = (Result<SmuMetrics>, Instant<Monotonic>);

struct SensorCache {
    smu: Smu,
    clocks: ClockControl,
    last: Option<Last>,
}

/// An SMU that runs.
#[pin_data]
pub(crate) struct SmuSensors {
    /// Held while the SMU is waited for: two seconds where it does not answer, and then not before it has; four for the reset of the GPU.
    #[pin]
    state: KillableMutex<SensorCache>,
    /// The board's number, 0 for none; nothing where the SMU gives no table.
    serial: SetOnce<u64>,
    tables: SmuTables,
    /// By which it sets clocks; it does not where there are none.
    limits: Option<KBox<SmuLimits>>,
    smuio: RegisterWindow,
    dev: ARef<Device>,
}

impl SmuSensors {
    /// Those of `smu`, of the GPU of `memory`, which sets clocks by `limits` from now on. ENOMEM; ENODEV if the ASIC has no such. What the SMU does not do for it the log
    /// says: without a table there are none, and it is only told that the driver goes. Sleeps.
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
                state <- KillableMutex::new(state, c"Sensors::state", kernel::static_lock_class!()),
                serial: SetOnce::new(),
                tables: SmuTables::new(memory)?,
                limits,
                smuio,
                dev: hw.dev.clone(),
            }),
            GFP_KERNEL,
        )?;
        sensors.start();
        Ok(sensors)
    }

    /// Tells it all that it has to know, and has it measure for the first time.
    fn start(&self) {
        let mut state = self.state.lock();
        if self.start_clocks(&mut state).is_err() {
            return;
        }
        if let Ok(metrics) = self.tables.measure(&mut state.smu) {
            self.serial.populate(metrics.serial);
        }
    }

    /// Has the SMU set clocks, where it may: what it does not do the log says. Errors of [`Smu::ask`], if it cannot even be told where tables go.
    fn start_clocks(&self, state: &mut SensorCache) -> Result {
        let SensorCache { smu, clocks, .. } = state;
        let begun = self.tables.set_address(smu);
        if let Err(failure) = begun.and_then(|()| clocks::stop(smu, &self.dev)) {
            self.log_failure(&failure);
            return Err(failure.error);
        }
        if let Some(limits) = &self.limits {
            *clocks = clocks::start(smu, &self.tables, limits, self.has_board(), &self.dev);
        }
        Ok(())
    }

    fn log_failure(&self, failure: &SmuFailure) {
        if failure.is_news {
            dev_err!(
                &*self.dev,
                "SMU: there are no sensors, and {WITHOUT}: {}\n",
                format_args!("{failure}")
            );
        }
    }

    /// Whether the board's power goes by this die.
    fn has_board(&self) -> bool {
        smuio_mcm_config::DIE_ID.get(self.smuio.read(SMUIO_MCM_CONFIG)) == FIRST_DIE
    }

    /// Its firmware has been loaded anew: it is `smu` now. ETIMEDOUT, EIO, ENODEV as for [`Smu::send`]. Sleeps.
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

    /// Whether it measures.
    pub(crate) fn is_measuring(&self) -> bool {
        self.serial.as_ref().is_some()
    }

    /// The number that the board was given when it was made, as amdgpu's `unique_id`; 0 where the SMU does not tell one.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.copy().unwrap_or(0)
    }

    /// What it has measured, a moment ago at most. ETIMEDOUT if it does not answer, or has not yet; EIO if it will not; ENODATA if it has
    /// written nothing; ENODEV when it is gone; EINTR when the caller is killed. Sleeps.
    pub(crate) fn read(&self) -> Result<SmuMetrics> {
        self.refresh(&mut *self.state.lock_killable()?)
    }

    fn refresh(&self, state: &mut SensorCache) -> Result<SmuMetrics> {
        if let Some((metrics, at)) = &state.last {
            if at.elapsed().as_millis() < FRESH_MS {
                return *metrics;
            }
        }
        let metrics = self.tables.measure(&mut state.smu);
        state.last = Some((metrics, Instant::now()));
        metrics
    }

    /// The same in the form that tools read. Errors of [`Self::read`].
    pub(crate) fn gpu_metrics(&self) -> Result<[u8; GPU_METRICS_BYTES]> {
        let mut state = self.state.lock_killable()?;
        let metrics = self.refresh(&mut state)?;
        let link = state.smu.link();
        Ok(metrics.gpu_metrics(link, host::boot_ns()))
    }

    /// Clocks of graphics and memory, MHz: as they are where the SMU sets them, else on average (as amdgpu has it). Errors of [`Self::read`].
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

    /// Within what the SMU sets the clocks of graphics and memory, MHz. ENODATA where it does not, or does not say; EINTR when the caller is killed.
    fn ranges(&self) -> Result<[[u32; 2]; 2]> {
        let state = self.state.lock_killable()?;
        state.clocks.ranges.ok_or_else(errno::no_data)
    }

    /// Voltage of graphics, mV, which the regulator tells by itself. ENODEV when the device is gone.
    pub(crate) fn millivolts(&self) -> Result<u32> {
        match self.smuio.read(SMUSVI0_TEL_PLANE0) {
            GONE => Err(ENODEV),
            word => Ok(graphics_millivolts(
                smusvi0_tel_plane0::SVI0_PLANE0_VDDCOR.get(word),
            )),
        }
    }

    /// Tells the SMU `message`. What it does not do the log says. Sleeps.
    pub(crate) fn send(&self, message: SmuMessage) {
        // That is all there is to do about it.
        let _ = self.ask(message);
    }

    /// The same, and whether it was done: ETIMEDOUT, EIO, ENODEV as for [`Smu::send`].
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
