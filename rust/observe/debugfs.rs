// SPDX-License-Identifier: GPL-2.0
//! `/sys/kernel/debug/rkfd/<PCI name>/`: a GPU's objects, counted and listed, with a file for each
//! of [`tables`].

use super::tables::{self, Table};
use crate::gpu::Gpu;
use crate::kern::arc_slot::{ArcSlot, FilledSlot};
use kernel::debugfs::{Dir, File};
use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The folder of the GPUs' folders.
static ROOT: ArcSlot<DebugfsRoot> = ArcSlot::new();

struct DebugfsRoot(Dir);

/// `/sys/kernel/debug/rkfd`, while the module is loaded.
pub(crate) struct DebugfsRegistration {
    _filled: FilledSlot<DebugfsRoot>,
}

impl DebugfsRegistration {
    /// Creates the folder.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` if it exists.
    pub(crate) fn new() -> Result<Self> {
        let root = Arc::new(DebugfsRoot(Dir::new(c"rkfd")), GFP_KERNEL)?;
        Ok(Self {
            _filled: ROOT.fill(root)?,
        })
    }
}

/// The files by their names.
const FILES: [(&CStr, Table); 12] = [
    (c"objects", tables::objects),
    (c"vram", tables::vram),
    (c"processes", tables::processes),
    (c"clients", tables::clients),
    (c"queues", tables::queues),
    (c"vmids", tables::vmids),
    (c"doorbells", tables::doorbells),
    (c"parameters", tables::parameters),
    (c"rings", tables::rings),
    (c"runlists", tables::runlists),
    (c"ih", tables::ih),
    (c"faults", tables::faults),
];

/// A file of a GPU, and the table that it shows.
struct DebugfsFile(Arc<Gpu>, Table);

type Text = Pin<KBox<File<DebugfsFile>>>;

/// The folder of a GPU, until dropped. It holds the GPU, so it must be dropped when the device
/// goes.
pub(crate) struct GpuDebugfs {
    _files: KVec<Text>,
}

impl GpuDebugfs {
    /// Creates the folder of `gpu`, which is `pdev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gpu: &Arc<Gpu>, pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let name = pdev.as_ref().name();
        let root = ROOT.get().ok_or(ENODEV)?;
        let dir = root.0.subdir(name);
        let mut files = KVec::with_capacity(FILES.len(), GFP_KERNEL)?;
        for (name, table) in FILES {
            let shown = DebugfsFile(gpu.clone(), table);
            let file = dir.read_callback_file(name, shown, &|shown, f| (shown.1)(&shown.0, f));
            files.push(KBox::pin_init(file, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self { _files: files })
    }
}
