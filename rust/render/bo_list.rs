// SPDX-License-Identifier: GPL-2.0
//! AMDGPU_BO_LIST: makes, replaces and frees lists of buffers.

use kernel::{prelude::*, sync::Arc};

use super::{
    bo_lists::{BoList, BoListInput},
    file::RenderFile,
};
use crate::{
    kern::drm::{
        file::OpenDrmFile,
        ioctl::DrmIoctl,
        uapi::{self, bo_list_op},
        DrmDriver,
    },
    mem::{bo::BoData, GpuMemory},
};

/// BO_LIST: makes, replaces and frees lists.
///
/// # Errors
///
/// `EINVAL` for unknown operations, entries of another size, and too many of them; `EFAULT` if they
/// cannot be read; `ENOENT` for an unknown buffer, and for an unknown list to be replaced; `ENOSPC`
/// with too many lists; `ENOMEM`.
pub(super) struct BoListIoctl;

impl<D: DrmDriver<Data = Arc<GpuMemory>, File = RenderFile, Object = BoData>> DrmIoctl<D>
    for BoListIoctl
{
    type Args = uapi::BoList;
    type Input = BoListInput;
    type Answer = ();

    const COMMAND: u32 = uapi::read_write::<Self::Args>(uapi::BO_LIST_NR);

    const NAME: &'static CStr = c"AMDGPU_BO_LIST";

    fn call(file: &OpenDrmFile<'_, D>, args: &mut Self::Args, input: &BoListInput) -> Result {
        let lists = file.data().bo_lists();
        let (operation, number) = (args.wanted().operation, args.wanted().list_handle);
        let number = match operation {
            bo_list_op::CREATE => lists.add(BoList::new(file, input)?)?,
            bo_list_op::UPDATE => {
                let list = BoList::new(file, input)?;
                drop(lists.replace(number, list).ok_or(ENOENT)?);
                number
            }
            bo_list_op::DESTROY => {
                // As with amdgpu, there need not be one.
                drop(lists.remove(number));
                0
            }
            _ => return Err(EINVAL),
        };
        args.answer(number);
        Ok(())
    }
}
