// SPDX-License-Identifier: GPL-2.0
//! Files in the PCI device's folder, by amdgpu's names: how much memory there is and in use, and how busy the GPU is. What only the
//! SMU knows is in [`super::sensors`].

use core::fmt;

use kernel::device::{Bound, Device};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::ip::Hardware;
use crate::kern::kobject::{FileName, Files, MoreFiles};
use crate::mem::{account, Memory};

static VRAM_TOTAL: FileName = FileName::new(c"mem_info_vram_total");
static VRAM_USED: FileName = FileName::new(c"mem_info_vram_used");
static VISIBLE_TOTAL: FileName = FileName::new(c"mem_info_vis_vram_total");
static VISIBLE_USED: FileName = FileName::new(c"mem_info_vis_vram_used");
static GTT_TOTAL: FileName = FileName::new(c"mem_info_gtt_total");
static GTT_USED: FileName = FileName::new(c"mem_info_gtt_used");
static BUSY: FileName = FileName::new(c"gpu_busy_percent");

/// A figure of memory, bytes.
struct Figure(Arc<Memory>, fn(&Memory) -> u64);

impl fmt::Display for Figure {
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

/// The files of a GPU, which is the device `device`, until dropped: before its registers are gone. ENOMEM.
pub(crate) fn show(gpu: &Arc<Memory>, device: &Device<Bound>) -> Result<MoreFiles> {
    let figure = |of| Arc::new(Figure(gpu.clone(), of), GFP_KERNEL);
    // The CPU reaches all of VRAM.
    let files = Files::new()
        .with_live(&VRAM_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VRAM_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&VISIBLE_TOTAL, figure(|gpu| gpu.vram.total())?)?
        .with_live(&VISIBLE_USED, figure(|gpu| gpu.vram.used())?)?
        .with_live(&GTT_TOTAL, figure(|_| account::system_limit())?)?
        .with_live(&GTT_USED, figure(Memory::system_used)?)?
        .with_live(&BUSY, Arc::new(BusyPercent(gpu.hw.clone()), GFP_KERNEL)?)?;
    MoreFiles::of_device(device, files)
}
