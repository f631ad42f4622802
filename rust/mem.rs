// SPDX-License-Identifier: GPL-2.0
//! Memory: who has VRAM and system memory, buffers, and the GPU's address spaces.
//!
//! Locks: a [`vm::Vm`]'s, and below it those of the allocators. Nothing here may be called where fences are
//! waited for by others: memory is allocated under these locks.

pub(crate) mod account;
pub(crate) mod bo;
pub(crate) mod evict;
pub(crate) mod gart;
pub(crate) mod group;
mod import;
pub(crate) mod note;
pub(crate) mod placement;
mod spans;
mod user;
pub(crate) mod view;
pub(crate) mod vm;
pub(crate) mod vram;
