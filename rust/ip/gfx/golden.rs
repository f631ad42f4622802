// SPDX-License-Identifier: GPL-2.0
//! What AMD wants in registers that no driver chooses ("golden settings": amdgpu's gfx_v9_4_2.c): how tiled memory is laid
//! out, and for each die which channel of L2 is which, without which the compute units' caches do not agree.

use hw::bits::Field;

use crate::regs::df::{
    self, cs_umc_aon0_df_global_ctrl as global, gcm_aon0_dram_mega_base_address0 as mega_base,
};
use crate::regs::gc::{self as regs, gc_throttle_ctrl, gc_throttle_ctrl1, tcp_addr_config as tcp};
use crate::regs::{Register, RegisterWindow};

/// A register, which bits of it, and what is in them.
type Golden = (Register, u32, u32);

/// Of every die.
const ALL: [Golden; 4] = [
    (regs::GB_ADDR_CONFIG, 0xffff_77ff, 0x2a11_4042),
    (regs::TA_CNTL_AUX, 0xffff_feef, 0x010b_0000),
    (regs::TCP_UTCL1_CNTL1, 0xffff_ffff, 0x3080_0400),
    (regs::TCI_CNTL_3, 0xff, 0x20),
];

/// Six channels in each, two in the last.
const SIX: u32 = 0x3fff_ffff;
const TWO: u32 = 0x3ff;

/// By die.
const DIES: [[Golden; 6]; 2] = [
    [
        (regs::TCP_CHAN_STEER_0, SIX, 0x141d_c920),
        (regs::TCP_CHAN_STEER_1, SIX, 0x3b45_8b93),
        (regs::TCP_CHAN_STEER_2, SIX, 0x1a4f_5583),
        (regs::TCP_CHAN_STEER_3, SIX, 0x3177_17f6),
        (regs::TCP_CHAN_STEER_4, SIX, 0x107c_c1e6),
        (regs::TCP_CHAN_STEER_5, TWO, 0x351),
    ],
    [
        (regs::TCP_CHAN_STEER_0, SIX, 0x2591_aa38),
        (regs::TCP_CHAN_STEER_1, SIX, 0x0ac9_e88b),
        (regs::TCP_CHAN_STEER_2, SIX, 0x2bc3_369b),
        (regs::TCP_CHAN_STEER_3, SIX, 0x00fb_74ee),
        (regs::TCP_CHAN_STEER_4, SIX, 0x21f0_a2fe),
        (regs::TCP_CHAN_STEER_5, TWO, 0x49),
    ],
];

/// INT_LV_NUM_CHAN where channels are hashed on gfx90a (amdgpu: df_v3_6_query_hashes).
const HASHED: u32 = 0x1e;
/// Behind GC_CAC_IND_INDEX: PWRBRK_STALL_PATTERN_CTRL, and in it the step at which the brake ends.
const BRAKE_PATTERN: u32 = 0x143;
const BRAKE_END: Field = Field::new(19, 15);
const BRAKE_END_STEP: u32 = 0x12;

/// The compute units' caches see channels of memory as the fabric does: a line that two of L2's channels had would be wrong in one.
pub(super) fn set_channels(gc: &RegisterWindow, df: &RegisterWindow) {
    let spread = df.read(df::GCM_AON0_DRAM_MEGA_BASE_ADDRESS0);
    let hashed = mega_base::INT_LV_NUM_CHAN.get(spread) == HASHED;
    let control = df.read(df::CS_UMC_AON0_DF_GLOBAL_CTRL);
    let fields = [
        (tcp::ENABLE64KHASH, global::GLB_HASH_INTLV_CTL_64K),
        (tcp::ENABLE2MHASH, global::GLB_HASH_INTLV_CTL_2M),
        (tcp::ENABLE1GHASH, global::GLB_HASH_INTLV_CTL_1G),
    ]
    .map(|(own, fabric)| (own, (hashed && fabric.is_set(control)).into()));
    gc.update(regs::TCP_ADDR_CONFIG, &fields);
}

/// Graphics slow down when the board says that it takes too much power (amdgpu: gfx_v9_4_2_set_power_brake_sequence).
pub(super) fn heed_power_brake(gc: &RegisterWindow) {
    gc.write(
        regs::GC_THROTTLE_CTRL,
        gc_throttle_ctrl::PATTERN_MODE.flag(true),
    );
    gc.write(
        regs::GC_THROTTLE_CTRL1,
        gc_throttle_ctrl1::PWRBRK_STALL_EN.flag(true),
    );
    gc.write(regs::GC_CAC_IND_INDEX, BRAKE_PATTERN);
    gc.write(regs::GC_CAC_IND_DATA, BRAKE_END.put(BRAKE_END_STEP));
}

/// Puts them into the registers of the die of this number.
pub(super) fn apply(gc: &RegisterWindow, die: u32) {
    let own = DIES.get(die as usize).into_iter().flatten();
    for &(reg, mask, value) in ALL.iter().chain(own) {
        gc.merge(reg, mask, value);
    }
}
