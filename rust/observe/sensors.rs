// SPDX-License-Identifier: GPL-2.0
//! What the SMU measures, by amdgpu's names: a hwmon device below the PCI device, and `gpu_metrics` in that one's folder; there also the
//! board's number, `unique_id`, where it tells one.

use core::fmt::Write;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use hw::smu::metrics::SmuMetrics;

use crate::firmware::sensors::SmuSensors;
use crate::kern::hwmon::HwmonDevice;
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsName, SysfsPage, SysfsShow};

/// By this name tools find a GPU's sensors.
const NAME: &CStr = c"amdgpu";

static GPU_METRICS: SysfsName = SysfsName::new(c"gpu_metrics");
static UNIQUE_ID: SysfsName = SysfsName::new(c"unique_id");

/// A sensor: its files, what it is called, and what it reads.
struct SensorFiles {
    input: SysfsName,
    label: Option<(SysfsName, &'static str)>,
    read: fn(&SmuSensors) -> Result<u64>,
}

impl SensorFiles {
    const fn new(
        input: &'static CStr,
        label: &'static CStr,
        called: &'static str,
        read: fn(&SmuSensors) -> Result<u64>,
    ) -> Self {
        Self {
            input: SysfsName::new(input),
            label: Some((SysfsName::new(label), called)),
            read,
        }
    }
}

/// Units of hwmon: millidegrees, millivolts, microwatts, microjoules, Hz.
static SENSORS: [SensorFiles; 8] = [
    SensorFiles::new(c"temp1_input", c"temp1_label", "edge", |sensors| {
        temperature(sensors, |[edge, _, _]| edge)
    }),
    SensorFiles::new(c"temp2_input", c"temp2_label", "junction", |sensors| {
        temperature(sensors, |[_, junction, _]| junction)
    }),
    SensorFiles::new(c"temp3_input", c"temp3_label", "mem", |sensors| {
        temperature(sensors, |[_, _, memory]| memory)
    }),
    SensorFiles::new(c"in0_input", c"in0_label", "vddgfx", |sensors| {
        Ok(sensors.millivolts()?.into())
    }),
    SensorFiles::new(c"power1_average", c"power1_label", "PPT", |sensors| {
        Ok(u64::from(sensors.read()?.power) * 1_000_000)
    }),
    SensorFiles::new(c"freq1_input", c"freq1_label", "sclk", |sensors| {
        let [graphics, _] = sensors.clocks()?;
        Ok(u64::from(graphics) * 1_000_000)
    }),
    SensorFiles::new(c"freq2_input", c"freq2_label", "mclk", |sensors| {
        let [_, memory] = sensors.clocks()?;
        Ok(u64::from(memory) * 1_000_000)
    }),
    // amdgpu has it in gpu_metrics alone.
    SensorFiles {
        input: SysfsName::new(c"energy1_input"),
        label: None,
        read: |sensors| Ok(sensors.read()?.microjoules()),
    },
];

fn temperature(sensors: &SmuSensors, which: fn([u16; 3]) -> u16) -> Result<u64> {
    let SmuMetrics { temperatures, .. } = sensors.read()?;
    Ok(u64::from(which(temperatures)) * 1000)
}

/// A sensor's value.
struct SensorValue(Arc<SmuSensors>, &'static SensorFiles);

impl SysfsShow for SensorValue {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        let value = (self.1.read)(&self.0)?;
        writeln!(page, "{value}").map_err(|_| EFBIG)
    }
}

/// What tools read at once.
struct GpuMetrics(Arc<SmuSensors>);

impl SysfsShow for GpuMetrics {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        page.write_bytes(&self.0.gpu_metrics()?)
    }
}

/// Where the sensors are shown; they are not any more when this has been dropped, which waits for who reads.
pub(crate) struct SensorRegistration {
    _hwmon: Option<HwmonDevice>,
    _files: AddedFiles,
}

/// Shows `sensors` of the GPU that is the device `device`, until dropped: before its registers are gone. ENOMEM.
pub(crate) fn show(
    sensors: &Arc<SmuSensors>,
    device: &Device<Bound>,
) -> Result<SensorRegistration> {
    let mut files = SysfsFiles::new();
    for sensor in &SENSORS {
        let value = Arc::new(SensorValue(sensors.clone(), sensor), GFP_KERNEL)?;
        files = files.with_live(&sensor.input, value)?;
        if let Some((name, called)) = &sensor.label {
            files = files.with(name, &format_args!("{called}\n"))?;
        }
    }
    let hwmon = HwmonDevice::new(device, NAME, files)?;
    let metrics = Arc::new(GpuMetrics(sensors.clone()), GFP_KERNEL)?;
    let mut files = SysfsFiles::new().with_live(&GPU_METRICS, metrics)?;
    let serial = sensors.serial();
    if serial != 0 {
        files = files.with(&UNIQUE_ID, &format_args!("{serial:016x}\n"))?;
    }
    Ok(SensorRegistration {
        _hwmon: hwmon,
        _files: AddedFiles::of_device(device, files)?,
    })
}
