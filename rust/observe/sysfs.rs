// SPDX-License-Identifier: GPL-2.0
//! Files in the PCI device's folder under amdgpu's names: total and used memory, how busy the GPU
//! is, and whether processes are isolated. [`super::sensors`] has the values that only the SMU
//! knows.

use core::fmt;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::gpu::Gpu;
use crate::ip::Hardware;
use crate::kern::kobject::{AddedFiles, SysfsFiles, SysfsName, SysfsStore};
use crate::mem::{account, GpuMemory};

static VRAM_TOTAL: SysfsName = SysfsName::new(c"mem_info_vram_total");
static VRAM_USED: SysfsName = SysfsName::new(c"mem_info_vram_used");
static VISIBLE_TOTAL: SysfsName = SysfsName::new(c"mem_info_vis_vram_total");
static VISIBLE_USED: SysfsName = SysfsName::new(c"mem_info_vis_vram_used");
static GTT_TOTAL: SysfsName = SysfsName::new(c"mem_info_gtt_total");
static GTT_USED: SysfsName = SysfsName::new(c"mem_info_gtt_used");
static BUSY: SysfsName = SysfsName::new(c"gpu_busy_percent");
static ISOLATION: SysfsName = SysfsName::new(c"enforce_isolation");

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

/// Whether processes are isolated from each other in the shader core.
struct Isolation(Arc<Gpu>);

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", u8::from(self.0.queues.compute.is_isolating()))
    }
}

/// The numbers of amdgpu's parameter `enforce_isolation`, without that for its choice.
impl SysfsStore for Isolation {
    fn store(&self, text: &[u8]) -> Result {
        let on = match text.trim_ascii() {
            b"0" => false,
            b"1" | b"2" | b"3" => true,
            _ => return Err(EINVAL),
        };
        self.0.queues.compute.isolate(on)
    }
}

/// Creates the files of a GPU, which is the device `device`. They must be dropped before the
/// registers go.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn show(gpu: &Arc<Gpu>, device: &Device<Bound>) -> Result<AddedFiles> {
    let figure = |of| Arc::new(MemoryFigure(gpu.memory.clone(), of), GFP_KERNEL);
    // The CPU reaches all of VRAM, so visible and total VRAM are equal.
    let files = SysfsFiles::new()
        .with_live(&VRAM_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VRAM_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&VISIBLE_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VISIBLE_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&GTT_TOTAL, figure(|_| account::system_limit())?)?
        .with_live(&GTT_USED, figure(GpuMemory::system_used)?)?
        .with_live(&BUSY, Arc::new(BusyPercent(gpu.hw.clone()), GFP_KERNEL)?)?
        .with_setting(&ISOLATION, Arc::new(Isolation(gpu.clone()), GFP_KERNEL)?)?;
    AddedFiles::of_device(device, files)
}
