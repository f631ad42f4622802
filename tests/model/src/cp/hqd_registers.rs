// SPDX-License-Identifier: GPL-2.0
//! The registers of one HQD: their stored values, and the queue's properties in these.

use crate::cp::templates;
use crate::regs::gc::{
    self, cp_hqd_aql_control as aql_control, cp_hqd_cntl_stack_offset as stack_offset,
    cp_hqd_cntl_stack_size as stack_size, cp_hqd_ctx_save_base_addr_hi as save_base_hi,
    cp_hqd_ctx_save_base_addr_lo as save_base_lo, cp_hqd_ctx_save_size as save_size,
    cp_hqd_pq_control as pq_control, cp_hqd_pq_doorbell_control as doorbell,
    cp_hqd_wg_state_offset as state_offset,
};
use crate::regs::{Field, Reg};
use crate::sq::image::Area;

/// First register, and how many there are.
const FIRST: Reg = gc::CP_HQD_GFX_CONTROL;
const COUNT: usize = (gc::CP_HQD_PQ_WPTR_HI.0 - FIRST.0 + 1) as usize;
/// Dwords of an AQL packet.
pub const AQL_DWORDS: u64 = 16;

/// Registers that are fixed while the queue is active.
const FIXED: &[Reg] = &[
    gc::CP_MQD_BASE_ADDR,
    gc::CP_MQD_BASE_ADDR_HI,
    gc::CP_HQD_VMID,
    gc::CP_HQD_PQ_BASE,
    gc::CP_HQD_PQ_BASE_HI,
    gc::CP_HQD_PQ_RPTR,
    gc::CP_HQD_PQ_CONTROL,
    gc::CP_HQD_AQL_CONTROL,
    gc::CP_HQD_EOP_BASE_ADDR,
    gc::CP_HQD_EOP_BASE_ADDR_HI,
    gc::CP_HQD_EOP_CONTROL,
];

const fn at(reg: Reg) -> usize {
    (reg.0 - FIRST.0) as usize
}

/// Returns whether `reg` is one of an HQD's registers.
pub fn owns(reg: Reg) -> bool {
    (FIRST.0..FIRST.0 + COUNT as u32).contains(&reg.0)
}

/// Returns whether `reg` is fixed while the queue is active.
pub fn is_fixed(reg: Reg) -> bool {
    FIXED.contains(&reg)
}

/// All of them.
pub fn all() -> impl Iterator<Item = Reg> {
    (0..COUNT as u32).map(|n| FIRST.nth(n, 1))
}

/// The stored values, without any effect.
pub struct HqdRegisters([u32; COUNT]);

impl HqdRegisters {
    /// Out of reset.
    pub fn new() -> HqdRegisters {
        HqdRegisters([0; COUNT])
    }

    /// A register's stored value.
    pub fn get(&self, reg: Reg) -> u32 {
        self.0[at(reg)]
    }

    /// Stores a register's value without any effect.
    pub fn put(&mut self, reg: Reg, value: u32) {
        self.0[at(reg)] = value;
    }

    /// Two registers, the low dword first.
    pub fn wide(&self, lo: Reg) -> u64 {
        u64::from(self.get(lo)) | u64::from(self.get(Reg(lo.0 + 1))) << 32
    }

    /// Stores two registers, the low dword first.
    pub fn put_wide(&mut self, lo: Reg, value: u64) {
        self.put(lo, value as u32);
        self.put(Reg(lo.0 + 1), (value >> 32) as u32);
    }

    /// CP_HQD_VMID.VMID.
    pub fn vmid(&self) -> u8 {
        gc::cp_hqd_vmid::VMID.get(self.get(gc::CP_HQD_VMID)) as u8
    }

    /// Returns whether packets are AQL, not PM4.
    pub fn is_aql(&self) -> bool {
        aql_control::CONTROL0.get(self.get(gc::CP_HQD_AQL_CONTROL)) & 1 == 1
    }

    /// Dwords of the ring.
    pub fn size(&self) -> u64 {
        2 << pq_control::QUEUE_SIZE
            .get(self.get(gc::CP_HQD_PQ_CONTROL))
            .min(40)
    }

    /// Dword index of the doorbell.
    pub fn doorbell(&self) -> u32 {
        doorbell::DOORBELL_OFFSET.get(self.get(gc::CP_HQD_PQ_DOORBELL_CONTROL))
    }

    /// A register's field in place: a number of bytes whose lowest bits are zero.
    fn bytes(&self, reg: Reg, field: Field) -> u64 {
        field.of(field.get(self.get(reg))).into()
    }

    /// The save area of waves, if there is one.
    pub fn area(&self) -> Option<Area> {
        let high = save_base_hi::ADDR_HI.get(self.get(gc::CP_HQD_CTX_SAVE_BASE_ADDR_HI));
        let area = Area {
            base: self.bytes(gc::CP_HQD_CTX_SAVE_BASE_ADDR_LO, save_base_lo::ADDR)
                | u64::from(high) << 32,
            size: self.bytes(gc::CP_HQD_CTX_SAVE_SIZE, save_size::SIZE),
            stack: self.bytes(gc::CP_HQD_CNTL_STACK_SIZE, stack_size::SIZE),
        };
        (area.size > 0).then_some(area)
    }

    /// CNTL_STACK_OFFSET and WG_STATE_OFFSET, bytes.
    pub fn saved(&self) -> (u64, u64) {
        (
            self.bytes(gc::CP_HQD_CNTL_STACK_OFFSET, stack_offset::OFFSET),
            self.bytes(gc::CP_HQD_WG_STATE_OFFSET, state_offset::OFFSET),
        )
    }

    /// See [`HqdRegisters::saved`].
    pub fn set_saved(&mut self, stack: u64, state: u64) {
        self.put(gc::CP_HQD_CNTL_STACK_OFFSET, stack as u32);
        self.put(gc::CP_HQD_WG_STATE_OFFSET, state as u32);
    }

    /// Address of the MQD.
    pub fn mqd(&self) -> u64 {
        self.wide(gc::CP_MQD_BASE_ADDR)
    }

    /// The address of the write pointer in the queue's memory; 0 if there is none.
    pub fn wptr_address(&self) -> u64 {
        self.wide(gc::CP_HQD_PQ_WPTR_POLL_ADDR) & !7
    }

    /// Dwords that a doorbell or an index counts: a packet of AQL, else one.
    pub fn unit(&self) -> u64 {
        if self.is_aql() {
            AQL_DWORDS
        } else {
            1
        }
    }

    /// Checks the registers of a queue that is to start; of AQL, the read pointer is reported or
    /// not. The error is the reason.
    pub fn check(&self, reports_aql: bool) -> std::result::Result<(), &'static str> {
        let control = self.get(gc::CP_HQD_PQ_CONTROL);
        let kernel = [
            pq_control::PRIV_STATE.is_set(control),
            pq_control::KMD_QUEUE.is_set(control),
        ];
        if self.vmid() == 0 && kernel != [true; 2] {
            return Err("VMID is 0 without PRIV_STATE and KMD_QUEUE");
        }
        if self.vmid() != 0 && kernel != [false; 2] {
            return Err("PRIV_STATE or KMD_QUEUE with a user's VMID");
        }
        if self.wide(gc::CP_HQD_PQ_BASE) == 0 {
            return Err("CP_HQD_PQ_BASE is 0");
        }
        if self.mqd() == 0 || self.mqd() % 4 != 0 {
            return Err("CP_MQD_BASE_ADDR is 0 or not aligned");
        }
        if pq_control::QUEUE_SIZE.get(control) > 30 {
            return Err("QUEUE_SIZE is too large");
        }
        let slots = pq_control::SLOT_BASED_WPTR.get(control);
        if self.is_aql() && (slots != 2 || self.size() < AQL_DWORDS) {
            return Err("AQL needs SLOT_BASED_WPTR 2 and room for a packet");
        }
        if !self.is_aql() && slots != 0 {
            return Err("PM4 has no SLOT_BASED_WPTR");
        }
        let image = &self.0[at(gc::CP_MQD_BASE_ADDR)..];
        let aql = self.is_aql().then_some(reports_aql);
        templates::hqd(image, self.vmid(), aql).map_or(Ok(()), Err)
    }
}
