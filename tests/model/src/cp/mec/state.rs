// SPDX-License-Identifier: GPL-2.0
//! Changes of the MECs' HQDs apart from packets: queues are taken off and restored, are tried
//! again, and have their write pointers polled.

use std::time::{Duration, Instant};

use super::{is_firmware, State};
use crate::cp::execute::Work;
use crate::cp::gang::Gang;
use crate::cp::{launch, mqd, Slot};
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::regs::gc::{self, cp_pq_wptr_poll_cntl as poll_cntl};

/// The rate at which ends of packets make waiting ones try again, for each waiting packet: a try
/// takes about a tenth of that.
const HURRY: Duration = Duration::from_micros(20);
/// Period of write-pointer polling.
const POLL_PERIOD: Duration = Duration::from_millis(1);

/// What comes of the request that a queue leave. Waves may end or be saved at any moment: only this
/// says whether it had some at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cp) enum Departure {
    /// It has left.
    Gone,
    /// It hangs, or is amid a packet: the request stays.
    Hangs,
    /// It leaves once its waves have ended or are saved.
    Waves,
}

impl State {
    /// Takes a queue off with its state saved, if it can leave.
    pub(in crate::cp) fn take_off(&mut self, gpu: &Gpu, slot: Slot) -> Result<Departure> {
        let gpu = &gpu.xcc(slot.xcc());
        let hqd = &mut self.hqds[slot.index()];
        if hqd.is_hung() || hqd.has_waves() {
            hqd.request_off(gpu.clock.now());
            gpu.sq.wake();
        }
        if hqd.has_waves() {
            return Ok(Departure::Waves);
        }
        if hqd.is_hung() {
            return Ok(Departure::Hangs);
        }
        if let Some(remains) = hqd.remains() {
            mqd::save_waves(gpu, hqd, &remains)?;
            gpu.summary.cp_saves.bump();
        }
        let index = hqd.read_index();
        hqd.drop_off();
        gpu.summary.cp_dequeues.bump();
        mqd::save(gpu, hqd, index)?;
        Ok(Departure::Gone)
    }

    /// Runs the cleaner shader for a process that gets a VMID, which no other process has now. Old
    /// firmware does not know that it should.
    pub(in crate::cp) fn clean(&self, gpu: &Gpu, gang: Gang, at_once: usize) -> Result<()> {
        if !is_firmware(gpu, gpu.regs.asic.firmware.cleans) {
            return Ok(());
        }
        if self.cleaner == 0 {
            return Err(ModelError::Other(
                "MAP_PROCESS: exec_cleaner_shader, and the KIQ knows no cleaner".into(),
            ));
        }
        if at_once != 1 {
            return Err(ModelError::Other(format!(
                "MAP_PROCESS: exec_cleaner_shader, and {at_once} processes at once"
            )));
        }
        for xcc in gang.members() {
            gpu.sq.clean(&gpu.xcc(xcc), self.cleaner)?;
        }
        Ok(())
    }

    /// Loads the state that registers lack from a queue's MQD: its AQL read index, COMPUTE_*
    /// registers, saved waves.
    pub(in crate::cp) fn restore(&mut self, gpu: &Gpu, slot: Slot) -> Result<()> {
        let gpu = &gpu.xcc(slot.xcc());
        let hqd = &mut self.hqds[slot.index()];
        mqd::check_memory(gpu, hqd)?;
        let index = if hqd.regs.is_aql() {
            Some(mqd::read_index(gpu, hqd)?)
        } else {
            None
        };
        hqd.restored(index);
        launch::resume(gpu, slot, hqd)
    }

    /// Decides how a scheduler's packet that removes queues goes on. It waits for queues that do
    /// not leave. When it has waited too long it reports one in the scheduler's MQD, leaves them
    /// where they are, and goes on as usual.
    pub(super) fn verdict(
        &mut self,
        gpu: &Gpu,
        by: Slot,
        gang: Gang,
        gone: bool,
        waited: Duration,
    ) -> Result<Work> {
        if gone {
            return Ok(Work::Done);
        }
        let mut slots = gang.members().flat_map(Slot::all);
        let hung = slots.find(|slot| self.hqds[slot.index()].stays());
        let Some(hung) = hung.filter(|_| waited >= self.resources.patience()) else {
            return Ok(Work::Blocked);
        };
        // In the MQD of the scheduler of that XCC.
        let scheduler = match (gang.size(), self.hiqs[hung.xcc()]) {
            (2.., Some((slot, _))) => slot,
            _ => by,
        };
        let doorbell = self.hqds[hung.index()].regs.doorbell();
        let scheduler = &self.hqds[scheduler.index()];
        mqd::report_hang(&gpu.xcc(hung.xcc()), scheduler, doorbell)?;
        self.abandon();
        Ok(Work::Done)
    }

    /// Notes progress that other packets may wait for.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.hurried.is_some_and(|next| now < next) {
            return;
        }
        let tries = self
            .hqds
            .iter_mut()
            .filter_map(|hqd| hqd.hurry(now))
            .count();
        self.hurried = Some(now + HURRY * tries.max(1) as u32);
    }
}

/// Reads all write pointers when that is due. Returns the next time for it, if there is one.
pub(super) fn poll_all(gpu: &Gpu, state: &mut State, now: Instant) -> Option<Instant> {
    let polls = |gpu: Gpu| poll_cntl::EN.is_set(gpu.regs.get(gc::CP_PQ_WPTR_POLL_CNTL));
    if !gpu.xccs().any(polls) {
        return None;
    }
    match state.next_poll {
        Some(next) if next > now => {}
        _ => {
            state.next_poll = Some(now + POLL_PERIOD);
            for hqd in state.hqds.iter_mut().filter(|hqd| hqd.is_active()) {
                hqd.request_poll();
            }
        }
    }
    state.next_poll
}
