// SPDX-License-Identifier: GPL-2.0
//! The SMU's sensors under amdgpu's names: a hwmon device below the PCI device, and `gpu_metrics`
//! in the PCI device's own folder, with the board's number, `unique_id`, if the SMU reports one.

use core::fmt::Write;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::firmware::sensors::SmuSensors;
use crate::kern::hwmon::HwmonDevice;
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsName, SysfsPage, SysfsShow};
use crate::kern::params::has_amdgpu_names;

static GPU_METRICS: SysfsName = SysfsName::new(c"gpu_metrics");
static UNIQUE_ID: SysfsName = SysfsName::new(c"unique_id");

/// A sensor: its files, its label, and how it is read.
struct SensorFiles {
    input: SysfsName,
    label: Option<(SysfsName, &'static str)>,
    read: fn(&SmuSensors) -> Result<u64>,
    /// Whether the GPU has it.
    is_there: fn(&SmuSensors) -> bool,
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
            is_there: |_| true,
        }
    }

    /// It for GPUs alone of which `is_there` is true.
    const fn only(self, is_there: fn(&SmuSensors) -> bool) -> Self {
        Self { is_there, ..self }
    }
}

/// Units of hwmon: millidegrees, millivolts, microwatts, microjoules, Hz.
static SENSORS: [SensorFiles; 10] = [
    SensorFiles::new(c"temp1_input", c"temp1_label", "edge", |sensors| {
        Ok(sensors.read()?.edge.ok_or(ENODEV)?.into())
    })
    .only(SmuSensors::measures_edge),
    SensorFiles::new(c"temp2_input", c"temp2_label", "junction", |sensors| {
        Ok(sensors.read()?.junction.into())
    }),
    SensorFiles::new(c"temp3_input", c"temp3_label", "mem", |sensors| {
        Ok(sensors.read()?.memory.into())
    }),
    SensorFiles::new(c"in0_input", c"in0_label", "vddgfx", |sensors| {
        Ok(sensors.millivolts()?.into())
    })
    .only(SmuSensors::has_millivolts),
    SensorFiles::new(c"in2_input", c"in2_label", "vddboard", |sensors| {
        Ok(sensors.board_millivolts()?.into())
    })
    .only(|sensors| sensors.board_millivolts().is_ok()),
    SensorFiles::new(c"power1_average", c"power1_label", "PPT", power)
        .only(SmuSensors::averages_power),
    SensorFiles::new(c"power1_input", c"power1_label", "PPT", power)
        .only(|sensors| !sensors.averages_power()),
    SensorFiles::new(c"freq1_input", c"freq1_label", "sclk", |sensors| {
        let [graphics, _] = sensors.read()?.clocks;
        Ok(u64::from(graphics) * 1_000_000)
    }),
    SensorFiles::new(c"freq2_input", c"freq2_label", "mclk", |sensors| {
        let [_, memory] = sensors.read()?.clocks;
        Ok(u64::from(memory) * 1_000_000)
    }),
    // amdgpu has this one only in gpu_metrics.
    SensorFiles {
        input: SysfsName::new(c"energy1_input"),
        label: None,
        read: |sensors| Ok(sensors.read()?.microjoules),
        is_there: |_| true,
    },
];

fn power(sensors: &SmuSensors) -> Result<u64> {
    Ok(u64::from(sensors.read()?.milliwatts) * 1000)
}

/// A sensor's value.
struct SensorValue(Arc<SmuSensors>, &'static SensorFiles);

impl SysfsShow for SensorValue {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        let value = (self.1.read)(&self.0)?;
        writeln!(page, "{value}").map_err(|_| EFBIG)
    }
}

/// The table of all measurements that tools read at once.
struct GpuMetrics(Arc<SmuSensors>);

impl SysfsShow for GpuMetrics {
    fn show(&self, page: &mut SysfsPage<'_>) -> Result {
        page.write_bytes(&self.0.gpu_metrics()?)
    }
}

/// The files of the sensors. Dropping this removes them and waits for readers.
pub(crate) struct SensorRegistration {
    _hwmon: Option<HwmonDevice>,
    _files: AddedFiles,
}

/// Creates the files of `sensors` for the device `device`. They must be dropped before the
/// registers go.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn show(
    sensors: &Arc<SmuSensors>,
    device: &Device<Bound>,
) -> Result<SensorRegistration> {
    let mut files = SysfsFiles::new();
    for sensor in SENSORS.iter().filter(|sensor| (sensor.is_there)(sensors)) {
        let value = Arc::new(SensorValue(sensors.clone(), sensor), GFP_KERNEL)?;
        files = files.with_live(&sensor.input, value)?;
        if let Some((name, called)) = &sensor.label {
            files = files.with(name, &format_args!("{called}\n"))?;
        }
    }
    // Tools find a GPU's sensors by this name.
    let name = if has_amdgpu_names() {
        c"amdgpu"
    } else {
        c"rkfd"
    };
    let hwmon = HwmonDevice::new(device, name, files)?;
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
