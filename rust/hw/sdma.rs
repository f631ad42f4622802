// SPDX-License-Identifier: GPL-2.0
//! SDMA v4: what a driver puts into a ring, the ring's arithmetic, and the
//! seats of an engine's queues.

pub mod copy;
pub mod described;
pub mod engines;
pub mod follow;
pub mod length;
pub mod packet;
pub mod ring;
pub mod seat;
