// SPDX-License-Identifier: GPL-2.0
//! DS atomics: all lanes at once where they lie in order, and one after the other, without LDS in
//! between, in one place.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::atomic::Operation;
use crate::decode::Inst;
use crate::env::Env;
use crate::lds_ops;
use crate::lds_words::{places, row_of};
use crate::simd::{Body, Handler};
use crate::valu::types::{self, Ty, INPUT, OUTPUT};
use crate::vmem::data_row;
use crate::wave::{Active, Flow, Reason, Row, Wave, LANES};
use crate::words::{are_same, in_order};

/// The handler of an atomic on words of four or eight bytes.
pub fn handler(wide: bool, returns: bool) -> Handler {
    match (wide, returns) {
        (false, false) => Handler::of::<Atomic<u32, false>>(),
        (false, true) => Handler::of::<Atomic<u32, true>>(),
        (true, false) => Handler::of::<Atomic<u64, false>>(),
        (true, true) => Handler::of::<Atomic<u64, true>>(),
    }
}

/// A word for atomics.
trait Word: Ty + Default + FromBytes + IntoBytes + Immutable {
    /// Converts from memory's order of bytes, or to it.
    fn ordered(self) -> Self;
    /// Applies the operation to it, with MODE.
    fn apply(self, operation: Operation, operands: (Self, Self), mode: u32) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn ordered(self) -> u32 {
        self.to_le()
    }
    #[inline(always)]
    fn apply(self, operation: Operation, operands: (u32, u32), mode: u32) -> u32 {
        in_lds(self, operation, operands, mode)
    }
}

/// [`Operation::apply32`] in LDS, where MODE's denormals hold: of f32 (LLVM pull request 89468),
/// and of the halves that gfx942 adds (its ISA's text).
#[inline(always)]
pub fn in_lds(word: u32, operation: Operation, operands: (u32, u32), mode: u32) -> u32 {
    if !flushes(operation, mode) {
        return operation.apply32(word, operands);
    }
    let [old, a] = [word, operands.0].map(|word| flushed(operation, word, mode, INPUT));
    flushed(operation, operation.apply32(old, (a, 0)), mode, OUTPUT)
}

/// Returns whether MODE makes a difference to it.
#[inline(always)]
fn flushes(operation: Operation, mode: u32) -> bool {
    match operation {
        Operation::AddF => !types::keeps_f32_denormals(mode),
        Operation::PkAddF16 | Operation::PkAddBf16 => !types::keeps_f16_denormals(mode),
        _ => false,
    }
}

/// The operation's floats in a dword, without denormals if MODE says so.
#[inline(always)]
fn flushed(operation: Operation, word: u32, mode: u32, side: u32) -> u32 {
    /// Exponents of two halves.
    const F16: u32 = 0x7c00;
    const BF16: u32 = 0x7f80;
    let exponents = match operation {
        Operation::PkAddF16 => F16,
        Operation::PkAddBf16 => BF16,
        _ => return f32::from_bits(word).flush(mode, side).to_bits(),
    };
    if !types::flushes_f16(mode, side) {
        return word;
    }
    [0, 16].iter().fold(word, |word, &shift| {
        let is_zero = word >> shift & exponents == 0;
        word & !(if is_zero { 0x7fff << shift } else { 0 })
    })
}

impl Word for u64 {
    #[inline(always)]
    fn ordered(self) -> u64 {
        self.to_le()
    }
    #[inline(always)]
    fn apply(self, operation: Operation, operands: (u64, u64), _: u32) -> u64 {
        operation.apply64(self, operands)
    }
}

/// An atomic on words of one size that returns old values or none.
struct Atomic<T, const RETURNS: bool>(PhantomData<T>);

/// Calls [`access`] with an operation that is constant in each case: it is chosen once, and not for
/// each lane.
macro_rules! known {
    ($operation:expr, $accesses:expr, $($name:ident)*) => {
        match $operation {
            $(Operation::$name => access::<T, RETURNS>(Operation::$name, $accesses, KEPT),)*
        }
    };
}

impl<T: Word, const RETURNS: bool> Body for Atomic<T, RETURNS> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
        let Some(operation) = lds_ops::atomic(inst.op.into()) else {
            return Reason::Unknown.into();
        };
        let [first, other] =
            [inst.src[1], inst.src[2]].map(|src| data_row(inst, wave, row_of(src)));
        let accesses = Access::<T> {
            at: &wave.rows[usize::from(row_of(inst.src[0]))].0,
            offset: inst.imm as u32,
            exec: wave.exec(),
            operands: match operation {
                // The expected value comes first here.
                Operation::CompareSwap => [rows::<T>(wave, other), rows::<T>(wave, first)],
                _ => [rows::<T>(wave, first), rows::<T>(wave, other)],
            },
            lds: env.lds.bytes_mut(),
            word: PhantomData,
        };
        let old = if flushes(operation, wave.mode) {
            flushing::<T, RETURNS>(operation, accesses, wave.mode)
        } else {
            known!(operation, accesses,
            Swap CompareSwap Add Sub ReverseSub MinI MinU MaxI MaxU And Or Xor Inc Dec MaskOr
            AddF MinF MaxF PkAddF16 PkAddBf16)
        };
        let (old, outside) = old;
        if outside != 0 {
            env.lds.count_outside(outside.into());
        }
        if RETURNS {
            let dst = data_row(inst, wave, inst.dst);
            wave.put(dst, &old[0]);
            if T::KIND.is_wide() {
                wave.put(dst + 1, &old[1]);
            }
        }
        Flow::Next
    }
}

/// A register of all lanes: its low and its high dwords, which are the same for one of 32 bits.
type Rows<'a> = [&'a [u32; LANES]; 2];

#[inline(always)]
fn rows<T: Word>(wave: &Wave, row: usize) -> Rows<'_> {
    let high = row + usize::from(T::KIND.is_wide());
    [&wave.rows[row].0, &wave.rows[high].0]
}

/// The targets and operands of lanes' atomics.
struct Access<'a, T> {
    at: &'a [u32; LANES],
    offset: u32,
    exec: u64,
    operands: [Rows<'a>; 2],
    lds: &'a mut [u8],
    word: PhantomData<T>,
}

impl<T: Word> Access<'_, T> {
    #[inline(always)]
    fn operands(&self, lane: usize) -> (T, T) {
        let [[a0, a1], [b0, b1]] = self.operands;
        (T::get(a0[lane], a1[lane]), T::get(b0[lane], b1[lane]))
    }

    /// The bytes of all lanes, if these are active and lie in order.
    #[inline(always)]
    fn in_order(&self) -> Option<std::ops::Range<usize>> {
        if self.exec != !0 || !in_order(self.at, size_of::<T>() as u32) {
            return None;
        }
        let start = self.at[0].wrapping_add(self.offset) as usize;
        let end = start + LANES * size_of::<T>();
        (end <= self.lds.len()).then_some(start..end)
    }

    #[inline(always)]
    fn load(&self, place: usize) -> T {
        let mut word = T::default();
        word.as_mut_bytes()
            .copy_from_slice(&self.lds[place..place + size_of::<T>()]);
        word.ordered()
    }

    #[inline(always)]
    fn store(&mut self, place: usize, word: T) {
        self.lds[place..place + size_of::<T>()].copy_from_slice(word.ordered().as_bytes());
    }
}

/// The old values: low dwords, and high ones.
struct Old<T, const RETURNS: bool>([Row; 2], PhantomData<T>);

impl<T: Word, const RETURNS: bool> Old<T, RETURNS> {
    #[inline(always)]
    fn set(&mut self, lane: usize, word: T) {
        if RETURNS {
            let (low, high) = word.put();
            self.0[0].0[lane] = low;
            if T::KIND.is_wide() {
                self.0[1].0[lane] = high;
            }
        }
    }
}

/// MODE that keeps all denormals.
const KEPT: u32 = 0xf0;

/// Sums of floats, with denormals as MODE says.
#[cold]
#[inline(never)]
fn flushing<T: Word, const RETURNS: bool>(
    operation: Operation,
    accesses: Access<'_, T>,
    mode: u32,
) -> ([Row; 2], u32) {
    access::<T, RETURNS>(operation, accesses, mode)
}

/// Does it for all active lanes. Returns the old values if they are wanted, and the number of lanes
/// outside of LDS, whose old values are 0.
#[inline(always)]
fn access<T: Word, const RETURNS: bool>(
    operation: Operation,
    mut access: Access<'_, T>,
    mode: u32,
) -> ([Row; 2], u32) {
    let mut old = Old::<T, RETURNS>([Row::ZERO; 2], PhantomData);
    if let Some(all) = access.in_order() {
        let mut words = [T::default(); LANES];
        words
            .as_mut_bytes()
            .copy_from_slice(&access.lds[all.clone()]);
        for lane in 0..LANES {
            let word = words[lane].ordered();
            old.set(lane, word);
            let new = word.apply(operation, access.operands(lane), mode);
            words[lane] = new.ordered();
        }
        access.lds[all].copy_from_slice(words.as_bytes());
        return (old.0, 0);
    }
    if access.exec == 0 {
        return (old.0, 0);
    }
    let (len, size) = (access.lds.len(), size_of::<T>());
    let Some(places) = places(access.exec, len, access.at, access.offset, size) else {
        let mut outside = 0;
        for lane in Active(access.exec) {
            let place = access.at[lane].wrapping_add(access.offset) as usize;
            if len < size || place > len - size {
                outside += 1;
                continue;
            }
            let word = access.load(place);
            old.set(lane, word);
            access.store(place, word.apply(operation, access.operands(lane), mode));
        }
        return (old.0, outside);
    };
    if are_same(&places) {
        let place = places[0] as usize;
        let mut word = access.load(place);
        for lane in Active(access.exec) {
            old.set(lane, word);
            word = word.apply(operation, access.operands(lane), mode);
        }
        access.store(place, word);
        return (old.0, 0);
    }
    for lane in Active(access.exec) {
        let place = places[lane] as usize;
        let word = access.load(place);
        old.set(lane, word);
        access.store(place, word.apply(operation, access.operands(lane), mode));
    }
    (old.0, 0)
}
