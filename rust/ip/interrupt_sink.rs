// SPDX-License-Identifier: GPL-2.0
//! The receiver of the interrupt ring's entries.

use hw::ih::{CpEop, CpError, FaultStatus, SdmaError, ShaderMessage, VmFault};

/// Receives the events that entries announce. Called by a thread that may sleep, one entry at a
/// time in the ring's order; fences depend on it, so nothing in it waits for memory. The cost of an
/// entry must not depend on how many objects processes have created.
pub(crate) trait InterruptSink: Send + Sync {
    /// A TRAP packet with `context` was reached. `vmid` 0 is the engine's kernel ring.
    fn sdma_trap(&self, engine: u8, vmid: u8, pasid: u16, context: u32);
    /// SDMA refused a packet or an access; the queue that caused it has stopped.
    fn sdma_error(&self, error: &SdmaError);
    /// A process stored part of a doorbell of SDMA `engine`.
    fn sdma_partial_doorbell(&self, engine: u8);
    /// A compute queue reached an end-of-pipe event that interrupts.
    fn cp_eop(&self, eop: &CpEop);
    /// The CP refused a packet of a compute queue.
    fn cp_error(&self, error: &CpError);
    /// A shader sent a message.
    fn shader_message(&self, message: &ShaderMessage);
    /// An access could not be translated. `status` is the fault that the hub has latched, if it was
    /// the first. Also called by a thread that refuses a fault that has waited, which then calls
    /// [`InterruptSink::forget_stopped`]; calls of either do not overlap.
    fn vm_fault(&self, fault: &VmFault, status: Option<FaultStatus>);
    /// The end of a batch of entries: work for which many of them may have asked is done once.
    fn flush(&self);
    /// The next fault of a process whose queues were stopped is reported again.
    fn forget_stopped(&self);
}
