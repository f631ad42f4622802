// SPDX-License-Identifier: GPL-2.0
//! HDP 4.4: the path of the CPU's accesses to VRAM.

use super::registers;

registers! {
    /// What byte 0 of the VRAM BAR is: bits 39:8 of its MC address.
    HDP_NONSURFACE_BASE @ 0, 0x40;
    /// Bits 47:40.
    HDP_NONSURFACE_BASE_HI @ 0, 0x42;
    /// How it works.
    HDP_MISC_CNTL @ 0, 0xd3 as hdp_misc_cntl {
        /// A flush invalidates what is cached, too.
        FLUSH_INVALIDATE_CACHE[0:0]
        /// From when on reads go ahead.
        READ_BUFFER_WATERMARK[15:14]
    };
}
