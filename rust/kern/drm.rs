// SPDX-License-Identifier: GPL-2.0
//! DRM devices, their open files, their buffer objects and their ioctls.
//!
//! `kernel::drm` exists only where DRM is built in, which is not the case on Debian. This module
//! has the same shape with one difference: a device is generic over its private data alone, not
//! over its driver, so that code below the render node can name the device type.

pub(crate) mod device;
pub(crate) mod exported;
pub(crate) mod fdinfo;
pub(crate) mod file;
pub(crate) mod gem;
pub(crate) mod in_place;
pub(crate) mod ioctl;
pub(crate) mod objects;
mod share;
pub(crate) mod syncobj;
pub(crate) mod uapi;
pub(crate) mod users;

pub(crate) use self::device::{
    DrmDevice, DrmDriver, DrmDriverInfo, DrmRegistration, WedgeRecovery,
};
