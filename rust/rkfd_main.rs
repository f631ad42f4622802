// SPDX-License-Identifier: GPL-2.0
//! rkfd: AMD's KFD ABI for ROCm, in Rust. This file is the table of contents.

use kernel::driver::Registration;
use kernel::prelude::*;

use kern::pci_driver::PciAdapter;

mod driver;
mod ffi;
mod firmware;
mod gpu;
mod health;
mod hive;
mod ip;
mod kern;
mod kfd;
mod ledger;
mod mem;
mod observe;
mod process;
mod queue;
mod regs;
mod render;
mod ring;
mod smi;
mod topology;

module! {
    type: Rkfd,
    name: "rkfd",
    authors: ["rkfd maintainers"],
    description: "KFD compute driver for AMD GPUs",
    license: "GPL",
    // The firmware of hw::firmware::plan.
    firmware: [
        "amdgpu/aldebaran_sos.bin",
        "amdgpu/aldebaran_smc.bin",
        "amdgpu/aldebaran_sdma.bin",
        "amdgpu/aldebaran_mec.bin",
        "amdgpu/aldebaran_rlc.bin",
        "amdgpu/aldebaran_ta.bin",
        "amdgpu/psp_13_0_6_sos.bin",
        "amdgpu/smu_13_0_6.bin",
        "amdgpu/sdma_4_4_2.bin",
        "amdgpu/gc_9_4_3_mec.bin",
        "amdgpu/gc_9_4_3_rlc.bin",
        "amdgpu/psp_13_0_6_ta.bin",
    ],
    imports_ns: ["DMA_BUF"],
    params: {
        sdma_sched: u8 {
            default: 2,
            description: "user SDMA queues: 2: the hardware's own, with drm_sched jobs made after \
                          the fact; 1: through drm_sched; 0: the hardware's own, without jobs",
        },
        probe_only: u8 {
            default: 0,
            description: "GPUs are not used; 1: the log says in which state they are; 2: firmware \
                          is loaded, and given back",
        },
        reset: u8 {
            default: 3,
            description: "how often within ten minutes a GPU that does not answer any more is \
                          reset; 0: never",
        },
        clocks: u8 {
            default: 0,
            description: "1: the SMU sets clocks, within the limits of the card's BIOS; 0: they \
                          stay as at power-on",
        },
        enforce_isolation: i8 {
            default: -1,
            description: "1: one process at a time has the compute units, and finds nothing of \
                          others in registers and LDS; 0, -1 (default): neither",
        },
        amdgpu_names: u8 {
            default: 1,
            description: "1: /sys/module/amdgpu and sensors called amdgpu, where ROCm and tools \
                          look for them; 0: neither",
        },
        svm: u8 {
            default: 1,
            description: "1: shared virtual memory, with retried page faults (XNACK) for who asks \
                          for them; 0: none",
        },
    },
}

/// The loaded module. The drop order is: first no GPUs any more, then no interface any more, then
/// the remaining work of either.
#[pin_data]
struct Rkfd {
    _resets: driver::reset::ResetRegistration,
    #[pin]
    _driver: Registration<PciAdapter<driver::RkfdDriver>>,
    _hives: hive::HiveRegistration,
    _kfd: kfd::KfdRegistration,
    _debugfs: observe::debugfs::DebugfsRegistration,
    _work: kern::workqueue::ModuleWorkQueues,
}

impl kernel::InPlaceModule for Rkfd {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // The interface first: GPUs join it.
        try_pin_init!(Self {
            _work: kern::workqueue::ModuleWorkQueues::new()?,
            _debugfs: observe::debugfs::DebugfsRegistration::new()?,
            _kfd: kfd::KfdRegistration::new(module)?,
            _hives: hive::HiveRegistration::new()?,
            _resets: driver::reset::ResetRegistration::new()?,
            _driver <- Registration::new(c"rkfd", module),
        })
    }
}
