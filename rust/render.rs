// SPDX-License-Identifier: GPL-2.0
//! The render node, as far as libdrm_amdgpu and libhsakmt need one: its open files are the address
//! spaces that processes acquire, and buffers are mapped through it.

mod bo_list;
mod bo_lists;
mod contexts;
mod cs;
mod cs_chunks;
mod ctx;
pub(crate) mod driver;
mod fence_to_handle;
pub(crate) mod file;
mod gem;
mod gem_op;
mod info;
mod objects;
mod placed;
mod rings;
mod userptr;
mod vm_op;
mod wait_fences;
