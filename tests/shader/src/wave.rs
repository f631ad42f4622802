// SPDX-License-Identifier: GPL-2.0
//! A wave: 64 lanes with their registers, and the state for the next instruction.

use crate::counts::{Class, Counts};
use crate::decode::{Lack, Src};
use crate::env::Fault;
use crate::valu::types;

/// Lanes of a wave.
pub const LANES: usize = 64;
/// Rows in front of v0 that instructions keep intermediate values in.
pub const TEMPS: usize = 24;
/// Rows of the copies of scalar operands of sources 0, 1, 2, two rows each.
pub const SPLAT: usize = 0;
/// Rows of sources with modifiers, two rows each.
pub const MODIFIED: usize = 6;
/// Rows of results that are changed before they are stored, two rows.
pub const RESULT: usize = 12;
/// Rows of a packed instruction's sources whose halves are elsewhere or have other signs.
pub const HALVES: usize = 14;

/// SGPR numbers of the scalar registers that have names.
pub mod sgpr {
    /// FLAT_SCRATCH_LO.
    pub const FLAT_SCRATCH: usize = 102;
    /// VCC_LO.
    pub const VCC: usize = 106;
    /// TTMP0.
    pub const TTMP: usize = 108;
    /// M0.
    pub const M0: usize = 124;
    /// EXEC_LO.
    pub const EXEC: usize = 126;
}

/// The scalar registers with names that a SIMD keeps for a wave behind the others.
const NAMED: [usize; 4] = [
    sgpr::FLAT_SCRATCH,
    sgpr::FLAT_SCRATCH + 1,
    sgpr::VCC,
    sgpr::VCC + 1,
];

/// One register of all lanes.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Row(pub [u32; LANES]);

impl Row {
    /// Zeros.
    pub const ZERO: Row = Row([0; LANES]);
}

/// Result of an instruction for its wave.
#[derive(Debug)]
pub enum Flow {
    /// Continues with the instruction at the PC.
    Next,
    /// It waits for the other waves of its group.
    Barrier,
    /// It sleeps for a while.
    Yield,
    /// Nothing was done: its memory is not there yet. The instruction is to be executed anew.
    Replay,
    /// Code may have changed.
    Refetch,
    /// s_endpgm.
    End,
    /// s_endpgm_saved: all of it is in memory.
    Saved,
    /// It cannot go on.
    Stop(Box<Reason>),
}

/// The reason why a wave cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The encoding is not supported.
    #[error("the instruction is not known")]
    Unknown,
    /// An instruction, or a use of one, that is known and not supported.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Its code is not mapped, or not for execution.
    #[error("its code at {0:#x} cannot be fetched")]
    Fetch(u64),
    /// A register that the wave does not have.
    #[error("register {0} is not allocated")]
    Register(&'static str),
    /// A private memory access beyond the stack's descriptor.
    #[error("private offset {0:#x} is outside of the wave's scratch")]
    Scratch(u64),
}

impl Reason {
    /// Returns whether code that a user may write on purpose gets there; then the device reports
    /// it.
    pub fn is_the_users(&self) -> bool {
        matches!(self, Reason::Unknown | Reason::Fetch(_))
    }
}

impl From<Reason> for Flow {
    fn from(reason: Reason) -> Flow {
        Flow::Stop(Box::new(reason))
    }
}

impl From<Lack> for Reason {
    fn from(lack: Lack) -> Reason {
        match lack {
            Lack::Unknown => Reason::Unknown,
            Lack::Unsupported(what) => Reason::Unsupported(what),
        }
    }
}

/// Bits of TRAPSTS.
pub mod trapsts {
    /// EXCP\[6:0\]: floating point and division. The bits of MODE that enable them are 12 higher.
    pub const EXCP: u32 = 0x7f;
    /// MEM_VIOL.
    pub const MEM_VIOL: u32 = 1 << 8;
    /// SAVECTX.
    pub const SAVECTX: u32 = 1 << 10;
    /// ILLEGAL_INST.
    pub const ILLEGAL_INST: u32 = 1 << 11;
    /// Address watches 0, and 1 to 3. MODE bit 19 enables them.
    pub const WATCHES: u32 = 1 << 7 | 7 << 12;
    /// XNACK_ERROR.
    pub const XNACK_ERROR: u32 = 1 << 28;
}

/// State of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has instructions to execute.
    Running,
    /// It waits at s_barrier, with the PC behind it.
    Barrier,
    /// It has ended.
    Ended,
    /// It is saved in memory.
    Saved,
}

impl State {
    /// Returns whether it is still there.
    pub fn lives(self) -> bool {
        matches!(self, State::Running | State::Barrier)
    }
}

/// Progress of a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saving {
    /// No save was requested.
    No,
    /// The handler has sent MSG_SAVEWAVE.
    Asked,
    /// It has got a record.
    Granted,
    /// A store to its record faulted.
    Failed,
}

/// Top 16 bits of generic addresses that lead to LDS and to private memory (SH_MEM_BASES).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apertures {
    /// LDS.
    pub shared: u16,
    /// Private memory.
    pub private: u16,
}

/// Registers and state of one wave.
pub struct Wave {
    /// Scalar registers by operand code, VCC, TTMPs, M0 and EXEC among them.
    pub sgpr: [u32; 128],
    /// Intermediate rows, then arch VGPRs, then accumulation VGPRs.
    pub rows: Vec<Row>,
    /// Number of arch VGPRs.
    pub arch: u16,
    /// Number of accumulation VGPRs.
    pub acc: u16,
    /// Byte address of the next instruction.
    pub pc: u64,
    /// STATUS.SCC.
    pub scc: bool,
    /// MODE.
    pub mode: u32,
    /// TRAPSTS.
    pub trapsts: u32,
    /// HW_ID.
    pub hw_id: u32,
    /// GPR_ALLOC.
    pub gpr_alloc: u32,
    /// LDS_ALLOC.
    pub lds_alloc: u32,
    /// STATUS except SCC, EXECZ and VCCZ, which are added when it is read.
    pub status: u32,
    /// IB_STS.
    pub ib_sts: u32,
    /// Its slot of scratch among those of its engine.
    pub scoreboard: u32,
    /// It has such a slot.
    pub has_scratch: bool,
    /// Progress of its save.
    pub saving: Saving,
    /// The handler is restoring it.
    pub restoring: bool,
    /// MODE.DEBUG_EN: it has executed an instruction since it left the handler.
    pub(crate) stepped: bool,
    /// Its last instruction has hit a watch point. The bits of TRAPSTS stay, and the wave traps for
    /// each hit once.
    pub(crate) hit: bool,
    /// SH_MEM_BASES of its address space.
    pub apertures: Apertures,
    /// Its state.
    pub state: State,
    /// The first access that faulted.
    pub fault: Option<Fault>,
    /// Counts of its instructions.
    pub counts: Counts,
    /// Number of active lanes, if EXEC is the next field.
    active: u32,
    active_of: u64,
    /// All ones in the active lanes, if `mask_of` is EXEC.
    mask: Row,
    mask_of: u64,
}

impl Wave {
    /// Creates a wave with `arch` and `acc` VGPRs, all zero, at `pc`.
    pub fn new(arch: u16, acc: u16, pc: u64) -> Wave {
        let mut wave = Wave {
            sgpr: [0; 128],
            rows: Vec::new(),
            arch: 0,
            acc: 0,
            pc: 0,
            scc: false,
            mode: 0,
            trapsts: 0,
            hw_id: 0,
            gpr_alloc: 0,
            lds_alloc: 0,
            status: 0,
            ib_sts: 0,
            scoreboard: 0,
            has_scratch: false,
            saving: Saving::No,
            restoring: false,
            hit: false,
            stepped: false,
            apertures: Apertures {
                shared: 1,
                private: 2,
            },
            state: State::Running,
            fault: None,
            counts: Counts::default(),
            active: 0,
            active_of: 0,
            mask: Row::ZERO,
            mask_of: 0,
        };
        wave.reset(arch, acc, pc);
        wave
    }

    /// Makes it a new one, in the same memory.
    pub fn reset(&mut self, arch: u16, acc: u16, pc: u64) {
        let rows = TEMPS + usize::from(arch) + usize::from(acc);
        self.rows.clear();
        self.rows.resize(rows, Row::ZERO);
        self.sgpr = [0; 128];
        (self.arch, self.acc, self.pc) = (arch, acc, pc);
        (self.scc, self.mode, self.trapsts) = (false, 0, 0);
        (self.status, self.ib_sts, self.scoreboard) = (0, 0, 0);
        self.has_scratch = false;
        (self.saving, self.restoring) = (Saving::No, false);
        (self.stepped, self.hit) = (false, false);
        self.state = State::Running;
        self.fault = None;
        self.counts = Counts::default();
    }

    /// All VGPRs, arch and then accumulation.
    pub fn vgprs(&self) -> &[Row] {
        &self.rows[TEMPS..]
    }

    /// See [`Wave::vgprs`].
    pub fn vgprs_mut(&mut self) -> &mut [Row] {
        &mut self.rows[TEMPS..]
    }

    /// The scalar registers in the order in which the SIMD has them in its `place` for a wave: s0
    /// and so on, and FLAT_SCRATCH and VCC at the end.
    pub fn scalars_to(&self, place: &mut [u32]) {
        let (numbered, named) = place.split_at_mut(place.len() - NAMED.len());
        numbered.copy_from_slice(&self.sgpr[..numbered.len()]);
        for (place, n) in named.iter_mut().zip(NAMED) {
            *place = self.sgpr[n];
        }
    }

    /// See [`Wave::scalars_to`].
    pub fn scalars_from(&mut self, place: &[u32]) {
        let (numbered, named) = place.split_at(place.len() - NAMED.len());
        self.sgpr[..numbered.len()].copy_from_slice(numbered);
        for (&place, n) in named.iter().zip(NAMED) {
            self.sgpr[n] = place;
        }
    }

    /// The row of arch VGPR `n`.
    pub fn v(&self, n: usize) -> &[u32; LANES] {
        &self.rows[TEMPS + n].0
    }

    /// See [`Wave::v`].
    pub fn v_mut(&mut self, n: usize) -> &mut [u32; LANES] {
        &mut self.rows[TEMPS + n].0
    }

    /// EXEC.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        self.pair(sgpr::EXEC)
    }

    /// Sets EXEC.
    #[inline(always)]
    pub fn set_exec(&mut self, value: u64) {
        self.set_pair(sgpr::EXEC, value);
    }

    /// VCC.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.pair(sgpr::VCC)
    }

    /// Two scalar registers, the low one first.
    #[inline(always)]
    pub fn pair(&self, n: usize) -> u64 {
        u64::from(self.sgpr[n & 127]) | u64::from(self.sgpr[(n + 1) & 127]) << 32
    }

    /// See [`Wave::pair`].
    #[inline(always)]
    pub fn set_pair(&mut self, n: usize, value: u64) {
        self.sgpr[n & 127] = value as u32;
        self.sgpr[(n + 1) & 127] = (value >> 32) as u32;
    }

    /// A scalar operand of 32 bits. For a vector register it is that of lane 0.
    #[inline(always)]
    pub fn scalar32(&self, src: Src) -> u32 {
        match src {
            Src::S(n) => self.sgpr[usize::from(n & 127)],
            Src::K(value) => value as u32,
            Src::Special(code) => self.special(code) as u32,
            Src::V(row) => self.rows[usize::from(row)].0[0],
        }
    }

    /// A scalar operand of 64 bits.
    #[inline(always)]
    pub fn scalar64(&self, src: Src) -> u64 {
        match src {
            Src::S(n) => self.pair(usize::from(n)),
            Src::K(value) => value,
            Src::Special(code) => self.special(code),
            Src::V(row) => {
                let row = usize::from(row);
                u64::from(self.rows[row].0[0]) | u64::from(self.rows[row + 1].0[0]) << 32
            }
        }
    }

    /// Operand codes that are neither registers nor constants. The apertures are in the high dword
    /// of 64 bits.
    fn special(&self, code: u8) -> u64 {
        match code {
            235 => u64::from(self.apertures.shared) << 48,
            236 => u64::from(self.apertures.shared) << 48 | 0xffff_ffff,
            237 => u64::from(self.apertures.private) << 48,
            238 => u64::from(self.apertures.private) << 48 | 0xffff_ffff,
            251 => u64::from(self.vcc() == 0),
            252 => u64::from(self.exec() == 0),
            253 => u64::from(self.scc),
            _ => 0,
        }
    }

    /// All ones in the active lanes.
    #[inline(always)]
    fn refresh_mask(&mut self) {
        let exec = self.exec();
        if self.mask_of != exec {
            self.mask_of = exec;
            self.mask = mask_row(exec);
        }
    }

    /// Stores `value` in the active lanes of a row.
    #[inline(always)]
    pub fn put(&mut self, row: usize, value: &Row) {
        if self.exec() == !0 {
            self.rows[row] = *value;
            return;
        }
        self.refresh_mask();
        let to = &mut self.rows[row].0;
        for lane in 0..LANES {
            let mask = self.mask.0[lane];
            to[lane] = to[lane] & !mask | value.0[lane] & mask;
        }
    }

    /// The row of a vector source's low dword; a scalar is copied to all lanes of the source's own
    /// row first.
    #[inline(always)]
    pub fn narrow(&mut self, src: Src, slot: usize) -> usize {
        match src {
            Src::V(row) => usize::from(row),
            _ => {
                let value = self.scalar32(src);
                self.rows[SPLAT + 2 * slot] = Row([value; LANES]);
                SPLAT + 2 * slot
            }
        }
    }

    /// As [`Wave::narrow`] for a source of two rows. Returns the first one.
    #[inline(always)]
    pub fn wide(&mut self, src: Src, slot: usize) -> usize {
        match src {
            Src::V(row) => usize::from(row),
            _ => {
                let value = self.scalar64(src);
                let at = SPLAT + 2 * slot;
                self.rows[at] = Row([value as u32; LANES]);
                self.rows[at + 1] = Row([(value >> 32) as u32; LANES]);
                at
            }
        }
    }

    /// Lane numbers of the active lanes.
    pub fn active(&self) -> Active {
        Active(self.exec())
    }

    /// Counts an instruction before it is executed.
    #[inline(always)]
    pub fn count(&mut self, class: Class) {
        self.counts.classes[class as usize] += 1;
        if class.has_lanes() {
            let exec = self.exec();
            if exec != self.active_of {
                self.active_of = exec;
                self.active = exec.count_ones();
            }
            self.counts.lanes += u64::from(self.active);
        }
    }

    /// Undoes the last [`Wave::count`], for an instruction that was not executed.
    pub fn uncount(&mut self, class: Class) {
        self.counts.classes[class as usize] -= 1;
        if class.has_lanes() {
            self.counts.lanes -= u64::from(self.exec().count_ones());
        }
    }

    /// Notes a memory fault.
    pub fn faulted(&mut self, fault: Fault) {
        self.trapsts |= trapsts::MEM_VIOL | trapsts::XNACK_ERROR;
        self.fault.get_or_insert(fault);
        if self.saving == Saving::Granted {
            self.saving = Saving::Failed;
        }
    }

    /// Returns whether f32 denormals are kept, as sources and as results.
    #[inline(always)]
    pub fn keeps_f32_denormals(&self) -> bool {
        types::keeps_f32_denormals(self.mode)
    }
}

/// All ones where the bit of `mask` is set.
#[inline(always)]
pub fn mask_row(mask: u64) -> Row {
    let mut row = Row::ZERO;
    let (lo, hi) = (mask as u32, (mask >> 32) as u32);
    for lane in 0..32 {
        row.0[lane] = 0u32.wrapping_sub(lo >> lane & 1);
        row.0[lane + 32] = 0u32.wrapping_sub(hi >> lane & 1);
    }
    row
}

/// A mask from a byte for each lane that is 0 or 1.
#[inline(always)]
pub fn mask_of(lanes: &[u8; LANES]) -> u64 {
    let mut mask = 0;
    for (n, bytes) in lanes.chunks_exact(8).enumerate() {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        // Each byte's bit moves to the top byte: 8 bytes to 8 bits.
        let bits = u64::from_le_bytes(word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * n);
    }
    mask
}

/// The set bits of a mask, lowest first.
pub struct Active(pub u64);

impl Iterator for Active {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}
