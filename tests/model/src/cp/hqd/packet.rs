// SPDX-License-Identifier: GPL-2.0
//! A queue's packet: the executor's copy of the queue's state at its begin, and the queue's state
//! after it, when it is done, waits or fails.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::{Hqd, Wait};
use crate::cp::eop::Eop;
use crate::cp::gang::{Share, Team};
use crate::cp::job::Job;
use crate::cp::Slot;
use crate::regs::gc::{
    self, cp_hqd_eop_control as eop_control, cp_hqd_eop_rptr as eop_rptr,
    cp_hqd_eop_wptr as eop_wptr, cp_hqd_pq_control as pq_control,
};

/// The time for which a waiting packet is tried again and again before the queue sleeps between the
/// tries.
const SPIN: Duration = Duration::from_micros(30);
/// The longest sleep; else one eighth of the time waited so far.
const LONGEST_NAP: Duration = Duration::from_millis(2);
/// Long sleeps end at multiples of this, so that many queues are tried at one wake-up.
const BEAT: Duration = Duration::from_micros(500);

/// Origin of the multiples.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Hqd {
    /// Begins a packet. Returns false if the write pointer is impossible for the ring.
    pub fn begin(&mut self, slot: Slot, team: Option<Team>) -> (Job, bool) {
        let control = self.regs.get(gc::CP_HQD_PQ_CONTROL);
        let aql = self.regs.is_aql();
        let report = self.regs.wide(gc::CP_HQD_PQ_RPTR_REPORT_ADDR) & !3;
        let silent = !aql && pq_control::NO_UPDATE_RPTR.is_set(control);
        let eop = self.regs.wide(gc::CP_HQD_EOP_BASE_ADDR) << 8;
        let size = 2u32
            << eop_control::EOP_SIZE
                .get(self.regs.get(gc::CP_HQD_EOP_CONTROL))
                .min(12);
        // An AQL write index may be reserved ahead; headers mark valid packets.
        let valid = aql || self.wptr - self.rptr.min(self.wptr) <= self.regs.size();
        self.executing = true;
        let job = Job {
            slot,
            team,
            share: self.share.unwrap_or_else(|| Share::whole(slot.xcc())),
            times: None,
            generation: self.generation,
            vmid: self.regs.vmid(),
            aql,
            base: self.regs.wide(gc::CP_HQD_PQ_BASE) << 8,
            size: self.regs.size(),
            rptr: self.rptr,
            wptr: self.wptr,
            report: (report != 0 && !silent).then_some(report),
            doorbell: self.regs.doorbell(),
            eop: (eop != 0).then(|| Eop {
                base: eop,
                size,
                wptr: eop_wptr::WPTR.get(self.regs.get(gc::CP_HQD_EOP_WPTR)) & (size - 1),
                is_broken: false,
            }),
            compute: self.compute.clone(),
            area: self.regs.area(),
            grid: self.grid.clone(),
            ended: false,
            reclaims: self.reclaims,
            ib: self.ib,
            tries: self.wait.map_or(0, |wait| wait.tries),
            waited: self
                .wait
                .map_or(Duration::ZERO, |wait| wait.since.elapsed()),
        };
        (job, valid)
    }

    /// Ends the packet: the queue's state is that of `job`.
    pub fn end(&mut self, job: &Job) {
        self.settle(job);
        self.packets += 1;
    }

    fn settle(&mut self, job: &Job) {
        self.executing = false;
        self.rptr = job.rptr;
        self.ib = job.ib;
        self.reclaims = job.reclaims;
        self.grid = job.grid.clone().filter(|grid| !grid.is_killed());
        self.times = job.times.or(self.times);
        self.compute = job.compute.clone();
        self.wait = None;
        if let Some(eop) = job.eop {
            self.regs
                .put(gc::CP_HQD_EOP_WPTR, eop_wptr::WPTR.of(eop.wptr));
            self.regs
                .put(gc::CP_HQD_EOP_RPTR, eop_rptr::RPTR.of(eop.wptr));
        }
    }

    /// The packet has to wait.
    pub fn block(&mut self, job: &Job, now: Instant) {
        let (since, tries) = self.wait.map_or((now, 0), |wait| (wait.since, wait.tries));
        self.settle(job);
        let waited = now - since;
        // Waves that ended after the executor's check.
        let over = !job.ended && job.grid.as_ref().is_some_and(|grid| grid.times().is_some());
        // The end of waves is notified: there is no need to poll for that.
        let waves = job.grid.as_ref().is_some_and(|grid| grid.origin.of_packet);
        let nap = match (waited / 8).min(LONGEST_NAP) {
            _ if over => Duration::ZERO,
            nap if waves && nap < SPIN => SPIN,
            _ if waited < SPIN => Duration::ZERO,
            nap if nap < BEAT => nap,
            nap => {
                let end = (now + nap).duration_since(*EPOCH).as_micros() as u64;
                let beat = BEAT.as_micros() as u64;
                let late = end.next_multiple_of(beat) - end;
                nap + Duration::from_micros(late)
            }
        };
        self.wait = Some(Wait {
            since,
            next: now + nap,
            tries: tries.saturating_add(1),
        });
    }

    /// The packet is not complete: its end is past the write pointer.
    pub fn starve(&mut self, job: &Job) {
        self.settle(job);
        self.starved = Some(job.wptr);
    }

    /// Stops the queue with bits of CP_HQD_ERROR until it is started anew.
    pub fn halt(&mut self, error: u32) {
        self.kill_waves();
        self.executing = false;
        self.wait = None;
        self.regs.put(gc::CP_HQD_ERROR, error);
    }
}
