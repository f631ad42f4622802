// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_VM: whether the address space of a file keeps its VMID.

use kernel::{prelude::*, sync::Arc};

use super::file::RenderFile;
use crate::{
    kern::drm::{
        file::OpenDrmFile,
        ioctl::DrmIoctl,
        uapi::{self, vm_op},
        DrmDriver,
    },
    mem::GpuMemory,
};

/// VM: reserves the VMID of the address space for it, and gives that up.
///
/// One file of a GPU at a time has the reservation. It has no effect: an address space loses its
/// VMID only while it has nothing to do.
///
/// # Errors
///
/// `EINVAL` for unknown operations and flags; `ENOENT` while another file has the reservation.
pub(super) struct VmIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile>> DrmIoctl<D> for VmIoctl {
    type Args = uapi::VmArgs;
    type Input = ();
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::VM_NR);

    const NAME: &'static CStr = c"AMDGPU_VM";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, (): &()) -> Result {
        let (op, flags) = args.wanted();
        if flags != 0 {
            return Err(EINVAL);
        }
        match op {
            vm_op::RESERVE_VMID => file.data().reserve_vmid(),
            vm_op::UNRESERVE_VMID => {
                file.data().unreserve_vmid();
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }
}
