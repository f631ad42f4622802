// SPDX-License-Identifier: GPL-2.0
//! Interrupts of the command processor.

use super::job::Job;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::ih::Iv;
use crate::regs::gc::{self, cpc_int_cntl as enable};
use crate::regs::Field;

/// Interrupt client of the command processor.
const CLIENT: u8 = 0x14;
const END_OF_PIPE: u8 = 181;
const BAD_OPCODE: u8 = 183;

/// The KFD exception codes in the interrupt of a refused packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exception {
    /// Invalid sizes of a dispatch.
    Dimensions = 16,
    /// Too much LDS for a group.
    GroupSegment = 17,
    /// An impossible kernel.
    Code = 18,
    /// A packet that is not executed, an unknown AQL packet type, or an impossible write pointer.
    /// 19 (EC_QUEUE_PACKET_RESERVED) is no code of the CP's: the codes are the bits of
    /// queue_inactive_signal in their order, of which ROCr has no 16 and rocm-dbgapi no 19.
    Unsupported = 20,
    /// Too many items in a group.
    GroupSize = 21,
    /// A group's registers do not fit into a CU.
    Registers = 22,
    /// An AQL vendor packet of another format.
    Vendor = 23,
}

/// End of pipe: a RELEASE_MEM or completion signal with the number `context`.
pub fn end_of_pipe(gpu: &Gpu, job: &Job, context: u32) -> Result<()> {
    let data = [context, job.doorbell, 0, 0];
    send(gpu, job, enable::TIME_STAMP_INT_ENABLE, END_OF_PIPE, data)
}

/// The packet that begins with `header` is refused.
pub fn bad_opcode(gpu: &Gpu, job: &Job, code: Exception, header: u32) -> Result<()> {
    let doorbell = Field::new(9, 0).of(job.doorbell / 2);
    let code = Field::new(25, 10).of(code as u32);
    let data = [
        doorbell | code,
        header,
        job.rptr as u32,
        (job.rptr >> 32) as u32,
    ];
    send(gpu, job, enable::OPCODE_ERROR_INT_ENABLE, BAD_OPCODE, data)
}

fn send(gpu: &Gpu, job: &Job, enable: Field, source: u8, data: [u32; 4]) -> Result<()> {
    let slot = job.slot;
    let first = if slot.me() == 1 {
        gc::CP_ME1_PIPE0_INT_CNTL
    } else {
        gc::CP_ME2_PIPE0_INT_CNTL
    };
    let control =
        gpu.grbm.pipe_interrupts(slot.me(), slot.pipe()) | gpu.regs.get(first.nth(slot.pipe(), 1));
    if !enable.is_set(control) {
        return Ok(());
    }
    let iv = Iv {
        client: CLIENT,
        source,
        ring: (slot.queue() << 4 | slot.me() << 2 | slot.pipe()) as u8,
        vmid: job.vmid,
        mmhub: false,
        data,
        retry: false,
    };
    gpu.ih.push(gpu, iv)
}
