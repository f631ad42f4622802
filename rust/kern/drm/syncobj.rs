// SPDX-License-Identifier: GPL-2.0
//! Sync objects: places for a fence, or for a timeline of fences, which processes name by handle
//! and share by descriptor. DRM has the ioctls for them.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*, sync::aref::ARef};

use crate::{
    ffi,
    kern::{
        drm::{file::OpenDrmFile, DrmDriver},
        fence::Fence,
    },
};

/// A reference to a sync object.
///
/// # Invariants
///
/// It is a valid `struct drm_syncobj`, of which this has a reference.
pub(crate) struct Syncobj(NonNull<ffi::drm_syncobj>);

impl Drop for Syncobj {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ffi::rkfd_drm_syncobj_put(self.0.as_ptr()) };
    }
}

impl Syncobj {
    /// A new sync object with `fence`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(fence: &Fence) -> Result<Self> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: The fence is valid, and the object takes a reference of its own.
        to_result(unsafe { ffi::drm_syncobj_create(&mut raw, 0, fence.as_raw()) })?;
        // INVARIANT: The new object comes with a reference.
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }

    /// Gives the calling task a descriptor of the object.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the task has too many open files; `ENFILE` if the system has; `ENOMEM`.
    pub(crate) fn install(&self) -> Result<u32> {
        let mut fd = -1;
        // SAFETY: Valid by the type invariant; the file takes a reference of its own.
        to_result(unsafe { ffi::drm_syncobj_get_fd(self.0.as_ptr(), &mut fd) })?;
        u32::try_from(fd).map_err(|_| EBADF)
    }
}

/// A node of a timeline, which is allocated before a job is submitted.
struct TimelineNode(NonNull<ffi::dma_fence_chain>);

impl TimelineNode {
    fn new() -> Result<Self> {
        // SAFETY: Always allowed in a thread.
        let raw = unsafe { ffi::rkfd_dma_fence_chain_alloc() };
        Ok(Self(NonNull::new(raw).ok_or(ENOMEM)?))
    }

    fn into_raw(self) -> *mut ffi::dma_fence_chain {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for TimelineNode {
    fn drop(&mut self) {
        // SAFETY: It was allocated here, and no fence is initialized in it.
        unsafe { ffi::rkfd_dma_fence_chain_free(self.0.as_ptr()) };
    }
}

/// A place in a sync object for the fence of a job that is still to be submitted.
pub(crate) struct SyncobjPlace {
    syncobj: Syncobj,
    /// A point of its timeline, and the node for it. Without, the fence takes the place of all that
    /// the object has.
    point: Option<(TimelineNode, u64)>,
}

impl SyncobjPlace {
    /// Puts `fence` there. Allocates nothing.
    pub(crate) fn put(self, fence: &Fence) {
        let syncobj = self.syncobj.0.as_ptr();
        match self.point {
            // SAFETY: The object and the fence are valid. The node is not used yet, and belongs to
            // the object from here on.
            Some((node, point)) => unsafe {
                ffi::drm_syncobj_add_point(syncobj, node.into_raw(), fence.as_raw(), point);
            },
            // SAFETY: As above; the object takes a reference of its own.
            None => unsafe { ffi::drm_syncobj_replace_fence(syncobj, fence.as_raw()) },
        }
    }
}

impl<D: DrmDriver> OpenDrmFile<'_, D> {
    /// The fence at `point` of the sync object `handle`; point 0 is the object's last one. `flags`
    /// are those of `DRM_IOCTL_SYNCOBJ_WAIT`: with `WAIT_FOR_SUBMIT` a fence that is still to come
    /// is waited for, five seconds at most.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such object; `EINVAL` if it has no fence there, and for other flags;
    /// `ETIME` if no fence came; `ERESTARTSYS` on a signal.
    pub(crate) fn syncobj_fence(&self, handle: u32, point: u64, flags: u64) -> Result<ARef<Fence>> {
        let mut fence = core::ptr::null_mut();
        // SAFETY: The file is open. No lock is held that a signal of the fence may need.
        to_result(unsafe {
            ffi::drm_syncobj_find_fence(self.as_raw(), handle, point, flags, &mut fence)
        })?;
        let fence = NonNull::new(fence.cast::<Fence>()).ok_or(EINVAL)?;
        // SAFETY: The fence comes with a reference.
        Ok(unsafe { ARef::from_raw(fence) })
    }

    /// A place at `point` of the timeline of the sync object `handle`, or, if that is 0, the only
    /// one.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such object; `ENOMEM`.
    pub(crate) fn syncobj_place(&self, handle: u32, point: u64) -> Result<SyncobjPlace> {
        // SAFETY: The file is open.
        let raw = unsafe { ffi::drm_syncobj_find(self.as_raw(), handle) };
        // INVARIANT: The object comes with a reference.
        let syncobj = Syncobj(NonNull::new(raw).ok_or(EINVAL)?);
        let point = match point {
            0 => None,
            point => Some((TimelineNode::new()?, point)),
        };
        Ok(SyncobjPlace { syncobj, point })
    }

    /// Creates a handle of `syncobj`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `ENOSPC` if there is no free handle.
    pub(crate) fn create_syncobj_handle(&self, syncobj: &Syncobj) -> Result<u32> {
        let mut handle = 0;
        // SAFETY: The file is open, and the object valid; the handle takes a reference of its own.
        to_result(unsafe {
            ffi::drm_syncobj_get_handle(self.as_raw(), syncobj.0.as_ptr(), &mut handle)
        })?;
        Ok(handle)
    }
}
