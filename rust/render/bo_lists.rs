// SPDX-License-Identifier: GPL-2.0
//! Lists of the buffers that jobs use. A list keeps its buffers, whether or not
//! handles to them are left.

use kernel::{
    prelude::*,
    sync::Arc,
    uaccess::{UserPtr, UserSlice},
};

use crate::{
    kern::drm::{
        file::OpenDrmFile,
        ioctl::IoctlInput,
        uapi::{self, bo_list_op, BoListEntry, BoListIn},
        DrmDriver,
    },
    ledger::{LedgerHold, LedgerKind},
    mem::{bo::BoData, job_engine::JobBuffers, GpuMemory},
};

/// The most entries of a list: amdgpu's limit.
const MOST: u32 = 128 * 1024;
/// Bytes of an entry.
const ENTRY: usize = size_of::<BoListEntry>();

/// A list of buffers.
pub(super) struct BoList {
    bos: Arc<JobBuffers>,
    _hold: LedgerHold,
}

/// The entries of a list in the caller's memory. Their priorities have no meaning here.
pub(super) struct BoListInput {
    bytes: KVVec<u8>,
}

impl BoListInput {
    /// Reads the entries that `wanted` names.
    ///
    /// # Errors
    ///
    /// `EINVAL` for entries of another size, and for too many of them; `EFAULT` if they cannot be
    /// read; `ENOMEM`.
    pub(super) fn of(wanted: &BoListIn) -> Result<Self> {
        if wanted.bo_number > MOST || wanted.bo_info_size as usize != ENTRY {
            return Err(EINVAL);
        }
        let from = usize::try_from(wanted.bo_info_ptr).map_err(|_| EFAULT)?;
        let size = wanted.bo_number as usize * ENTRY;
        let mut bytes = KVVec::new();
        UserSlice::new(UserPtr::from_addr(from), size).read_all(&mut bytes, GFP_KERNEL_ACCOUNT)?;
        Ok(Self { bytes })
    }

    /// The handles in it.
    fn handles(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        // The handle is the first field of an entry.
        let entries = self.bytes.chunks_exact(ENTRY);
        entries.map(|entry| {
            entry
                .first_chunk()
                .map_or(0, |first| u32::from_ne_bytes(*first))
        })
    }
}

impl IoctlInput<uapi::BoList> for BoListInput {
    fn read(args: &uapi::BoList) -> Result<Self> {
        let wanted = args.wanted();
        match wanted.operation {
            bo_list_op::CREATE | bo_list_op::UPDATE => Self::of(wanted),
            bo_list_op::DESTROY => Ok(Self {
                bytes: KVVec::new(),
            }),
            _ => Err(EINVAL),
        }
    }
}

impl BoList {
    /// A list of the buffers of `file` that `input` has handles of.
    ///
    /// # Errors
    ///
    /// `ENOENT` for an unknown handle; `ENOMEM`.
    pub(super) fn new<D>(file: &OpenDrmFile<'_, D>, input: &BoListInput) -> Result<Arc<Self>>
    where
        D: DrmDriver<Data = Arc<GpuMemory>, Object = BoData>,
    {
        let handles = input.handles();
        let mut bos = KVVec::with_capacity(handles.len(), GFP_KERNEL_ACCOUNT)?;
        for handle in handles {
            bos.push(file.object(handle)?, GFP_KERNEL_ACCOUNT)?;
        }
        let list = Self {
            bos: Arc::new(JobBuffers::new(bos)?, GFP_KERNEL_ACCOUNT)?,
            _hold: file.device().hw.ledger.hold(LedgerKind::BoLists, 1),
        };
        Ok(Arc::new(list, GFP_KERNEL_ACCOUNT)?)
    }

    /// The buffers.
    pub(super) fn bos(&self) -> &Arc<JobBuffers> {
        &self.bos
    }
}
