// SPDX-License-Identifier: GPL-2.0
//! Safe wrappers for parts of the kernel that the kernel crate does not cover yet. They follow its
//! shape, so that each can be dropped once upstream has its own.

pub(crate) mod addresses;
pub(crate) mod anon_file;
pub(crate) mod arc_slot;
pub(crate) mod barrier;
pub(crate) mod buddy;
pub(crate) mod chrdev;
pub(crate) mod class;
pub(crate) mod coredump;
mod device;
pub(crate) mod device_memory;
pub(crate) mod dma_buf;
mod dma_map;
pub(crate) mod dma_resource;
pub(crate) mod dma_words;
pub(crate) mod doorbell_map;
pub(crate) mod drm;
pub(crate) mod errno;
pub(crate) mod fence;
pub(crate) mod host;
pub(crate) mod hwmon;
pub(crate) mod killable;
pub(crate) mod kobject;
pub(crate) mod memory;
pub(crate) mod mm_exit;
pub(crate) mod mmio;
pub(crate) mod new_fd;
mod page_list;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod pci_driver;
pub(crate) mod pci_ext;
pub(crate) mod power;
pub(crate) mod ratelimit;
pub(crate) mod rebind;
pub(crate) mod sched;
pub(crate) mod series;
pub(crate) mod task;
pub(crate) mod trace;
pub(crate) mod uaccess_ext;
pub(crate) mod uapi;
pub(crate) mod user_pages;
pub(crate) mod user_range;
pub(crate) mod vma;
pub(crate) mod vram_map;
pub(crate) mod workqueue;
