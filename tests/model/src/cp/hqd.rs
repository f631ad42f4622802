// SPDX-License-Identifier: GPL-2.0
//! A hardware queue descriptor: the activity of a queue.

mod packet;

use std::sync::Arc;
use std::time::Instant;

use super::compute::ComputeRegisters;
use super::gang::Share;
use super::hqd_registers::{self, HqdRegisters, AQL_DWORDS};
use super::mqd;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::indirect::Ib;
use crate::regs::gc::{
    self, cp_hqd_active, cp_hqd_dequeue_request as dequeue, cp_hqd_eop_rptr as eop_rptr,
    cp_hqd_error as error, cp_hqd_hq_status0 as status0, cp_hqd_ib_control as ib_control,
    cp_hqd_persistent_state as persistent, cp_hqd_pq_doorbell_control as doorbell,
    cp_mec_doorbell_range_lower as range_lower, cp_mec_doorbell_range_upper as range_upper,
};
use crate::regs::{Reg, Store};
use crate::sq::grid::Remains;
use crate::sq::Grid;

/// DEQUEUE_REQ: waves are killed; saved.
const RESET_WAVES: u32 = 2;
const SAVE_WAVES: u32 = 3;

/// Work of the front end for a queue between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// Reads the state that registers lack from its MQD.
    Restore,
    /// Takes it off.
    Dequeue,
    /// Reads its write pointer from memory.
    Poll,
}

/// The way in which a queue hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    /// Its waves do not end; without them it would go on.
    Waves,
    /// All of it.
    Whole,
}

/// A packet that waits for something.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    next: Instant,
    tries: u32,
}

/// One HQD.
pub struct Hqd {
    /// Its registers, to be read and stored without any effect.
    pub regs: HqdRegisters,
    active: bool,
    generation: u64,
    /// Dwords, never wrapping; while active.
    rptr: u64,
    wptr: u64,
    /// A read of the state that only the MQD has is due, and of the write pointer from memory.
    restore: bool,
    /// See above.
    poll: bool,
    /// DEQUEUE_REQUEST was written and not taken yet.
    dequeue: bool,
    /// Its waves are saved then.
    saves: bool,
    /// Its COMPUTE_* registers.
    pub compute: ComputeRegisters,
    executing: bool,
    hung: Option<Hang>,
    wait: Option<Wait>,
    /// The write pointer with which the last packet was not complete.
    starved: Option<u64>,
    ib: Option<Ib>,
    /// The dispatch that was launched last, until the queue has checked its end: that at the read
    /// pointer, or one that is behind it.
    grid: Option<Arc<Grid>>,
    /// Its owner was asked to reclaim the scratch of that dispatch, and has not yet.
    reclaims: bool,
    /// Packets done since it was loaded.
    packets: u64,
    /// The part that this XCC has in the queue; None: the MQD has not been read.
    share: Option<Share>,
    /// From the begin of the first wave of that part of the last packet to the end of its last one.
    times: Option<(u64, u64)>,
}

impl Hqd {
    /// Out of reset.
    pub fn new() -> Hqd {
        Hqd {
            regs: HqdRegisters::new(),
            active: false,
            generation: 0,
            rptr: 0,
            wptr: 0,
            restore: false,
            poll: false,
            dequeue: false,
            saves: false,
            compute: ComputeRegisters::new(),
            executing: false,
            hung: None,
            wait: None,
            starved: None,
            ib: None,
            grid: None,
            reclaims: false,
            packets: 0,
            share: None,
            times: None,
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.kill_waves();
        let generation = self.generation + 1;
        *self = Hqd {
            generation,
            ..Hqd::new()
        };
    }

    /// All registers, with the values that the driver reads.
    pub fn registers(&self) -> Vec<(Reg, u32)> {
        hqd_registers::all()
            .map(|reg| (reg, self.read(reg)))
            .collect()
    }

    /// Returns whether it is loaded and started.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns whether it hangs.
    pub fn is_hung(&self) -> bool {
        self.hung.is_some()
    }

    /// Returns whether it has a dispatch that is not completed, and has not left.
    pub fn has_waves(&self) -> bool {
        let ends = |grid: &Arc<Grid>| grid.origin.of_packet || !grid.is_over();
        let stays = |grid: &&Arc<Grid>| !grid.has_left() && !grid.is_held();
        self.grid.as_ref().filter(stays).is_some_and(ends)
    }

    /// Returns whether it has launched a dispatch whose end it has not checked.
    pub fn has_dispatch(&self) -> bool {
        self.grid.is_some()
    }

    /// Returns whether its waves execute.
    pub fn runs_waves(&self) -> bool {
        self.grid.as_ref().is_some_and(|grid| !grid.is_over())
    }

    /// When the waves with which it was loaded had been restored: `now` while some have not. None:
    /// it was loaded without, or they have ended.
    pub fn restored_at(&self, now: Instant) -> Option<Instant> {
        self.grid.as_ref().and_then(|grid| grid.restored_at(now))
    }

    /// Returns whether it is to leave, and its waves prevent that.
    pub fn is_kept(&self) -> bool {
        self.dequeue && self.has_waves()
    }

    /// Returns whether it hangs, or its waves prevent it from leaving.
    pub fn stays(&self) -> bool {
        self.is_hung() || self.is_kept()
    }

    /// Ends its waves.
    fn kill_waves(&mut self) {
        self.reclaims = false;
        if let Some(grid) = self.grid.take() {
            grid.kill();
        }
    }

    /// Gives this load another number, that is not less.
    pub fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// The part that this XCC has in the queue, if that is known.
    pub fn share(&self) -> Option<Share> {
        self.share
    }

    /// Sets the part that this XCC has in the queue.
    pub fn set_share(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// See the field.
    pub fn share_times(&self) -> Option<(u64, u64)> {
        self.times
    }

    /// Returns whether it is active with all of its state.
    pub fn is_ready(&self) -> bool {
        self.active && !self.restore
    }

    /// The read pointer, in dwords, never wrapping.
    pub fn rptr(&self) -> u64 {
        self.rptr
    }

    /// A number for this load of the HQD.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Packets done since it was loaded.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns whether it is active since that load.
    pub fn is_loaded(&self, generation: u64) -> bool {
        self.active && self.generation == generation
    }

    /// Returns whether it has waves, or packets that do not wait.
    pub fn is_busy(&self) -> bool {
        let packets = self.has_packets() && self.wait.is_none();
        self.active && self.hung.is_none() && (self.poll || self.runs_waves() || packets)
    }

    /// Returns whether it has waves or packets, even if these wait or hang.
    pub fn is_at_work(&self) -> bool {
        self.active && (self.is_hung() || self.runs_waves() || self.has_packets())
    }

    /// Returns whether it listens to the doorbell at dword `index` of BAR2.
    pub fn owns_doorbell(&self, index: u32) -> bool {
        let control = self.regs.get(gc::CP_HQD_PQ_DOORBELL_CONTROL);
        self.active && doorbell::DOORBELL_EN.is_set(control) && self.regs.doorbell() == index
    }

    fn has_packets(&self) -> bool {
        let more = self.wptr > self.rptr && self.starved != Some(self.wptr);
        let idles = self.share.is_some_and(|share| share.idles);
        !self.is_halted() && !idles && (self.ib.is_some() || more)
    }

    fn is_halted(&self) -> bool {
        self.regs.get(gc::CP_HQD_ERROR) != 0
    }

    /// When its next packet can be tried, or None if it needs a doorbell or register write first.
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        // Work that has begun goes on to its end, also in a queue that is to leave.
        let ends = self.active && self.hung.is_none() && !self.executing && self.has_waves();
        ((self.is_free() || ends) && self.has_packets())
            .then(|| self.wait.map_or(now, |wait| wait.next))
    }

    /// Returns whether nothing prevents an action for it.
    fn is_free(&self) -> bool {
        self.active && self.hung.is_none() && !self.executing && !self.dequeue
    }

    /// Returns whether it has work left.
    pub fn has_work(&self) -> bool {
        self.active && (self.is_hung() || self.poll || self.runs_waves() || self.has_packets())
    }

    /// Handles a scheduler's request to take the queue off.
    pub fn request_off(&mut self, now: u64) {
        self.dequeue = true;
        let state = self.regs.get(gc::CP_HQD_PERSISTENT_STATE);
        self.saves |= persistent::QSWITCH_MODE.is_set(state);
        self.save_waves(now);
    }

    /// Asks waves to save themselves if the queue is to leave with them.
    pub fn save_waves(&self, now: u64) {
        if let (Some(grid), true) = (&self.grid, self.dequeue && self.saves) {
            grid.save(now);
        }
    }

    /// The rest of its dispatch, if that has left.
    pub fn remains(&mut self) -> Option<Remains> {
        let left = |grid: &&Arc<Grid>| grid.has_left() || grid.is_held();
        let grid = self.grid.as_ref().filter(left)?;
        let remains = grid.remains();
        let next = remains.next.unwrap_or(grid.launch.count());
        self.compute
            .set_restart(&grid.launch, next, grid.origin.of_packet);
        Some(remains)
    }

    /// Goes on with a dispatch that had left.
    pub fn resume(&mut self, grid: Arc<Grid>) {
        self.grid = Some(grid);
    }

    /// The front end's possible work for it now, before its next packet.
    pub fn errand(&self) -> Option<Errand> {
        let between = self.active && !self.executing;
        if between && self.restore {
            Some(Errand::Restore)
        } else if between && self.dequeue && !self.is_hung() && !self.has_waves() {
            Some(Errand::Dequeue)
        } else if self.poll && self.is_free() {
            Some(Errand::Poll)
        } else {
            None
        }
    }

    /// Sets the AQL read index, which is `index` in the MQD: by PQ_RPTR alone a full ring looks
    /// empty.
    pub fn restored(&mut self, index: Option<u64>) {
        self.restore = false;
        if let Some(index) = index {
            self.rptr = index.wrapping_mul(AQL_DWORDS);
            self.wptr = self.wptr.max(self.rptr);
        }
    }

    /// Requests one read of the write pointer from memory.
    pub fn request_poll(&mut self) {
        self.poll = true;
    }

    /// Sets the write pointer from memory, `value`, in the doorbell's unit; None: it could not be
    /// read.
    pub fn polled(&mut self, value: Option<u64>) {
        self.poll = false;
        let dwords = value.and_then(|value| value.checked_mul(self.regs.unit()));
        if let Some(dwords) = dwords.filter(|&dwords| dwords > self.wptr) {
            self.advance_wptr(dwords);
        }
    }

    fn advance_wptr(&mut self, wptr: u64) {
        self.wptr = wptr;
        self.hurry(Instant::now());
    }

    /// Makes a waiting packet try again now. None: there is none.
    pub fn hurry(&mut self, now: Instant) -> Option<()> {
        let wait = self.wait.as_mut()?;
        wait.next = wait.next.min(now);
        Some(())
    }

    /// Its doorbell rings. Returns false if the kernel's goes down.
    pub fn ring(&mut self, value: u64) -> bool {
        let control = self.regs.get(gc::CP_HQD_PQ_DOORBELL_CONTROL);
        self.regs.put(
            gc::CP_HQD_PQ_DOORBELL_CONTROL,
            doorbell::DOORBELL_HIT.put(control, 1),
        );
        // An AQL doorbell has the index of the last packet, a PM4 doorbell the end.
        let end = value.wrapping_add(u64::from(self.regs.is_aql()));
        match end.checked_mul(self.regs.unit()) {
            Some(wptr) if wptr >= self.wptr => self.advance_wptr(wptr),
            _ => return self.regs.vmid() != 0,
        }
        true
    }

    /// Reads a register.
    pub fn read(&self, reg: Reg) -> u32 {
        let value = self.regs.get(reg);
        match reg {
            gc::CP_HQD_ACTIVE => cp_hqd_active::ACTIVE.put(value, self.active.into()),
            gc::CP_HQD_PQ_RPTR if self.active => (self.rptr % self.regs.size()) as u32,
            gc::CP_HQD_PQ_WPTR_LO if self.active => self.wptr as u32,
            gc::CP_HQD_PQ_WPTR_HI if self.active => (self.wptr >> 32) as u32,
            gc::CP_HQD_HQ_STATUS0 => {
                let idle = !self.executing && !self.has_work();
                status0::QUEUE_IDLE.put(value, idle.into())
            }
            gc::CP_HQD_ERROR => {
                let failed = self.grid.as_ref().is_some_and(|grid| grid.has_failed());
                value | error::SR_UTCL1_ERROR.of(failed.into())
            }
            _ => value,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, gpu: &Gpu, reg: Reg, value: u32) -> Result<()> {
        let store = &gpu.regs;
        if self.active && hqd_registers::is_fixed(reg) && value != self.regs.get(reg) {
            return Err(store.refuse(reg, value, "the queue is active"));
        }
        let stored = match reg {
            gc::CP_HQD_ACTIVE => {
                if !cp_hqd_active::ACTIVE.is_set(value) {
                    if !self.is_hung() {
                        self.drop_off();
                    }
                } else if !self.active {
                    let reports = mqd::reports(gpu, store.xcc)?;
                    self.regs
                        .check(reports)
                        .and_then(|()| self.check_range(store))
                        .map_err(|reason| store.refuse(reg, value, reason))?;
                    self.activate();
                }
                value
            }
            gc::CP_HQD_PQ_WPTR_HI if self.active => {
                let wptr = u64::from(value) << 32 | u64::from(self.regs.get(gc::CP_HQD_PQ_WPTR_LO));
                if wptr < self.wptr {
                    let reason = "the write pointer goes down while the queue is active";
                    return Err(store.refuse(reg, value, reason));
                }
                self.advance_wptr(wptr);
                value
            }
            gc::CP_HQD_DEQUEUE_REQUEST => {
                let kind = dequeue::DEQUEUE_REQ.get(value);
                if kind > 3 {
                    return Err(store.refuse(reg, value, "DEQUEUE_REQ is not 0 to 3"));
                }
                // Waves that are being saved cannot be called back.
                let leaves = self.grid.as_ref().is_some_and(|grid| grid.is_saving());
                self.dequeue = self.active && (kind != 0 || leaves);
                self.saves = kind == SAVE_WAVES;
                if kind == RESET_WAVES {
                    self.kill_waves();
                    if self.hung == Some(Hang::Waves) {
                        self.unhang();
                    }
                }
                value
            }
            gc::CP_HQD_EOP_RPTR => eop_rptr::INIT_FETCHER.put(value, 0),
            gc::CP_HQD_EOP_WPTR if self.active => {
                return Err(store.refuse(reg, value, "the queue is active"));
            }
            _ => value,
        };
        self.regs.put(reg, stored);
        Ok(())
    }

    /// Checks that the doorbell of a kernel's queue is in the processor's range.
    fn check_range(&self, store: &Store) -> std::result::Result<(), &'static str> {
        let control = self.regs.get(gc::CP_HQD_PQ_DOORBELL_CONTROL);
        if self.regs.vmid() != 0 || !doorbell::DOORBELL_EN.is_set(control) {
            return Ok(());
        }
        let lower = range_lower::DOORBELL_RANGE_LOWER;
        let upper = range_upper::DOORBELL_RANGE_UPPER;
        let first = lower.get(store.get(gc::CP_MEC_DOORBELL_RANGE_LOWER));
        let last = upper.get(store.get(gc::CP_MEC_DOORBELL_RANGE_UPPER));
        (first..=last)
            .contains(&self.regs.doorbell())
            .then_some(())
            .ok_or("its doorbell is outside CP_MEC_DOORBELL_RANGE")
    }

    /// Starts the queue from its registers.
    pub fn activate(&mut self) {
        let mask = self.regs.size() - 1;
        self.wptr = self.regs.wide(gc::CP_HQD_PQ_WPTR_LO);
        let saved = u64::from(self.regs.get(gc::CP_HQD_PQ_RPTR));
        let behind = self.wptr.wrapping_sub(saved) & mask;
        self.rptr = self.wptr.saturating_sub(behind);
        let ib = self.regs.get(gc::CP_HQD_IB_CONTROL);
        self.ib = ib_control::PROCESSING_IB.is_set(ib).then(|| Ib {
            base: self.regs.wide(gc::CP_HQD_IB_BASE_ADDR),
            vmid: self.regs.vmid(),
            dwords: ib_control::IB_SIZE.get(ib).into(),
            at: self.regs.get(gc::CP_HQD_IB_RPTR).into(),
        });
        // A buffer that is at its end would never leave, but with an AQL packet it waits for waves.
        let aql = self.regs.is_aql();
        self.ib = self.ib.filter(|ib| aql || ib.at < ib.dwords);
        self.regs.put(gc::CP_HQD_ERROR, 0);
        self.regs.put(gc::CP_HQD_DEQUEUE_REQUEST, 0);
        self.dequeue = false;
        self.saves = false;
        self.restore = true;
        self.packets = 0;
        self.share = None;
        self.times = None;
        self.wait = None;
        self.starved = None;
        self.generation += 1;
        self.active = true;
    }

    /// The queue is off, whatever its activity; its state stays in the registers.
    pub fn drop_off(&mut self) {
        if !self.active {
            return;
        }
        self.regs
            .put(gc::CP_HQD_PQ_RPTR, (self.rptr % self.regs.size()) as u32);
        self.regs.put_wide(gc::CP_HQD_PQ_WPTR_LO, self.wptr);
        let control = self.regs.get(gc::CP_HQD_IB_CONTROL);
        let control = ib_control::PROCESSING_IB.put(control, self.ib.is_some().into());
        self.regs.put(gc::CP_HQD_IB_CONTROL, control);
        if let Some(ib) = self.ib.take() {
            self.regs.put_wide(gc::CP_HQD_IB_BASE_ADDR, ib.base);
            self.regs.put(gc::CP_HQD_IB_RPTR, ib.at as u32);
            let control = ib_control::IB_SIZE.put(control, ib.dwords as u32);
            self.regs.put(gc::CP_HQD_IB_CONTROL, control);
        }
        self.regs.put(gc::CP_HQD_DEQUEUE_REQUEST, 0);
        self.kill_waves();
        self.active = false;
        self.executing = false;
        self.hung = None;
        self.dequeue = false;
        self.poll = false;
        self.restore = false;
        self.wait = None;
        self.generation += 1;
    }

    /// The AQL read index, or the PM4 read pointer in dwords.
    pub fn read_index(&self) -> u64 {
        self.rptr / self.regs.unit()
    }

    /// Makes the queue hang with its next packet.
    pub fn hang(&mut self, how: Hang) {
        self.hung = Some(how);
    }

    /// Ends a hang, and the waves.
    pub fn unhang(&mut self) {
        self.hung = None;
        self.kill_waves();
    }
}
