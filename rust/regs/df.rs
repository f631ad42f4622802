// SPDX-License-Identifier: GPL-2.0
//! DF 3.6: the fabric between the blocks and memory.

use super::registers;

registers! {
    /// The first region of memory.
    GCM_AON0_DRAM_MEGA_BASE_ADDRESS0 @ 0, 0x64 as gcm_aon0_dram_mega_base_address0 {
        /// The number of channels that it is spread over, as a code.
        INT_LV_NUM_CHAN[6:2]
    };
    /// The hashing of addresses to channels.
    CS_UMC_AON0_DF_GLOBAL_CTRL @ 0, 0xfe as cs_umc_aon0_df_global_ctrl {
        /// By the bits above 64 KiB.
        GLB_HASH_INTLV_CTL_64K[20:20]
        /// By those above 2 MiB.
        GLB_HASH_INTLV_CTL_2M[21:21]
        /// By those above 1 GiB.
        GLB_HASH_INTLV_CTL_1G[22:22]
    };
}
