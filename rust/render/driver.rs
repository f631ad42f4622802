// SPDX-License-Identifier: GPL-2.0
//! What the driver tells DRM of itself.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{file::File, gem, info::Query};
use crate::{
    kern::drm::{
        fdinfo::Printer,
        ioctl::Descriptor,
        uapi::{
            GEM_CREATE_NR, GEM_METADATA_NR, GEM_MMAP_NR, GEM_OP_NR, GEM_VA_NR, GEM_WAIT_IDLE_NR,
            INFO_NR,
        },
        Device, Driver, DriverInfo, Registration,
    },
    mem::{
        bo::{Bo, Buffer},
        usage,
        vm::Vm,
        Memory,
    },
};

/// The DRM driver: amdgpu's interface, by its name, because clients look for it.
struct Render;

/// Numbers of the driver's ioctls, up to the last that there is.
const IOCTLS: [Descriptor; GEM_OP_NR as usize + 1] = {
    let mut list = [const { Descriptor::NONE }; GEM_OP_NR as usize + 1];
    list[GEM_CREATE_NR as usize] = Descriptor::new::<Render, gem::Create>();
    list[GEM_MMAP_NR as usize] = Descriptor::new::<Render, gem::Mmap>();
    list[INFO_NR as usize] = Descriptor::new::<Render, Query>();
    list[GEM_METADATA_NR as usize] = Descriptor::new::<Render, gem::Metadata>();
    list[GEM_WAIT_IDLE_NR as usize] = Descriptor::new::<Render, gem::WaitIdle>();
    list[GEM_VA_NR as usize] = Descriptor::new::<Render, gem::Va>();
    list[GEM_OP_NR as usize] = Descriptor::new::<Render, gem::Op>();
    list
};

impl Driver for Render {
    type Data = Arc<Memory>;
    type File = File;
    type Object = Buffer;

    const INFO: DriverInfo = DriverInfo {
        major: 3,
        minor: 64,
        patchlevel: 0,
        name: c"amdgpu",
        desc: c"AMD GPU, by rkfd",
    };

    const IOCTLS: &'static [Descriptor] = &IOCTLS;

    fn open(dev: &Device<Arc<Memory>>) -> Result<Arc<File>> {
        let drm = ARef::from(dev);
        File::new(Vm::new(dev, drm)?)
    }

    fn fdinfo(file: &Arc<File>, out: &mut Printer) {
        usage::show(file.vm(), |args| out.line(args));
    }

    fn open_object(file: &Arc<File>, bo: &Bo) -> Result {
        bo.pay(file.vm().client())
    }

    fn close_object(file: &Arc<File>, bo: &Bo) {
        file.unmap_all(bo);
    }
}

/// Makes the device files of `gpu` appear. They go when the answer is dropped.
pub(crate) fn register(gpu: &Arc<Memory>) -> Result<Registration<Arc<Memory>>> {
    let device = Device::new::<Render>(&gpu.hw.dev, Ok::<_, Error>(gpu.clone()))?;
    Registration::new(device)
}
