// SPDX-License-Identifier: GPL-2.0
//! Executes one packet of a queue.

use std::time::Instant;

use super::packet::{self, Packet, Refusal, HEAD, WRITE_HEAD};
use super::queue::{Exception, Job};
use super::Engine;
use crate::error::{ModelError, Result};
use crate::fate::{Class, Site};
use crate::gpu::Gpu;
use crate::hub::HubId;
use crate::ih::{Iv, SDMA_CLIENT};
use crate::indirect::Ib;
use crate::regs::sdma::{self, cntl};
use crate::timing::{self, Timing};
use crate::vm::{Client, Vm};

/// Interrupt sources.
const TRAP: u8 = 224;
const ECC: u8 = 220;
const DOORBELL_INVALID: u8 = 244;
const POLL_TIMEOUT: u8 = 246;
const SRBM_WRITE: u8 = 247;
/// Ring ids in interrupts.
const RING_GFX: u8 = 0;
const RING_RLC: u8 = 2;
/// FAULT_STATUS.CID of SDMA0 in MMHUB; the other engines follow.
const CID_SDMA0: u32 = 256;
/// Dwords of INDIRECT.
const INDIRECT_DWORDS: u64 = 6;

/// The alignment that ROCr gives the targets of TIMESTAMP (its core/inc/signal.h).
const TIMESTAMP_ALIGN: u64 = 32;

/// Bytes of a long packet between two checks for a halt or reset of the engine.
const PIECE: u64 = 16 << 20;

/// Result of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is done.
    Done,
    /// It has to be tried again.
    Blocked,
    /// Its end is not there yet.
    Starved,
    /// The engine was reset, which ends it; it is executed anew when the queue goes on.
    Lost,
    /// The queue stops.
    Halted(Exception),
}

/// Result of the packet's work.
pub(super) enum Work {
    Done,
    Blocked,
    Lost,
    TimedOut,
    Enter(Ib),
}

/// A queue's packet at its read pointer.
pub struct Executor<'a> {
    pub(super) gpu: &'a Gpu,
    engine: &'a Engine,
    pub(super) job: &'a mut Job,
    pub(super) vm: Vm<'a>,
    /// Number of the engine's resets when it began.
    resets: u64,
}

/// An address space of the engine.
pub(super) fn address_space<'a>(gpu: &'a Gpu, engine: &Engine, vmid: u8) -> Vm<'a> {
    Vm::new(gpu, HubId::Mm, vmid, CID_SDMA0 + engine.local() as u32)
}

/// The same for the accesses of packets, after `resets` resets: retried ones occupy the engine
/// until they are done, or until the next reset.
fn retrying<'a>(gpu: &'a Gpu, engine: &'a Engine, vmid: u8, resets: u64) -> Vm<'a> {
    address_space(gpu, engine, vmid).retrying(engine, resets)
}

impl<'a> Executor<'a> {
    /// Creates it for the queue in `job`.
    pub fn new(gpu: &'a Gpu, engine: &'a Engine, job: &'a mut Job) -> Executor<'a> {
        let vmid = job.ib.map_or(job.vmid, |ib| ib.vmid);
        let resets = engine.resets();
        let vm = retrying(gpu, engine, vmid, resets);
        Executor {
            gpu,
            engine,
            job,
            vm,
            resets,
        }
    }

    /// Executes the packet, moves the read pointer past it and writes that back.
    pub fn step(mut self) -> Result<Step> {
        let step = self.execute()?;
        if !matches!(step, Step::Done | Step::Lost) && self.gpu.fate.has(Class::Sdma) {
            // What was late until here.
            self.write_back()?;
        }
        Ok(step)
    }

    fn execute(&mut self) -> Result<Step> {
        let available = match self.job.ib {
            Some(ib) => ib.dwords - ib.at,
            None => (self.job.wptr - self.job.rptr) / 4,
        };
        let mut words = [0; HEAD];
        let head = HEAD.min(usize::try_from(available).unwrap_or(HEAD));
        let before = self.vm.faults();
        self.fetch(0, &mut words[..head])?;
        if self.vm.is_lost() {
            return Ok(Step::Lost);
        }
        if self.vm.faults() != before {
            return Ok(Step::Halted(Exception::Fetch));
        }
        let words = &words[..head];
        let length = match packet::length(words) {
            Ok(Some(length)) if length <= available => length,
            Ok(length) => {
                let cut_off = self.job.ib.is_some();
                if cut_off || length.is_some_and(|length| length > self.job.size / 4) {
                    return self.refuse(words, "the packet is longer than what holds it");
                }
                return Ok(Step::Starved);
            }
            Err(reason) => return self.refuse(words, reason),
        };
        let packet = match packet::decode(words) {
            Ok(packet) => packet,
            Err(reason) => return self.refuse(words, reason),
        };
        if packet.is_copy() && self.engine.take_failure(self.gpu) {
            let source = if self.privileged() { ECC } else { SRBM_WRITE };
            return self.halt(words, Exception::Packet, source);
        }
        let timed = self.gpu.timing.map(|timing| (timing, Instant::now()));
        let work = self.work(&packet)?;
        if self.vm.is_lost() || !self.take_time(&packet, timed) {
            return Ok(Step::Lost);
        }
        match work {
            Ok(Work::Done) => self.advance(length)?,
            Ok(Work::Enter(ib)) => self.job.ib = Some(ib),
            Ok(Work::Blocked) => return Ok(Step::Blocked),
            Ok(Work::Lost) => return Ok(Step::Lost),
            Ok(Work::TimedOut) => {
                return self.halt(words, Exception::PollTimeout, POLL_TIMEOUT);
            }
            Err(reason) => return self.refuse(words, reason),
        }
        self.engine.counts(self.gpu).packet(packet.name());
        Ok(Step::Done)
    }

    /// Refuses the doorbell's value: more than the ring can hold. The queue stops; there is no
    /// interrupt for that.
    pub fn refuse_doorbell(engine: &Engine, queue: usize, vmid: u8) -> Result<()> {
        if vmid == 0 {
            return Err(ModelError::Other(format!(
                "SDMA{} {}: the write pointer is more than the ring's size ahead",
                engine.number(),
                queue_name(queue)
            )));
        }
        Ok(())
    }

    /// Reads dwords from `skip` dwords after the read position on.
    fn fetch(&self, skip: u64, words: &mut [u32]) -> Result<()> {
        let mut bytes = vec![0; words.len() * 4];
        match self.job.ib {
            Some(ib) => {
                let at = ib.base.wrapping_add((ib.at + skip) * 4);
                self.vm.read(at, &mut bytes)?;
            }
            None => {
                let at = (self.job.rptr + skip * 4) & (self.job.size - 1);
                let first = bytes.len().min((self.job.size - at) as usize);
                let (first, wrapped) = bytes.split_at_mut(first);
                self.vm.read(self.job.base.wrapping_add(at), first)?;
                self.vm.read(self.job.base, wrapped)?;
            }
        }
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(())
    }

    /// Waits until the packet has taken the time that a card needs. Returns false if the engine is
    /// reset meanwhile.
    fn take_time(&self, packet: &Packet, timed: Option<(Timing, Instant)>) -> bool {
        let Some(((timing, start), bytes)) = timed.zip(packet.bytes()) else {
            return true;
        };
        let goes_on = || self.engine.goes_on(self.gpu, self.resets);
        timing::wait(start + timing.sdma(bytes), goes_on)
    }

    fn advance(&mut self, length: u64) -> Result<()> {
        match &mut self.job.ib {
            Some(ib) => {
                ib.at += length;
                if ib.at < ib.dwords {
                    return Ok(());
                }
                // The INDIRECT packet that led here is done now.
                self.job.ib = None;
                self.job.rptr += INDIRECT_DWORDS * 4;
            }
            None => self.job.rptr += length * 4,
        }
        // The last one is written in any case.
        let is_last = self.job.ib.is_none() && self.job.rptr == self.job.wptr;
        let key = (self.engine.number() * 16 + self.job.queue) as u64;
        if !is_last && self.gpu.fate.chance(Site::SdmaPointer, key, 2) {
            return Ok(());
        }
        self.write_back()
    }

    /// Writes the read pointer to memory, if it has a place there.
    fn write_back(&self) -> Result<()> {
        let Some(target) = self.job.writeback else {
            return Ok(());
        };
        let ring = retrying(self.gpu, self.engine, self.job.vmid, self.resets);
        if target % 8 == 0 {
            ring.store64s(target, &[self.job.rptr])
        } else {
            ring.write(target, &self.job.rptr.to_le_bytes())
        }
    }

    /// Returns whether the packet is the kernel's.
    pub(super) fn privileged(&self) -> bool {
        self.job.ib.map_or(self.job.vmid, |ib| ib.vmid) == 0
    }

    fn refuse(&self, words: &[u32], reason: Refusal) -> Result<Step> {
        if self.privileged() {
            return Err(ModelError::Packet {
                engine: self.engine.number(),
                queue: queue_name(self.job.queue),
                rptr: self.job.rptr,
                header: words.first().copied().unwrap_or(0),
                reason: reason.into(),
            });
        }
        self.halt(words, Exception::Packet, SRBM_WRITE)
    }

    fn halt(&self, words: &[u32], exception: Exception, source: u8) -> Result<Step> {
        self.engine.counts(self.gpu).refused.bump();
        let header = words.first().copied().unwrap_or(0);
        let data = [
            header,
            self.job.rptr as u32,
            (self.job.rptr >> 32) as u32,
            exception as u32,
        ];
        let vmid = self.job.ib.map_or(self.job.vmid, |ib| ib.vmid);
        let iv = interrupt(self.engine, self.job.queue, vmid, source, data);
        self.gpu.ih.push(self.gpu, iv)?;
        Ok(Step::Halted(exception))
    }

    fn work(&self, packet: &Packet) -> Result<std::result::Result<Work, Refusal>> {
        let gpu = self.gpu;
        let vm = &self.vm;
        let counts = self.engine.counts(gpu);
        match *packet {
            Packet::Nop => {}
            Packet::CopyLinear {
                len,
                from,
                to,
                also_to,
            } => {
                let mut copied = 0;
                for to in [Some(to), also_to].into_iter().flatten() {
                    let whole = self.pieces(len, |at, n| {
                        vm.copy(to.wrapping_add(at), from.wrapping_add(at), n)
                    })?;
                    if !whole {
                        return Ok(Ok(Work::Lost));
                    }
                    copied += len;
                }
                gpu.summary.bytes_copied.add(copied);
                counts.bytes.add(copied);
            }
            Packet::CopySubWindow(ref window) => {
                if !window.copy(vm, || self.engine.goes_on(gpu, self.resets))? {
                    return Ok(Ok(Work::Lost));
                }
                gpu.summary.bytes_copied.add(window.bytes());
                counts.bytes.add(window.bytes());
            }
            Packet::Write { to, dwords } => {
                self.write(to, dwords)?;
                gpu.summary.bytes_written.add(dwords * 4);
                counts.bytes.add(dwords * 4);
            }
            Packet::Fill { to, len, pattern } => {
                let pattern = pattern.to_le_bytes();
                let whole = self.pieces(len, |at, n| vm.fill(to.wrapping_add(at), n, pattern))?;
                if !whole {
                    return Ok(Ok(Work::Lost));
                }
                gpu.summary.bytes_filled.add(len);
                counts.bytes.add(len);
            }
            Packet::Fence { to, value } => vm.store32(to, value)?,
            Packet::Trap { context } => {
                if cntl::TRAP_ENABLE.is_set(self.engine.register(gpu, sdma::CNTL)) {
                    let data = [context, 0, 0, 0];
                    let vmid = self.job.vmid;
                    let iv = interrupt(self.engine, self.job.queue, vmid, TRAP, data);
                    gpu.ih.push_later(gpu, iv)?;
                }
            }
            Packet::Poll {
                what,
                until,
                retries,
            } => return self.poll(what, until, retries),
            Packet::Atomic {
                op,
                addr,
                operand,
                compare,
                looped,
            } => {
                let size = super::atomic::size(op).unwrap_or(4);
                let mut done = true;
                vm.atomic(addr, size, |span| {
                    done = super::atomic::apply(op, span, operand, compare);
                })?;
                if looped && !done {
                    return Ok(Ok(Work::Blocked));
                }
            }
            Packet::Indirect { vmid, base, dwords } => {
                return Ok(self.indirect(vmid, base, dwords));
            }
            Packet::PtePdeGenerate {
                to,
                mask,
                first,
                step,
                count,
            } => {
                let value = |n: u64| first.wrapping_add(n.wrapping_mul(step)) | mask;
                let values: Vec<u64> = (0..count).map(value).collect();
                self.entries(to, &values)?;
            }
            Packet::PtePdeCopy {
                from,
                to,
                mask,
                count,
            } => {
                let old = self.load64s(to, count)?;
                let new = self.load64s(from, count)?;
                let values: Vec<u64> = old
                    .iter()
                    .zip(&new)
                    .map(|(old, new)| old & !mask | new & mask)
                    .collect();
                self.entries(to, &values)?;
            }
            Packet::PtePdeModify { addr, mask, value } => {
                vm.atomic(addr, 8, |span| {
                    if let Some(word) = span.atomic64() {
                        use std::sync::atomic::Ordering::{AcqRel, Acquire};
                        let change = |old: u64| Some(old & !mask | value & mask);
                        let _ = word.fetch_update(AcqRel, Acquire, change);
                    }
                })?;
            }
            Packet::TimestampSet { value } => self.engine.set_time(gpu, value),
            Packet::TimestampGet { to, global } => {
                if to % TIMESTAMP_ALIGN != 0 {
                    gpu.summary.timestamps_unaligned.bump();
                }
                let now = if global {
                    gpu.clock.now()
                } else {
                    self.engine.time(gpu)
                };
                vm.store64s(to, &[now])?;
            }
            Packet::SrbmWrite {
                dword,
                value,
                bytes,
            } => return self.srbm_write(dword, value, bytes),
        }
        Ok(Ok(Work::Done))
    }

    /// The data of a WRITE packet, in pieces.
    fn write(&self, to: u64, dwords: u64) -> Result<()> {
        const DWORDS_AT_ONCE: u64 = 16 << 10;
        let mut done = 0;
        while done < dwords {
            let n = DWORDS_AT_ONCE.min(dwords - done);
            let mut words = vec![0; n as usize];
            self.fetch(WRITE_HEAD + done, &mut words)?;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.vm.write(to.wrapping_add(done * 4), &bytes)?;
            done += n;
        }
        Ok(())
    }

    /// Calls `step` with offsets and lengths that make up `len`, unless a reset of the engine ends
    /// the packet. Returns true if none does.
    fn pieces(&self, len: u64, mut step: impl FnMut(u64, u64) -> Result<()>) -> Result<bool> {
        let mut done = 0;
        while done < len {
            if !self.engine.goes_on(self.gpu, self.resets) {
                return Ok(false);
            }
            let n = PIECE.min(len - done);
            step(done, n)?;
            done += n;
        }
        Ok(true)
    }

    /// Reads `count` page-table entries.
    fn load64s(&self, from: u64, count: u64) -> Result<Vec<u64>> {
        let mut bytes = vec![0; count as usize * 8];
        self.vm.read(from, &mut bytes)?;
        let mut entry = [0; 8];
        let entries = bytes.chunks_exact(8).map(|bytes| {
            entry.copy_from_slice(bytes);
            u64::from_le_bytes(entry)
        });
        Ok(entries.collect())
    }

    /// Writes page-table entries, each of them whole.
    fn entries(&self, to: u64, values: &[u64]) -> Result<()> {
        self.vm.store64s(to, values)?;
        let bytes = values.len() as u64 * 8;
        self.gpu.summary.bytes_written.add(bytes);
        self.engine.counts(self.gpu).bytes.add(bytes);
        Ok(())
    }
}

/// "GFX" or "RLCn".
pub fn queue_name(queue: usize) -> String {
    match queue {
        0 => "GFX".into(),
        n => format!("RLC{}", n - 1),
    }
}

/// The interrupt of `engine` for an uncorrectable error of memory that the kernel's ring has used.
pub fn ecc_error(engine: &Engine) -> Iv {
    interrupt(engine, 0, 0, ECC, [0; 4])
}

/// The interrupt of `engine` for a doorbell of which the bus has not enabled all eight bytes. A
/// store of the bus has no VMID, and its queue is not looked for.
pub fn partial_doorbell(engine: &Engine) -> Iv {
    interrupt(engine, 0, 0, DOORBELL_INVALID, [0; 4])
}

fn interrupt(engine: &Engine, queue: usize, vmid: u8, source: u8, data: [u32; 4]) -> Iv {
    Iv {
        client: SDMA_CLIENT[engine.local()],
        source,
        ring: if queue == 0 { RING_GFX } else { RING_RLC },
        vmid,
        mmhub: true,
        data,
        retry: false,
    }
}
