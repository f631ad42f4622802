// SPDX-License-Identifier: GPL-2.0
//! The hardware's blocks, a file each: what they are told and in which order. Registers are in [`crate::regs`].

pub(crate) mod athub;
pub(crate) mod clock;
pub(crate) mod gfx;
pub(crate) mod gmc;
pub(crate) mod hdp;
pub(crate) mod hub;
pub(crate) mod ih;
pub(crate) mod nbio;
pub(crate) mod sdma;
pub(crate) mod vmid;
