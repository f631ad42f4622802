// SPDX-License-Identifier: GPL-2.0
//! What the driver tells DRM of itself.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{file::File, info::Query};
use crate::{
    gpu::Gpu,
    kern::drm::{
        fdinfo::Printer, ioctl::Descriptor, uapi::INFO_NR, Device, Driver, DriverInfo, Registration,
    },
    mem::vm::Vm,
};

/// The DRM driver: amdgpu's interface, by its name, because clients look for it.
struct Render;

/// Numbers of the driver's ioctls, up to the last that there is.
const IOCTLS: [Descriptor; INFO_NR as usize + 1] = {
    let mut list = [const { Descriptor::NONE }; INFO_NR as usize + 1];
    list[INFO_NR as usize] = Descriptor::new::<Render, Query>();
    list
};

impl Driver for Render {
    type Data = Arc<Gpu>;
    type File = File;

    const INFO: DriverInfo = DriverInfo {
        major: 3,
        minor: 64,
        patchlevel: 0,
        name: c"amdgpu",
        desc: c"AMD GPU, by rkfd",
    };

    const IOCTLS: &'static [Descriptor] = &IOCTLS;

    fn open(dev: &Device<Arc<Gpu>>) -> Result<Arc<File>> {
        let drm = ARef::from(dev);
        File::new(Vm::new(dev, drm)?)
    }

    fn fdinfo(file: &Arc<File>, out: &mut Printer) {
        file.vm().client().show(|args| out.line(args));
    }
}

/// Makes the device files of `gpu` appear. They go when the answer is dropped.
pub(crate) fn register(gpu: &Arc<Gpu>) -> Result<Registration<Arc<Gpu>>> {
    let device = Device::new::<Render>(&gpu.dev, Ok::<_, Error>(gpu.clone()))?;
    Registration::new(device)
}
