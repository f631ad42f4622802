// SPDX-License-Identifier: GPL-2.0
//! Safe wrappers of what the kernel crate lacks, in its shape, so that each can go when upstream has it.

mod device;
mod dma_map;
pub(crate) mod drm;
pub(crate) mod fence;
mod page_list;
pub(crate) mod pages;
pub(crate) mod sched;
pub(crate) mod trace;
pub(crate) mod user_pages;
