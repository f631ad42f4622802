// SPDX-License-Identifier: GPL-2.0
//! The driver's own ioctls of a DRM device.
//!
//! DRM copies the caller's structure in (zero-filled if it is shorter than ours) and out.

use kernel::{
    prelude::*,
    str::as_char_ptr_in_const_context,
    transmute::AsBytes,
    uaccess::{UserPtr, UserSlice},
};

use crate::{
    ffi,
    kern::drm::{file::OpenDrmFile, DrmDevice, DrmDriver},
};

/// An ioctl of the driver `D`, which render nodes allow.
pub(crate) trait DrmIoctl<D: DrmDriver> {
    /// Its structure. Every bit pattern must be a value of it.
    type Args: kernel::transmute::FromBytes;

    /// The full command number, as in `DRM_IOCTL_...`.
    const COMMAND: u32;

    /// The data in the caller's memory that the structure points to, or `()`.
    type Input: IoctlInput<Self::Args>;

    /// The result in addition to the structure: `()` or an [`IoctlReply`].
    type Answer: IoctlAnswer<Self::Args>;

    /// The name of the ioctl.
    const NAME: &'static CStr;

    /// Completes `input` with what `file` has to wait for before the call, when an unplug does not
    /// wait yet.
    ///
    /// # Errors
    ///
    /// The call fails with the error.
    fn prepare(_file: &OpenDrmFile<'_, D>, _input: &mut Self::Input) -> Result {
        Ok(())
    }

    /// Executes the ioctl for `file`. The device is not unplugged during the call, and neither is
    /// any other: an unplug of any DRM device waits for its end. So this must not access the
    /// caller's memory: a program can delay an access to its pages for as long as it likes.
    fn call(
        file: &OpenDrmFile<'_, D>,
        args: &mut Self::Args,
        input: &Self::Input,
    ) -> Result<Self::Answer>;
}

/// Data that are read before the call, when an unplug does not wait yet.
pub(crate) trait IoctlInput<A>: Sized {
    /// Reads them. May wait for the caller's pages.
    ///
    /// # Errors
    ///
    /// The call fails with the error.
    fn read(args: &A) -> Result<Self>;
}

impl<A> IoctlInput<A> for () {
    fn read(_args: &A) -> Result {
        Ok(())
    }
}

/// A result that is delivered after the call, when an unplug no longer waits for it.
pub(crate) trait IoctlAnswer<A> {
    /// Delivers it. May wait for the caller's pages, and for as long as the caller likes.
    fn deliver(self, args: &mut A) -> Result<Delivery>;
}

/// What follows when a result was delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The ioctl is done.
    Done,
    /// What the call has found in its way is gone: it is made once more.
    CallAgain,
}

impl<A> IoctlAnswer<A> for () {
    fn deliver(self, _args: &mut A) -> Result<Delivery> {
        Ok(Delivery::Done)
    }
}

/// A result that is copied to the caller's memory.
pub(crate) struct IoctlReply {
    to: UserPtr,
    bytes: KVVec<u8>,
}

impl IoctlReply {
    /// A copy of at most the first `most` bytes of `answer`, for the caller's memory at `address`.
    /// A slice is an answer, too.
    ///
    /// # Errors
    ///
    /// `EFAULT` if `address` is not an address; `ENOMEM` if there is no memory.
    pub(crate) fn new(address: u64, most: usize, answer: &(impl AsBytes + ?Sized)) -> Result<Self> {
        let to = UserPtr::from_addr(usize::try_from(address).map_err(|_| EFAULT)?);
        let all = answer.as_bytes();
        // The copy may live as long as a page of the caller is delayed, so it is charged to the
        // caller's cgroup.
        let mut bytes = KVVec::new();
        bytes.extend_from_slice(all.get(..most).unwrap_or(all), GFP_KERNEL_ACCOUNT)?;
        Ok(Self { to, bytes })
    }

    /// Nothing.
    pub(crate) fn none() -> Self {
        Self {
            to: UserPtr::from_addr(0),
            bytes: KVVec::new(),
        }
    }
}

impl<A> IoctlAnswer<A> for IoctlReply {
    /// Copies the bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the pointer is bad.
    fn deliver(self, _args: &mut A) -> Result<Delivery> {
        UserSlice::new(self.to, self.bytes.len())
            .writer()
            .write_slice(&self.bytes)?;
        Ok(Delivery::Done)
    }
}

/// An entry of the driver's list of ioctls.
#[repr(transparent)]
pub(crate) struct IoctlDescriptor(ffi::drm_ioctl_desc);

impl IoctlDescriptor {
    /// No ioctl: its number fails with `EINVAL`.
    pub(crate) const NONE: Self = Self(ffi::drm_ioctl_desc {
        cmd: 0,
        flags: 0,
        func: None,
        name: core::ptr::null(),
    });

    /// The ioctl `I`.
    pub(crate) const fn new<D: DrmDriver, I: DrmIoctl<D>>() -> Self {
        assert!(kernel::ioctl::_IOC_SIZE(I::COMMAND) == size_of::<I::Args>());
        Self(ffi::drm_ioctl_desc {
            cmd: I::COMMAND,
            flags: ffi::drm_ioctl_flags_DRM_RENDER_ALLOW,
            func: Some(callback::<D, I>),
            name: as_char_ptr_in_const_context(I::NAME),
        })
    }
}

/// `drm_ioctl_desc::func`.
///
/// # Safety
///
/// DRM calls it for an open file `raw` of a device `drm` of driver `D`, with a buffer `data` of the
/// size in `I`'s command.
unsafe extern "C" fn callback<D: DrmDriver, I: DrmIoctl<D>>(
    drm: *mut ffi::drm_device,
    data: *mut c_void,
    raw: *mut ffi::drm_file,
) -> c_int {
    // SAFETY: Only devices of `D` have this ioctl, and DRM holds a reference to the device during
    // the call.
    let dev = unsafe { DrmDevice::<D::Data>::from_raw(drm) };
    // SAFETY: The file is one of that device, and open during the call.
    let file = unsafe { OpenDrmFile::<D>::new(dev, raw) };
    // SAFETY: DRM's buffer is as long as the command says, which is the size of `Args`. It has no
    // other user, and any bytes are a value.
    let args = unsafe { &mut *data.cast::<I::Args>() };
    let answer = I::Input::read(args).and_then(|mut input| {
        I::prepare(&file, &mut input)?;
        loop {
            let answer = dev.while_plugged(|| I::call(&file, args, &input));
            match answer.unwrap_or(Err(ENODEV))?.deliver(args)? {
                Delivery::Done => return Ok(()),
                Delivery::CallAgain => {}
            }
        }
    });
    match answer {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
