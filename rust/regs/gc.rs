// SPDX-License-Identifier: GPL-2.0
//! GC 9.4.2. Its hub's registers are in [`super::hub`].

use super::registers;

registers! {
    /// Where GFXHUB's registers begin: VM_L2_CNTL.
    VM_L2_CNTL @ 0, 0x840;
    /// Address swizzle.
    GB_ADDR_CONFIG @ 0, 0x63e;
    /// The latched clock.
    RLC_GPU_CLOCK_COUNT_LSB @ 1, 0x4c24;
    /// Its high part.
    RLC_GPU_CLOCK_COUNT_MSB @ 1, 0x4c25;
    /// Writing it latches the GPU's clock.
    RLC_CAPTURE_GPU_CLOCK_COUNT @ 1, 0x4c26 as rlc_capture_gpu_clock_count {
        /// Latch.
        CAPTURE[0:0]
    };
}
