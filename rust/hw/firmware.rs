// SPDX-License-Identifier: GPL-2.0
//! The firmware of a GPU: its files, the images in them, which go where in which order, and in which state one finds it.
//!
//! Sources: amdgpu_ucode.h and psp_v13_0.c of Linux 7.2 for headers, numbers and order; what begins a signed image was read in the files
//! themselves, and what its fields mean is inferred.

pub mod file;
pub mod image;
pub mod part;
pub mod plan;
pub mod state;

/// The `N` bytes at `at`; None where there are not so many.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
