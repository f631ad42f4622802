// SPDX-License-Identifier: GPL-2.0
//! Makes a timeline from the kernel's trace of a run: a trace for Perfetto, and a picture.

mod builder;
pub mod chrome;
pub mod event;
pub mod hip;
pub mod picture;
pub mod timeline;
