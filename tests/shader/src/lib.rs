// SPDX-License-Identifier: GPL-2.0
//! The shader core of a gfx90a: executes waves as a Rust interpreter that knows nothing of the device around it.
//!
//! A [`dispatch::Launch`] makes [`group::Group`]s; [`group::Group::run`] executes their waves in turns, with code
//! decoded once ([`code::Code`]) and memory reached through [`env::Host`].
//!
//! Written from the public encodings (the assembler's), from real binaries and from what compilers emit.
//! What it does where these leave a choice:
//! - Memory is done when its instruction is; caches are coherent; wait counters are always zero.
//! - An instruction is whole: lanes go in order where that shows (atomics on one address).
//! - Masks that v_cmp and carries write have zeros for inactive lanes.
//! - Approximations (v_rcp, v_rsq, v_sqrt, v_exp, v_log, v_sin, v_cos) are correctly rounded.
//! - Rounding is to nearest even; another mode stops the wave. f32 denormals are flushed where MODE says so.
//! - min and max behave as with IEEE = 1, also without.
//! - A load that faults gives 0, a store is dropped, and the wave goes on with TRAPSTS.MEM_VIOL.
//! - An unknown encoding, LDS beyond the group's, a register that is not allocated: the wave stops, and says where.
//! - There are no trap handlers: s_trap does nothing unless STATUS.TRAP_EN is set, and stops the wave then.
#![deny(unsafe_code)]
#![warn(missing_docs)]
// Lanes and operands go by number through several rows at once.
#![allow(clippy::needless_range_loop)]

pub mod atomic;
pub mod code;
pub mod decode;
pub mod dispatch;
pub mod env;
pub mod group;
pub mod hwreg;
pub mod kernel;
pub mod lanes;
pub mod lds;
mod lds_ops;
mod matrix;
mod salu;
#[allow(unsafe_code)]
pub mod simd;
mod smem;
pub mod valu;
pub mod vmem;
pub mod wave;
