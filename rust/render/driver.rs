// SPDX-License-Identifier: GPL-2.0
//! The DRM driver's description of itself.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{
    bo_list::BoListIoctl,
    cs::{CsIoctl, WaitCsIoctl},
    ctx::CtxIoctl,
    fence_to_handle::FenceToHandleIoctl,
    file::RenderFile,
    gem,
    gem_op::{GemListHandles, GemOp},
    info::InfoQuery,
    userptr::GemUserptr,
    vm_op::VmIoctl,
    wait_fences::WaitFencesIoctl,
};
use crate::{
    kern::drm::{
        fdinfo::FdinfoPrinter,
        ioctl::IoctlDescriptor,
        uapi::{
            BO_LIST_NR, CS_NR, CTX_NR, FENCE_TO_HANDLE_NR, GEM_CREATE_NR, GEM_LIST_HANDLES_NR,
            GEM_METADATA_NR, GEM_MMAP_NR, GEM_OP_NR, GEM_USERPTR_NR, GEM_VA_NR, GEM_WAIT_IDLE_NR,
            INFO_NR, VM_NR, WAIT_CS_NR, WAIT_FENCES_NR,
        },
        DrmDevice, DrmDriver, DrmDriverInfo, DrmRegistration,
    },
    mem::{
        bo::{Bo, BoData},
        usage,
        vm::Vm,
        GpuMemory,
    },
};

/// The DRM driver: amdgpu's interface, under its name, since clients look for that.
struct RenderDriver;

/// The driver's ioctls, by their numbers up to the highest.
const IOCTLS: [IoctlDescriptor; GEM_LIST_HANDLES_NR as usize + 1] = {
    let mut list = [const { IoctlDescriptor::NONE }; GEM_LIST_HANDLES_NR as usize + 1];
    list[GEM_CREATE_NR as usize] = IoctlDescriptor::new::<RenderDriver, gem::GemCreate>();
    list[BO_LIST_NR as usize] = IoctlDescriptor::new::<RenderDriver, BoListIoctl>();
    list[CS_NR as usize] = IoctlDescriptor::new::<RenderDriver, CsIoctl>();
    list[WAIT_CS_NR as usize] = IoctlDescriptor::new::<RenderDriver, WaitCsIoctl>();
    list[WAIT_FENCES_NR as usize] = IoctlDescriptor::new::<RenderDriver, WaitFencesIoctl>();
    list[FENCE_TO_HANDLE_NR as usize] = IoctlDescriptor::new::<RenderDriver, FenceToHandleIoctl>();
    list[CTX_NR as usize] = IoctlDescriptor::new::<RenderDriver, CtxIoctl>();
    list[GEM_MMAP_NR as usize] = IoctlDescriptor::new::<RenderDriver, gem::GemMmap>();
    list[INFO_NR as usize] = IoctlDescriptor::new::<RenderDriver, InfoQuery>();
    list[GEM_METADATA_NR as usize] = IoctlDescriptor::new::<RenderDriver, gem::GemMetadata>();
    list[GEM_WAIT_IDLE_NR as usize] = IoctlDescriptor::new::<RenderDriver, gem::GemWaitIdle>();
    list[GEM_VA_NR as usize] = IoctlDescriptor::new::<RenderDriver, gem::GemVa>();
    list[GEM_OP_NR as usize] = IoctlDescriptor::new::<RenderDriver, GemOp>();
    list[GEM_USERPTR_NR as usize] = IoctlDescriptor::new::<RenderDriver, GemUserptr>();
    list[GEM_LIST_HANDLES_NR as usize] = IoctlDescriptor::new::<RenderDriver, GemListHandles>();
    list[VM_NR as usize] = IoctlDescriptor::new::<RenderDriver, VmIoctl>();
    list
};

impl DrmDriver for RenderDriver {
    type Data = Arc<GpuMemory>;
    type File = RenderFile;
    type Object = BoData;

    const INFO: DrmDriverInfo = DrmDriverInfo {
        major: 3,
        minor: 64,
        patchlevel: 0,
        name: c"amdgpu",
        desc: c"AMD GPU, by rkfd",
    };

    const IOCTLS: &'static [IoctlDescriptor] = &IOCTLS;

    fn open(dev: &DrmDevice<Arc<GpuMemory>>) -> Result<Arc<RenderFile>> {
        let drm = ARef::from(dev);
        RenderFile::new(Vm::new(dev, drm)?)
    }

    fn fdinfo(file: &Arc<RenderFile>, out: &mut FdinfoPrinter) {
        usage::show(file.vm(), |args| out.line(args));
    }

    fn open_object(file: &Arc<RenderFile>, bo: &Bo) -> Result {
        bo.pay(file.vm().client())
    }

    fn closing(file: &Arc<RenderFile>) {
        file.stop_jobs();
    }

    fn close_object(file: &Arc<RenderFile>, bo: &Bo) {
        file.unmap_all(bo);
    }
}

/// Creates the device files of `gpu`. They go when the registration is dropped.
pub(crate) fn register(gpu: &Arc<GpuMemory>) -> Result<DrmRegistration<Arc<GpuMemory>>> {
    let device = DrmDevice::new::<RenderDriver>(&gpu.hw.dev, Ok::<_, Error>(gpu.clone()))?;
    DrmRegistration::new(device)
}
