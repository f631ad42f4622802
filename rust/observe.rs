// SPDX-License-Identifier: GPL-2.0
//! What can be seen of the driver from outside, beside the trace events of [`crate::kern::trace`].

pub(crate) mod debugfs;
pub(crate) mod dump;
pub(crate) mod sensors;
pub(crate) mod sysfs;
mod tables;
