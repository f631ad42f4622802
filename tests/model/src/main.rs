// SPDX-License-Identifier: GPL-2.0
//! Register-level model of a gfx90a GPU, served over vfio-user.
fn main() {}
