// SPDX-License-Identifier: GPL-2.0
//! What the hardware defines, as pure data: no kernel, no I/O, no `unsafe`. kbuild and cargo both build it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
