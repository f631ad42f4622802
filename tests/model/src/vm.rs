// SPDX-License-Identifier: GPL-2.0
//! Memory as one client of a hub sees it through one address space.
//!
//! Long accesses go in chunks. Translations and DMA mappings are held for the length of a chunk, so an
//! invalidation or unmap waits for a bounded time, and nothing uses an old translation after it.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::error::{ModelError, Result};
use crate::gpu::Gpu;
use crate::hub::{Fault, HubId, Run, Target};
use crate::mapping::Span;
use crate::memory::{Access, Own, View};
use crate::walk::PAGE_SHIFT;

/// Bytes accessed under one hold of the translations.
const CHUNK: u64 = 2 << 20;
/// FAULT_STATUS.CID of clients that never fault in a user's address space.
const CID_KERNEL: u32 = 0;

/// What is not done to the device itself: then there is no memory at its bus address.
fn refuse(_own: Own, _at: u64, _len: u64) -> bool {
    false
}

/// An address space, for a client.
pub struct Vm<'a> {
    gpu: &'a Gpu,
    hub: HubId,
    vmid: u8,
    cid: u32,
    faults: Cell<u64>,
    /// Page last reported for reads and for writes, and reported once only.
    reported: Cell<[Option<u64>; 2]>,
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
        }
    }

    /// VMID 0.
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
        });
    }

    fn raise(&self, pending: Vec<Fault>) -> Result<()> {
        for fault in pending {
            self.gpu.hub(self.hub).raise(self.gpu, fault)?;
        }
        Ok(())
    }

    /// Gives `step` the bytes at `va` in order, in spans or, where there is no memory, lengths. `own` is asked for what is of the
    /// device itself: whether it takes so many bytes, from there on.
    fn each(
        &self,
        va: u64,
        len: u64,
        access: Access,
        mut own: impl FnMut(Own, u64, u64) -> bool,
        mut step: impl FnMut(Option<Span<'_>>, u64, u64),
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let stop = len.min(done + CHUNK);
            let mut faults = Vec::new();
            {
                let _held = self.gpu.hub(self.hub).hold();
                let view = self.gpu.bus.view();
                while done < stop {
                    let here = va.wrapping_add(done);
                    let run = self.translate(&view, here, stop - done, access)?;
                    let end = done + run.len;
                    let Target::Memory(phys) = run.target else {
                        self.fault(&mut faults, here, run.target, access);
                        step(None, done, run.len);
                        done = end;
                        continue;
                    };
                    if let Some(here) = self.gpu.bus.own(phys) {
                        if own(here, done, run.len) {
                            done = end;
                            continue;
                        }
                    }
                    let mut into = 0;
                    while done < end {
                        let span = view.span(phys.plus(into), end - done, access)?;
                        let n = span.len() as u64;
                        step(Some(span), done, n);
                        into += n;
                        done += n;
                    }
                }
            }
            self.raise(faults)?;
        }
        Ok(())
    }

    fn translate(&self, view: &View<'_>, va: u64, len: u64, access: Access) -> Result<Run> {
        self.gpu
            .hub(self.hub)
            .translate(self.gpu, view, self.vmid, va, len, access)
    }

    /// Reads; what faults is zero.
    pub fn read(&self, va: u64, out: &mut [u8]) -> Result<()> {
        let len = out.len() as u64;
        self.each(va, len, Access::Read, refuse, |span, at, n| {
            let out = &mut out[at as usize..(at + n) as usize];
            match span {
                Some(span) => span.read(out),
                None => out.fill(0),
            }
        })
    }

    /// Gives `step` the places for `data` at `va`, as [`Vm::each`]; what is for the device itself, it gets afterwards.
    fn store(
        &self,
        va: u64,
        data: &[u8],
        step: impl FnMut(Option<Span<'_>>, u64, u64),
    ) -> Result<()> {
        let mut stores = Vec::new();
        let own = |own, at, n| {
            stores.push((own, at, n));
            true
        };
        self.each(va, data.len() as u64, Access::Write, own, step)?;
        for (own, at, n) in stores {
            self.gpu
                .store_own(own, &data[at as usize..(at + n) as usize])?;
        }
        Ok(())
    }

    /// Writes; what faults is dropped.
    pub fn write(&self, va: u64, data: &[u8]) -> Result<()> {
        self.store(va, data, |span, at, n| {
            if let Some(span) = span {
                span.write(&data[at as usize..(at + n) as usize]);
            }
        })
    }

    /// Writes `len` bytes of the four bytes `pattern` over and over.
    pub fn fill(&self, va: u64, len: u64, pattern: [u8; 4]) -> Result<()> {
        // Long enough to be copied at memory speed; a multiple of the pattern and of itself from any phase.
        let block: Vec<u8> = pattern.iter().copied().cycle().take(64 << 10).collect();
        self.each(va, len, Access::Write, refuse, |span, at, _| {
            let Some(span) = span else { return };
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

    /// Copies `len` bytes; where the source faults zeros are written, where the destination does nothing.
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
            {
                let _held = self.gpu.hub(self.hub).hold();
                let view = self.gpu.bus.view();
                // Translations of the chunk before are not held any more.
                source.run = None;
                sink.run = None;
                while done < stop {
                    let left = stop - done;
                    let read = self.advance(&mut source, &view, left, Access::Read, &mut faults)?;
                    let write = self.advance(&mut sink, &view, left, Access::Write, &mut faults)?;
                    let n = copy_run(&view, read, write)?;
                    source.skip(n);
                    sink.skip(n);
                    done += n;
                }
            }
            self.raise(faults)?;
        }
        Ok(())
    }

    fn advance(
        &self,
        cursor: &mut Cursor,
        view: &View<'_>,
        left: u64,
        access: Access,
        faults: &mut Vec<Fault>,
    ) -> Result<Run> {
        if let Some(run) = cursor.run {
            return Ok(run);
        }
        let run = self.translate(view, cursor.va, left, access)?;
        self.fault(faults, cursor.va, run.target, access);
        cursor.run = Some(run);
        Ok(run)
    }

    /// Reads an aligned 32-bit word whole.
    pub fn load32(&self, va: u64) -> Result<u32> {
        let mut value = 0;
        self.each(va, 4, Access::Read, refuse, |span, _, _| {
            if let Some(word) = span.and_then(|span| span.atomic32()) {
                value = word.load(Ordering::Acquire);
            }
        })?;
        Ok(value)
    }

    /// Reads an aligned 64-bit word whole.
    pub fn load64(&self, va: u64) -> Result<u64> {
        let mut value = 0;
        self.each(va, 8, Access::Read, refuse, |span, _, _| {
            if let Some(word) = span.and_then(|span| span.atomic64()) {
                value = word.load(Ordering::Acquire);
            }
        })?;
        Ok(value)
    }

    /// Writes an aligned 32-bit word whole.
    pub fn store32(&self, va: u64, value: u32) -> Result<()> {
        self.store(va, &value.to_le_bytes(), |span, _, _| {
            if let Some(word) = span.and_then(|span| span.atomic32()) {
                word.store(value, Ordering::Release);
            }
        })
    }

    /// Writes aligned 64-bit words, each of them whole.
    pub fn store64s(&self, va: u64, values: &[u64]) -> Result<()> {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut values = values.iter();
        self.store(va, &data, |span, _, n| {
            for (k, value) in values.by_ref().take((n / 8) as usize).enumerate() {
                if let Some(word) = span.and_then(|span| span.tail(k * 8).atomic64()) {
                    word.store(*value, Ordering::Release);
                }
            }
        })
    }

    /// Gives `change` the aligned word of `size` (4 or 8) bytes at `va`; not called if it faults.
    pub fn atomic(&self, va: u64, size: u64, mut change: impl FnMut(Span<'_>)) -> Result<()> {
        if va % size != 0 {
            return Err(ModelError::Other(format!("unaligned atomic at {va:#x}")));
        }
        self.each(va, size, Access::Atomic, refuse, |span, _, _| {
            if let Some(span) = span {
                change(span);
            }
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
                other => other,
            };
            (len > 0).then_some(Run { len, target })
        });
    }
}

/// Copies as much as both runs allow and says how much that was.
fn copy_run(view: &View<'_>, from: Run, to: Run) -> Result<u64> {
    let len = from.len.min(to.len);
    let mut done = 0;
    match (from.target, to.target) {
        (Target::Memory(from), Target::Memory(to)) => {
            while done < len {
                let from = view.span(from.plus(done), len - done, Access::Read)?;
                let to = view.span(to.plus(done), from.len() as u64, Access::Write)?;
                from.copy_to(&to, to.len());
                done += to.len() as u64;
            }
        }
        (_, Target::Memory(to)) => {
            while done < len {
                let to = view.span(to.plus(done), len - done, Access::Write)?;
                to.zero();
                done += to.len() as u64;
            }
        }
        _ => {}
    }
    Ok(len)
}
