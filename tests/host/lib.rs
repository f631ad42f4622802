// SPDX-License-Identifier: GPL-2.0
//! Tests of the pure crate `hw` on the host: see `tests/`. Here is what several of them use.

pub mod explore;
