// SPDX-License-Identifier: GPL-2.0
//! Decoded code, by page, and the loop that executes it.

use rustc_hash::FxHashMap;

use crate::decode::{decode, Inst, Src, Words};
use crate::env::{Env, Host};
use crate::hwreg::GPR_IDX_EN;
use crate::isa::Isa;
use crate::wave::{sgpr, Flow, Reason, Wave, TEMPS};

const PAGE: u64 = 4096;
const SLOTS: usize = (PAGE / 4) as usize;
/// Bytes of the longest instruction.
const LONGEST: usize = 12;
/// No instruction was decoded there yet.
const EMPTY: u16 = u16::MAX;

/// The instructions of one page.
struct Page {
    bytes: Vec<u8>,
    /// Index of the instruction at each dword.
    slots: Vec<u16>,
    insts: Vec<Inst>,
    /// When it was last compared with memory.
    epoch: u64,
}

impl Page {
    fn new(bytes: Vec<u8>, epoch: u64) -> Page {
        Page {
            bytes,
            slots: vec![EMPTY; SLOTS],
            insts: Vec::new(),
            epoch,
        }
    }
}

/// Decoded code of one address space.
pub struct Code {
    isa: Isa,
    pages: FxHashMap<u64, Page>,
    epoch: u64,
}

/// Result of a wave's turn.
#[derive(Debug)]
pub enum Turn {
    /// It has more to do.
    Spent,
    /// It sleeps.
    Slept,
    /// It waits at a barrier.
    Barrier,
    /// It has ended.
    Ended,
    /// It is in memory.
    Saved,
    /// It cannot go on; the PC is that of the instruction.
    Stopped(Reason),
}

impl Code {
    /// Creates it empty, for code of that generation.
    pub fn new(isa: Isa) -> Code {
        Code {
            isa,
            pages: FxHashMap::default(),
            epoch: 0,
        }
    }

    /// Notes that code may have changed: pages are compared with memory before they are used again.
    pub fn invalidate(&mut self) {
        self.epoch += 1;
    }

    /// The page at `address`, with memory's present content if it was not checked since the last
    /// invalidation.
    fn page(&mut self, address: u64, host: &dyn Host) -> Result<&mut Page, Reason> {
        let epoch = self.epoch;
        let read = || {
            let mut bytes = vec![0; PAGE as usize];
            host.fetch(address, &mut bytes)
                .map(|()| bytes)
                .map_err(|fault| Reason::Fetch(fault.address))
        };
        let page = match self.pages.entry(address) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Page::new(read()?, epoch))
            }
            std::collections::hash_map::Entry::Occupied(place) => {
                let page = place.into_mut();
                if page.epoch != epoch {
                    let bytes = read()?;
                    if bytes == page.bytes {
                        page.epoch = epoch;
                    } else {
                        *page = Page::new(bytes, epoch);
                    }
                }
                page
            }
        };
        Ok(page)
    }

    /// Executes up to `fuel` instructions of `wave`.
    pub fn run(&mut self, wave: &mut Wave, env: &mut Env<'_>, fuel: u64) -> Turn {
        let mut left = fuel;
        loop {
            if !wave.attend(env.host) {
                // Halted.
                return Turn::Slept;
            }
            let base = wave.pc & !(PAGE - 1);
            let isa = self.isa;
            let flow = match self.page(base, env.host) {
                Ok(page) => run_page(isa, page, base, wave, env, &mut left),
                Err(reason) => reason.into(),
            };
            match flow {
                Flow::Next if left == 0 => return Turn::Spent,
                Flow::Next => {}
                Flow::Saved => return Turn::Saved,
                Flow::Barrier => return Turn::Barrier,
                Flow::Yield | Flow::Replay => return Turn::Slept,
                Flow::End => return Turn::Ended,
                Flow::Refetch => self.invalidate(),
                Flow::Stop(reason) => {
                    let handled = match *reason {
                        Reason::Fetch(_) => wave.misses_code(env.host),
                        Reason::Unknown => wave.is_illegal(env.host),
                        _ => false,
                    };
                    if !handled {
                        return Turn::Stopped(*reason);
                    }
                }
            }
        }
    }
}

/// Executes instructions until one is not in the page, or the wave has a reason to stop.
fn run_page(
    isa: Isa,
    page: &mut Page,
    base: u64,
    wave: &mut Wave,
    env: &mut Env<'_>,
    left: &mut u64,
) -> Flow {
    while *left > 0 {
        let pc = wave.pc;
        let offset = pc.wrapping_sub(base);
        if offset >= PAGE {
            return Flow::Next;
        }
        let slot = (offset / 4) as usize;
        if page.slots[slot] == EMPTY {
            if let Err(reason) = decode_at(isa, page, slot, pc, env.host) {
                return reason.into();
            }
        }
        let inst = &page.insts[usize::from(page.slots[slot])];
        if let Err(reason) = check(inst, wave) {
            return reason.into();
        }
        *left -= 1;
        wave.count(inst.class);
        wave.pc = pc.wrapping_add(u64::from(inst.len));
        let flow = if inst.indexed && wave.mode & GPR_IDX_EN != 0 {
            run_indexed(inst, wave, env)
        } else {
            inst.run.call(inst, wave, env)
        };
        match flow {
            Flow::Next if wave.has_alert() && !wave.is_privileged() => return Flow::Next,
            Flow::Next => {}
            Flow::Stop(reason) => {
                wave.pc = pc;
                return Flow::Stop(reason);
            }
            Flow::Replay => {
                wave.pc = pc;
                wave.uncount(inst.class);
                return Flow::Replay;
            }
            other => return other,
        }
    }
    Flow::Next
}

/// Executes a vector instruction with M0\[7:0\] added to the VGPRs that M0\[15:12\] names: sources
/// 0 to 2, result.
#[cold]
fn run_indexed(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let m0 = wave.sgpr[sgpr::M0];
    let enables = m0 >> 12 & 0xf;
    let index = (m0 & 0xff) as u16;
    let result = enables & 8 != 0;
    // Otherwise the result is no VGPR, or the last source too.
    let plain = inst.src[2] != Src::V(inst.dst) && usize::from(inst.dst) >= TEMPS;
    if inst.mods.is_some() || result && !plain {
        return Reason::Unsupported("a VGPR index with this instruction").into();
    }
    let mut src = inst.src;
    for (n, src) in src.iter_mut().enumerate() {
        if let (Src::V(row), 1) = (&mut *src, enables >> n & 1) {
            *row += index;
        }
    }
    let moved = Inst {
        src,
        dst: inst.dst + if result { index } else { 0 },
        mods: None,
        ..*inst
    };
    let highest = src.iter().fold(moved.dst, |highest, src| match src {
        Src::V(row) => highest.max(*row),
        _ => highest,
    });
    if usize::from(highest) + 1 > TEMPS + usize::from(wave.arch) {
        return Reason::Register("behind a VGPR index").into();
    }
    inst.run.call(&moved, wave, env)
}

/// Checks that the wave has the registers that the instruction names.
#[inline(always)]
fn check(inst: &Inst, wave: &Wave) -> Result<(), Reason> {
    if inst.arch > wave.arch {
        return Err(Reason::Register("of the arch VGPRs"));
    }
    if inst.acc > wave.acc {
        return Err(Reason::Register("of the accumulation VGPRs"));
    }
    if inst.privileged && !wave.is_privileged() {
        return Err(Reason::Register("TTMP, outside of a trap handler,"));
    }
    Ok(())
}

#[cold]
fn decode_at(
    isa: Isa,
    page: &mut Page,
    slot: usize,
    pc: u64,
    host: &dyn Host,
) -> Result<(), Reason> {
    let start = 4 * slot;
    let mut bytes = [0; LONGEST];
    let here = (page.bytes.len() - start).min(LONGEST);
    bytes[..here].copy_from_slice(&page.bytes[start..start + here]);
    // The next page is read only if the instruction goes on there.
    let decoded = match decode(isa, words(&bytes)) {
        Ok(inst) if usize::from(inst.len) <= here => Ok(inst),
        Ok(_) | Err(_) if here < LONGEST => {
            let next = pc.wrapping_add(here as u64);
            host.fetch(next, &mut bytes[here..])
                .map_err(|fault| Reason::Fetch(fault.address))?;
            decode(isa, words(&bytes))
        }
        other => other,
    };
    let inst = decoded?;
    page.slots[slot] = page.insts.len() as u16;
    page.insts.push(inst);
    Ok(())
}

fn words(bytes: &[u8; LONGEST]) -> Words {
    let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * n + k]));
    Words([word(0), word(1), word(2)])
}
