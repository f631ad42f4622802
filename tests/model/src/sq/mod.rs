// SPDX-License-Identifier: GPL-2.0
//! The shader engines: dispatches, and the threads that execute their groups.
//!
//! For the author of a driver:
//!
//! - *A dispatch* has all its groups before it is over; one queue has one at a time. Groups of
//!   different queues take turns on each worker thread, and a group that began goes on to be
//!   scheduled.
//! - *Placement*: groups go round the CUs that the masks in the queue's MQD leave (dwords 23, 24,
//!   26, 27, 39 to 42; see [`Shape`]; bit n of an engine's mask is the nth that works, not CU n,
//!   and bits beyond those that work have no meaning) and RESOURCE_LIMITS (WAVES_PER_SH, TG_PER_CU,
//!   SIMD_DISABLE) allows, to the first with room: 4 SIMDs of 8 waves and 512 VGPRs, 64 KiB of LDS,
//!   16 groups of more than one wave. HW_ID gives the place of a wave. Scratch is at
//!   ((WAVES / engines) * engine + scoreboard) * WAVESIZE, and a group has to fit into one engine's
//!   slots.
//! - *Memory faults* are the hub's, with CID 8 (vector and all atomics), 9 (instructions, which
//!   need PTE.execute) or 10 (scalar data). After its first fault a dispatch launches no further
//!   groups and is never completed: the queue halts with HQD_ERROR.TC_UTCL1_ERROR when the running
//!   waves have ended, which with a trap handler they need not.
//! - *An encoding that the chip's generation does not have* is TRAPSTS.ILLEGAL_INST; where there is
//!   no trap handler (or in it) it is SQ's interrupt of an error, the group has ended, and the dispatch
//!   counts as one with a fault.
//! - *Other errors of a wave* (LDS beyond its group's, a register that is not allocated) end the
//!   run with a message.
//! - *The trap handler* of the VMID is at SQ_SHADER_TBA, for waves with TRAP_PRESENT; TTMP6 and 8
//!   to 11 are set at launch where SPI_GDBG_PER_VMID_CNTL.TRAP_EN is.
//! - *Saving*: dequeue request 3, and where PERSISTENT_STATE.QSWITCH_MODE is set the schedulers'
//!   ways of taking a queue off. No group is launched any more; with CTX_SAVE_SIZE, each wave gets
//!   TRAPSTS.SAVECTX. When all living waves of a group have sent MSG_SAVEWAVE they get their
//!   records, unless a wave is still being restored. When the last one has gone, the words are put
//!   at MQD + 4096 + CNTL_STACK_OFFSET, and CNTL_STACK_OFFSET, WG_STATE_OFFSET,
//!   PERSISTENT_STATE.RELAUNCH_WAVES (there are waves) and DISP_ACTIVE (groups were not launched;
//!   the first is in RESTART) describe it. An area that is too short or faults is
//!   HQD_ERROR.SR_UTCL1_ERROR, and the queue stays, as it does with waves that have no handler and
//!   do not end, until they are killed (request 2, a reset, ACTIVE = 0). Requests 1 and 2 are as
//!   before: wait, kill.
//! - *Contents*: nothing but code clears VGPRs, SGPRs and LDS. A wave finds there what the last
//!   wave in the same place has left, of whichever process, except for what its launch or its
//!   restore sets. Of a slot's 100 SGPRs these are s0 to s95, FLAT_SCRATCH and VCC. At power-on all
//!   are 0. XNACK_MASK and TTMPs are 0 at a launch.
//! - *The cleaner* (a scheduler's business): see the file `cleaner.rs`.
//! - *Restoring*: a queue that is started with CNTL_STACK_OFFSET below CNTL_STACK_SIZE has its
//!   waves restored before any other work; the two offsets are then the size.

mod cleaner;
mod contents;
pub mod cu;
pub mod grid;
mod host;
pub mod image;
pub mod pool;
mod watch;

pub use grid::Grid;
pub use pool::Pool;

/// Shader engines of the chip that has most, and the most CUs that an engine has.
pub const ENGINES: u32 = 8;
/// See above.
pub const CUS: u32 = 14;

/// The shader engines of a chip, or of one of its XCCs. Each has one array.
#[derive(Debug)]
pub struct Shape {
    /// Their number.
    pub engines: u32,
    /// CUs of an engine, including those that are fused off.
    pub cus: u32,
    /// The CUs of each engine that are fused off, a bit each.
    pub off: &'static [u32],
}

/// As on a card: others are fused off in each engine, two in engine 2, and none in engine 6.
pub const ALDEBARAN: Shape = Shape {
    engines: 8,
    cus: 14,
    off: &[
        1 << 3,
        1 << 8,
        1 << 13 | 1 << 6,
        1 << 4,
        1 << 9,
        1 << 0,
        0,
        1 << 10,
    ],
};

/// One of MI300X's, with 38 of 40 CUs.
pub const XCC: Shape = Shape {
    engines: 4,
    cus: 10,
    off: &[1 << 3, 0, 1 << 7, 0],
};

impl Shape {
    /// The CUs of an engine that are fused off, a bit each.
    pub fn fused_off(&self, engine: u32) -> u32 {
        self.off[engine as usize]
    }

    /// The CU of an engine for a bit of its mask in an MQD: masks number the working ones, from 0
    /// on.
    pub fn by_mask_bit(&self, engine: u32, bit: u32) -> Option<u32> {
        let mut working = (0..self.cus).filter(|cu| self.fused_off(engine) >> cu & 1 == 0);
        working.nth(bit as usize)
    }
}
