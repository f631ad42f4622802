// SPDX-License-Identifier: GPL-2.0
//! The firmware of a GPU: its files, the images in them, the order and the destinations of the
//! images, and the states in which a driver finds the firmware.
//!
//! Sources: amdgpu_ucode.h and psp_v13_0.c of Linux 7.2 for headers, numbers and order. The header
//! of a signed image was read in the files themselves, and the meaning of its fields is inferred.

pub mod file;
pub mod image;
pub mod part;
pub mod plan;
pub mod state;

/// The `N` bytes at `at`; `None` if there are fewer.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
