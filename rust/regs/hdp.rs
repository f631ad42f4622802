// SPDX-License-Identifier: GPL-2.0
//! HDP 4.4: the path of the CPU's accesses to VRAM.

use super::registers;

registers! {
    /// Writing 1 drops what the HDP has cached of VRAM.
    HDP_READ_CACHE_INVALIDATE @ 0, 0xd1;
}
