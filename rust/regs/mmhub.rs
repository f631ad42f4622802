// SPDX-License-Identifier: GPL-2.0
//! MMHUB 9.4.2. Its translation registers are in [`super::hub`].

use super::registers;

/// Groups of DAGB registers.
pub(crate) const DAGBS: u32 = 5;
/// Dwords from one group to the next.
pub(crate) const DAGB_STRIDE: u32 = 0x80;

registers! {
    /// The beginning of the hub's translation registers: VM_L2_CNTL.
    VM_L2_CNTL @ 0, 0xb80;
    /// Clients whose snooping is overridden.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE @ 0, 0x5e as dagb_snoop {
        /// SDMA.
        SDMA[15:15]
    };
    /// The value of the override.
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ 0, 0x5f;
}
