// SPDX-License-Identifier: GPL-2.0
//! A ring of an engine: the kernel's GFX ring or one of the RLC queues.

use std::time::{Duration, Instant};

use super::mqd::{self, dword};
use crate::error::Result;
use crate::indirect::Ib;
use crate::regs::sdma::{
    self, gfx_context_status as status, gfx_doorbell, gfx_doorbell_offset, gfx_ib_cntl,
    gfx_minor_ptr_update, gfx_rb_aql_cntl, gfx_rb_cntl, gfx_rb_wptr_poll_cntl,
};
use crate::regs::{Reg, Store, SDMA_BASE, SDMA_GFX, SDMA_QUEUE_STRIDE};

/// Tries of a poll before the queue sleeps between them.
const SPINS: u32 = 50;
/// Sleep after that, and after [`PATIENT`] more tries.
const NAP: Duration = Duration::from_micros(20);
const LONG_NAP: Duration = Duration::from_micros(100);
const PATIENT: u32 = 50;

/// The reason why a queue is halted: CONTEXT_STATUS.EXCEPTION.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exception {
    /// The packet is not one the engine executes, or not for this queue.
    Packet = 1,
    /// A poll with a retry limit has reached it.
    PollTimeout = 2,
    /// The ring or indirect buffer could not be read.
    Fetch = 3,
    /// The doorbell's value cannot be a write pointer of this ring.
    Doorbell = 4,
}

impl Exception {
    /// The exception with that number.
    fn of(number: u32) -> Option<Exception> {
        use Exception::*;
        [Packet, PollTimeout, Fetch, Doorbell]
            .into_iter()
            .find(|&exception| exception as u32 == number)
    }
}

/// A packet that waits for something.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Tries so far.
    pub tries: u32,
    /// When to try again.
    pub next: Instant,
}

/// The executor's view of a queue, copied so that no lock is held.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Number of the queue: 0 GFX, n RLC n - 1.
    pub queue: usize,
    /// RB_CNTL.RB_VMID.
    pub vmid: u8,
    /// Ring address and size, bytes.
    pub base: u64,
    /// See above.
    pub size: u64,
    /// Bytes, never wrapping.
    pub rptr: u64,
    /// See above.
    pub wptr: u64,
    /// Where the read pointer is written to, if anywhere.
    pub writeback: Option<u64>,
    /// IB_CNTL.IB_ENABLE.
    pub ib_enable: bool,
    /// The current indirect buffer.
    pub ib: Option<Ib>,
    /// Tries of the packet at the read pointer.
    pub tries: u32,
}

/// The queue's registers and state.
pub struct Queue {
    /// An RLC queue, not the kernel's ring.
    is_rlc: bool,
    /// The number of the current load of an MQD, and the number of loads so far.
    load: Option<u64>,
    loads: u64,
    /// It is to be unloaded when the current packet has ended.
    leaving: bool,
    regs: [u32; SDMA_QUEUE_STRIDE as usize],
    rptr: u64,
    wptr: u64,
    /// A doorbell that rang while MINOR_PTR_UPDATE was set.
    captured: Option<u64>,
    exception: Option<Exception>,
    executing: bool,
    ib: Option<Ib>,
    wait: Option<Wait>,
    /// The write pointer with which the last packet was not complete.
    starved: Option<u64>,
    /// When it was last disabled.
    disabled: Option<Instant>,
}

/// Index of a register of the GFX ring; all queues use it.
const fn at(reg: Reg) -> usize {
    (reg.0 - SDMA_BASE[0] - SDMA_GFX) as usize
}

impl Queue {
    /// Out of reset.
    pub fn new(is_rlc: bool) -> Queue {
        Queue {
            is_rlc,
            load: None,
            loads: 0,
            leaving: false,
            regs: [0; SDMA_QUEUE_STRIDE as usize],
            rptr: 0,
            wptr: 0,
            captured: None,
            exception: None,
            executing: false,
            ib: None,
            wait: None,
            starved: None,
            disabled: None,
        }
    }

    fn reg(&self, reg: Reg) -> u32 {
        self.regs[at(reg)]
    }

    /// Returns whether its ring is enabled.
    pub fn is_enabled(&self) -> bool {
        gfx_rb_cntl::RB_ENABLE.is_set(self.reg(sdma::GFX_RB_CNTL))
    }

    fn minor(&self) -> bool {
        gfx_minor_ptr_update::ENABLE.is_set(self.reg(sdma::GFX_MINOR_PTR_UPDATE))
    }

    /// Returns whether a packet of it is in execution.
    pub fn is_executing(&self) -> bool {
        self.executing
    }

    /// RLC queues are scheduled by their doorbells: one without a doorbell does not run, enabled or
    /// not.
    fn is_scheduled(&self) -> bool {
        !self.is_rlc || gfx_doorbell::ENABLE.is_set(self.reg(sdma::GFX_DOORBELL))
    }

    fn has_work(&self) -> bool {
        let more = self.wptr > self.rptr && self.starved != Some(self.wptr) && !self.minor();
        self.is_enabled()
            && self.is_scheduled()
            && !self.leaving
            && self.exception.is_none()
            && (self.ib.is_some() || more)
    }

    /// Returns whether no queue is there.
    pub fn is_free(&self) -> bool {
        !(self.executing || self.is_enabled() && self.is_scheduled())
    }

    /// Returns whether that load is there.
    pub fn is_loaded(&self, load: u64) -> bool {
        self.load == Some(load)
    }

    /// Returns whether it has packets, or is in the middle of one.
    pub fn is_busy(&self) -> bool {
        self.executing || self.has_work()
    }

    /// Loads the queue of an MQD and starts it. Returns the number of the load. Its write pointer
    /// is the greater of the MQD's and `wptr`.
    pub fn load(
        &mut self,
        mqd: &[u32; mqd::DWORDS],
        vmid: u8,
        doorbell: u32,
        wptr: u64,
    ) -> std::result::Result<u64, &'static str> {
        let wide = |lo: usize| u64::from(mqd[lo]) | u64::from(mqd[lo + 1]) << 32;
        if vmid == 0 {
            return Err("an SDMA queue of VMID 0");
        }
        if gfx_rb_aql_cntl::AQL_ENABLE.is_set(mqd[dword::RB_AQL_CNTL]) {
            return Err("AQL packets are not modelled");
        }
        if wide(dword::RB_BASE) == 0 {
            return Err("the ring is at 0");
        }
        let loads = self.loads + 1;
        *self = Queue {
            loads,
            load: Some(loads),
            ..Queue::new(self.is_rlc)
        };
        let control = gfx_rb_cntl::RB_VMID.put(mqd[dword::RB_CNTL], vmid.into());
        for (reg, value) in [
            (sdma::GFX_RB_CNTL, gfx_rb_cntl::RB_ENABLE.put(control, 1)),
            (sdma::GFX_RB_BASE, mqd[dword::RB_BASE]),
            (sdma::GFX_RB_BASE_HI, mqd[dword::RB_BASE + 1]),
            (sdma::GFX_RB_RPTR_ADDR_LO, mqd[dword::RB_RPTR_ADDR_LO]),
            (sdma::GFX_RB_RPTR_ADDR_HI, mqd[dword::RB_RPTR_ADDR_HI]),
            (
                sdma::GFX_IB_CNTL,
                gfx_ib_cntl::IB_ENABLE.put(mqd[dword::IB_CNTL], 1),
            ),
            (
                sdma::GFX_DOORBELL_OFFSET,
                gfx_doorbell_offset::OFFSET.of(doorbell),
            ),
            (sdma::GFX_DOORBELL, gfx_doorbell::ENABLE.of(1)),
        ] {
            self.regs[at(reg)] = value;
        }
        self.rptr = wide(dword::RB_RPTR) & !3;
        self.wptr = wide(dword::RB_WPTR).max(wptr).max(self.rptr) & !3;
        self.exception = Exception::of(status::EXCEPTION.get(mqd[dword::CONTEXT_STATUS]));
        self.ib = (mqd[dword::IB_SIZE] != 0).then(|| Ib {
            base: wide(dword::IB_BASE),
            vmid,
            dwords: mqd[dword::IB_SIZE].into(),
            at: mqd[dword::IB_RPTR].into(),
        });
        // A buffer that is at its end would never leave.
        self.ib = self.ib.filter(|ib| ib.at < ib.dwords);
        Ok(loads)
    }

    /// Begins no more packets. Returns false if the current packet has not ended.
    pub fn leave(&mut self) -> bool {
        self.leaving = true;
        !self.executing
    }

    /// Cancels that.
    pub fn stay(&mut self) {
        self.leaving = false;
    }

    /// Takes the queue off. Returns dwords of its MQD, and their values.
    pub fn unload(&mut self) -> [(usize, u32); 9] {
        let ib = self.ib.filter(|_| self.exception.is_none());
        let (base, dwords, position) = ib.map_or((0, 0, 0), |ib| (ib.base, ib.dwords, ib.at));
        let context = self.exception.map_or(0, |code| code as u32);
        let saved = [
            (dword::RB_RPTR, self.rptr as u32),
            (dword::RB_RPTR + 1, (self.rptr >> 32) as u32),
            (dword::RB_WPTR, self.wptr as u32),
            (dword::RB_WPTR + 1, (self.wptr >> 32) as u32),
            (dword::IB_RPTR, position as u32),
            (dword::IB_BASE, base as u32),
            (dword::IB_BASE + 1, (base >> 32) as u32),
            (dword::IB_SIZE, dwords as u32),
            (dword::CONTEXT_STATUS, status::EXCEPTION.of(context)),
        ];
        *self = Queue {
            loads: self.loads,
            ..Queue::new(self.is_rlc)
        };
        saved
    }

    /// When the queue can go on, or None if it needs a doorbell or register write first.
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        self.has_work()
            .then(|| self.wait.map_or(now, |wait| wait.next))
    }

    /// Returns whether register `index` is CONTEXT_STATUS.
    pub fn is_status(index: usize) -> bool {
        index == at(sdma::GFX_CONTEXT_STATUS)
    }

    /// The value of that for a queue that is not idle.
    pub fn busy(value: u32) -> u32 {
        status::IDLE.put(value, 0)
    }

    /// Returns whether it was disabled less than `time` ago.
    pub fn is_leaving(&self, time: Duration) -> bool {
        !self.is_enabled() && self.disabled.is_some_and(|at| at.elapsed() < time)
    }

    /// Reads register `index`.
    pub fn read(&self, index: usize) -> u32 {
        const RPTR: usize = at(sdma::GFX_RB_RPTR);
        const RPTR_HI: usize = at(sdma::GFX_RB_RPTR_HI);
        const WPTR: usize = at(sdma::GFX_RB_WPTR);
        const WPTR_HI: usize = at(sdma::GFX_RB_WPTR_HI);
        const STATUS: usize = at(sdma::GFX_CONTEXT_STATUS);
        match index {
            RPTR => self.rptr as u32,
            RPTR_HI => (self.rptr >> 32) as u32,
            WPTR => self.wptr as u32,
            WPTR_HI => (self.wptr >> 32) as u32,
            STATUS => {
                status::SELECTED.of(self.executing.into())
                    | status::IDLE.of((!self.executing && !self.has_work()).into())
                    | status::EXCEPTION.of(self.exception.map_or(0, |code| code as u32))
            }
            _ => self.regs[index],
        }
    }

    /// Writes register `index`, which is `reg` in BAR5.
    pub fn write(&mut self, store: &Store, reg: Reg, index: usize, value: u32) -> Result<()> {
        const RB_CNTL: usize = at(sdma::GFX_RB_CNTL);
        const RPTR: usize = at(sdma::GFX_RB_RPTR);
        const RPTR_HI: usize = at(sdma::GFX_RB_RPTR_HI);
        const WPTR: usize = at(sdma::GFX_RB_WPTR);
        const WPTR_HI: usize = at(sdma::GFX_RB_WPTR_HI);
        const POLL: usize = at(sdma::GFX_RB_WPTR_POLL_CNTL);
        const AQL: usize = at(sdma::GFX_RB_AQL_CNTL);
        const STATUS: usize = at(sdma::GFX_CONTEXT_STATUS);
        const MINOR: usize = at(sdma::GFX_MINOR_PTR_UPDATE);
        let low = |whole: u64| whole & !0xffff_ffff | u64::from(value);
        let high = |whole: u64| whole & 0xffff_ffff | u64::from(value) << 32;
        match index {
            RB_CNTL if gfx_rb_cntl::RB_ENABLE.is_set(value) && !self.is_enabled() => {
                self.exception = None;
                self.restart();
            }
            RB_CNTL if !gfx_rb_cntl::RB_ENABLE.is_set(value) && self.is_enabled() => {
                self.disabled = Some(Instant::now());
            }
            RPTR | RPTR_HI => {
                if self.is_enabled() {
                    return Err(store.refuse(reg, value, "RB_ENABLE is set"));
                }
                let rptr = self.rptr;
                self.rptr = if index == RPTR { low(rptr) } else { high(rptr) } & !3;
                self.restart();
                return Ok(());
            }
            WPTR => {
                self.wptr = low(self.wptr) & !3;
                return Ok(());
            }
            WPTR_HI => {
                self.wptr = high(self.wptr);
                if self.is_enabled() && self.wptr < self.rptr && !self.minor() {
                    let reason = "the write pointer is below the read pointer";
                    return Err(store.refuse(reg, value, reason));
                }
                return Ok(());
            }
            POLL if gfx_rb_wptr_poll_cntl::ENABLE.is_set(value) => {
                return Err(store.refuse(
                    reg,
                    value,
                    "polling of the write pointer is not modelled",
                ));
            }
            AQL if gfx_rb_aql_cntl::AQL_ENABLE.is_set(value) => {
                return Err(store.refuse(reg, value, "AQL packets are not modelled"));
            }
            STATUS => return Err(store.refuse(reg, value, "the register is read-only")),
            MINOR => match self.captured.take() {
                Some(doorbell) if !gfx_minor_ptr_update::ENABLE.is_set(value) => {
                    self.wptr = self.wptr.max(doorbell);
                }
                _ => {}
            },
            _ => {}
        }
        self.regs[index] = value;
        Ok(())
    }

    /// Forgets the state of an indirect buffer, a poll or an incomplete packet.
    pub fn restart(&mut self) {
        self.ib = None;
        self.wait = None;
        self.starved = None;
    }

    /// Returns whether its doorbell is at dword `index` of BAR2 and enabled.
    pub fn owns_doorbell(&self, index: u32) -> bool {
        gfx_doorbell::ENABLE.is_set(self.reg(sdma::GFX_DOORBELL))
            && gfx_doorbell_offset::OFFSET.get(self.reg(sdma::GFX_DOORBELL_OFFSET)) == index
    }

    /// Its doorbell rings with a write pointer in bytes. Smaller values than before are ignored.
    /// Returns false if that happens to the kernel, whose submission is then lost.
    pub fn ring(&mut self, value: u64) -> bool {
        let value = value & !3;
        if self.minor() {
            self.captured = self.captured.max(Some(value));
        } else if value > self.wptr {
            self.wptr = value;
        } else if value < self.wptr {
            return self.vmid() != 0 || !self.is_enabled();
        }
        true
    }

    /// Begins a packet; None if the write pointer is impossible for the ring.
    pub fn begin(&mut self, queue: usize) -> Option<Job> {
        let control = self.reg(sdma::GFX_RB_CNTL);
        let size = 4u64 << gfx_rb_cntl::RB_SIZE.get(control);
        if self.wptr - self.rptr.min(self.wptr) > size {
            return None;
        }
        self.executing = true;
        let wide = |lo, hi| u64::from(self.reg(lo)) | u64::from(self.reg(hi)) << 32;
        Some(Job {
            queue,
            vmid: gfx_rb_cntl::RB_VMID.get(control) as u8,
            base: wide(sdma::GFX_RB_BASE, sdma::GFX_RB_BASE_HI) << 8,
            size,
            rptr: self.rptr,
            wptr: self.wptr,
            writeback: gfx_rb_cntl::RPTR_WRITEBACK_ENABLE
                .is_set(control)
                .then(|| wide(sdma::GFX_RB_RPTR_ADDR_LO, sdma::GFX_RB_RPTR_ADDR_HI) & !3),
            ib_enable: gfx_ib_cntl::IB_ENABLE.is_set(self.reg(sdma::GFX_IB_CNTL)),
            ib: self.ib,
            tries: self.wait.map_or(0, |wait| wait.tries),
        })
    }

    /// Ends the packet: the queue's state is that of `job`.
    pub fn end(&mut self, job: &Job) {
        self.executing = false;
        self.rptr = job.rptr;
        self.ib = job.ib;
        self.wait = None;
    }

    /// The packet is lost in a reset of the engine: the queue stays at its beginning.
    pub fn lose(&mut self) {
        self.executing = false;
        self.restart();
    }

    /// The packet has to wait.
    pub fn block(&mut self, job: &Job, now: Instant) {
        self.end(job);
        let tries = job.tries.saturating_add(1);
        let nap = match tries {
            n if n <= SPINS => Duration::ZERO,
            n if n <= SPINS + PATIENT => NAP,
            _ => LONG_NAP,
        };
        self.wait = Some(Wait {
            tries,
            next: now + nap,
        });
    }

    /// The packet is not complete: its end is past the write pointer.
    pub fn starve(&mut self, job: &Job) {
        self.end(job);
        self.starved = Some(job.wptr);
    }

    /// Stops the queue until it is enabled anew.
    pub fn halt(&mut self, exception: Exception) {
        self.executing = false;
        self.exception = Some(exception);
    }

    /// The address space, for messages.
    pub fn vmid(&self) -> u8 {
        gfx_rb_cntl::RB_VMID.get(self.reg(sdma::GFX_RB_CNTL)) as u8
    }
}
