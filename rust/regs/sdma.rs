// SPDX-License-Identifier: GPL-2.0
//! SDMA 4.4: an engine, and its rings. Ring registers are offsets from the ring's first.

use hw::ip::IpVersion;

use super::{registers, Register};

/// Registers that are elsewhere in other versions of the engine.
pub(crate) struct EnginePlaces {
    /// [`CNTL`].
    pub(crate) cntl: Register,
    /// [`F32_CNTL`].
    pub(crate) f32_cntl: Register,
    /// [`GB_ADDR_CONFIG`], and the same for reads.
    pub(crate) tiles: [Register; 2],
}

/// Of 4.4.0.
const V4_4_0: EnginePlaces = EnginePlaces {
    cntl: CNTL,
    f32_cntl: F32_CNTL,
    tiles: [GB_ADDR_CONFIG, GB_ADDR_CONFIG.nth(1, 1)],
};

/// Of 4.4.2.
const V4_4_2: EnginePlaces = EnginePlaces {
    cntl: Register::new(0, 0x6d),
    f32_cntl: Register::new(0, 0x2),
    tiles: [Register::new(0, 0x6f), Register::new(0, 0x70)],
};

impl EnginePlaces {
    /// Those of an engine of `version`, which the driver knows.
    pub(crate) fn of(version: IpVersion) -> &'static Self {
        match (version.major, version.minor, version.rev) {
            (4, 4, 2) => &V4_4_2,
            _ => &V4_4_0,
        }
    }
}

/// The beginning of the registers of an engine's kernel ring.
pub(crate) const GFX: Register = Register::new(0, 0x80);
/// The beginning of the first RLC queue's registers.
pub(crate) const RLC0: Register = Register::new(0, 0x130);
/// Dwords from one RLC queue to the next.
pub(crate) const RLC_STRIDE: u32 = 0x58;

registers! {
    /// The microcode's next dword when it is loaded. A driver that loads it by registers leaves its
    /// version here.
    UCODE_ADDR @ 0, 0x0;
    /// Engine control.
    CNTL @ 0, 0x1c as cntl {
        /// TRAP packets interrupt.
        TRAP_ENABLE[0:0]
        /// The L1 TLB is enabled.
        UTC_L1_ENABLE[1:1]
        /// Automatic context switches, which RLC queues need.
        AUTO_CTXSW_ENABLE[18:18]
    };
    /// The layout of tiled memory; the next register is the same for reads.
    GB_ADDR_CONFIG @ 0, 0x1e;
    /// Clocks after which a semaphore wait fails; 0 means never.
    SEM_WAIT_FAIL_TIMER_CNTL @ 0, 0x21;
    /// Activity of the engine.
    STATUS_REG @ 0, 0x25 as status_reg {
        /// The engine is idle.
        IDLE[0:0]
    };
    /// The engine's processor.
    F32_CNTL @ 0, 0x2a as f32_cntl {
        /// It is halted, even in the middle of its work.
        HALT[0:0]
        /// It drops its present work.
        RESET[8:8]
    };
    /// Time slice of a queue, for low priority; two more follow.
    PHASE0_QUANTUM @ 0, 0x2c as phase0_quantum {
        /// Log2 of the unit.
        UNIT[3:0]
        /// Units.
        VALUE[23:8]
    };
    /// The same for normal priority.
    PHASE1_QUANTUM @ 0, 0x2d;
    /// Retries of a translation that misses.
    UTCL1_TIMEOUT @ 0, 0x47 as utcl1_timeout {
        /// Reads.
        RD_XNACK_LIMIT[15:0]
        /// Writes.
        WR_XNACK_LIMIT[31:16]
    };
    /// The same for high priority.
    PHASE2_QUANTUM @ 0, 0x4f;

    /// Ring: control.
    RB_CNTL @ 0, 0x0 as rb_cntl {
        /// The ring is enabled.
        RB_ENABLE[0:0]
    };
    /// Ring: address in units of 256 bytes.
    RB_BASE @ 0, 0x1;
    /// Ring: its high part.
    RB_BASE_HI @ 0, 0x2;
    /// Ring: read pointer, bytes.
    RB_RPTR @ 0, 0x3;
    /// Ring: its high part.
    RB_RPTR_HI @ 0, 0x4;
    /// Ring: write pointer, bytes.
    RB_WPTR @ 0, 0x5;
    /// Ring: its high part.
    RB_WPTR_HI @ 0, 0x6;
    /// Ring: polling of a write pointer in memory.
    RB_WPTR_POLL_CNTL @ 0, 0x7;
    /// Ring: the address that the read pointer is written to, high part.
    RB_RPTR_ADDR_HI @ 0, 0x8;
    /// Ring: the same, low part.
    RB_RPTR_ADDR_LO @ 0, 0x9;
    /// Ring: indirect buffers.
    IB_CNTL @ 0, 0xa as ib_cntl {
        /// They are allowed.
        IB_ENABLE[0:0]
    };
    /// Ring: status.
    CONTEXT_STATUS @ 0, 0x11 as context_status {
        /// The engine is at it.
        SELECTED[0:0]
        /// It is idle.
        IDLE[2:2]
    };
    /// Ring: doorbell.
    DOORBELL @ 0, 0x12 as doorbell {
        /// It is enabled.
        ENABLE[28:28]
    };
    /// Ring: the doorbell's offset.
    DOORBELL_OFFSET @ 0, 0x2b;
    /// Ring: a register without effect.
    DUMMY_REG @ 0, 0x31;
    /// Ring: the address at which the write pointer is polled, high part.
    RB_WPTR_POLL_ADDR_HI @ 0, 0x32;
    /// Ring: the same, low part.
    RB_WPTR_POLL_ADDR_LO @ 0, 0x33;
    /// Ring: the write pointer is being changed.
    MINOR_PTR_UPDATE @ 0, 0x35 as minor_ptr_update {
        /// The change is in progress.
        ENABLE[0:0]
    };
}
