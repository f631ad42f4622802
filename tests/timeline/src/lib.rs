// SPDX-License-Identifier: GPL-2.0
//! Makes a timeline out of what the kernel traced of a run: a trace that Perfetto shows, and a picture.

mod builder;
pub mod chrome;
pub mod event;
pub mod hip;
pub mod picture;
pub mod timeline;
