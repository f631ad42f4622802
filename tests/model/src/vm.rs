// SPDX-License-Identifier: GPL-2.0
//! Memory seen by one client of a hub through one address space.
//!
//! Long accesses go in chunks. Translations and DMA mappings are held for the length of a chunk, so
//! an invalidation or unmap waits for a bounded time, and nothing uses an old translation after it.

mod near;

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::{Fault, HubId, Run, Target};
use crate::mapping::Span;
use crate::memory::{Access, Own, View};
use crate::utcl1::Utcl1;
use crate::walk::{Miss, Mtype, PAGE_SHIFT};

/// Bytes accessed under one hold of the translations.
const CHUNK: u64 = 2 << 20;
/// Pause between two tries of an access.
const RETRY: Duration = Duration::from_micros(50);
/// FAULT_STATUS.CID of clients that never fault in a user's address space.
const CID_KERNEL: u32 = 0;

/// The target of a stretch of an address space.
enum Piece<'a> {
    /// Memory.
    Memory(Span<'a>),
    /// The device itself. Stores there take effect once the translations are not held any more.
    Own(Own),
    /// Nothing: it faults, or is not resident.
    Nothing,
}

/// An address space, for a client.
pub struct Vm<'a> {
    gpu: &'a Gpu,
    hub: HubId,
    vmid: u8,
    cid: u32,
    faults: Cell<u64>,
    /// Page last reported for reads and for writes, each reported only once.
    reported: Cell<[Option<u64>; 2]>,
    /// A client whose accesses are retried, and the number of its resets at the beginning.
    client: Option<(&'a dyn Client, u64)>,
    /// The client gave up: nothing is accessed any more.
    lost: Cell<bool>,
    /// Its copies of the hub's translations.
    utcl1: Option<Utcl1>,
}

/// A client whose accesses may be retried.
pub trait Client {
    /// Returns whether it goes on with work that it began after `resets` resets.
    fn goes_on(&self, gpu: &Gpu, resets: u64) -> bool;
}

/// A retried access.
struct Stall {
    va: u64,
    access: Access,
}

/// A run that is used up step by step.
struct Cursor {
    va: u64,
    run: Option<Run>,
}

impl<'a> Vm<'a> {
    /// `vmid` of `hub`, for the client with number `cid`.
    pub fn new(gpu: &'a Gpu, hub: HubId, vmid: u8, cid: u32) -> Vm<'a> {
        Vm {
            gpu,
            hub,
            vmid,
            cid,
            faults: Cell::new(0),
            reported: Cell::default(),
            client: None,
            lost: Cell::new(false),
            utcl1: None,
        }
    }

    /// The same, with the accesses that the hub marks for retry retried as long as `client` goes
    /// on, which had been reset `resets` times before. In between nothing is held, so that tables
    /// can change and be flushed.
    pub fn retrying(self, client: &'a dyn Client, resets: u64) -> Vm<'a> {
        Vm {
            client: Some((client, resets)),
            ..self
        }
    }

    /// Returns whether the client has given up in the middle of an access, which is not done then,
    /// nor any after it.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Creates that of VMID 0.
    pub fn kernel(gpu: &'a Gpu, hub: HubId) -> Vm<'a> {
        Vm::new(gpu, hub, 0, CID_KERNEL)
    }

    /// Faults so far.
    pub fn faults(&self) -> u64 {
        self.faults.get()
    }

    fn fault(&self, pending: &mut Vec<Fault>, va: u64, target: Target, access: Access) {
        let Target::Fault(miss) = target else {
            return;
        };
        self.faults.set(self.faults.get() + 1);
        let page = Some(va >> PAGE_SHIFT);
        let mut reported = self.reported.get();
        let last = &mut reported[usize::from(access.writes())];
        if *last == page {
            return;
        }
        *last = page;
        self.reported.set(reported);
        pending.push(Fault {
            vmid: self.vmid,
            va,
            miss,
            access,
            cid: self.cid,
            retry: false,
        });
    }

    /// The stall for that result of a translation at `va`, if it is to be retried.
    fn stall(&self, va: u64, target: Target, access: Access) -> Option<Stall> {
        let Target::Fault(miss) = target else {
            return None;
        };
        self.client?;
        let hub = self.gpu.hub(self.hub);
        let retries = hub.retries(self.gpu, self.vmid, miss);
        retries.then_some(Stall { va, access })
    }

    /// Retries until the access can be done or fails for good. Nothing is held.
    fn wait(&self, stall: Stall) -> Result<()> {
        let Some((client, resets)) = self.client else {
            return Ok(());
        };
        let began = Instant::now();
        self.gpu.summary.retried.bump();
        while !self.try_again(&stall)? {
            std::thread::sleep(RETRY);
            if !client.goes_on(self.gpu, resets) {
                self.lost.set(true);
                break;
            }
        }
        let micros = began.elapsed().as_micros();
        let longest = &self.gpu.summary.longest_retry;
        longest.reach(micros.try_into().unwrap_or(u64::MAX));
        Ok(())
    }

    /// Looks again. Returns whether the retries are over; if not, the fault is raised. Nothing is
    /// held.
    fn try_again(&self, stall: &Stall) -> Result<bool> {
        let hub = self.gpu.hub(self.hub);
        hub.forget(self.vmid, stall.va);
        let target = {
            let _held = hub.hold();
            let view = self.gpu.bus.view();
            self.translate(&view, stall.va, 1, stall.access)?.target
        };
        let Target::Fault(miss) = target else {
            return Ok(true);
        };
        if self.stall(stall.va, target, stall.access).is_none() {
            return Ok(true);
        }
        let fault = Fault {
            vmid: self.vmid,
            va: stall.va,
            miss,
            access: stall.access,
            cid: self.cid,
            retry: true,
        };
        hub.raise(self.gpu, fault)?;
        Ok(false)
    }

    /// Returns whether an access of `len` bytes of one page needs no retry, for a client that comes
    /// back later if it does.
    pub fn is_ready(&self, va: u64, len: u64, access: Access) -> Result<bool> {
        let target = {
            let _held = self.gpu.hub(self.hub).hold();
            let view = self.gpu.bus.view();
            self.translate(&view, va, len, access)?.target
        };
        match self.stall(va, target, access) {
            Some(stall) => self.try_again(&stall),
            None => Ok(true),
        }
    }

    /// The memory type of the page at `va`; None if no page table leads there.
    pub fn mtype(&self, va: u64) -> Result<Option<Mtype>> {
        let hub = self.gpu.hub(self.hub);
        let _held = hub.hold();
        let view = self.gpu.bus.view();
        let run = self.translate(&view, va, 1, Access::Read)?;
        let leaf = match run.target {
            Target::Memory(_) => hub.cached(self.vmid, va & ((1 << 48) - 1)),
            _ => None,
        };
        Ok(leaf.map(|leaf| leaf.mtype))
    }

    /// Returns whether accesses that find nothing are retried.
    pub fn retries(&self) -> bool {
        let hub = self.gpu.hub(self.hub);
        self.client.is_some() && hub.retries(self.gpu, self.vmid, Miss::Invalid)
    }

    fn raise(&self, pending: Vec<Fault>) -> Result<()> {
        for fault in pending {
            self.gpu.hub(self.hub).raise(self.gpu, fault)?;
        }
        Ok(())
    }

    /// Calls `step` for the targets at `va` in order, with the position in `len` and the length of
    /// each.
    fn each(
        &self,
        va: u64,
        len: u64,
        access: Access,
        mut step: impl FnMut(Piece<'_>, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let stop = len.min(done + CHUNK);
            let mut faults = Vec::new();
            let mut stall = None;
            {
                let _held = self.gpu.hub(self.hub).hold();
                let view = self.gpu.bus.view();
                while done < stop {
                    let here = va.wrapping_add(done);
                    let run = self.translate(&view, here, stop - done, access)?;
                    stall = self.stall(here, run.target, access);
                    if stall.is_some() {
                        break;
                    }
                    let end = done + run.len;
                    match run.target {
                        Target::Memory(phys) => {
                            let mut into = 0;
                            while into < run.len {
                                let span = view.span(phys.plus(into), run.len - into, access)?;
                                let n = span.len() as u64;
                                step(Piece::Memory(span), done + into, n)?;
                                if access.writes() {
                                    view.has_written(phys.plus(into), n);
                                }
                                into += n;
                            }
                        }
                        Target::Own(own) => step(Piece::Own(own), done, run.len)?,
                        Target::Nothing | Target::Fault(_) => {
                            self.fault(&mut faults, here, run.target, access);
                            step(Piece::Nothing, done, run.len)?;
                        }
                    }
                    done = end;
                }
            }
            self.raise(faults)?;
            if let Some(stall) = stall {
                self.wait(stall)?;
            }
        }
        Ok(())
    }

    fn translate(&self, view: &View<'_>, va: u64, len: u64, access: Access) -> Result<Run> {
        if self.lost.get() {
            let target = Target::Nothing;
            return Ok(Run { len, target });
        }
        let run = match &self.utcl1 {
            Some(utcl1) => self.translate_near(utcl1, view, va, len, access)?,
            None => self.translate_far(view, va, len, access)?,
        };
        let own = match run.target {
            Target::Memory(phys) => self.gpu.bus.own(phys),
            _ => None,
        };
        Ok(own.map_or(run, |(own, left)| Run {
            len: run.len.min(left),
            target: Target::Own(own),
        }))
    }

    /// Reads; bytes that fault are zero.
    pub fn read(&self, va: u64, out: &mut [u8]) -> Result<()> {
        self.read_as(va, out, Access::Read)
    }

    /// Reads instructions; see [`Vm::read`].
    pub fn fetch(&self, va: u64, out: &mut [u8]) -> Result<()> {
        self.read_as(va, out, Access::Execute)
    }

    fn read_as(&self, va: u64, out: &mut [u8], access: Access) -> Result<()> {
        self.each(va, out.len() as u64, access, |piece, at, n| {
            let out = &mut out[at as usize..(at + n) as usize];
            match piece {
                Piece::Memory(span) => span.read(out),
                Piece::Own(own) => return self.gpu.load_own(own, out),
                Piece::Nothing => out.fill(0),
            }
            Ok(())
        })
    }

    /// Stores: `step` handles the spans of memory, and the parts of `data` for the device itself
    /// are stored there. Bytes that fault are dropped.
    fn store(
        &self,
        va: u64,
        len: u64,
        data: impl Fn(u64, u64) -> Vec<u8>,
        mut step: impl FnMut(Span<'_>, u64, u64),
    ) -> Result<()> {
        let mut stores = Vec::new();
        self.each(va, len, Access::Write, |piece, at, n| {
            match piece {
                Piece::Memory(span) => step(span, at, n),
                Piece::Own(own) => stores.push((own, at, n)),
                Piece::Nothing => {}
            }
            Ok(())
        })?;
        for (own, at, n) in stores {
            self.gpu.store_own(own, &data(at, n))?;
        }
        Ok(())
    }

    /// Stores `data`, as [`Vm::store`].
    fn store_bytes(
        &self,
        va: u64,
        data: &[u8],
        step: impl FnMut(Span<'_>, u64, u64),
    ) -> Result<()> {
        let part = |at, n| data[at as usize..(at + n) as usize].to_vec();
        self.store(va, data.len() as u64, part, step)
    }

    /// Writes; bytes that fault are dropped.
    pub fn write(&self, va: u64, data: &[u8]) -> Result<()> {
        self.store_bytes(va, data, |span, at, n| {
            span.write(&data[at as usize..(at + n) as usize]);
        })
    }

    /// Writes `len` bytes of the four bytes `pattern` over and over.
    pub fn fill(&self, va: u64, len: u64, pattern: [u8; 4]) -> Result<()> {
        let repeated = |at: u64, n: u64| -> Vec<u8> {
            let bytes = pattern.iter().copied().cycle();
            bytes.skip((at % 4) as usize).take(n as usize).collect()
        };
        // Long enough to be copied at memory speed; a multiple of the pattern and of itself from
        // any phase.
        let block = repeated(0, 64 << 10);
        self.store(va, len, repeated, |span, at, _| {
            if pattern == [0; 4] {
                return span.zero();
            }
            let phase = (at % 4) as usize;
            let mut done = 0;
            while done < span.len() {
                let n = (span.len() - done).min(block.len() - 4);
                span.tail(done).write(&block[phase..phase + n]);
                // Only whole patterns, so that the phase stays.
                done += if n == span.len() - done { n } else { n & !3 };
            }
        })
    }

    /// Copies `len` bytes. Where the source faults, zeros are written; where the destination
    /// faults, nothing is.
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<()> {
        let mut source = Cursor {
            va: from,
            run: None,
        };
        let mut sink = Cursor { va: to, run: None };
        let mut done = 0;
        while done < len {
            let stop = len.min(done + CHUNK);
            let mut faults = Vec::new();
            let mut stores = Vec::new();
            let mut stall = None;
            {
                let _held = self.gpu.hub(self.hub).hold();
                let view = self.gpu.bus.view();
                // Translations of the previous chunk are not held any more.
                source.run = None;
                sink.run = None;
                while done < stop {
                    let left = stop - done;
                    stall = self
                        .advance(&mut source, &view, left, Access::Read, &mut faults)?
                        .or(self.advance(&mut sink, &view, left, Access::Write, &mut faults)?);
                    let (Some(read), Some(write)) = (source.run, sink.run) else {
                        break;
                    };
                    let n = read.len.min(write.len);
                    if let Target::Own(own) = write.target {
                        stores.push((own, self.load(&view, read.target, n)?));
                    } else {
                        self.copy_run(&view, read.target, write.target, n)?;
                    }
                    source.skip(n);
                    sink.skip(n);
                    done += n;
                }
            }
            self.raise(faults)?;
            for (own, data) in stores {
                self.gpu.store_own(own, &data)?;
            }
            if let Some(stall) = stall {
                self.wait(stall)?;
            }
        }
        Ok(())
    }

    /// Translates the position of `cursor`, if that has yet to be done; returns the stall if the
    /// access has to wait.
    fn advance(
        &self,
        cursor: &mut Cursor,
        view: &View<'_>,
        left: u64,
        access: Access,
        faults: &mut Vec<Fault>,
    ) -> Result<Option<Stall>> {
        if cursor.run.is_some() {
            return Ok(None);
        }
        let run = self.translate(view, cursor.va, left, access)?;
        if let Some(stall) = self.stall(cursor.va, run.target, access) {
            return Ok(Some(stall));
        }
        self.fault(faults, cursor.va, run.target, access);
        cursor.run = Some(run);
        Ok(None)
    }

    /// The `n` bytes at `from`.
    fn load(&self, view: &View<'_>, from: Target, n: u64) -> Result<Vec<u8>> {
        let mut data = vec![0; n as usize];
        match from {
            Target::Memory(from) => view.read(from, &mut data)?,
            Target::Own(own) => self.gpu.load_own(own, &mut data)?,
            Target::Nothing | Target::Fault(_) => {}
        }
        Ok(data)
    }

    /// Copies `n` bytes to memory.
    fn copy_run(&self, view: &View<'_>, from: Target, to: Target, n: u64) -> Result<()> {
        let Target::Memory(to) = to else {
            return Ok(());
        };
        let mut done = 0;
        match from {
            Target::Memory(from) => {
                while done < n {
                    let from = view.span(from.plus(done), n - done, Access::Read)?;
                    let at = to.plus(done);
                    let to = view.span(at, from.len() as u64, Access::Write)?;
                    from.copy_to(&to, to.len());
                    view.has_written(at, to.len() as u64);
                    done += to.len() as u64;
                }
            }
            Target::Own(_) => view.write(to, &self.load(view, from, n)?)?,
            Target::Nothing | Target::Fault(_) => {
                while done < n {
                    let at = to.plus(done);
                    let to = view.span(at, n - done, Access::Write)?;
                    to.zero();
                    view.has_written(at, to.len() as u64);
                    done += to.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// Reads an aligned 32-bit word whole.
    pub fn load32(&self, va: u64) -> Result<u32> {
        let mut value = 0;
        self.word(va, 4, Access::Read, |span| {
            if let Some(word) = span.atomic32() {
                value = word.load(Ordering::Acquire);
            }
        })?;
        Ok(value)
    }

    /// Reads an aligned 64-bit word whole.
    pub fn load64(&self, va: u64) -> Result<u64> {
        let mut value = 0;
        self.word(va, 8, Access::Read, |span| {
            if let Some(word) = span.atomic64() {
                value = word.load(Ordering::Acquire);
            }
        })?;
        Ok(value)
    }

    /// Writes an aligned 32-bit word whole.
    pub fn store32(&self, va: u64, value: u32) -> Result<()> {
        self.store_bytes(va, &value.to_le_bytes(), |span, _, _| {
            if let Some(word) = span.atomic32() {
                word.store(value, Ordering::Release);
            }
        })
    }

    /// Writes aligned 64-bit words, each of them whole.
    pub fn store64s(&self, va: u64, values: &[u64]) -> Result<()> {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.store_bytes(va, &data, |span, at, n| {
            let values = &values[(at / 8) as usize..][..(n / 8) as usize];
            for (k, value) in values.iter().enumerate() {
                if let Some(word) = span.tail(k * 8).atomic64() {
                    word.store(*value, Ordering::Release);
                }
            }
        })
    }

    /// Calls `change` with the aligned word of `size` (4 or 8) bytes at `va`; does not call it if
    /// that faults, nor for the device itself, which completes no atomics.
    pub fn atomic(&self, va: u64, size: u64, change: impl FnMut(Span<'_>)) -> Result<()> {
        if va % size != 0 {
            return Err(ModelError::Other(format!("unaligned atomic at {va:#x}")));
        }
        self.word(va, size, Access::Atomic, change)
    }

    /// Calls `step` with the word of `size` bytes at `va` if it is in memory.
    fn word(
        &self,
        va: u64,
        size: u64,
        access: Access,
        mut step: impl FnMut(Span<'_>),
    ) -> Result<()> {
        self.each(va, size, access, |piece, _, n| match piece {
            Piece::Memory(span) => {
                step(span);
                Ok(())
            }
            Piece::Own(own) => self.gpu.load_own(own, &mut vec![0; n as usize]),
            Piece::Nothing => Ok(()),
        })
    }
}

impl Cursor {
    fn skip(&mut self, n: u64) {
        self.va = self.va.wrapping_add(n);
        self.run = self.run.and_then(|run| {
            let len = run.len - n;
            let target = match run.target {
                Target::Memory(phys) => Target::Memory(phys.plus(n)),
                Target::Own(own) => Target::Own(own.plus(n)),
                other => other,
            };
            (len > 0).then_some(Run { len, target })
        });
    }
}
