// SPDX-License-Identifier: GPL-2.0
//! SMFMAC: products whose A has two of each four elements in a row, and the places of these in a
//! register of indices (AMD's matrix instruction calculator). The order of the sums is not in any
//! model: it is taken to be that of dense products over the elements that there are.

use super::dots::{add_row, Factor, Format};
use super::shape::{Element, Shape};
use super::{acc_row, bits_of, byte, register, ACC_A, ACC_B, ACC_C, FP16_OVFL};
use crate::decode::{bits, Decoded, Inst, Src, Unknown, Words};
use crate::env::Env;
use crate::simd::{Body, Handler};
use crate::wave::{Flow, Reason, Row, Wave};

/// The shape with all elements of A, of which half are there.
pub fn shape(op: u32) -> Option<Shape> {
    use Element::{Small, I8};
    use Format::{Bf16, Bf8, Fp8, F16};
    let (size, element) = match op {
        98 => (16, Small(F16, F16)),
        100 => (32, Small(F16, F16)),
        102 => (16, Small(Bf16, Bf16)),
        104 => (32, Small(Bf16, Bf16)),
        106 => (16, I8),
        108 => (32, I8),
        120..=127 => {
            let format = |is_fp8: bool| if is_fp8 { Fp8 } else { Bf8 };
            let size = if op < 124 { 16 } else { 32 };
            (size, Small(format(op & 2 != 0), format(op & 1 != 0)))
        }
        _ => return None,
    };
    let each = 128 / width(element);
    Some(Shape {
        size,
        depth: 64 / size * each,
        blocks: 1,
        element,
        each,
    })
}

/// Bits of an element.
fn width(element: Element) -> usize {
    match element {
        Element::Small(format, _) => format.bits(),
        _ => 8,
    }
}

/// The elements of A that there are, side by side.
fn kept(shape: &Shape) -> Shape {
    Shape {
        depth: shape.depth / 2,
        each: shape.each / 2,
        ..*shape
    }
}

/// The first bit of the indices, in [`Inst::sdst`].
fn first_index(element: Element, cbsz: u32, abid: u32) -> u32 {
    match (cbsz & 3, width(element)) {
        (0, 16) => 8 * (abid & 3),
        (0, _) => 16 * (abid & 1),
        // One set for all instructions.
        _ => 0,
    }
}

/// The instruction of VOP3P with that shape.
pub fn decode(op: u32, shape: &Shape, words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let handler = match (shape.size, shape.element) {
        (32, Element::I8) => Handler::of::<Bytes<32, 16>>(),
        (_, Element::I8) => Handler::of::<Bytes<16, 32>>(),
        // Twice as many elements of B in a lane as of A, and of bytes twice as many.
        (32, element) if width(element) == 16 => Handler::of::<Sparse<32, 8, 16>>(),
        (32, _) => Handler::of::<Sparse<32, 16, 32>>(),
        (_, element) if width(element) == 16 => Handler::of::<Sparse<16, 16, 32>>(),
        _ => Handler::of::<Sparse<16, 32, 64>>(),
    };
    let mut inst = Inst::new(handler, op, 8);
    let sum = shape.registers().1;
    let acc = [
        bits(second, 27, 27) == 1,
        bits(second, 28, 28) == 1,
        bits(word, 15, 15) == 1,
    ];
    for (flag, acc) in [ACC_A, ACC_B, ACC_C].into_iter().zip(acc) {
        inst.imm |= if acc { flag } else { 0 };
    }
    inst.dst = register(&mut inst, bits(word, 7, 0), sum, acc[2]);
    for (n, code, count) in [(0, bits(second, 8, 0), 2), (1, bits(second, 17, 9), 4)] {
        let number = code.checked_sub(256).ok_or(Unknown)?;
        inst.src[n] = Src::V(register(&mut inst, number, count, acc[n]));
    }
    let indices = bits(second, 26, 18).checked_sub(256).ok_or(Unknown)?;
    inst.src[2] = Src::V(inst.vgpr(indices, 1));
    let first = first_index(shape.element, bits(word, 10, 8), bits(word, 14, 11));
    inst.sdst = first as u8;
    Ok(inst)
}

/// A's and B's registers, the first row of the sum, and the indices from the chosen ones on.
struct Operands {
    a: Vec<Row>,
    b: Vec<Row>,
    dst: usize,
    indices: Row,
}

fn operands(inst: &Inst, wave: &Wave) -> Option<Operands> {
    let place = |number: u16, flag: i32| match inst.imm & flag {
        0 => usize::from(number),
        _ => acc_row(wave, number),
    };
    let [Src::V(a), Src::V(b), Src::V(indices)] = inst.src else {
        return None;
    };
    let (a, b) = (place(a, ACC_A), place(b, ACC_B));
    let mut indices = wave.rows[usize::from(indices)];
    for word in &mut indices.0 {
        *word >>= inst.sdst;
    }
    Some(Operands {
        a: wave.rows[a..a + 2].to_vec(),
        b: wave.rows[b..b + 4].to_vec(),
        dst: place(inst.dst, ACC_C),
        indices,
    })
}

/// The place in B's order of each element that row `i` of A has.
#[inline(always)]
fn places<const KEPT: usize>(shape: &Shape, indices: &Row, i: usize) -> [u8; KEPT] {
    let there = kept(shape);
    let mut places = [0; KEPT];
    for (k, place) in places.iter_mut().enumerate() {
        let (lane, n) = there.factor(0, i, k);
        *place = (4 * (k / 2)) as u8 + (indices.0[lane] >> (2 * n) & 3) as u8;
    }
    places
}

/// FP16_OVFL is as with dense products.
fn check(wave: &Wave) -> Result<(), Reason> {
    if wave.mode & FP16_OVFL != 0 {
        return Err(Reason::Unsupported("FP16_OVFL with a matrix instruction"));
    }
    Ok(())
}

/// Floats: `KEPT` elements of A in a row, and `DEPTH` of B in a column.
struct Sparse<const SIZE: usize, const KEPT: usize, const DEPTH: usize>;

impl<const SIZE: usize, const KEPT: usize, const DEPTH: usize> Body for Sparse<SIZE, KEPT, DEPTH> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let (Some(shape), Some(operands)) = (shape(inst.op.into()), operands(inst, wave)) else {
            return Reason::Unknown.into();
        };
        if let Err(reason) = check(wave) {
            return reason.into();
        }
        let Element::Small(a_format, b_format) = shape.element else {
            return Reason::Unknown.into();
        };
        let there = kept(&shape);
        let mut rows = Factor::<SIZE, KEPT>::new();
        let mut columns = Factor::<SIZE, DEPTH>::new();
        for n in 0..SIZE {
            for k in 0..KEPT {
                let word = bits_of(&operands.a, there.factor(0, n, k), a_format.bits());
                rows.set(a_format, k, n, word);
            }
            for k in 0..DEPTH {
                let word = bits_of(&operands.b, shape.factor(0, n, k), b_format.bits());
                columns.set(b_format, k, n, word);
            }
        }
        for i in 0..SIZE {
            let order = places::<KEPT>(&shape, &operands.indices, i);
            let (register, first) = shape.sum(0, i, 0);
            let sums = &mut wave.rows[operands.dst + register].0[first..first + SIZE];
            let mut row = [0f32; SIZE];
            for j in 0..SIZE {
                row[j] = f32::from_bits(sums[j]);
            }
            add_row(a_format, &rows, &columns, i, &order, &mut row);
            for j in 0..SIZE {
                sums[j] = row[j].to_bits();
            }
        }
        Flow::Next
    }
}

/// Bytes; see [`Sparse`].
struct Bytes<const SIZE: usize, const KEPT: usize>;

impl<const SIZE: usize, const KEPT: usize> Body for Bytes<SIZE, KEPT> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let (Some(shape), Some(operands)) = (shape(inst.op.into()), operands(inst, wave)) else {
            return Reason::Unknown.into();
        };
        if let Err(reason) = check(wave) {
            return reason.into();
        }
        let there = kept(&shape);
        for i in 0..SIZE {
            let order = places::<KEPT>(&shape, &operands.indices, i);
            for j in 0..SIZE {
                let (register, lane) = shape.sum(0, i, j);
                let mut sum = wave.rows[operands.dst + register].0[lane];
                for (k, &place) in order.iter().enumerate() {
                    let a = byte(&operands.a, there.factor(0, i, k));
                    let b = byte(&operands.b, shape.factor(0, j, place.into()));
                    sum = sum.wrapping_add((a * b) as u32);
                }
                wave.rows[operands.dst + register].0[lane] = sum;
            }
        }
        Flow::Next
    }
}
