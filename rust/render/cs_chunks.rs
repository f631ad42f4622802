// SPDX-License-Identifier: GPL-2.0
//! The chunks of AMDGPU_CS: the parts of a job, in the caller's memory.

use hw::sdma::packet::IndirectBuffer;
use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
    transmute::FromBytes,
    uaccess::{UserPtr, UserSlice},
};

use super::{bo_lists::BoListInput, contexts::RenderContext, file::RenderFile, rings::ContextRing};
use crate::{
    kern::{
        drm::{
            file::OpenDrmFile,
            ioctl::IoctlInput,
            syncobj::SyncobjPlace,
            uapi::{
                self, chunk_id, BoListIn, CsChunk, CsDependency, CsFence, CsIb, CsPoint,
                CsSemaphore,
            },
            DrmDriver,
        },
        fence::Fence,
        sched, uaccess_ext,
    },
    mem::job_engine::MOST_BUFFERS,
};

/// The most chunks of a job: more than any has that is accepted.
const MOST_CHUNKS: u32 = 256;

/// The most jobs, and the most sync objects, that a job waits for, or that it signals.
const MOST_FENCES: usize = 1024;

/// A job to wait for.
struct JobBefore {
    job: CsDependency,
    /// Its start is enough.
    start: bool,
}

/// The chunks of a job.
pub(super) struct CsInput {
    buffers: KVec<CsIb>,
    after: KVec<JobBefore>,
    /// The sync objects to wait for.
    points: KVec<CsPoint>,
    /// Their fences, once they are there.
    fences: KVec<ARef<Fence>>,
    /// The sync objects that get the fence of the job.
    signals: Option<KVec<CsPoint>>,
    /// The place that tells of the end.
    pub(super) fence: Option<CsFence>,
    /// The list of buffers that comes with the job.
    pub(super) bos: Option<BoListInput>,
}

/// A `T` at the beginning of a chunk.
fn head<T: FromBytes>(chunk: &CsChunk) -> Result<T> {
    let size = size_of::<T>();
    if u64::from(chunk.length_dw) * 4 < size as u64 {
        return Err(EINVAL);
    }
    let from = usize::try_from(chunk.chunk_data).map_err(|_| EFAULT)?;
    UserSlice::new(UserPtr::from_addr(from), size)
        .reader()
        .read()
}

/// Adds the elements of a chunk to `to`, each as `of` makes it of a `T`.
///
/// # Errors
///
/// `EINVAL` if there are too many; `EFAULT` if they cannot be read; `ENOMEM`.
fn read_all<T: FromBytes, U>(chunk: &CsChunk, to: &mut KVec<U>, of: impl Fn(T) -> U) -> Result {
    let count = chunk.length_dw as usize * 4 / size_of::<T>();
    if count > MOST_FENCES - to.len().min(MOST_FENCES) {
        return Err(EINVAL);
    }
    to.reserve(count, GFP_KERNEL_ACCOUNT)?;
    for index in 0..count as u32 {
        let element = uaccess_ext::read_element(chunk.chunk_data, index)?;
        to.push(of(element), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(())
}

/// A sync object without a timeline, as the only point of it.
fn only_point(semaphore: CsSemaphore) -> CsPoint {
    CsPoint {
        handle: semaphore.handle,
        ..CsPoint::default()
    }
}

impl CsInput {
    fn add(&mut self, chunk: &CsChunk) -> Result {
        match chunk.chunk_id {
            chunk_id::IB => {
                if self.buffers.len() >= MOST_BUFFERS {
                    return Err(EINVAL);
                }
                self.buffers.push(head(chunk)?, GFP_KERNEL_ACCOUNT)?;
            }
            chunk_id::FENCE => {
                if self.fence.replace(head(chunk)?).is_some() {
                    return Err(EINVAL);
                }
            }
            chunk_id::BO_HANDLES => {
                let list: BoListIn = head(chunk)?;
                if self.bos.replace(BoListInput::of(&list)?).is_some() {
                    return Err(EINVAL);
                }
            }
            chunk_id::DEPENDENCIES | chunk_id::SCHEDULED_DEPENDENCIES => {
                let start = chunk.chunk_id == chunk_id::SCHEDULED_DEPENDENCIES;
                read_all(chunk, &mut self.after, |job| JobBefore { job, start })?;
            }
            chunk_id::SYNCOBJ_IN => read_all(chunk, &mut self.points, only_point)?,
            chunk_id::SYNCOBJ_TIMELINE_WAIT => {
                read_all(chunk, &mut self.points, |point: CsPoint| point)?;
            }
            chunk_id::SYNCOBJ_OUT | chunk_id::SYNCOBJ_TIMELINE_SIGNAL => {
                if self.signals.is_some() {
                    return Err(EINVAL);
                }
                let signals = self.signals.insert(KVec::new());
                if chunk.chunk_id == chunk_id::SYNCOBJ_OUT {
                    read_all(chunk, signals, only_point)?;
                } else {
                    read_all(chunk, signals, |point: CsPoint| point)?;
                }
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    /// Finds the fences of the sync objects to wait for. Waits for those that are still to come, if
    /// the caller says so.
    ///
    /// # Errors
    ///
    /// Those of [`OpenDrmFile::syncobj_fence`]; `ENOMEM`.
    pub(super) fn find_fences<D: DrmDriver>(&mut self, file: &OpenDrmFile<'_, D>) -> Result {
        self.fences.reserve(self.points.len(), GFP_KERNEL_ACCOUNT)?;
        for wanted in &self.points {
            let fence = file.syncobj_fence(wanted.handle, wanted.point, wanted.flags.into())?;
            self.fences.push(fence, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(())
    }

    /// The fences to wait for: those of sync objects, and of jobs of `file`, without those that
    /// were done long ago.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown context or ring, or a job that is still to come; the error of a job
    /// of such a ring that has failed; those of [`RenderContext::ring`].
    pub(super) fn after(&self, file: &RenderFile) -> Result<KVec<ARef<Fence>>> {
        let most = self.fences.len() + self.after.len();
        let mut fences = KVec::with_capacity(most, GFP_KERNEL_ACCOUNT)?;
        fences.extend_from_slice(&self.fences, GFP_KERNEL_ACCOUNT)?;
        for JobBefore { job, start } in &self.after {
            let ring = (job.ip_type, job.ip_instance, job.ring);
            if let Some(fence) = file.job_fence(job.ctx_id, ring, job.handle)? {
                let fence = if *start {
                    sched::started(&fence)
                } else {
                    fence
                };
                fences.push(fence, GFP_KERNEL_ACCOUNT)?;
            }
        }
        Ok(fences)
    }

    /// The places in sync objects for the fence of the job.
    ///
    /// # Errors
    ///
    /// Those of [`OpenDrmFile::syncobj_place`].
    pub(super) fn places<D: DrmDriver>(
        &self,
        file: &OpenDrmFile<'_, D>,
    ) -> Result<KVec<SyncobjPlace>> {
        let signals = self.signals.as_deref().unwrap_or_default();
        let mut places = KVec::with_capacity(signals.len(), GFP_KERNEL_ACCOUNT)?;
        for wanted in signals {
            let place = file.syncobj_place(wanted.handle, wanted.point)?;
            places.push(place, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(places)
    }

    /// The ring of all its indirect buffers.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are none, or for several rings; as [`RenderContext::ring`].
    pub(super) fn ring(
        &self,
        file: &RenderFile,
        context: &RenderContext,
    ) -> Result<Arc<ContextRing>> {
        let first = self.buffers.first().ok_or(EINVAL)?;
        let ring = |ib: &CsIb| (ib.ip_type, ib.ip_instance, ib.ring);
        if self.buffers.iter().any(|ib| ring(ib) != ring(first)) {
            return Err(EINVAL);
        }
        file.ring(context, ring(first))
    }

    /// The indirect buffers.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that is too long, or for an engine that does not exist; `ENOMEM`.
    pub(super) fn buffers(&self) -> Result<KVec<IndirectBuffer>> {
        let mut buffers = KVec::with_capacity(self.buffers.len(), GFP_KERNEL_ACCOUNT)?;
        for ib in &self.buffers {
            if ib.flags & uapi::IB_FLAG_CE != 0 {
                return Err(EINVAL);
            }
            let buffer = IndirectBuffer::new(ib.va_start, ib.ib_bytes / 4).ok_or(EINVAL)?;
            buffers.push(buffer, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(buffers)
    }
}

impl IoctlInput<uapi::Cs> for CsInput {
    fn read(args: &uapi::Cs) -> Result<Self> {
        let wanted = args.wanted();
        if wanted.num_chunks == 0 || wanted.num_chunks > MOST_CHUNKS {
            return Err(EINVAL);
        }
        let mut input = Self {
            buffers: KVec::new(),
            after: KVec::new(),
            points: KVec::new(),
            fences: KVec::new(),
            signals: None,
            fence: None,
            bos: None,
        };
        for index in 0..wanted.num_chunks {
            let at: u64 = uaccess_ext::read_element(wanted.chunks, index)?;
            input.add(&uaccess_ext::read_element(at, 0)?)?;
        }
        Ok(input)
    }
}
