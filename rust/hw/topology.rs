// SPDX-License-Identifier: GPL-2.0
//! The contents of the topology files in sysfs: facts of each ASIC, sizes that follow from them,
//! and the records whose `Display` is a file's text.

pub mod cus;
pub mod gpu_id;
pub mod record;
