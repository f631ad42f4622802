// SPDX-License-Identifier: GPL-2.0
//! `/sys/kernel/debug/rkfd/<PCI name>/`: a GPU's objects, counted and listed: a file for each of [`tables`].

use super::tables;
use crate::gpu::Gpu;
use crate::kern::slot::{Filled, Slot};
use kernel::debugfs::{Dir, File};
use kernel::device::Core;
use kernel::fmt;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The folder of the GPUs' folders.
static ROOT: Slot<Root> = Slot::new();

struct Root(Dir);

/// `/sys/kernel/debug/rkfd`, as long as the module is loaded.
pub(crate) struct Registration {
    _filled: Filled<Root>,
}

impl Registration {
    /// Makes the folder. ENOMEM; EBUSY if there is one.
    pub(crate) fn new() -> Result<Self> {
        let root = Arc::new(Root(Dir::new(c"rkfd")), GFP_KERNEL)?;
        Ok(Self {
            _filled: ROOT.fill(root)?,
        })
    }
}

/// A GPU as the files see it.
struct Shown(Arc<Gpu>);

type Text = Pin<KBox<File<Shown>>>;

/// The folder of a GPU, until dropped. It holds the GPU, so it must be dropped when the device goes.
pub(crate) struct GpuFiles {
    _files: [Text; 10],
}

impl GpuFiles {
    /// Makes the folder of `gpu`, which is `pdev`. ENOMEM.
    pub(crate) fn new(gpu: &Arc<Gpu>, pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let name = pdev.as_ref().name();
        let root = ROOT.get().ok_or(ENODEV)?;
        let dir = root.0.subdir(name);
        Ok(Self {
            _files: [
                file(&dir, gpu, c"objects", &|shown, f| {
                    tables::objects(&shown.0, f)
                })?,
                file(&dir, gpu, c"vram", &|shown, f| tables::vram(&shown.0, f))?,
                file(&dir, gpu, c"processes", &|shown, f| {
                    tables::processes(&shown.0, f)
                })?,
                file(&dir, gpu, c"clients", &|shown, f| {
                    tables::clients(&shown.0, f)
                })?,
                file(&dir, gpu, c"queues", &|shown, f| {
                    tables::queues(&shown.0, f)
                })?,
                file(&dir, gpu, c"vmids", &|shown, f| tables::vmids(&shown.0, f))?,
                file(&dir, gpu, c"doorbells", &|shown, f| {
                    tables::doorbells(&shown.0, f)
                })?,
                file(&dir, gpu, c"parameters", &|_, f| tables::parameters(f))?,
                file(&dir, gpu, c"rings", &|shown, f| tables::rings(&shown.0, f))?,
                file(&dir, gpu, c"ih", &|shown, f| tables::ih(&shown.0, f))?,
            ],
        })
    }
}

fn file<F>(dir: &Dir, gpu: &Arc<Gpu>, name: &CStr, show: &'static F) -> Result<Text>
where
    F: Fn(&Shown, &mut fmt::Formatter<'_>) -> fmt::Result + Send + Sync,
{
    let file = dir.read_callback_file(name, Shown(gpu.clone()), show);
    KBox::pin_init(file, GFP_KERNEL)
}
