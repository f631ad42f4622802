// SPDX-License-Identifier: GPL-2.0
//! A DRM device: its private data, and its registration with user space.

use core::{
    alloc::Layout,
    mem::{offset_of, MaybeUninit},
    ops::Deref,
    ptr::NonNull,
};

use kernel::{
    alloc::allocator::Kmalloc,
    device,
    error::{from_err_ptr, to_result},
    prelude::*,
    str::as_char_ptr_in_const_context,
    sync::aref::{ARef, AlwaysRefCounted},
    sync::Arc,
    types::Opaque,
};

use crate::{
    ffi,
    kern::{
        self,
        drm::{
            fdinfo, file,
            gem::{GemDriverObject, GemObject},
            ioctl, share,
        },
        render_node::RenderNode,
        task::TaskIdentity,
    },
};

/// The reply to `DRM_IOCTL_VERSION`.
pub(crate) struct DrmDriverInfo {
    /// Major version of the interface.
    pub(crate) major: i32,
    /// Minor version of the interface.
    pub(crate) minor: i32,
    /// Patch level.
    pub(crate) patchlevel: i32,
    /// The driver's name.
    pub(crate) name: &'static CStr,
    /// A description for people.
    pub(crate) desc: &'static CStr,
}

/// The recovery method for a hung device (drm-uapi, "Device Wedging").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WedgeRecovery {
    /// Nothing to do: it was reset.
    None,
    /// Unbind it, and bind it again.
    Rebind,
}

/// Description of a driver: the types behind its devices and files, its version and its ioctls.
pub(crate) trait DrmDriver: Sized + 'static {
    /// Private data of a device.
    type Data: Send + Sync + 'static;

    /// Private data of an open file.
    type File: Send + Sync + 'static;

    /// The driver's buffer objects.
    type Object: GemDriverObject<Data = Self::Data>;

    /// Name and version.
    const INFO: DrmDriverInfo;

    /// The driver's own ioctls, indexed by number minus `DRM_COMMAND_BASE`.
    const IOCTLS: &'static [ioctl::IoctlDescriptor];

    /// Makes the private data of a file that is being opened. `open` fails with its error.
    fn open(dev: &DrmDevice<Self::Data>) -> Result<Arc<Self::File>>;

    /// Prints the driver's lines about an open file into fdinfo.
    fn fdinfo(file: &Arc<Self::File>, out: &mut fdinfo::FdinfoPrinter);

    /// `file` gets its first handle to `object`. Creating the handle fails with the error. Called
    /// with locks of DRM held.
    fn open_object(file: &Arc<Self::File>, object: &GemObject<Self::Object>) -> Result;

    /// `file` is about to be closed: no call is under way, and it still has its handles. May sleep.
    fn closing(file: &Arc<Self::File>);

    /// The last handle of `file` to `object` is closed, or `file` is.
    fn close_object(file: &Arc<Self::File>, object: &GemObject<Self::Object>);
}

/// A reference-counted DRM device with private data `T`.
///
/// # Invariants
///
/// `dev` is an initialized `struct drm_device`, and the allocation is the one that
/// `__drm_dev_alloc` made.
#[repr(C)]
pub(crate) struct DrmDevice<T> {
    dev: Opaque<ffi::drm_device>,
    data: T,
}

/// The `drm_driver` of a driver. One for each driver type is enough, so it is a constant.
struct DrmVtable<D: DrmDriver>(core::marker::PhantomData<D>);

impl<D: DrmDriver> DrmVtable<D> {
    const DRIVER: ffi::drm_driver = ffi::drm_driver {
        open: Some(file::open_callback::<D>),
        postclose: Some(file::postclose_callback::<D>),
        show_fdinfo: Some(fdinfo::show_callback::<D>),
        release: Some(DrmDevice::<D::Data>::release_callback),
        gem_prime_import: Some(share::import_callback::<D>),
        major: D::INFO.major,
        minor: D::INFO.minor,
        patchlevel: D::INFO.patchlevel,
        name: as_char_ptr_in_const_context(D::INFO.name).cast_mut(),
        desc: as_char_ptr_in_const_context(D::INFO.desc).cast_mut(),
        driver_features: ffi::drm_driver_feature_DRIVER_GEM
            | ffi::drm_driver_feature_DRIVER_RENDER
            | ffi::drm_driver_feature_DRIVER_SYNCOBJ
            | ffi::drm_driver_feature_DRIVER_SYNCOBJ_TIMELINE,
        ioctls: D::IOCTLS.as_ptr().cast(),
        num_ioctls: D::IOCTLS.len() as i32,
        fops: file::FOPS.as_ptr(),
        ..pin_init::zeroed()
    };

    /// The same without `release`, for a device whose private data does not exist yet.
    const UNFINISHED: ffi::drm_driver = ffi::drm_driver {
        release: None,
        ..Self::DRIVER
    };
}

impl<T: Send + Sync + 'static> DrmDevice<T> {
    /// Makes a device under `parent` that user space cannot see yet ([`DrmRegistration`] makes it
    /// visible).
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; the error of `data`.
    pub(crate) fn new<D: DrmDriver<Data = T>>(
        parent: &device::Device,
        data: impl PinInit<T, Error>,
    ) -> Result<ARef<Self>> {
        let layout = Kmalloc::aligned_layout(Layout::new::<Self>());

        // SAFETY: `parent` is a valid device, the driver is a promoted constant, and the layout is
        // that of a structure that holds a `drm_device` at the offset.
        let raw = unsafe {
            ffi::__drm_dev_alloc(
                kern::device::as_raw(parent),
                const { &DrmVtable::<D>::UNFINISHED },
                layout.size(),
                offset_of!(Self, dev),
            )
        };
        let this = NonNull::new(from_err_ptr(raw)?)
            .ok_or(ENOMEM)?
            .cast::<Self>();

        // SAFETY: `this` points to the new allocation.
        let drm = unsafe { &raw mut (*this.as_ptr()).dev }.cast::<ffi::drm_device>();

        // SAFETY: `data` is uninitialized memory of this type with no other user. The reference
        // ends with the statement below. The value that it initializes neither moves nor is freed
        // before `release_callback` drops it.
        let place: &'static mut MaybeUninit<T> =
            unsafe { &mut *(&raw mut (*this.as_ptr()).data).cast() };
        if let Err(e) = place.write_pin_init(data) {
            // SAFETY: This is the only reference; without `release`, the private data is not used.
            unsafe { ffi::drm_dev_put(drm) };
            return Err(e);
        }

        // SAFETY: The device has no other user yet.
        unsafe { (*drm).driver = const { &DrmVtable::<D>::DRIVER } };

        // INVARIANT: `__drm_dev_alloc` initialized `dev`. SAFETY: The one reference that the
        // allocation came with becomes the `ARef`'s.
        Ok(unsafe { ARef::from_raw(this) })
    }

    /// Drops the private data, after the last reference is gone.
    extern "C" fn release_callback(drm: *mut ffi::drm_device) {
        // SAFETY: Every device with this callback is a `Self`, whose private data was initialized
        // before the callback was set.
        let this = unsafe { Self::container(drm) };
        // SAFETY: No reference is left. DRM frees the memory itself.
        unsafe { core::ptr::drop_in_place(&raw mut (*this).data) };
    }
}

impl<T> DrmDevice<T> {
    /// The `drm_device` inside.
    pub(super) fn as_raw(&self) -> *mut ffi::drm_device {
        self.dev.get()
    }

    /// The `DrmDevice` around `drm`.
    ///
    /// # Safety
    ///
    /// `drm` must be the `dev` of a `Self`.
    unsafe fn container(drm: *mut ffi::drm_device) -> *mut Self {
        let field: *mut Opaque<ffi::drm_device> = drm.cast();
        // SAFETY: By this function's contract.
        unsafe { kernel::container_of!(field, Self, dev) }
    }

    /// The `DrmDevice` around `drm`.
    ///
    /// # Safety
    ///
    /// `drm` must be the `dev` of a `Self` that lives for `'a`.
    pub(super) unsafe fn from_raw<'a>(drm: *mut ffi::drm_device) -> &'a Self {
        // SAFETY: By this function's contract.
        unsafe { &*Self::container(drm) }
    }

    /// The render node, once the device is registered.
    pub(crate) fn render_node(&self) -> Option<RenderNode> {
        // SAFETY: `render` is set when the device is made, and does not change; it is null without
        // a render node.
        let index = unsafe { (*self.as_raw()).render.as_ref()?.index };
        let minor = u32::try_from(index).ok()?;
        Some(RenderNode { minor })
    }

    /// Sends user space a uevent with `WEDGED=`: the device has hung, and `recovery` says how to
    /// recover it. `PID=` and `TASK=` name the process whose work hung, if it is known and has a
    /// name. The device is registered.
    pub(crate) fn wedged(&self, recovery: WedgeRecovery, culprit: Option<TaskIdentity>) {
        let method = match recovery {
            WedgeRecovery::None => ffi::DRM_WEDGE_RECOVERY_NONE,
            WedgeRecovery::Rebind => ffi::DRM_WEDGE_RECOVERY_REBIND,
        };
        let mut task = culprit.map(|identity| ffi::drm_wedge_task_info {
            pid: identity.pid,
            comm: identity.name.bytes(),
        });
        let task = task.as_mut().map_or(core::ptr::null_mut(), |task| task);
        // SAFETY: The device is valid, and has its nodes; the task is valid, if there is one, and
        // its name ends in a zero. A failure to send the event has no consequence here.
        let _ = unsafe { ffi::drm_dev_wedged_event(self.as_raw(), method, task) };
    }

    /// Runs `f` unless the device is unplugged. An unplug that begins during `f` waits for its end.
    pub(crate) fn while_plugged<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        let mut index = 0;
        // SAFETY: The device is valid by the type invariant.
        if !unsafe { ffi::drm_dev_enter(self.as_raw(), &mut index) } {
            return None;
        }
        let out = f();
        // SAFETY: Ends the section that `drm_dev_enter` began.
        unsafe { ffi::drm_dev_exit(index) };
        Some(out)
    }
}

impl<T> Deref for DrmDevice<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

// SAFETY: The count is the `drm_device`'s, whose `release` drops the private data.
unsafe impl<T> AlwaysRefCounted for DrmDevice<T> {
    fn inc_ref(&self) {
        // SAFETY: A shared reference proves that the count is not zero.
        unsafe { ffi::drm_dev_get(self.as_raw()) };
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: The caller gives up a reference, so the device is valid.
        unsafe { ffi::drm_dev_put(this.as_ref().as_raw()) };
    }
}

// SAFETY: DRM's own structure may be used from any thread, and the data is `Send` and `Sync`.
unsafe impl<T: Send + Sync> Send for DrmDevice<T> {}

// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for DrmDevice<T> {}

/// A device that user space can see. Dropping this unplugs it: new calls fail with `ENODEV`,
/// mappings are removed (an access is a `SIGBUS`), and the data of open files is dropped when they
/// are closed.
pub(crate) struct DrmRegistration<T: Send + Sync + 'static>(ARef<DrmDevice<T>>);

impl<T: Send + Sync + 'static> DrmRegistration<T> {
    /// Creates the nodes of `dev`.
    pub(crate) fn new(dev: ARef<DrmDevice<T>>) -> Result<Self> {
        // SAFETY: The device is fully made, and registered here only.
        to_result(unsafe { ffi::drm_dev_register(dev.as_raw(), 0) })?;
        Ok(Self(dev))
    }

    /// The device.
    pub(crate) fn device(&self) -> &ARef<DrmDevice<T>> {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Drop for DrmRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: The device was registered, and is unregistered only here.
        unsafe { ffi::drm_dev_unplug(self.0.as_raw()) };
    }
}
