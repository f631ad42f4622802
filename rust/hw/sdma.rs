// SPDX-License-Identifier: GPL-2.0
//! SDMA v4: what a driver puts into a ring, and the ring's arithmetic.

pub mod copy;
pub mod engines;
pub mod length;
pub mod packet;
pub mod ring;
