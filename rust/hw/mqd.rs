// SPDX-License-Identifier: GPL-2.0
//! Memory queue descriptors: the image of a queue's registers from which hardware or driver loads
//! the queue.

pub mod compute;
pub mod cu_mask;
pub mod hqd;
pub mod saved;
pub mod sdma;
