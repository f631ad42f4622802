// SPDX-License-Identifier: GPL-2.0
//! MMHUB. Its translation registers are in [`super::hub`].

use super::registers;

/// Groups of DAGB registers.
pub(crate) const DAGBS: u32 = 5;
/// Dwords from one group to the next.
pub(crate) const DAGB_STRIDE: u32 = 0x80;

registers! {
    /// The beginning of the hub's translation registers: VM_L2_CNTL.
    VM_L2_CNTL @ 0, 0xb80;
    /// The same of MMHUB 1.8.
    VM_L2_CNTL_1_8 @ 0, 0xb60;
    /// Clients whose snooping is overridden.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE @ 0, 0x5e as dagb_snoop {
        /// SDMA.
        SDMA[15:15]
    };
    /// The value of the override.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ 0, 0x5f;
    /// The clients of MMHUB 1.8.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_1_8 @ 0, 0x60;
    /// The value of that override.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE_1_8 @ 0, 0x61;
}
