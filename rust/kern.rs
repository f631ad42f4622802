// SPDX-License-Identifier: GPL-2.0
//! Safe wrappers of what the kernel crate lacks, in its shape, so that each can go when upstream has it.

pub(crate) mod anon_file;
pub(crate) mod barrier;
pub(crate) mod chrdev;
pub(crate) mod class;
mod device;
pub(crate) mod dma_buf;
mod dma_map;
pub(crate) mod dma_words;
pub(crate) mod doorbell_map;
pub(crate) mod drm;
pub(crate) mod errno;
pub(crate) mod fence;
pub(crate) mod host;
pub(crate) mod killable;
pub(crate) mod kobject;
pub(crate) mod memory;
pub(crate) mod mm_exit;
pub(crate) mod mmio;
pub(crate) mod new_fd;
mod page_list;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod pci_ext;
pub(crate) mod ratelimit;
pub(crate) mod sched;
pub(crate) mod series;
pub(crate) mod slot;
pub(crate) mod task;
pub(crate) mod trace;
pub(crate) mod uaccess_ext;
pub(crate) mod uapi;
pub(crate) mod user_pages;
pub(crate) mod user_range;
pub(crate) mod vma;
pub(crate) mod vram_map;
pub(crate) mod workqueue;
