// SPDX-License-Identifier: GPL-2.0
//! The values that AMD prescribes for registers about which no driver decides ("golden settings":
//! amdgpu's gfx_v9_4_2.c): how tiled memory is laid out, and for each die the order of the channels
//! of L2. Without the latter the compute units' caches do not agree. The values are the chip's
//! ([`GfxGolden`]).

use hw::asic::{GfxGolden, GoldenRegister};
use hw::bits::Field;

use crate::regs::df::{
    self, cs_umc_aon0_df_global_ctrl as global, gcm_aon0_dram_mega_base_address0 as mega_base,
};
use crate::regs::gc::{self as regs, gc_throttle_ctrl, gc_throttle_ctrl1, tcp_addr_config as tcp};
use crate::regs::{Register, RegisterWindow};

/// INT_LV_NUM_CHAN where channels are hashed (amdgpu: df_v3_6_query_hashes).
const HASHED: u32 = 0x1e;
/// PWRBRK_STALL_PATTERN_CTRL, an index of GC_CAC_IND_INDEX, and in it the step at which the brake
/// ends.
const BRAKE_PATTERN: u32 = 0x143;
const BRAKE_END: Field = Field::new(19, 15);
const BRAKE_END_STEP: u32 = 0x12;

/// Sets the compute units' caches to distribute addresses over channels of memory as the fabric
/// does: a line that two of L2's channels had would be wrong in one.
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

/// Has graphics slow down when the board signals that it takes too much power (amdgpu:
/// gfx_v9_4_2_set_power_brake_sequence).
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

/// Writes the settings of `golden` for die `die`.
pub(super) fn apply(gc: &RegisterWindow, golden: &GfxGolden, die: u32) {
    for setting in golden.of_die(die) {
        gc.merge(place(setting.register), setting.mask, setting.value);
    }
}

/// The place of a register.
fn place(register: GoldenRegister) -> Register {
    match register {
        GoldenRegister::GbAddrConfig => regs::GB_ADDR_CONFIG,
        GoldenRegister::TaCntlAux => regs::TA_CNTL_AUX,
        GoldenRegister::TcpUtcl1Cntl1 => regs::TCP_UTCL1_CNTL1,
        GoldenRegister::TcpUtcl1Cntl2 => regs::TCP_UTCL1_CNTL2,
        GoldenRegister::TciCntl3 => regs::TCI_CNTL_3,
        GoldenRegister::TcpChanSteer0 => regs::TCP_CHAN_STEER_0,
        GoldenRegister::TcpChanSteer1 => regs::TCP_CHAN_STEER_1,
        GoldenRegister::TcpChanSteer2 => regs::TCP_CHAN_STEER_2,
        GoldenRegister::TcpChanSteer3 => regs::TCP_CHAN_STEER_3,
        GoldenRegister::TcpChanSteer4 => regs::TCP_CHAN_STEER_4,
        GoldenRegister::TcpChanSteer5 => regs::TCP_CHAN_STEER_5,
    }
}
