// SPDX-License-Identifier: GPL-2.0
//! The compute front end of the command processor: two MECs of four pipes of eight queues.
//!
//! For the author of a driver:
//!
//! - *Loading*: GRBM_GFX_CNTL selects ME (1 or 2), pipe and queue; HQD registers are written (in
//!   the order of the MQD from dword 128 on, or any other), then CP_HQD_ACTIVE = 1 starts the
//!   queue. Ring, address space and MQD address cannot be changed while it is active. VMID 0 needs
//!   PQ_CONTROL.PRIV_STATE and KMD_QUEUE, other VMIDs must not have them; AQL needs SLOT_BASED_WPTR
//!   2. A MEC runs when its HALT bit in CP_MEC_CNTL is clear, which it is not out of reset.
//! - *Pointers* are in dwords, AQL or not. PQ_RPTR and the PM4 read pointer report are offsets in
//!   the ring, PQ_WPTR never wraps. ACTIVE takes as read pointer the greatest number not above
//!   PQ_WPTR that PQ_RPTR is the remainder of. A bit of CP_PQ_WPTR_POLL_CNTL1 (pipe * 8 + queue, of
//!   the selected MEC; MEC1 if none is) makes the MEC read the write pointer once from
//!   WPTR_POLL_ADDR, when the queue is active or becomes so; with CP_PQ_WPTR_POLL_CNTL.EN it is
//!   read every millisecond.
//! - *Doorbells* count while CP_PQ_STATUS.DOORBELL_ENABLE is set, for the active queue whose
//!   DOORBELL_CONTROL has EN and the doorbell's dword index. Lower values than before are ignored
//!   (in VMID 0 an error). CP_MEC_DOORBELL_RANGE has to include the doorbell of a queue of VMID 0
//!   that starts by register, as amdgpu's has its KIQ's alone. Others need not be inside: they only
//!   fail to wake power-gated graphics, which nothing gates here.
//! - *Dequeue requests* are taken after the current packet, or between two tries of a packet that
//!   waits. A queue with waves leaves when these have ended (1) or are saved (3; see the shader
//!   engines), but request 2 ends them at once. Then the state goes to the MQD (dwords 1 to 80 as
//!   far as they have registers that users change and 43 for RSRC3, 96, 97, 132, 138, 146 to 149,
//!   168, 169, 174, 176, 179, 182, 183; of waves that were saved 44, 45 for the time their dispatch
//!   began, 98 to 101), DEQUEUE_REQUEST reads 0 and ACTIVE 0. A queue that stopped within an
//!   indirect buffer goes on there when it is loaded from the saved state. ACTIVE = 0 takes the
//!   queue off at once and saves nothing.
//! - *A queue that hangs* answers neither; but one of which only the waves hang answers request 2.
//!   SPI_COMPUTE_QUEUE_RESET = 1 with the queue selected ends the hang, and a pending dequeue
//!   request is then taken. A pipe's reset bit in CP_MEC_CNTL takes all its queues off, and holds
//!   the pipe while it is set; SOFT_RESET_CP, CPC or GFX in GRBM_SOFT_RESET all queues.
//! - *Interrupts* have client 0x14, ring id queue << 4 | ME << 2 | pipe, and need their bit in
//!   CPC_INT_CNTL (of the selected pipe) or in CP_MEm_PIPEp_INT_CNTL. Source 181 (TIME_STAMP):
//!   context word 0 is the context id of RELEASE_MEM or the event id of a completion signal, 1 the
//!   doorbell's dword index. Source 183 (OPCODE_ERROR): word 0 has the doorbell's slot in its
//!   process' slice in [9:0] and the KFD exception code in [25:10], 1 the first dword of the
//!   packet, 2 and 3 the read pointer in dwords.
//! - *Refused packets* of a user VMID halt the queue with its read pointer at the packet:
//!   HQD_ERROR.SUA_ERROR (PM4) or AQL_ERROR (AQL), and the interrupt of source 183. Exception
//!   codes: 20 unsupported (AQL type, opcode, field or operand, or a write pointer more than the
//!   ring ahead), 23 vendor format, and for dispatches 16 dimensions, 17 LDS, 18 kernel, 21 items
//!   of a group, 22 registers. If the read pointer report lies in an amd_queue_t
//!   (dword behind it 0x80) its queue_inactive_signal becomes 32 (256: vendor; dispatches: 2, 4, 8,
//!   64, 128). A ring or indirect buffer that faults halts with PQ_UTCL1_ERROR or IB_UTCL1_ERROR,
//!   an EOP buffer with EOP_UTCL1_ERROR, a wait on memory that faults with TC_UTCL1_ERROR, and only
//!   the hub's interrupt. A halted queue answers dequeue requests; ACTIVE = 1 clears HQD_ERROR. In
//!   VMID 0 all of this is an error of the driver.
//! - *PM4 of users*: registers other than SCRATCH_REGn are refused in WRITE_DATA, COPY_DATA and
//!   WAIT_REG_MEM, as they are not the user's. SET_UCONFIG_REG of others is refused because they are
//!   not modelled: hardware sets some of them. Caches do not exist, so ACQUIRE_MEM does nothing.
//! - *COMPUTE_\** (0x2E00 to 0x2E7F): each queue has its own, taken from the MQD whenever the queue
//!   is started (dwords 1 to 42, 65 to 80, and 43 for RSRC3) and set by SET_SH_REG. Others are not
//!   modelled, so that SET_SH_REG of a user with one of them is refused; such a write of the driver
//!   ends the run. A user's writes of VMID and STATIC_THREAD_MGMT have no effect; those of RELAUNCH,
//!   WAVE_RESTORE_ADDR and RSRC1.PRIV are refused.
//! - *DISPATCH_DIRECT and _INDIRECT* launch waves, and the queue goes on. It has one dispatch at a
//!   time: the next one, EVENT_WRITE of type 7, RELEASE_MEM, and the end of an indirect buffer of
//!   an AQL packet wait for the waves. DIM counts groups from 0, with USE_THREAD_DIMENSIONS items;
//!   START is the first group. Errors are refused, with the exception codes of AQL dispatches.
//! - *AQL*: the queue waits at a packet whose header is INVALID while the write pointer is past it.
//!   When a packet is done its header becomes INVALID, then the read index is written (64 bits),
//!   then the completion signal is: timestamps if amd_queue_t has the profiling property, value -
//!   1, and with a mailbox the event id goes there and to an interrupt.
//! - *AQL read index*: when the queue is started it is read from the MQD's dwords 96 and 97, which
//!   a dequeue wrote.
//! - *KIQ and HIQ*: the KIQ is the queue that RLC_CP_SCHEDULERS.scheduler0 names, the HIQ the one
//!   in scheduler1 or the one that the KIQ maps with engine 1. Only they have the packets of
//!   schedulers, and must be of VMID 0. A bad packet of these is an error of the driver. MAP_QUEUES
//!   outside of a runlist needs a given slot, and is not of an SDMA queue. Loading reads the MQD's
//!   dwords 128 to 183, takes doorbell and write-pointer address from the packet, sets DOORBELL_EN
//!   and reads the write pointer once.
//! - *RUN_LIST* takes the queues of the previous list off, as UNMAP_QUEUES does, then assigns VMIDs
//!   (lowest first) and slots (across the pipes) of the HIQ's SET_RESOURCES. For a VMID that a
//!   process gets, the page-table base is set in both hubs, its translations are flushed, and
//!   SH_MEM, TBA and TMA, PASID mappings and LUTs are set; when its last queue leaves, mappings and
//!   LUTs are 0. A dword 0 ends the list. If not all fits, the list has to end in a chained
//!   RUN_LIST to its start, and queues take turns of the shortest quantum of MAP_PROCESS (ms): the
//!   queue with the fewest packets done comes first. A turn ends early when no queue on the
//!   hardware has packets that do not wait. A queue without work waits for its doorbell.
//! - *The cleaner shader*: SET_RESOURCES of the KIQ has its address in VMID 0 (dwords 4 and 5, in
//!   units of 256 bytes). When a process of a MAP_PROCESS with exec_cleaner_shader gets a VMID, it
//!   runs on all CUs first, and RUN_LIST must allow one process at once: until the last queue of
//!   one has left with its waves, no other gets a VMID. Firmware before version 88 ignores the bit.
//! - *SDMA queues of a runlist* get the first RLC queue of their engine that is free: dwords 0 to
//!   31 of the MQD, VMID, doorbell and write-pointer address from the packet. They leave after the
//!   current packet, also within an indirect buffer; read and write pointer, the place in the
//!   buffer and the reason why the queue is halted go to the MQD (dwords 3 to 6, 11 to 15, 17), and
//!   are restored from there. A list of more SDMA queues than there are RLC queues is refused.
//! - *UNMAP_QUEUES* takes its queues out of the list too. It waits for a queue that hangs: after
//!   the latency of SET_RESOURCES (50 ms at least, and always 50 ms less than the given value) the
//!   dword index of its doorbell goes to dword 240 of the MQD of the queue with the packet, and the
//!   scheduler goes on as if it had left: it has not, and is still to leave. Until it has, by
//!   itself or by registers as above, the next RUN_LIST is an error of the driver. With action 1
//!   (reset) it is just taken off. Such a queue gets no turn until the next RUN_LIST.
//! - *EOP buffer*: each RELEASE_MEM and completion puts eight dwords there and takes them out
//!   again; without an address (0) nothing is put.

mod aql;
mod compute;
mod dispatch;
mod eop;
mod execute;
mod gang;
mod hqd;
mod hqd_registers;
mod interrupt;
mod job;
mod kiq;
mod launch;
mod mec;
mod mqd;
mod pm4;
pub(crate) mod process;
mod registers;
mod runlist;
mod signal;
mod templates;

pub use gang::Gang;
pub use hqd::Hang;
pub use mec::Cp;

/// Pipes of a MEC.
const PIPES: usize = 4;
/// Queues of a pipe.
const QUEUES: usize = 8;
/// HQDs of both MECs.
const SLOTS: usize = 2 * PIPES * QUEUES;

/// The place of an HQD: MEC * 32 + pipe * 8 + queue, as in a queue mask, and so many [`SLOTS`] more
/// as XCCs come before its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u16);

impl Slot {
    /// The slot of ME `me` (1 or 2) of an XCC; None for others.
    fn new(xcc: usize, me: u32, pipe: u32, queue: u32) -> Option<Slot> {
        matches!(me, 1 | 2)
            .then(|| Slot(((me - 1) * 32 + pipe * 8 + queue) as u16))
            .map(|slot| slot.on(xcc))
    }

    /// The same one of another XCC.
    fn on(self, xcc: usize) -> Slot {
        Slot((xcc * SLOTS + self.local()) as u16)
    }

    /// The number of its XCC.
    fn xcc(self) -> usize {
        self.index() / SLOTS
    }

    /// Number among the HQDs of its XCC.
    fn local(self) -> usize {
        self.index() % SLOTS
    }

    /// Number among all HQDs.
    fn index(self) -> usize {
        usize::from(self.0)
    }

    /// 1 or 2.
    fn me(self) -> u32 {
        u32::from(self.0 / 32 % 2) + 1
    }

    /// 0..=3.
    fn pipe(self) -> u32 {
        u32::from(self.0 / 8 % 4)
    }

    /// 0..=7.
    fn queue(self) -> u32 {
        u32::from(self.0 % 8)
    }

    /// All of an XCC.
    fn all(xcc: usize) -> impl Iterator<Item = Slot> {
        (0..SLOTS as u16).map(move |n| Slot(n).on(xcc))
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (me, pipe, queue) = (self.me(), self.pipe(), self.queue());
        if self.xcc() != 0 {
            write!(f, "XCC{} ", self.xcc())?;
        }
        write!(f, "MEC{me} pipe {pipe} queue {queue}")
    }
}

/// For tests of the device.
#[cfg(test)]
pub mod test {
    use crate::error::Result;
    use crate::gpu::Gpu;
    use crate::sq::pool::Worker;

    /// Steps until there is nothing to do at once.
    pub fn settle(gpu: &Gpu) -> Result<()> {
        let mut worker = Worker::default();
        for _ in 0..100_000 {
            let waves = worker.step(&gpu.sq, gpu)?;
            if !gpu.cp.step(gpu)? && !waves {
                return Ok(());
            }
        }
        panic!("the command processor does not come to rest");
    }
}
