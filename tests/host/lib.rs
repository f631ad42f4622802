// SPDX-License-Identifier: GPL-2.0
//! Tests of the pure crate `hw` on the host: see `tests/`.
