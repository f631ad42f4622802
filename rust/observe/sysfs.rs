// SPDX-License-Identifier: GPL-2.0
//! Files in the PCI device's folder under amdgpu's names: total and used memory, and how busy the
//! GPU is. [`super::sensors`] has the values that only the SMU knows.

use core::fmt;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::ip::Hardware;
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsName};
use crate::mem::{account, GpuMemory};

static VRAM_TOTAL: SysfsName = SysfsName::new(c"mem_info_vram_total");
static VRAM_USED: SysfsName = SysfsName::new(c"mem_info_vram_used");
static VISIBLE_TOTAL: SysfsName = SysfsName::new(c"mem_info_vis_vram_total");
static VISIBLE_USED: SysfsName = SysfsName::new(c"mem_info_vis_vram_used");
static GTT_TOTAL: SysfsName = SysfsName::new(c"mem_info_gtt_total");
static GTT_USED: SysfsName = SysfsName::new(c"mem_info_gtt_used");
static BUSY: SysfsName = SysfsName::new(c"gpu_busy_percent");

/// An amount of memory, bytes.
struct MemoryFigure(Arc<GpuMemory>, fn(&GpuMemory) -> u64);

impl fmt::Display for MemoryFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", (self.1)(&self.0))
    }
}

struct BusyPercent(Arc<Hardware>);

impl fmt::Display for BusyPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.busy_percent())
    }
}

/// Creates the files of a GPU, which is the device `device`. They must be dropped before the
/// registers go.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn show(gpu: &Arc<GpuMemory>, device: &Device<Bound>) -> Result<AddedFiles> {
    let figure = |of| Arc::new(MemoryFigure(gpu.clone(), of), GFP_KERNEL);
    // The CPU reaches all of VRAM, so visible and total VRAM are equal.
    let files = SysfsFiles::new()
        .with_live(&VRAM_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VRAM_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&VISIBLE_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VISIBLE_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&GTT_TOTAL, figure(|_| account::system_limit())?)?
        .with_live(&GTT_USED, figure(GpuMemory::system_used)?)?
        .with_live(&BUSY, Arc::new(BusyPercent(gpu.hw.clone()), GFP_KERNEL)?)?;
    AddedFiles::of_device(device, files)
}
