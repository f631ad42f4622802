// SPDX-License-Identifier: GPL-2.0
//! The driver's state as seen from outside, apart from the trace events of [`crate::kern::trace`].

pub(crate) mod blocks;
pub(crate) mod debugfs;
pub(crate) mod dump;
pub(crate) mod sensors;
pub(crate) mod sysfs;
mod tables;
