// SPDX-License-Identifier: GPL-2.0
//! The hardware's definitions as pure data: no kernel, no I/O, no `unsafe`. kbuild and cargo both
//! build it.
//!
//! Addresses are `u64` bytes unless a name says otherwise; "dword" is 32 bits. Nothing here
//! allocates or blocks, so every function may be called in any context.
// kbuild gives the attribute on the command line and warns of a second one.
#![cfg_attr(not(MODULE), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod aql;
pub mod asic;
pub mod bits;
pub mod cleaner;
pub mod context_id;
pub mod cp_doorbells;
pub mod criu;
pub mod debug;
pub mod discovery;
pub mod doorbell;
pub mod exceptions;
pub mod faults;
pub mod firmware;
pub mod flush;
pub mod ih;
pub mod ip;
pub mod kernel_queue;
pub mod latency_average;
pub mod mqd;
pub mod no_retry;
pub mod partition;
pub mod pin_state;
pub mod pm4;
pub mod psp;
pub mod pte;
pub mod pump;
pub mod queue;
pub mod runlist_steps;
pub mod sdma;
pub mod seat;
pub mod share;
pub mod smu;
pub mod surroundings;
pub mod svm;
pub mod topology;
pub mod trap;
pub mod va;
pub mod vbios;
pub mod vram_backing;
pub mod vram_fairness;
pub mod wait_line;
pub mod xgmi;
pub mod xnack_mix;
