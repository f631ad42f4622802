// SPDX-License-Identifier: GPL-2.0
//! The SDMA engines.

pub(crate) mod atomic;
mod engine;
mod execute;
mod flow;
mod mqd;
mod packet;
mod queue;
mod window;

pub use engine::Engine;
pub use mqd::{Mapping, Place};
