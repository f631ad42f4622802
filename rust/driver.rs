// SPDX-License-Identifier: GPL-2.0
//! The PCI driver: which devices, and what happens when one comes and goes.

mod deadline;
mod probe_only;
mod rebind;
pub(crate) mod reset;
mod sleep;
mod watchdog;

use kernel::device::Core;
use kernel::pci;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};

use crate::firmware::reset::FirmwareReset;
use crate::firmware::LoadedFirmware;
use crate::gpu::Gpu;
use crate::kern::drm::DrmRegistration;
use crate::kern::host;
use crate::kern::kobject::AddedFiles;
use crate::kern::params::ProbeMode;
use crate::kern::pci_driver;
use crate::kern::pci_ext::{self, BusMastering, EnabledDevice};
use crate::kern::series::{pci_table, IdInfo, IrqHandler, IrqRegistration};
use crate::kfd::{self, NodeInfo, PluggedGpu};
use crate::mem::GpuMemory;
use crate::observe::debugfs::GpuDebugfs;
use crate::observe::{sensors, sysfs};
use crate::queue::interrupts::InterruptDispatch;
use crate::render;
use deadline::GpuDeadline;
use rebind::RebindGuard;
use sleep::PmRegistration;
use watchdog::Watchdog;

/// The driver.
pub(crate) struct RkfdDriver;

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
struct GpuIrqHandler(Arc<Gpu>);

impl IrqHandler for GpuIrqHandler {
    fn handle(&self) {
        self.0.hw.ih.interrupt();
    }
}

/// A GPU whose rings run; they are stopped when it is dropped.
struct RunningRings(Arc<Gpu>);

impl Drop for RunningRings {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A GPU whose hubs translate; they do not any more when this has been dropped.
struct TranslatingHubs(Arc<Gpu>);

impl Drop for TranslatingHubs {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A GPU that reaches system memory; dropping this takes it away from whatever address spaces and buffers there still
/// are, which may live on in other processes.
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

/// What is there while a device is bound. Dropped in this order: no more users, no more work, nothing that the device
/// can do by itself, no memory of its, no more interrupts.
struct DeviceParts {
    /// First: from here on it is no news when the GPU does not answer.
    _guard: reset::ResetGuard,
    /// Before the memory that it has for a sleep loses the device.
    sleeper: PmRegistration,
    _plugged: PluggedGpu,
    _files: GpuDebugfs,
    _sysfs: AddedFiles,
    /// Before the SMU is told that the driver goes.
    _sensors: Option<sensors::SensorRegistration>,
    _node: DrmRegistration<Arc<GpuMemory>>,
    _watch: Watchdog,
    running: RunningRings,
    firmware: LoadedFirmware,
    _translating: TranslatingHubs,
    /// `None` while it sleeps.
    mastering: Option<BusMastering>,
    _reaching: SystemMemoryAccess,
    /// What is behind it is not up to processes.
    deadline: GpuDeadline,
    _irq: IrqRegistration<GpuIrqHandler>,
    _reset: FirmwareReset,
    _enabled: EnabledDevice,
}

impl DeviceParts {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        // A GPU that was being reset may come after the shutdown of all devices.
        if host::is_shutting_down() {
            return Err(ENODEV);
        }
        let enabled = EnabledDevice::new(pdev)?;
        let (gpu, loaded) = Gpu::new(pdev)?;
        let reset = FirmwareReset::new(pdev, &loaded);
        let translating = TranslatingHubs(gpu.clone());
        // Goes before the hubs do, also from here on.
        let firmware = loaded;
        let dispatch = InterruptDispatch::new(&gpu.queues, kfd::process_sink()?)?;
        gpu.queues.interrupts.populate(dispatch.clone());
        let irq = IrqRegistration::new(pdev, c"rkfd", GpuIrqHandler(gpu.clone()))?;
        let deadline = GpuDeadline::new(pdev, &gpu)?;
        let reaching = SystemMemoryAccess(gpu.clone());
        let mastering = BusMastering::new(pdev);
        let running = RunningRings(gpu);
        let gpu = &running.0;
        // Both until it is stopped: what takes the entries keeps the ring, too.
        gpu.hw.faults.set_owner(Some(kfd::fault_owner()?));
        gpu.hw.ih.listen(dispatch);
        gpu.start()?;
        let watch = Watchdog::new(gpu)?;
        let sensors = firmware.sensors();
        if let Some(sensors) = &sensors {
            // Until the node is gone.
            gpu.hw.sensors.populate(sensors.clone());
        }
        let node = render::driver::register(&gpu.memory)?;
        let atomics = pci_ext::enable_atomics(pdev);
        let told = NodeInfo {
            firmware: firmware.versions()?,
            serial: sensors.as_ref().map_or(0, |sensors| sensors.serial()),
            atomics,
        };
        let plugged = PluggedGpu::new(gpu, node.device(), told)?;
        let files = GpuDebugfs::new(gpu, pdev)?;
        let sysfs = sysfs::show(&gpu.memory, pdev.as_ref())?;
        let sensors = match sensors {
            Some(sensors) => Some(sensors::show(&sensors, pdev.as_ref())?),
            None => None,
        };
        let sleeper = PmRegistration::new(gpu, firmware.is_own())?;
        let guard = reset::ResetGuard::new(pdev, gpu, node.device(), firmware.is_own())?;
        dev_info!(
            pdev,
            "{}, {} MiB of VRAM, gpu_id {}\n",
            gpu.hw.asic.name,
            gpu.memory.vram.total() >> 20,
            gpu.hw.id.get()
        );
        Ok(Self {
            _guard: guard,
            sleeper,
            _plugged: plugged,
            _files: files,
            _sysfs: sysfs,
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
/// [`pci_driver::PciDriver::shutdown`], [`pci_driver::Driver::before_reset`] and [`pci_driver::Driver::lost`].
#[pin_data]
pub(crate) struct BoundDevice {
    #[pin]
    parts: Mutex<Option<DeviceParts>>,
    again: RebindGuard,
}

impl BoundDevice {
    /// What there is to take down, by dropping it, while interrupts, the device's IOMMU domain and its DMA operations are there: that is
    /// bounded, and sleeps. Nothing the second time.
    fn take_parts(&self) -> Option<DeviceParts> {
        self.parts.lock().take()
    }

    /// Calls `f` with the parts, if there are any.
    fn with_parts(&self, f: impl FnOnce(&mut DeviceParts) -> Result) -> Result {
        let mut parts = self.parts.lock();
        (*parts).as_mut().map_or(Ok(()), f)
    }

    /// Wakes it; its queues stay off `until` then. One that does not come back is taken from the driver, and given to it anew, once processes run.
    fn wake(&self, pdev: &pci::Device<Core<'_>>, until: sleep::QuiesceUntil) -> Result {
        self.with_parts(|parts| {
            let mastering = &mut parts.mastering;
            let master = || *mastering = Some(BusMastering::new(pdev));
            let woken = parts.sleeper.wake(&mut parts.firmware, until, master);
            woken.inspect_err(|error| {
                dev_err!(
                    pdev,
                    "the GPU does not come back from sleep: {error:?}: it is taken from all who use it\n"
                );
                parts.mastering = None;
                parts.running.0.cut_off();
                kfd::notify_reset(&parts.running.0);
                self.again.bind();
            })
        })
    }

    /// Takes it down. A device that is gone already is waited for nowhere.
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
                // Whatever step it was at.
                let is_gone = !pci_ext::is_present(pdev);
                let error = if is_gone { ENODEV } else { error };
                dev_err!(
                    pdev,
                    "the GPU cannot be used: {error:?}{}\n",
                    if is_gone {
                        ": it is gone from the bus"
                    } else {
                        ""
                    }
                );
                error
            }),
            // No device for this driver then: another one may have it.
            ProbeMode::Look => probe_only::report(pdev).and(Err(ENODEV)),
            ProbeMode::Load => probe_only::report(pdev)
                .and_then(|()| probe_only::load(pdev))
                .and(Err(ENODEV)),
        };
        try_pin_init!(BoundDevice {
            parts <- kernel::new_mutex!(Some(parts?), "Bound::parts"),
            again: RebindGuard::new(pdev)?,
        })
    }

    /// When the data is dropped the bus and the driver core have taken back some of what is needed.
    fn unbind(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        this.teardown();
    }
}

impl pci_driver::PciDriver for RkfdDriver {
    /// So that nothing of the GPU writes to memory when another kernel runs. Processes stay, and have lost the GPU. Bounded, however many they are.
    fn shutdown(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        if let Some(parts) = this.take_parts() {
            parts.deadline.start();
            parts.teardown();
        }
    }

    /// It is not the driver that resets it, but what processes are told is the same.
    fn before_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        let Some(parts) = this.take_parts() else {
            return;
        };
        dev_warn!(
            pdev,
            "somebody resets the GPU: it is taken from all who use it\n"
        );
        kfd::notify_reset(&parts.running.0);
        parts.teardown();
    }

    /// It is a GPU that the driver may take, also where it was lost before.
    fn after_reset(_pdev: &pci::Device<Core<'_>>, this: Pin<&BoundDevice>) {
        this.again.bind();
    }

    /// As if it had been pulled out.
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
        // Without its parts there is nothing that could go on.
        let _ = this.with_parts(|parts| {
            parts.sleeper.complete();
            Ok(())
        });
    }
}
