// SPDX-License-Identifier: GPL-2.0
//! The PCI driver: which devices, and what happens when one comes and goes.

mod watch;

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::gpu::Gpu;
use crate::kern::drm::Registration;
use crate::kern::pci_ext;
use crate::kern::series::{pci_table, Handler, IdInfo, Interrupt};
use crate::kfd::{self, Plugged};
use crate::mem::Memory;
use crate::observe::debugfs::GpuFiles;
use crate::queue::interrupts::Dispatch;
use crate::render;
use watch::Watch;

/// The driver.
pub(crate) struct Driver;

pci_table!(
    PCI_TABLE,
    (),
    [
        (pci::DeviceId::from_id(pci::Vendor::ATI, 0x7408), ()),
        (pci::DeviceId::from_id(pci::Vendor::ATI, 0x740c), ()),
        (pci::DeviceId::from_id(pci::Vendor::ATI, 0x740f), ()),
    ]
);

/// Takes the GPU's interrupts.
struct Poll(Arc<Gpu>);

impl Handler for Poll {
    fn handle(&self) {
        self.0.poll_interrupts();
    }
}

/// A GPU whose rings run; they are stopped when it is dropped.
struct Running(Arc<Gpu>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A GPU that reaches system memory; dropping this takes it away from whatever buffers there still are, which may
/// live on in other processes.
struct Reaching(Arc<Gpu>);

impl Drop for Reaching {
    fn drop(&mut self) {
        self.0.bos.for_each(|bo| bo.unmap_dma());
    }
}

/// What is there while a device is bound. Dropped in this order: no more users, no more work, no more interrupts.
pub(crate) struct Bound {
    _plugged: Plugged,
    _files: GpuFiles,
    _node: Registration<Arc<Memory>>,
    _watch: Watch,
    _running: Running,
    _reaching: Reaching,
    _irq: Interrupt<Poll>,
}

impl Bound {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let gpu = Gpu::new(pdev)?;
        gpu.interrupts
            .populate(Dispatch::new(&gpu, kfd::process_sink()?)?);
        let irq = Interrupt::new(pdev, c"rkfd", Poll(gpu.clone()))?;
        let reaching = Reaching(gpu.clone());
        let running = Running(gpu);
        let gpu = &running.0;
        gpu.start()?;
        let watch = Watch::new(gpu)?;
        let node = render::driver::register(&gpu.memory)?;
        let plugged = Plugged::new(gpu, node.device(), pci_ext::enable_atomics(pdev))?;
        let files = GpuFiles::new(gpu, pdev)?;
        dev_info!(
            pdev,
            "{}, {} MiB of VRAM, gpu_id {}\n",
            gpu.asic.name,
            gpu.vram.total() >> 20,
            gpu.id.get()
        );
        Ok(Self {
            _plugged: plugged,
            _files: files,
            _node: node,
            _watch: watch,
            _running: running,
            _reaching: reaching,
            _irq: irq,
        })
    }
}

impl pci::Driver for Driver {
    type IdInfo = ();
    type Data<'bound> = Bound;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        _info: IdInfo<'bound, Self::IdInfo>,
    ) -> impl PinInit<Bound, Error> + 'bound {
        Bound::new(pdev).inspect_err(|error| {
            dev_err!(pdev, "the GPU cannot be used: {error:?}\n");
        })
    }
}
