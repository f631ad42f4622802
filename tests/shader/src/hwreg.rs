// SPDX-License-Identifier: GPL-2.0
//! Hardware registers of a wave, as s_getreg and s_setreg see them.

use crate::decode::bits;
use crate::wave::{Reason, Wave};

/// Bits of STATUS.
pub mod status {
    /// PRIV.
    pub const PRIV: u32 = 1 << 5;
    /// TRAP_EN.
    pub const TRAP_EN: u32 = 1 << 6;
    /// IN_TG.
    pub const IN_TG: u32 = 1 << 11;
    /// VALID.
    pub const VALID: u32 = 1 << 16;
}

/// MODE.GPR_IDX_EN.
pub const GPR_IDX_EN: u32 = 1 << 27;

const MODE: u32 = 1;
const STATUS: u32 = 2;
const TRAPSTS: u32 = 3;
const HW_ID: u32 = 4;
const GPR_ALLOC: u32 = 5;
const LDS_ALLOC: u32 = 6;
const IB_STS: u32 = 7;
const SH_MEM_BASES: u32 = 15;

/// Number, offset and mask of the field that a SIMM16 names.
fn field(simm: u32) -> (u32, u32, u32) {
    let width = bits(simm, 15, 11) + 1;
    (bits(simm, 5, 0), bits(simm, 10, 6), !0 >> (32 - width))
}

/// The field that `simm` names: number\[5:0\], offset\[10:6\], width - 1\[15:11\].
pub fn read(wave: &Wave, simm: u32) -> Result<u32, Reason> {
    let (number, offset, mask) = field(simm);
    let value = match number {
        MODE => wave.mode,
        STATUS => {
            wave.status
                | u32::from(wave.scc)
                | u32::from(wave.exec() == 0) << 9
                | u32::from(wave.vcc() == 0) << 10
        }
        TRAPSTS => wave.trapsts,
        HW_ID => wave.hw_id,
        GPR_ALLOC => wave.gpr_alloc,
        LDS_ALLOC => wave.lds_alloc,
        IB_STS => 0,
        SH_MEM_BASES => u32::from(wave.apertures.private) | u32::from(wave.apertures.shared) << 16,
        _ => return Err(Reason::Unsupported("this hardware register")),
    };
    Ok(value >> offset & mask)
}

/// Writes the field. Rounding other than to nearest even is not supported.
pub fn write(wave: &mut Wave, simm: u32, value: u32) -> Result<(), Reason> {
    let (number, offset, mask) = field(simm);
    let put = |old: u32| old & !(mask << offset) | (value & mask) << offset;
    match number {
        MODE => {
            wave.mode = put(wave.mode);
            check_mode(wave.mode)
        }
        STATUS => {
            wave.scc = put(u32::from(wave.scc)) & 1 == 1;
            Ok(())
        }
        TRAPSTS => {
            wave.trapsts = put(wave.trapsts);
            Ok(())
        }
        _ => Err(Reason::Unsupported("a write of this hardware register")),
    }
}

/// What of MODE there is no support for.
pub fn check_mode(mode: u32) -> Result<(), Reason> {
    if mode & 0xf != 0 {
        return Err(Reason::Unsupported("rounding other than to nearest even"));
    }
    if mode >> 28 & 1 != 0 {
        return Err(Reason::Unsupported("VSKIP"));
    }
    Ok(())
}
