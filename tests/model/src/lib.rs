// SPDX-License-Identifier: GPL-2.0
//! Register-level model of a gfx90a GPU (MI210, 1002:740f), served over vfio-user.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod clock;
pub mod config;
pub mod control;
pub mod error;
pub mod gpu;
pub mod grbm;
pub mod hub;
pub mod ih;
#[allow(unsafe_code)]
pub mod memory;
pub mod msi;
pub mod nbio;
pub mod regs;
pub mod sdma;
pub mod server;
pub mod summary;
pub mod tlb;
pub mod vm;
pub mod walk;

#[cfg(test)]
mod tests;
