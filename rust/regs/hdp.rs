// SPDX-License-Identifier: GPL-2.0
//! HDP 4.4: the path of the CPU's accesses to VRAM.

use super::registers;

registers! {
    /// The target of byte 0 of the VRAM BAR: bits 39:8 of its MC address.
    HDP_NONSURFACE_BASE @ 0, 0x40;
    /// Bits 47:40.
    HDP_NONSURFACE_BASE_HI @ 0, 0x42;
    /// Modes of operation.
    HDP_MISC_CNTL @ 0, 0xd3 as hdp_misc_cntl {
        /// A flush also invalidates cached data.
        FLUSH_INVALIDATE_CACHE[0:0]
        /// The threshold from which reads proceed.
        READ_BUFFER_WATERMARK[15:14]
    };
}
