// SPDX-License-Identifier: GPL-2.0
//! Executes one packet of a queue: the common part of PM4 and AQL, and PM4.

use super::compute::ComputeRegisters;
use super::interrupt::{self, Exception};
use super::job::Job;
use super::kiq::{self, Role};
use super::pm4::{self, Packet, Place, Refusal, Release};
use super::signal;
use crate::condition::Condition;
use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::indirect::Ib;
use crate::regs::gc::{self, cp_hqd_error as error};
use crate::regs::Reg;
use crate::sdma::atomic;
use crate::vm::Vm;

/// FAULT_STATUS.CID of the compute front end in GFXHUB.
const CID_CPC: u32 = 5;
/// Dwords that hold most packets.
const HEAD: u64 = 16;
/// Dwords of INDIRECT_BUFFER.
const INDIRECT_DWORDS: u64 = 4;

/// Result of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is done.
    Done,
    /// It has to be tried again.
    Blocked,
    /// Its end is not there yet.
    Starved,
    /// The queue stops, with these bits of CP_HQD_ERROR.
    Halted(u32),
}

/// Result of the packet's work.
pub(super) enum Work {
    Done,
    Blocked,
    /// It waits for memory that cannot be read.
    Stuck,
    /// It is done, and so are so many dwords behind it.
    Skip(u64),
    Enter(Ib),
    Chain(Ib),
}

/// Result of a packet's work: outermost the driver's errors, then the user's.
pub(super) type Outcome = Result<std::result::Result<Work, Refusal>>;

/// A queue's packet at its read pointer.
pub struct Executor<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) job: &'a mut Job,
    pub(super) vm: Vm<'a>,
    /// When the packet's first wave began and its last one ended, if it had any.
    pub(super) times: Option<(u64, u64)>,
}

/// The address space of a queue, for the command processor.
pub fn address_space(gpu: &Gpu, vmid: u8) -> Vm<'_> {
    Vm::new(gpu, HubId::Gfx, vmid, CID_CPC)
}

impl<'a> Executor<'a> {
    /// Creates it for the queue in `job`.
    pub fn new(gpu: &'a Gpu, job: &'a mut Job) -> Executor<'a> {
        let vmid = job.ib.map_or(job.vmid, |ib| ib.vmid);
        Executor {
            gpu,
            job,
            vm: address_space(gpu, vmid),
            times: None,
        }
    }

    /// Executes the packet, moves the read pointer past it and reports that.
    pub fn step(mut self) -> Result<Step> {
        if self.job.aql && self.job.ib.is_none() {
            return self.aql();
        }
        self.pm4()
    }

    /// Refuses a write pointer that is more than the ring ahead.
    pub fn refuse_wptr(self) -> Result<Step> {
        self.refuse(
            0,
            (Exception::Unsupported, "the write pointer is past the ring"),
        )
    }

    fn pm4(&mut self) -> Result<Step> {
        let available = match self.job.ib {
            Some(ib) if ib.at >= ib.dwords => return self.end_buffer(),
            Some(ib) => ib.dwords - ib.at,
            None => self.job.wptr - self.job.rptr,
        };
        let Some(mut words) = self.fetch(HEAD.min(available))? else {
            return Ok(self.unreadable());
        };
        let header = words[0];
        let length = match pm4::length(header) {
            Ok(length) if length <= available => length,
            Ok(length) => {
                if self.job.ib.is_some() || length > self.job.size {
                    let reason = "the packet is longer than what holds it";
                    return self.refuse(header, (Exception::Unsupported, reason));
                }
                return Ok(Step::Starved);
            }
            Err(refusal) => return self.refuse(header, refusal),
        };
        if length > HEAD {
            let Some(whole) = self.fetch(length)? else {
                return Ok(self.unreadable());
            };
            words = whole;
        }
        words.truncate(length as usize);
        let (name, outcome) = match self.scheduler(header) {
            Some((name, role)) => (name, self.control(role, &words)?),
            None => match pm4::decode(&words) {
                Ok(packet) => (packet.name(), self.work(&packet)?),
                Err(refusal) => return self.refuse(header, refusal),
            },
        };
        match outcome {
            Ok(Work::Done) => self.advance(length)?,
            Ok(Work::Skip(more)) => self.advance(length + more)?,
            Ok(Work::Enter(ib) | Work::Chain(ib)) => self.job.ib = Some(ib),
            Ok(Work::Blocked) => return Ok(Step::Blocked),
            Ok(Work::Stuck) => return Ok(Step::Halted(error::TC_UTCL1_ERROR.of(1))),
            Err(refusal) => return self.refuse(header, refusal),
        }
        self.gpu.summary.pm4.count(name);
        Ok(self.eop_fault().unwrap_or(Step::Done))
    }

    /// The name of a packet that is a scheduler's, if the queue is one.
    fn scheduler(&self, header: u32) -> Option<(&'static str, Role)> {
        let name = kiq::name(pm4::opcode(header)).filter(|_| self.privileged())?;
        let role = self.gpu.cp.role(self.gpu, self.job.slot)?;
        Some((name, role))
    }

    /// The halt, if the EOP buffer could not be written.
    pub(super) fn eop_fault(&self) -> Option<Step> {
        let missing = self.job.eop.is_some_and(|eop| eop.is_broken);
        missing.then(|| Step::Halted(error::EOP_UTCL1_ERROR.of(1)))
    }

    fn unreadable(&self) -> Step {
        Step::Halted(if self.job.ib.is_some() {
            error::IB_UTCL1_ERROR.of(1)
        } else {
            error::PQ_UTCL1_ERROR.of(1)
        })
    }

    /// Reads dwords at the read position; None if it faults.
    pub(super) fn fetch(&self, dwords: u64) -> Result<Option<Vec<u32>>> {
        let before = self.vm.faults();
        let mut bytes = vec![0; dwords as usize * 4];
        match self.job.ib {
            Some(ib) => {
                let at = ib.base.wrapping_add(ib.at * 4);
                self.vm.read(at, &mut bytes)?;
            }
            None => {
                let at = self.job.rptr % self.job.size * 4;
                let first = bytes.len().min((self.job.size * 4 - at) as usize);
                let (first, wrapped) = bytes.split_at_mut(first);
                self.vm.read(self.job.base.wrapping_add(at), first)?;
                self.vm.read(self.job.base, wrapped)?;
            }
        }
        if self.vm.faults() != before {
            return Ok(None);
        }
        let words = bytes
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        Ok(Some(words.collect()))
    }

    /// Moves past a packet, and past the packet that led to the buffer if that ends here.
    fn advance(&mut self, length: u64) -> Result<()> {
        let Some(ib) = &mut self.job.ib else {
            return self.move_rptr(length);
        };
        ib.at += length;
        if ib.at < ib.dwords || self.job.aql && self.job.grid.is_some() {
            return Ok(());
        }
        if self.job.aql && self.waits_for_others() {
            return Ok(());
        }
        self.leave()
    }

    /// The end of an indirect buffer whose packet is done when the waves have ended.
    fn end_buffer(&mut self) -> Result<Step> {
        match self.waves() {
            Work::Done if self.waits_for_others() => return Ok(Step::Blocked),
            Work::Done => self.leave()?,
            Work::Stuck => return Ok(Step::Halted(error::TC_UTCL1_ERROR.of(1))),
            _ => return Ok(Step::Blocked),
        }
        Ok(self.eop_fault().unwrap_or(Step::Done))
    }

    /// The indirect buffer is done, and so is the packet that led there.
    fn leave(&mut self) -> Result<()> {
        self.job.ib = None;
        if self.job.aql {
            self.complete()
        } else {
            self.move_rptr(INDIRECT_DWORDS)
        }
    }

    /// Moves the read pointer on and reports it.
    pub(super) fn move_rptr(&mut self, dwords: u64) -> Result<()> {
        self.job.rptr += dwords;
        let Some(target) = self.job.report else {
            return Ok(());
        };
        let ring = address_space(self.gpu, self.job.vmid);
        if self.job.aql {
            let index = self.job.rptr / super::hqd_registers::AQL_DWORDS;
            if target % 8 == 0 {
                return ring.store64s(target, &[index]);
            }
            return ring.write(target, &index.to_le_bytes());
        }
        ring.store32(target, (self.job.rptr % self.job.size) as u32)
    }

    /// Returns whether the packet is the kernel's.
    pub(super) fn privileged(&self) -> bool {
        self.job.ib.map_or(self.job.vmid, |ib| ib.vmid) == 0
    }

    pub(super) fn refuse(&self, header: u32, (code, reason): Refusal) -> Result<Step> {
        if self.job.vmid == 0 {
            return Err(ModelError::CpPacket {
                queue: self.job.slot.to_string(),
                rptr: self.job.rptr,
                header,
                reason: reason.into(),
            });
        }
        if self.follows() {
            // The first XCC says so.
            return Ok(Step::Halted(error::AQL_ERROR.of(1)));
        }
        self.gpu.summary.cp_refused.bump();
        interrupt::bad_opcode(self.gpu, self.job, code, header)?;
        if !self.job.aql {
            return Ok(Step::Halted(error::SUA_ERROR.of(1)));
        }
        signal::report_error(self.gpu, self.job, code)?;
        Ok(Step::Halted(error::AQL_ERROR.of(1)))
    }

    fn work(&mut self, packet: &Packet) -> Outcome {
        match *packet {
            Packet::Nop(_) => {}
            Packet::Write {
                to,
                fixed,
                ref data,
            } => return self.write(to, fixed, data),
            Packet::Copy { from, to, wide } => return self.copy(from, to, wide),
            Packet::Wait {
                what,
                until,
                request,
            } => return self.wait(what, until, request),
            Packet::Indirect {
                base,
                dwords,
                vmid,
                chain,
            } => return Ok(self.indirect(base, dwords, vmid, chain)),
            Packet::Atomic {
                op,
                addr,
                operand,
                compare,
                looped,
            } => {
                let mut done = true;
                let before = self.vm.faults();
                self.vm
                    .atomic(addr, atomic::size(op).unwrap_or(4), |span| {
                        done = atomic::apply(op, span, operand, compare);
                    })?;
                if looped && !done && self.vm.faults() == before {
                    return Ok(Ok(Work::Blocked));
                }
            }
            Packet::Release {
                addr,
                data,
                interrupt,
            } => match self.waves() {
                Work::Done => self.release(addr, data, interrupt)?,
                wait => return Ok(Ok(wait)),
            },
            Packet::Flush => return Ok(Ok(self.waves())),
            Packet::Predicate { mask, dwords } => {
                let place = self.job.team.map_or(0, |team| team.place);
                if mask >> place & 1 == 0 {
                    return Ok(Ok(Work::Skip(dwords)));
                }
            }
            Packet::Dispatch { dims, initiator } => return self.direct(dims, initiator),
            Packet::SetRegisters {
                first, ref values, ..
            } => {
                let privileged = self.privileged();
                for (dword, &value) in (first..).zip(values) {
                    let reg = self.gpu.regs.at(dword);
                    if ComputeRegisters::owns(reg) {
                        if let Err(refusal) = self.job.compute.write(reg, value, privileged) {
                            return Ok(Err(refusal));
                        }
                    } else if is_scratch(reg) || privileged {
                        self.gpu.write_at(self.gpu.regs.of_packet(dword), value)?;
                    } else {
                        let reason = "the register is not modelled";
                        return Ok(Err((Exception::Unsupported, reason)));
                    }
                }
            }
        }
        Ok(Ok(Work::Done))
    }

    /// The dword of BAR5, if the queue may access it.
    fn register(&self, dword: u32) -> std::result::Result<u32, Refusal> {
        if self.privileged() || is_scratch(self.gpu.regs.at(dword)) {
            Ok(self.gpu.regs.of_packet(dword))
        } else {
            Err((Exception::Unsupported, "registers are the kernel's"))
        }
    }

    fn write(&self, to: Place, fixed: bool, data: &[u32]) -> Outcome {
        let step = u32::from(!fixed);
        match to {
            Place::Register(first) => {
                for (n, &value) in (0u32..).zip(data) {
                    match self.register(first + n * step) {
                        Ok(dword) => self.gpu.write_at(dword, value)?,
                        Err(refusal) => return Ok(Err(refusal)),
                    }
                }
            }
            Place::Memory(addr) if fixed || data.len() == 1 => {
                for &value in data {
                    self.vm.store32(addr, value)?;
                }
            }
            Place::Memory(addr) if data.len() == 2 && addr % 8 == 0 => {
                let value = u64::from(data[0]) | u64::from(data[1]) << 32;
                self.vm.store64s(addr, &[value])?;
            }
            Place::Memory(addr) => {
                let bytes: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.vm.write(addr, &bytes)?;
            }
            Place::Immediate(_) | Place::Clock => {}
        }
        Ok(Ok(Work::Done))
    }

    fn copy(&self, from: Place, to: Place, wide: bool) -> Outcome {
        let register = |dword: u32| -> Result<std::result::Result<u32, Refusal>> {
            match self.register(dword) {
                Ok(dword) => self.gpu.read_at(dword).map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            }
        };
        let value = match from {
            Place::Immediate(value) => value,
            Place::Clock => self.gpu.clock.now(),
            Place::Memory(addr) if wide => self.vm.load64(addr)?,
            Place::Memory(addr) => self.vm.load32(addr)?.into(),
            Place::Register(dword) => {
                let mut value = 0;
                for n in 0..=u32::from(wide) {
                    match register(dword + n)? {
                        Ok(half) => value |= u64::from(half) << (32 * n),
                        Err(refusal) => return Ok(Err(refusal)),
                    }
                }
                value
            }
        };
        let halves = [value as u32, (value >> 32) as u32];
        self.write(to, false, &halves[..=usize::from(wide)])
    }

    fn wait(&self, what: Place, until: Condition, request: Option<u32>) -> Outcome {
        if let (Some(dword), 0) = (request, self.job.tries) {
            match self.register(dword) {
                Ok(dword) => self.gpu.write_at(dword, until.reference())?,
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let before = self.vm.faults();
        let value = match what {
            _ if until.is_always() => 0,
            Place::Register(dword) => match self.register(dword) {
                Ok(dword) => self.gpu.read_at(dword)?,
                Err(refusal) => return Ok(Err(refusal)),
            },
            Place::Memory(addr) => self.vm.load32(addr)?,
            Place::Immediate(_) | Place::Clock => 0,
        };
        let until = request.map_or(until, |_| until.masked());
        Ok(Ok(if self.vm.faults() != before {
            Work::Stuck
        } else if until.holds(value) {
            Work::Done
        } else {
            Work::Blocked
        }))
    }

    /// INDIRECT_BUFFER: the next buffer.
    pub(super) fn indirect(
        &self,
        base: u64,
        dwords: u64,
        vmid: u8,
        chain: bool,
    ) -> std::result::Result<Work, Refusal> {
        if chain != self.job.ib.is_some() {
            let reason = "an indirect buffer can be chained to another, but not contain it";
            return Err((Exception::Unsupported, reason));
        }
        if dwords == 0 {
            return Ok(Work::Done);
        }
        // Only the kernel may choose an address space.
        let vmid = match self.job.vmid {
            0 => vmid,
            own => own,
        };
        let ib = Ib {
            base,
            vmid,
            dwords,
            at: 0,
        };
        Ok(if chain {
            Work::Chain(ib)
        } else {
            Work::Enter(ib)
        })
    }

    fn release(&mut self, addr: u64, data: Release, interrupt: Option<u32>) -> Result<()> {
        let context = interrupt.unwrap_or(0);
        let value = match data {
            Release::Nothing => 0,
            Release::Dword(value) => value.into(),
            Release::Qword(value) => value,
            Release::Clock => self.gpu.clock.now(),
        };
        self.end_of_pipe(addr, value, context)?;
        match data {
            Release::Nothing => {}
            Release::Dword(value) => self.vm.store32(addr, value)?,
            Release::Qword(_) | Release::Clock => self.vm.store64s(addr, &[value])?,
        }
        if let Some(context) = interrupt {
            interrupt::end_of_pipe(self.gpu, self.job, context)?;
        }
        Ok(())
    }

    /// Takes an event through the EOP buffer.
    pub(super) fn end_of_pipe(&mut self, addr: u64, value: u64, context: u32) -> Result<()> {
        self.gpu.summary.cp_eops.bump();
        let Some(eop) = &mut self.job.eop else {
            return Ok(());
        };
        let ring = address_space(self.gpu, self.job.vmid);
        eop.push(
            &ring,
            [
                addr as u32,
                (addr >> 32) as u32,
                value as u32,
                (value >> 32) as u32,
                context,
                0,
                0,
                0,
            ],
        )
    }
}

fn is_scratch(reg: Reg) -> bool {
    (gc::SCRATCH_REG0.0..=gc::SCRATCH_REG7.0).contains(&reg.0)
}
