// SPDX-License-Identifier: GPL-2.0
//! What the SMU measures: temperatures, power, energy, clocks. Its table goes through a page of VRAM, and serves all who ask within a
//! moment, so that one who asks all the time does not keep it from its work.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::{Instant, Monotonic};

use hw::ip::Block;
use hw::smu::metrics::{Metrics, GPU_METRICS_BYTES, TABLE_BYTES, TABLE_DWORDS};
use hw::smu::{graphics_millivolts, Features, Message, Table};
use hw::va::PAGE_SIZE;

use crate::ip::hdp::Hdp;
use crate::ip::sense::{Sense, Sensor};
use crate::ip::smu::Smu;
use crate::kern::errno;
use crate::kern::host;
use crate::kern::killable::KillableMutex;
use crate::kern::mmio::GONE;
use crate::kern::vram_map::VramMap;
use crate::mem::vram::VramBlocks;
use crate::mem::Memory;
use crate::regs::smuio::{smusvi0_tel_plane0, SMUSVI0_TEL_PLANE0};
use crate::regs::Window;

/// For how long a table serves all who ask, milliseconds (amdgpu: 1 for a value, 5 for gpu_metrics).
const FRESH_MS: i64 = 10;

/// The last table, or why there is none, and when that was.
type Last = (Result<Metrics>, Instant<Monotonic>);

struct State {
    smu: Smu,
    last: Option<Last>,
}

/// An SMU that runs, and the page for its tables, which it has until it is told to unload: who has made this keeps it until then.
#[pin_data]
pub(crate) struct Sensors {
    /// Held while the SMU is waited for: two seconds where it does not answer, and then not before it has; four for the reset of the GPU.
    #[pin]
    state: KillableMutex<State>,
    /// What it does by itself, and the board's number, 0 for none; None where it does not say, or gives no table.
    told: Option<(Features, u64)>,
    page: VramBlocks,
    /// MC address of the page.
    at: u64,
    vram: Arc<VramMap>,
    hdp: Arc<Hdp>,
    smuio: Window,
}

impl Sensors {
    /// Those of `smu`, of the GPU of `memory`. ENOMEM; ENODEV if the ASIC has no such. What the SMU does not do for it the log says: then there are none, and it is only told
    /// that the driver goes. Sleeps.
    pub(crate) fn new(memory: &Memory, mut smu: Smu) -> Result<Arc<Self>> {
        let page = memory.vram.alloc_own(PAGE_SIZE, PAGE_SIZE)?;
        let hw = &memory.hw;
        let smuio = Window::new(&hw.mmio, hw.asic.ips, Block::Smuio, 0)?;
        let at = hw.gmc.fb().base + page.start();
        let (vram, hdp) = (hw.vram_map.clone(), hw.hdp.clone());
        let told = smu.features().and_then(|features| {
            smu.set_table_page(at)?;
            let metrics = measure(&mut smu, &page, &vram, &hdp)?;
            Ok((features, metrics.serial))
        });
        let state = State { smu, last: None };
        Arc::pin_init(
            pin_init!(Self {
                state <- KillableMutex::new(state, c"Sensors::state", kernel::static_lock_class!()),
                told: told.ok(),
                page,
                at,
                vram,
                hdp,
                smuio,
            }),
            GFP_KERNEL,
        )
    }

    /// Its firmware has been loaded anew: it is `smu` now. ETIMEDOUT, EIO, ENODEV as for [`Smu::send`]. Sleeps.
    pub(super) fn begin_anew(&self, mut smu: Smu) -> Result {
        if self.are_there() {
            smu.set_table_page(self.at)?;
        }
        *self.state.lock() = State { smu, last: None };
        Ok(())
    }

    /// Whether it measures.
    pub(crate) fn are_there(&self) -> bool {
        self.told.is_some()
    }

    /// The number that the board was given when it was made, as amdgpu's `unique_id`; 0 where the SMU does not tell one.
    pub(crate) fn serial(&self) -> u64 {
        self.told.map_or(0, |(_, serial)| serial)
    }

    /// What it has measured, a moment ago at most. ETIMEDOUT if it does not answer, or has not yet; EIO if it will not; ENODATA if it has
    /// written nothing; ENODEV when it is gone; EINTR when the caller is killed. Sleeps.
    pub(crate) fn read(&self) -> Result<Metrics> {
        self.refresh(&mut *self.state.lock_killable()?)
    }

    fn refresh(&self, state: &mut State) -> Result<Metrics> {
        if let Some((metrics, at)) = &state.last {
            if at.elapsed().as_millis() < FRESH_MS {
                return *metrics;
            }
        }
        let metrics = measure(&mut state.smu, &self.page, &self.vram, &self.hdp);
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
        let metrics = self.read()?;
        let (features, _) = self.told.ok_or_else(errno::no_data)?;
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
    pub(crate) fn tell(&self, message: Message) {
        // That is all there is to do about it.
        let _ = self.ask(message);
    }

    /// The same, and whether it was done: ETIMEDOUT, EIO, ENODEV as for [`Smu::send`].
    pub(super) fn ask(&self, message: Message) -> Result {
        self.state.lock().smu.send(message).map(drop)
    }
}

impl Sense for Sensors {
    fn sense(&self, sensor: Sensor) -> Result<u32> {
        Ok(match sensor {
            Sensor::GraphicsClock => {
                let [graphics, _] = self.clocks()?;
                graphics.into()
            }
            Sensor::MemoryClock => {
                let [_, memory] = self.clocks()?;
                memory.into()
            }
            Sensor::Edge => {
                let [edge, ..] = self.read()?.temperatures;
                u32::from(edge) * 1000
            }
            Sensor::Power => self.read()?.power.into(),
            Sensor::GraphicsVoltage => self.millivolts()?,
        })
    }
}

/// Has `smu` write its table to `page`. Errors of [`Sensors::read`].
fn measure(smu: &mut Smu, page: &VramBlocks, vram: &VramMap, hdp: &Hdp) -> Result<Metrics> {
    let at = page.start();
    // What it wrote last is not taken for what it writes now.
    vram.fill64(at, 0, TABLE_BYTES / 8)?;
    hdp.flush();
    smu.give(Table::Metrics)?;
    let mut table = [0; TABLE_DWORDS];
    hdp.flush();
    vram.read32s(at, &mut table)?;
    Metrics::new(&table).ok_or_else(errno::no_data)
}
