// SPDX-License-Identifier: GPL-2.0
//! The topology files in sysfs: sizes that follow from a chip's facts, and the records whose
//! `Display` is a file's text.

pub mod cus;
pub mod gpu_id;
pub mod record;
