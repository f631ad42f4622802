// SPDX-License-Identifier: GPL-2.0
//! The shader core of a gfx90a or gfx942 ([`isa`]): an interpreter in Rust that executes waves,
//! without knowledge of the device around it.
//!
//! A [`dispatch::Launch`] makes [`group::Group`]s; [`group::Group::run`] executes their waves by
//! turns, with code decoded once ([`code::Code`]) and memory reached through [`env::Host`].
//!
//! Written from the public encodings (the assembler's), from real binaries and from compilers'
//! output. Where these leave a choice, it was made so:
//! - Memory is done when its instruction is; caches are coherent; wait counters are always zero.
//! - An instruction is whole: lanes go in order where that shows (atomics on one address).
//! - Masks that v_cmp and carries write have zeros for inactive lanes.
//! - Approximations (v_rcp, v_rsq, v_sqrt, v_exp, v_log, v_sin, v_cos) are correctly rounded.
//! - Rounding is to nearest even; another mode stops the wave. Denormals are flushed where MODE says
//!   so. In old multiply-add instructions they are always, and on gfx90a in matrices' factors of 16
//!   bits and dot products of f16.
//! - gfx942's matrices of small floats are the sums that MMA-Sim found in an MI300X. A NaN that
//!   they or conversions of fp8 and bf8 make is 0x7fc00000. Stochastic rounding to a denormal
//!   loses bits before the seed is added. SH_MEM_CONFIG.F8_MODE is taken to be set.
//! - min and max behave as with IEEE = 1, also without.
//! - A load that faults gives 0, a store is dropped, and TRAPSTS.MEM_VIOL is set.
//! - LDS beyond the group's reads as 0, and writes there do nothing; both are counted.
//! - A register that is not allocated, an instruction of the generation that is not supported here:
//!   the wave stops, and reports the place. An encoding that the generation does not have is
//!   TRAPSTS.ILLEGAL_INST.
//! - *The trap handler* is code like other code. With STATUS.TRAP_EN a wave enters it between two
//!   instructions, for s_trap, MEM_VIOL, ILLEGAL_INST, bits of TRAPSTS.EXCP (only s_setreg sets
//!   these) and hits of watch points that MODE enables, MODE.DEBUG_EN and SAVECTX; STATUS.HALT lets
//!   only the last in. Each hit brings it in once, while its bit of TRAPSTS stays: KFDTest's handler
//!   leaves it. Code that cannot be fetched enters it with HALT set. Without TRAP_EN s_trap does
//!   nothing, MEM_VIOL only stays, and a wave without code has ended.
//! - *Saved waves* ([`image`]) have their records when all living waves of the group have sent
//!   MSG_SAVEWAVE.
#![deny(unsafe_code)]
#![warn(missing_docs)]
// Lanes and operands are indexed in several rows at once.
#![allow(clippy::needless_range_loop)]

pub mod atomic;
pub mod code;
pub mod counts;
pub mod decode;
pub mod dispatch;
pub mod env;
mod gaps;
pub mod group;
pub mod hwreg;
pub mod image;
pub mod isa;
pub mod kernel;
pub mod lanes;
pub mod lds;
mod lds_atomic;
mod lds_ops;
mod lds_seldom;
mod lds_words;
mod matrix;
mod salu;
#[allow(unsafe_code)]
pub mod simd;
mod smem;
pub mod trap;
pub mod valu;
pub mod vmem;
mod vmem_atomic;
mod vmem_buffer;
mod vmem_words;
pub mod wave;
mod words;
