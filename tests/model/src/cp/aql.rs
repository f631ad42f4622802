// SPDX-License-Identifier: GPL-2.0
//! AQL packets: 64 bytes with a header that says when they are valid.

use super::execute::{Executor, Outcome, Step, Work};
use super::hqd_registers::AQL_DWORDS;
use super::interrupt::Exception;
use super::pm4::{self, Packet as Pm4};
use super::signal::{self, Signal};
use crate::error::Result;
use crate::regs::gc::cp_hqd_error as error;
use crate::regs::Field;

const TYPE: Field = Field::new(7, 0);
const VENDOR: u32 = 0;
const INVALID: u32 = 1;
const KERNEL_DISPATCH: u32 = 2;
const BARRIER_AND: u32 = 3;
const AGENT_DISPATCH: u32 = 4;
const BARRIER_OR: u32 = 5;

/// Format of a vendor packet, in the byte behind the header.
const FORMAT: Field = Field::new(23, 16);
const FORMAT_PM4_IB: u32 = 1;
const FORMAT_BARRIER_VALUE: u32 = 2;

/// Dword of the first of the five signals of a barrier, and of a barrier-value's operands.
const DEPENDENCIES: usize = 2;
const BARRIER_SIGNALS: usize = 5;
const COMPLETION: usize = 14;

/// The dwords of a packet.
pub(super) struct Packet(Vec<u32>);

impl Packet {
    fn header(&self) -> u32 {
        self.0[0]
    }

    /// A dword.
    pub(super) fn word(&self, at: usize) -> u32 {
        self.0[at]
    }

    /// Two dwords, the low one first.
    pub(super) fn qword(&self, at: usize) -> u64 {
        u64::from(self.0[at]) | u64::from(self.0[at + 1]) << 32
    }

    fn completion(&self) -> u64 {
        self.qword(COMPLETION)
    }

    fn dependencies(&self) -> impl Iterator<Item = u64> + '_ {
        (0..BARRIER_SIGNALS).map(|n| self.qword(DEPENDENCIES + 2 * n))
    }

    fn name(&self) -> &'static str {
        match (TYPE.get(self.header()), FORMAT.get(self.header())) {
            (KERNEL_DISPATCH, _) => "KERNEL_DISPATCH",
            (BARRIER_AND, _) => "BARRIER_AND",
            (BARRIER_OR, _) => "BARRIER_OR",
            (VENDOR, FORMAT_PM4_IB) => "VENDOR_PM4_IB",
            (VENDOR, _) => "VENDOR_BARRIER_VALUE",
            _ => "other",
        }
    }
}

impl Executor<'_> {
    /// The packet at the read pointer; not called within an indirect buffer.
    pub(super) fn aql(&mut self) -> Result<Step> {
        let Some(words) = self.fetch(AQL_DWORDS)? else {
            return Ok(Step::Halted(error::PQ_UTCL1_ERROR.of(1)));
        };
        let packet = Packet(words);
        let header = packet.header();
        if self.is_ahead() {
            return Ok(Step::Blocked);
        }
        let refuse = |code, reason| Ok(Err((code, reason)));
        let outcome: Outcome = match TYPE.get(header) {
            // Not written yet: the writer of a later packet was faster.
            INVALID => return Ok(Step::Blocked),
            _ if !Signal::is_aligned(packet.completion()) => refuse(
                Exception::Unsupported,
                "the completion signal is not aligned",
            ),
            BARRIER_AND | BARRIER_OR if self.follows() => Ok(Ok(Work::Done)),
            VENDOR if self.follows() && FORMAT.get(header) == FORMAT_BARRIER_VALUE => {
                Ok(Ok(Work::Done))
            }
            BARRIER_AND => self.barrier(&packet, true),
            BARRIER_OR => self.barrier(&packet, false),
            VENDOR => self.vendor(&packet),
            KERNEL_DISPATCH => self.dispatch(&packet),
            AGENT_DISPATCH => refuse(Exception::Unsupported, "agent dispatches are not for a GPU"),
            _ => refuse(Exception::Unsupported, "the packet type is reserved"),
        };
        match outcome? {
            Ok(Work::Done) if self.waits_for_others() => return Ok(Step::Blocked),
            Ok(Work::Done) => self.complete()?,
            Ok(Work::Skip(_)) => return Ok(Step::Blocked),
            Ok(Work::Enter(ib) | Work::Chain(ib)) => self.job.ib = Some(ib),
            Ok(Work::Blocked) => return Ok(Step::Blocked),
            Ok(Work::Stuck) => return Ok(Step::Halted(error::TC_UTCL1_ERROR.of(1))),
            Err(refusal) => return self.refuse(header, refusal),
        }
        Ok(self.eop_fault().unwrap_or(Step::Done))
    }

    /// Returns whether this is not the first of the XCCs that serve the queue.
    pub(super) fn follows(&self) -> bool {
        self.job.team.is_some_and(|team| !team.leads())
    }

    /// Returns whether the first XCC has not ended the packets before.
    fn is_ahead(&self) -> bool {
        let team = self.job.team.filter(|team| !team.leads());
        team.is_some_and(|team| team.lead.is_none_or(|lead| lead < self.job.rptr))
    }

    /// Returns whether this is the first XCC, and others have not done their parts of the packet.
    pub(super) fn waits_for_others(&self) -> bool {
        let team = self.job.team.filter(|team| team.leads());
        team.is_some_and(|team| team.others.is_none_or(|others| others <= self.job.rptr))
    }

    /// The packet at the read pointer is done: its slot is free, and the waiter is notified, by the
    /// first XCC.
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.follows() {
            self.job.rptr += AQL_DWORDS;
            return Ok(());
        }
        let Some(words) = self.fetch(AQL_DWORDS)? else {
            // It was there when it began: its owner has unmapped it, and gets the fault.
            return Ok(());
        };
        let packet = Packet(words);
        self.gpu.summary.aql.count(packet.name());
        let at = self.job.rptr % self.job.size * 4;
        let ring = super::execute::address_space(self.gpu, self.job.vmid);
        ring.write(self.job.base.wrapping_add(at), &[INVALID as u8])?;
        self.move_rptr(AQL_DWORDS)?;
        let Some(signal) = Signal::new(packet.completion()) else {
            return Ok(());
        };
        self.end_of_pipe(packet.completion(), 0, 0)?;
        let now = self.gpu.clock.now();
        if signal::is_profiled(self.gpu, self.job)? {
            let (start, end) = self.times.unwrap_or((now, now));
            signal.stamp(&ring, start, end)?;
        }
        signal.subtract(&ring, 1)?;
        signal.notify(self.gpu, &ring, self.job)
    }

    fn barrier(&self, packet: &Packet, all: bool) -> Outcome {
        let before = self.vm.faults();
        let (mut present, mut met) = (0, 0);
        for handle in packet.dependencies() {
            if !Signal::is_aligned(handle) {
                let reason = "a dependency is not aligned";
                return Ok(Err((Exception::Unsupported, reason)));
            }
            let Some(signal) = Signal::new(handle) else {
                continue;
            };
            present += 1;
            met += u32::from(signal.value(&self.vm)? == 0);
        }
        let holds = met == present || !all && met > 0;
        Ok(Ok(self.verdict(before, holds)))
    }

    fn verdict(&self, faults_before: u64, holds: bool) -> Work {
        if self.vm.faults() != faults_before {
            Work::Stuck
        } else if holds {
            Work::Done
        } else {
            Work::Blocked
        }
    }

    fn vendor(&self, packet: &Packet) -> Outcome {
        match FORMAT.get(packet.header()) {
            FORMAT_PM4_IB => {
                let jump = &packet.0[1..5];
                if !pm4::is_indirect_buffer(jump) {
                    let reason = "the vendor packet has no INDIRECT_BUFFER";
                    return Ok(Err((Exception::Vendor, reason)));
                }
                let Pm4::Indirect {
                    base, dwords, vmid, ..
                } = pm4::indirect_buffer(jump)
                else {
                    return Ok(Ok(Work::Done));
                };
                Ok(self.indirect(base, dwords, vmid, false))
            }
            FORMAT_BARRIER_VALUE => self.barrier_value(packet),
            _ => Ok(Err((Exception::Vendor, "the vendor format is unknown"))),
        }
    }

    /// Waits for a masked signal value to compare with a number.
    fn barrier_value(&self, packet: &Packet) -> Outcome {
        const VALUE: usize = 4;
        const MASK: usize = 6;
        const CONDITION: usize = 8;
        let handle = packet.qword(DEPENDENCIES);
        if !Signal::is_aligned(handle) {
            let reason = "the signal is not aligned";
            return Ok(Err((Exception::Unsupported, reason)));
        }
        let Some(signal) = Signal::new(handle) else {
            return Ok(Ok(Work::Done));
        };
        let before = self.vm.faults();
        let value = signal.value(&self.vm)? & packet.qword(MASK) as i64;
        let reference = packet.qword(VALUE) as i64;
        let holds = match packet.0[CONDITION] {
            0 => value == reference,
            1 => value != reference,
            2 => value < reference,
            3 => value >= reference,
            _ => {
                let reason = "the condition is unknown";
                return Ok(Err((Exception::Unsupported, reason)));
            }
        };
        Ok(Ok(self.verdict(before, holds)))
    }
}
