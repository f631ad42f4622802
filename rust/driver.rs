// SPDX-License-Identifier: GPL-2.0
//! The PCI driver: which devices, and what happens when one comes and goes.

mod bars;
mod deadline;
mod probe_only;
mod rebind;
pub(crate) mod reset;
mod sleep;
mod watchdog;

use hw::asic::KNOWN_ASICS;
use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::firmware::reset::FirmwareReset;
use crate::firmware::LoadedFirmware;
use crate::gpu::Gpu;
use crate::hive::{HiveFiles, HiveMembership};
use crate::kern::drm::DrmRegistration;
use crate::kern::host;
use crate::kern::kobject::AddedFiles;
use crate::kern::params::ProbeMode;
use crate::kern::pci_driver;
use crate::kern::pci_ext::{self, BusMastering, EnabledDevice};
use crate::kern::series::{pci_table, IdInfo, IrqHandler, IrqRegistration};
use crate::kfd::{self, NodeInfo, PluggedGpu};
use crate::mem::GpuMemory;
use crate::observe::blocks::BlockTree;
use crate::observe::debugfs::GpuDebugfs;
use crate::observe::{sensors, sysfs};
use crate::queue::interrupts::InterruptDispatch;
use crate::render;
use deadline::GpuDeadline;
use rebind::RebindGuard;
use sleep::PmRegistration;
use watchdog::Watchdog;

/// The PCI driver.
pub(crate) struct RkfdDriver;

// The macro takes a list only. An index too many does not compile, and neither does one too few.
pci_table!(
    PCI_TABLE,
    (),
    [
        (known(0), ()),
        (known(1), ()),
        (known(2), ()),
        (known(3), ()),
        (known(4), ()),
        (known(5), ()),
    ]
);
const _: () = assert!(KNOWN_ASICS.len() == 6);

/// The id of known device `index`.
const fn known(index: usize) -> pci::DeviceId {
    pci::DeviceId::from_id(pci::Vendor::ATI, KNOWN_ASICS[index].ids.device as u32)
}

/// Handles the GPU's interrupts.
struct GpuIrqHandler(Arc<Gpu>);

impl IrqHandler for GpuIrqHandler {
    fn handle(&self) {
        self.0.hw.ih.interrupt();
    }
}

/// A GPU whose rings run. Dropping this stops them.
struct RunningRings(Arc<Gpu>);

impl Drop for RunningRings {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A GPU whose hubs translate addresses. Dropping this turns translation off.
struct TranslatingHubs(Arc<Gpu>);

impl Drop for TranslatingHubs {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A GPU that can reach system memory. Dropping this revokes that access from all address spaces
/// and buffers that still exist; other processes may keep those alive.
struct SystemMemoryAccess(Arc<Gpu>);

impl Drop for SystemMemoryAccess {
    fn drop(&mut self) {
        self.0.memory.vms.close();
        self.0.memory.bos.for_each(|bo| bo.unmap_dma());
        self.0.hw.doorbells.dma().unmap();
        self.0.hw.hdp.page().unmap();
        self.0.memory.lost.close();
    }
}

/// Everything that exists while a device is bound. Fields are dropped in this order: users, work
/// items, the device's own activity, its memory, its interrupts.
struct DeviceParts {
    /// Dropped first: from here on a GPU that does not answer is not reported.
    _guard: reset::ResetGuard,
    /// Dropped before the device goes, on which the memory for a sleep depends.
    sleeper: PmRegistration,
    _plugged: PluggedGpu,
    /// Dropped when no process uses the GPU any more, before its firmware goes.
    _hive: (Option<HiveFiles>, Option<HiveMembership>),
    _files: GpuDebugfs,
    _sysfs: AddedFiles,
    _blocks: Option<BlockTree>,
    /// Dropped before the SMU learns that the driver goes.
    _sensors: Option<sensors::SensorRegistration>,
    _node: DrmRegistration<Arc<GpuMemory>>,
    _watch: Watchdog,
    running: RunningRings,
    firmware: LoadedFirmware,
    _translating: TranslatingHubs,
    /// `None` while the machine sleeps.
    mastering: Option<BusMastering>,
    _reaching: SystemMemoryAccess,
    /// Nothing dropped after this point can be delayed by processes.
    deadline: GpuDeadline,
    _irq: IrqRegistration<GpuIrqHandler>,
    _reset: FirmwareReset,
    _enabled: EnabledDevice,
}

impl DeviceParts {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        // A GPU that was being reset may appear after all devices were shut down.
        if host::is_shutting_down() {
            return Err(ENODEV);
        }
        bars::check(pdev)?;
        let enabled = EnabledDevice::new(pdev)?;
        let (gpu, loaded) = Gpu::new(pdev)?;
        let reset = FirmwareReset::new(pdev, &loaded);
        let translating = TranslatingHubs(gpu.clone());
        // From here on an error drops the firmware before the hubs.
        let firmware = loaded;
        let dispatch = InterruptDispatch::new(&gpu.queues, kfd::process_sink()?)?;
        gpu.queues.interrupts.populate(dispatch.clone());
        let irq = IrqRegistration::new(pdev, c"rkfd", GpuIrqHandler(gpu.clone()));
        let irq = irq.inspect_err(|error| {
            dev_err!(
                pdev,
                "no interrupt, neither MSI-X nor MSI: {error:?}: in the BIOS setup, enable MSI; \
                 on the kernel's command line, leave out pci=nomsi\n"
            );
        })?;
        let deadline = GpuDeadline::new(pdev, &gpu)?;
        let reaching = SystemMemoryAccess(gpu.clone());
        let mastering = BusMastering::new(pdev);
        let running = RunningRings(gpu);
        let gpu = &running.0;
        // Both stay until `stop`: the handler of the entries also keeps the ring.
        gpu.hw.faults.set_owner(Some(kfd::fault_owner()?));
        gpu.hw.ih.listen(dispatch);
        gpu.start(&kfd::pasids()?)?;
        let watch = Watchdog::new(gpu)?;
        let sensors = firmware.sensors();
        if let Some(sensors) = &sensors {
            // Stays until the node is gone.
            gpu.hw.sensors.populate(sensors.clone());
        }
        let node = render::driver::register(&gpu.memory)?;
        let atomics = pci_ext::enable_atomics(pdev);
        let info = NodeInfo {
            firmware: firmware.versions()?,
            serial: sensors.as_ref().map_or(0, |sensors| sensors.serial()),
            atomics,
            completes_atomics: pci_ext::completes_atomics(pdev),
            link_mbs: pci_ext::link_mbs(pdev),
        };
        let psp = firmware.xgmi();
        let member = psp.and_then(|psp| HiveMembership::join(&gpu.hw, psp));
        let hive_files = member.as_ref();
        let hive_files = hive_files.map(|member| HiveFiles::new(member, pdev.as_ref()));
        let hive = (hive_files.transpose()?, member);
        let plugged = PluggedGpu::new(gpu, node.device(), info)?;
        let files = GpuDebugfs::new(gpu, pdev)?;
        let sysfs = sysfs::show(gpu, pdev.as_ref())?;
        let blocks = match &gpu.hw.table {
            Some(table) => Some(BlockTree::new(pdev.as_ref(), &table.contents()?)?),
            None => None,
        };
        let sensors = match sensors {
            Some(sensors) => Some(sensors::show(&sensors, pdev.as_ref())?),
            None => None,
        };
        let sleeper = PmRegistration::new(gpu, firmware.is_own())?;
        let guard = reset::ResetGuard::new(pdev, gpu, node.device(), firmware.is_own())?;
        dev_info!(
            pdev,
            "{}, {} MiB of VRAM, gpu_id {}\n",
            gpu.hw.asic.ids.name,
            gpu.memory.vram.total() >> 20,
            gpu.hw.id.get()
        );
        Ok(Self {
            _guard: guard,
            sleeper,
            _plugged: plugged,
            _hive: hive,
            _files: files,
            _sysfs: sysfs,
            _blocks: blocks,
            _sensors: sensors,
            _node: node,
            _watch: watch,
            running,
            firmware,
            _translating: translating,
            mastering: Some(mastering),
            _reaching: reaching,
            deadline,
            _irq: irq,
            _reset: reset,
            _enabled: enabled,
        })
    }

    fn teardown(self) {
        let gpu = &self.running.0;
        if !gpu.hw.is_present() {
            gpu.cut_off();
        }
    }
}

/// A bound device. It has its parts until the first of [`pci::Driver::unbind`],
/// [`pci_driver::PciDriver::shutdown`], [`pci_driver::PciDriver::before_reset`] and
/// [`pci_driver::PciDriver::lost`].
#[pin_data]
pub(crate) struct BoundDevice {
    #[pin]
    parts: Mutex<Option<DeviceParts>>,
    again: RebindGuard,
}

impl BoundDevice {
    /// Takes the parts out, to be dropped while interrupts, the device's IOMMU domain and its DMA
    /// operations still exist. Dropping them is bounded and may sleep. `None` from the second call
    /// on.
    fn take_parts(&self) -> Option<DeviceParts> {
        self.parts.lock().take()
    }

    /// Calls `f` with the parts, if there are any.
    fn with_parts(&self, f: impl FnOnce(&mut DeviceParts) -> Result) -> Result {
        let mut parts = self.parts.lock();
        (*parts).as_mut().map_or(Ok(()), f)
    }

    /// Wakes the GPU after a sleep. Its queues stay off the hardware `until` then. A GPU that does
    /// not come back is unbound, and bound again once processes run.
    fn wake(&self, pdev: &pci::Device<Core<'_>>, until: sleep::QuiesceUntil) -> Result {
        self.with_parts(|parts| {
            let mastering = &mut parts.mastering;
            let master = || *mastering = Some(BusMastering::new(pdev));
            let woken = parts.sleeper.wake(&mut parts.firmware, until, master);
            woken.inspect_err(|error| {
                dev_err!(
                    pdev,
                    "the GPU does not come back from sleep: {error:?}: \
                     it is taken from its processes\n"
                );
                parts.mastering = None;
                parts.running.0.cut_off();
                kfd::notify_reset(&parts.running.0);
                self.again.bind();
            })
        })
    }

    /// Takes the device down. A device that is already gone is not waited for.
    fn teardown(&self) {
        if let Some(parts) = self.take_parts() {
            parts.teardown();
        }
    }
}

impl pci::Driver for RkfdDriver {
    type IdInfo = ();
    type Data<'bound> = BoundDevice;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        _info: IdInfo<'bound, Self::IdInfo>,
    ) -> impl PinInit<BoundDevice, Error> + 'bound {
        let parts = match ProbeMode::get() {
            ProbeMode::Whole => DeviceParts::new(pdev).map_err(|error| {
                // Whichever step the device had reached.
                let is_gone = !pci_ext::is_present(pdev);
                let error = if is_gone { ENODEV } else { error };
                dev_err!(
                    pdev,
                    "Fatal error during GPU init: the GPU cannot be used: {error:?}{}\n",
                    if is_gone {
                        ": it is gone from the bus"
                    } else {
                        ""
                    }
                );
                error
            }),
            // The device is not bound in this mode: another driver may take it.
            ProbeMode::Look => probe_only::report(pdev).and(Err(ENODEV)),
            ProbeMode::Load => probe_only::report(pdev)
                .and_then(|()| probe_only::load(pdev))
                .and(Err(ENODEV)),
        };
        try_pin_init!(BoundDevice {
            parts <- kernel::new_mutex!(Some(parts?), "BoundDevice::parts"),
            again: RebindGuard::new(pdev)?,
        })
    }

    /// When the data is dropped, the bus and the driver core have already taken back some of what
    /// is needed.
    fn unbind(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        this.teardown();
    }
}

impl pci_driver::PciDriver for RkfdDriver {
    /// Makes sure that the GPU writes to no memory once another kernel runs. Processes stay,
    /// without the GPU. Bounded, whatever their number.
    fn shutdown(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        if let Some(parts) = this.take_parts() {
            parts.deadline.start();
            parts.teardown();
        }
    }

    /// The reset is not the driver's own, but processes get the same notice.
    fn before_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        let Some(parts) = this.take_parts() else {
            return;
        };
        dev_warn!(
            pdev,
            "the GPU is being reset by an administrator: it is taken from its processes\n"
        );
        kfd::notify_reset(&parts.running.0);
        parts.teardown();
    }

    /// The driver may bind the GPU again, even if it was lost before.
    fn after_reset(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        this.again.bind();
    }

    /// The same as a surprise removal.
    fn lost(pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        let Some(parts) = this.take_parts() else {
            return;
        };
        dev_err!(
            pdev,
            "the way to the GPU has failed: it is gone, until it is removed and found again\n"
        );
        parts.running.0.cut_off();
    }

    fn prepare_sleep(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) -> Result {
        this.with_parts(|parts| parts.sleeper.prepare())
    }

    fn suspend(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) -> Result {
        this.with_parts(|parts| {
            parts.sleeper.suspend(&mut parts.firmware)?;
            parts.mastering = None;
            Ok(())
        })
    }

    fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) -> Result {
        this.wake(pdev, sleep::QuiesceUntil::Complete)
    }

    fn thaw(pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) -> Result {
        this.wake(pdev, sleep::QuiesceUntil::Over)
    }

    fn complete_sleep(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        // Without its parts the device cannot continue.
        let _ = this.with_parts(|parts| {
            parts.sleeper.complete();
            Ok(())
        });
    }
}
