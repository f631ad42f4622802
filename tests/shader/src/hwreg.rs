// SPDX-License-Identifier: GPL-2.0
//! Hardware registers of a wave, in the form of s_getreg and s_setreg.

use crate::decode::bits;
use crate::env::Host;
use crate::wave::{sgpr, trapsts, Reason, Wave};

/// Bits of STATUS.
pub mod status {
    /// SCC.
    pub const SCC: u32 = 1;
    /// PRIV.
    pub const PRIV: u32 = 1 << 5;
    /// TRAP_EN.
    pub const TRAP_EN: u32 = 1 << 6;
    /// EXECZ and VCCZ.
    pub const ZEROS: u32 = 3 << 9;
    /// IN_TG.
    pub const IN_TG: u32 = 1 << 11;
    /// HALT.
    pub const HALT: u32 = 1 << 13;
    /// VALID.
    pub const VALID: u32 = 1 << 16;
    /// COND_DBG_USER.
    pub const COND_DBG_USER: u32 = 1 << 20;
    /// COND_DBG_SYS.
    pub const COND_DBG_SYS: u32 = 1 << 21;
}

/// MODE.DEBUG_EN.
pub const DEBUG_EN: u32 = 1 << 11;
/// MODE.EXCP_EN for the bits of TRAPSTS.EXCP, and for address watches.
pub const EXCP_EN: u32 = trapsts::EXCP << 12;
/// See above.
pub const WATCH_EN: u32 = 1 << 19;
/// MODE.GPR_IDX_EN.
pub const GPR_IDX_EN: u32 = 1 << 27;
/// MODE.VSKIP.
const VSKIP: u32 = 1 << 28;

const MODE: u32 = 1;
const STATUS: u32 = 2;
const TRAPSTS: u32 = 3;
const HW_ID: u32 = 4;
const GPR_ALLOC: u32 = 5;
const LDS_ALLOC: u32 = 6;
const IB_STS: u32 = 7;
const SH_MEM_BASES: u32 = 15;
const TBA_LO: u32 = 16;
const TBA_HI: u32 = 17;
const TMA_LO: u32 = 18;
const TMA_HI: u32 = 19;
/// Of gfx942: the XCC, and what the sampler of PCs left (SQ_PERF_SNAPSHOT_DATA, DATA1, PC_LO,
/// PC_HI).
const XCC_ID: u32 = 20;
const SNAPSHOT_PC_HI: u32 = 24;

/// Number, offset and mask of the field that a SIMM16 names.
fn field(simm: u32) -> (u32, u32, u32) {
    let width = bits(simm, 15, 11) + 1;
    (bits(simm, 5, 0), bits(simm, 10, 6), !0 >> (32 - width))
}

/// The field that `simm` names: number\[5:0\], offset\[10:6\], width - 1\[15:11\]. The trap
/// handler's registers are readable only there.
pub fn read(wave: &Wave, host: &dyn Host, simm: u32) -> Result<u32, Reason> {
    let (number, offset, mask) = field(simm);
    if matches!(number, TBA_LO..=TMA_HI) && !wave.is_privileged() {
        return Err(Reason::Register("TBA or TMA, outside of a trap handler,"));
    }
    let low = |address: u64| (address >> 8) as u32;
    let high = |address: u64| (address >> 40) as u32 & 0xff;
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
        IB_STS => wave.ib_sts,
        TBA_LO => low(host.trap_handler()),
        TBA_HI => high(host.trap_handler()),
        TMA_LO => low(host.trap_memory()),
        TMA_HI => high(host.trap_memory()),
        SH_MEM_BASES => u32::from(wave.apertures.private) | u32::from(wave.apertures.shared) << 16,
        _ => return Err(Reason::Unsupported("this hardware register")),
    };
    Ok(value >> offset & mask)
}

/// Returns whether gfx942 has a register of that number, and gfx90a has not.
pub fn is_of_gfx942(simm: u32) -> bool {
    matches!(field(simm).0, XCC_ID..=SNAPSHOT_PC_HI)
}

/// [`read`] of such a register. PCs are not sampled.
pub fn read_of_gfx942(host: &dyn Host, simm: u32) -> u32 {
    let (number, offset, mask) = field(simm);
    let value = match number {
        XCC_ID => host.xcc() & 0xf,
        _ => 0,
    };
    value >> offset & mask
}

/// Writes the field. Rounding other than to nearest even is not supported. Of STATUS only the trap
/// handler writes more than SCC, and PRIV, EXECZ and VCCZ are read-only; SAVECTX and IB_STS are the
/// trap handler's too.
pub fn write(wave: &mut Wave, simm: u32, value: u32) -> Result<(), Reason> {
    let (number, offset, mask) = field(simm);
    let put = |old: u32| old & !(mask << offset) | (value & mask) << offset;
    match number {
        MODE => {
            wave.mode = put(wave.mode);
            check_mode(wave.mode)
        }
        STATUS => {
            let fixed = if wave.is_privileged() {
                status::PRIV | status::ZEROS
            } else {
                !status::SCC
            };
            let value = put(wave.status | u32::from(wave.scc));
            wave.scc = value & status::SCC != 0;
            wave.status = wave.status & fixed | value & !fixed & !status::SCC;
            Ok(())
        }
        TRAPSTS => {
            let fixed = if wave.is_privileged() {
                0
            } else {
                trapsts::SAVECTX
            };
            wave.trapsts = wave.trapsts & fixed | put(wave.trapsts) & !fixed;
            Ok(())
        }
        IB_STS if wave.is_privileged() => {
            wave.ib_sts = put(wave.ib_sts);
            Ok(())
        }
        _ => Err(Reason::Unsupported("a write of this hardware register")),
    }
}

/// Bits of M0\[15:12\]: the operands whose VGPR number is increased by M0\[7:0\] with
/// MODE.GPR_IDX_EN.
pub const INDEX_SRC0: u32 = 1;
/// See above.
pub const INDEX_DST: u32 = 8;

/// The increase of the VGPR number of an operand.
pub fn index(wave: &Wave, operand: u32) -> u16 {
    let m0 = wave.sgpr[sgpr::M0];
    if wave.mode & GPR_IDX_EN != 0 && m0 >> 12 & operand != 0 {
        (m0 & 0xff) as u16
    } else {
        0
    }
}

/// s_setvskip.
pub fn set_vskip(wave: &mut Wave, skips: bool) -> Result<(), Reason> {
    wave.mode &= !VSKIP;
    if skips {
        wave.mode |= VSKIP;
    }
    check_mode(wave.mode)
}

/// Checks MODE for unsupported settings.
pub fn check_mode(mode: u32) -> Result<(), Reason> {
    if mode & 0xf != 0 {
        return Err(Reason::Unsupported("rounding other than to nearest even"));
    }
    if mode & VSKIP != 0 {
        return Err(Reason::Unsupported("VSKIP"));
    }
    Ok(())
}
