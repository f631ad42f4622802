// SPDX-License-Identifier: GPL-2.0
//! MFMA and the accumulation registers.

mod dots;
mod shape;
mod sparse;

use half::f16;

use crate::decode::{bits, Decoded, Inst, Kind, Src, Unknown, Unsupported, Words};
use crate::env::Env;
use crate::hwreg::{index, INDEX_DST, INDEX_SRC0};
use crate::isa::Isa;
use crate::simd::{Body, Handler};
use crate::valu::float as fp;
use crate::valu::halves::Widen;
use crate::valu::types::{Ty, INPUT};
use crate::wave::{Flow, Reason, Row, Wave, LANES, TEMPS};
use dots::{add_row, Factor};
use shape::{Element, Shape};

/// The first VOP3P opcode that is a matrix instruction, but for gaps between.
pub const FIRST: u32 = 62;
const ACC_READ: u32 = 88;
const ACC_WRITE: u32 = 89;

/// Names a source or result that is an accumulation VGPR if `acc`.
fn register(inst: &mut Inst, number: u32, count: u32, acc: bool) -> u16 {
    if acc {
        inst.accvgpr(number, count)
    } else {
        inst.vgpr(number, count)
    }
}

/// Bits of [`Inst::imm`]: which operands are accumulation VGPRs.
const ACC_A: i32 = 1;
const ACC_B: i32 = 2;
const ACC_C: i32 = 4;
/// The places there of CBSZ, ABID and BLGP.
const CBSZ: u32 = 8;
const ABID: u32 = 11;
const BLGP: u32 = 15;

/// v_accvgpr_mov_b32, which is a VOP1.
pub fn decode_move(word: u32) -> Decoded<Inst> {
    let mut inst = Inst::new(Handler::of::<AccMove>(), bits(word, 16, 9), 4);
    inst.dst = inst.accvgpr(bits(word, 24, 17), 1);
    let from = bits(word, 8, 0).checked_sub(256).ok_or(Unknown)?;
    inst.src[0] = Src::V(inst.accvgpr(from, 1));
    Ok(inst)
}

struct AccMove;

impl Body for AccMove {
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let Src::V(from) = inst.src[0] else {
            return Flow::Next;
        };
        let row = wave.rows[acc_row(wave, from)];
        wave.put(acc_row(wave, inst.dst), &row);
        Flow::Next
    }
}

/// VOP3P from [`FIRST`] on.
pub fn decode(isa: Isa, words: Words) -> Decoded<Inst> {
    let [word, second, _] = words.0;
    let op = bits(word, 22, 16);
    let dst = bits(word, 7, 0);
    let codes = [
        bits(second, 8, 0),
        bits(second, 17, 9),
        bits(second, 26, 18),
    ];
    if op == ACC_READ {
        let mut inst = Inst::new(Handler::of::<AccRead>(), op, 8);
        inst.dst = inst.vgpr(dst, 1);
        let from = codes[0].checked_sub(256).ok_or(Unknown)?;
        inst.src[0] = Src::V(inst.accvgpr(from, 1));
        return Ok(inst);
    }
    if op == ACC_WRITE {
        let mut inst = Inst::new(Handler::of::<AccWrite>(), op, 8);
        inst.dst = inst.accvgpr(dst, 1);
        inst.src[0] = inst.source(codes[0], Kind::Int32, None)?;
        return Ok(inst);
    }
    if let (Isa::Gfx942, Some(shape)) = (isa, sparse::shape(op)) {
        return sparse::decode(op, &shape, words);
    }
    let (shape, handler) = match isa {
        Isa::Gfx90a => (Shape::gfx90a(op), Handler::of::<Multiply<false>>()),
        Isa::Gfx942 => (Shape::gfx942(op), Handler::of::<Multiply<true>>()),
    };
    let shape = shape.ok_or(Unknown)?;
    let (cbsz, abid, blgp) = (bits(word, 10, 8), bits(word, 14, 11), bits(second, 31, 29));
    // Other shapes have the fields too, but what they do there is not known.
    if 1 << cbsz > shape.blocks || abid >> cbsz != 0 {
        return Err(Unsupported("this CBSZ and ABID of MFMA"));
    }
    if shape.element == Element::F64 && cbsz != 0 || blgp != 0 && !shape.permutes() {
        return Err(Unsupported("this CBSZ or BLGP of MFMA"));
    }
    let mut inst = Inst::new(handler, op, 8);
    inst.imm = (cbsz << CBSZ | abid << ABID | blgp << BLGP) as i32;
    let (factor, sum) = shape.registers();
    let acc = [
        bits(second, 27, 27) == 1,
        bits(second, 28, 28) == 1,
        bits(word, 15, 15) == 1,
    ];
    for (flag, acc) in [ACC_A, ACC_B, ACC_C].into_iter().zip(acc) {
        inst.imm |= if acc { flag } else { 0 };
    }
    inst.dst = register(&mut inst, dst, sum, acc[2]);
    for n in 0..2 {
        let number = codes[n].checked_sub(256).ok_or(Unknown)?;
        inst.src[n] = Src::V(register(&mut inst, number, factor, acc[n]));
    }
    let kind = match shape.element {
        Element::F64 => Kind::F64,
        Element::I8 => Kind::Int32,
        _ => Kind::F32,
    };
    inst.src[2] = match codes[2].checked_sub(256) {
        Some(number) => Src::V(register(&mut inst, number, sum, acc[2])),
        None => inst.source(codes[2], kind, None)?,
    };
    Ok(inst)
}

fn acc_row(wave: &Wave, number: u16) -> usize {
    TEMPS + usize::from(wave.arch) + usize::from(number)
}

struct AccRead;

impl Body for AccRead {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let Src::V(number) = inst.src[0] else {
            return Flow::Next;
        };
        let from = number + index(wave, INDEX_SRC0);
        let to = inst.dst + index(wave, INDEX_DST);
        if from >= wave.acc || usize::from(to) >= TEMPS + usize::from(wave.arch) {
            return Reason::Register("behind a VGPR index").into();
        }
        let row = wave.rows[acc_row(wave, from)];
        wave.put(to.into(), &row);
        Flow::Next
    }
}

struct AccWrite;

impl Body for AccWrite {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let src = match inst.src[0] {
            Src::V(row) => Src::V(row + index(wave, INDEX_SRC0)),
            src => src,
        };
        let to = inst.dst + index(wave, INDEX_DST);
        let outside =
            matches!(src, Src::V(row) if usize::from(row) >= TEMPS + usize::from(wave.arch));
        if to >= wave.acc || outside {
            return Reason::Register("behind a VGPR index").into();
        }
        let from = wave.narrow(src, 0);
        let row = wave.rows[from];
        wave.put(acc_row(wave, to), &row);
        Flow::Next
    }
}

/// MODE.FP16_OVFL. With it results saturate, as gfx942's ISA text has it.
const FP16_OVFL: u32 = 1 << 23;

/// The product of the shape that an opcode has on gfx942 or on gfx90a.
struct Multiply<const IS_GFX942: bool>;

impl<const IS_GFX942: bool> Body for Multiply<IS_GFX942> {
    #[inline(always)]
    fn run(inst: &Inst, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let op = inst.op.into();
        let Some(shape) = (if IS_GFX942 {
            Shape::gfx942(op)
        } else {
            Shape::gfx90a(op)
        }) else {
            return Flow::Next;
        };
        if IS_GFX942 && wave.mode & FP16_OVFL != 0 && shape.element != Element::F64 {
            return Reason::Unsupported("FP16_OVFL with a matrix instruction").into();
        }
        let row = |number: u16, flag: i32| {
            if inst.imm & flag != 0 {
                acc_row(wave, number)
            } else {
                usize::from(number)
            }
        };
        let place = |src: Src, flag: i32| match src {
            Src::V(number) => Some(row(number, flag)),
            _ => None,
        };
        let (Some(a), Some(b)) = (place(inst.src[0], ACC_A), place(inst.src[1], ACC_B)) else {
            return Flow::Next;
        };
        let dst = row(inst.dst, ACC_C);
        let (factor, sum) = shape.registers();
        let copy = |first: usize, count: u32| wave.rows[first..first + count as usize].to_vec();
        let (mut a, mut b) = (copy(a, factor), copy(b, factor));
        let mut c = match place(inst.src[2], ACC_C) {
            Some(c) => copy(c, sum),
            None => {
                let value = wave.scalar64(inst.src[2]);
                let words = [value as u32, (value >> 32) as u32];
                let wide = shape.element == Element::F64;
                (0..sum as usize)
                    .map(|n| Row([words[if wide { n % 2 } else { 0 }]; LANES]))
                    .collect()
            }
        };
        let modifiers = inst.imm as u32;
        if modifiers >> CBSZ != 0 {
            let (cbsz, abid) = (bits(modifiers, 10, 8), bits(modifiers, 14, 11));
            broadcast(&shape, &mut a, cbsz, abid as usize);
            match bits(modifiers, 17, 15) {
                signs if shape.element == Element::F64 => {
                    negate(&mut a, signs & 1);
                    negate(&mut b, signs >> 1 & 1);
                    negate(&mut c, signs >> 2);
                }
                pattern => permute(&mut b, pattern),
            }
        }
        // gfx942's ISA text has MODE flush denormals of A and B. gfx90a's part in this is not
        // known.
        if IS_GFX942 && shape.element == Element::F32 && !wave.keeps_f32_denormals() {
            flush(&mut a, wave.mode);
            flush(&mut b, wave.mode);
        }
        let out = match (shape.size, shape.element) {
            (32, Element::F32) => product_f32::<32>(&shape, &a, &b, c),
            (16, Element::F32) => product_f32::<16>(&shape, &a, &b, c),
            (size, Element::Small(..)) if IS_GFX942 => match size {
                32 => product_small::<32, 16>(&shape, &a, &b, c),
                16 => product_small::<16, 32>(&shape, &a, &b, c),
                _ => product_small::<4, 4>(&shape, &a, &b, c),
            },
            (size, Element::F16) if !IS_GFX942 => match size {
                32 => product_halves::<32, false>(&shape, &a, &b, c),
                16 => product_halves::<16, false>(&shape, &a, &b, c),
                _ => product_halves::<4, false>(&shape, &a, &b, c),
            },
            (size, Element::Bf16) if !IS_GFX942 => match size {
                32 => product_halves::<32, true>(&shape, &a, &b, c),
                16 => product_halves::<16, true>(&shape, &a, &b, c),
                _ => product_halves::<4, true>(&shape, &a, &b, c),
            },
            _ => product(&shape, &a, &b, c),
        };
        wave.rows[dst..dst + sum as usize].copy_from_slice(&out);
        Flow::Next
    }
}

/// Gives blocks of A to their neighbours: of each 2^`cbsz` all have number `abid` of them.
#[cold]
fn broadcast(shape: &Shape, a: &mut [Row], cbsz: u32, abid: usize) {
    for row in a {
        let old = *row;
        for block in 0..shape.blocks {
            let from = block >> cbsz << cbsz | abid;
            for k in 0..shape.depth.div_ceil(shape.each) {
                for i in 0..shape.size {
                    let lane = |block: usize| i + shape.size * (block + shape.blocks * k);
                    row.0[lane(block)] = old.0[lane(from)];
                }
            }
        }
    }
}

/// Lets lanes take B from others, as BLGP says.
#[cold]
fn permute(b: &mut [Row], pattern: u32) {
    for row in b {
        let old = *row;
        for lane in 0..LANES {
            let from = match pattern {
                0 => lane,
                1 => lane % 32,
                2 => lane % 32 + 32,
                3 => (lane + 16) % 64,
                _ => lane % 16 + 16 * (pattern as usize - 4),
            };
            row.0[lane] = old.0[from];
        }
    }
}

/// Changes the signs of f64 if `sign` is 1.
#[cold]
fn negate(rows: &mut [Row], sign: u32) {
    let high = rows.iter_mut().skip(1).step_by(2);
    high.for_each(|row| row.0.iter_mut().for_each(|word| *word ^= sign << 31));
}

/// Flushes denormals of f32 as MODE says for sources.
#[cold]
fn flush(rows: &mut [Row], mode: u32) {
    for word in rows.iter_mut().flat_map(|row| &mut row.0) {
        *word = f32::from_bits(*word).flush(mode, INPUT).to_bits();
    }
}

/// As [`product`], for small floats with gfx942's arithmetic.
#[inline(always)]
fn product_small<const SIZE: usize, const DEPTH: usize>(
    shape: &Shape,
    a: &[Row],
    b: &[Row],
    mut c: Vec<Row>,
) -> Vec<Row> {
    let Element::Small(a_format, b_format) = shape.element else {
        return c;
    };
    let mut order = [0; DEPTH];
    for k in 0..DEPTH {
        order[k] = k as u8;
    }
    for block in 0..shape.blocks {
        let (mut rows, mut columns) = (Factor::<SIZE, DEPTH>::new(), Factor::<SIZE, DEPTH>::new());
        for k in 0..shape.depth {
            for n in 0..SIZE {
                let place = shape.factor(block, n, k);
                rows.set(a_format, k, n, bits_of(a, place, a_format.bits()));
                columns.set(b_format, k, n, bits_of(b, place, b_format.bits()));
            }
        }
        for i in 0..SIZE {
            let (register, first) = shape.sum(block, i, 0);
            let sums = &mut c[register].0[first..first + SIZE];
            let mut row = [0f32; SIZE];
            for j in 0..SIZE {
                row[j] = f32::from_bits(sums[j]);
            }
            add_row(
                a_format,
                &rows,
                &columns,
                i,
                &order[..shape.depth],
                &mut row,
            );
            for j in 0..SIZE {
                sums[j] = row[j].to_bits();
            }
        }
    }
    c
}

/// A register's bits from those of a lane's element `n` of `size` bits on.
#[inline(always)]
fn bits_of(rows: &[Row], (lane, n): (usize, usize), size: usize) -> u32 {
    let each = 32 / size;
    rows[n / each].0[lane] >> (size * (n % each))
}

/// The sum `c` with the product added, element by element in order of depth.
#[inline(always)]
fn product(shape: &Shape, a: &[Row], b: &[Row], mut c: Vec<Row>) -> Vec<Row> {
    for block in 0..shape.blocks {
        for i in 0..shape.size {
            for j in 0..shape.size {
                let (register, lane) = shape.sum(block, i, j);
                for k in 0..shape.depth {
                    let (x, y) = (shape.factor(block, i, k), shape.factor(block, j, k));
                    add_product(shape.element, (a, x), (b, y), &mut c, register, lane);
                }
            }
        }
    }
    c
}

/// The largest depth of a product.
const DEPTH: usize = 16;

/// As [`product`] for a sum of f32, in which a row is in as many lanes of one register, side by
/// side.
#[inline(always)]
fn product_f32<const SIZE: usize>(
    shape: &Shape,
    a: &[Row],
    b: &[Row],
    mut c: Vec<Row>,
) -> Vec<Row> {
    for block in 0..shape.blocks {
        let mut rows = [[0f32; SIZE]; DEPTH];
        for k in 0..shape.depth {
            for j in 0..SIZE {
                rows[k][j] = value(shape.element, b, shape.factor(block, j, k));
            }
        }
        for i in 0..SIZE {
            let (register, first) = shape.sum(block, i, 0);
            let sums = &mut c[register].0[first..first + SIZE];
            let mut row = [0f32; SIZE];
            for j in 0..SIZE {
                row[j] = f32::from_bits(sums[j]);
            }
            for k in 0..shape.depth {
                let factor = value(shape.element, a, shape.factor(block, i, k));
                for j in 0..SIZE {
                    row[j] = factor.mul_add(rows[k][j], row[j]);
                }
            }
            for j in 0..SIZE {
                sums[j] = row[j].to_bits();
            }
        }
    }
    c
}

/// As [`product_f32`] for factors of 16 bits. gfx90a adds the products of a lane's elements in
/// pairs, and these to the sum, each time rounded to nearest even; denormals are 0 (MMA-Sim's model
/// of CDNA 2, arXiv 2511.10909).
#[inline(always)]
fn product_halves<const SIZE: usize, const FLUSHES: bool>(
    shape: &Shape,
    a: &[Row],
    b: &[Row],
    mut c: Vec<Row>,
) -> Vec<Row> {
    for block in 0..shape.blocks {
        let mut rows = [[0f32; SIZE]; DEPTH];
        for k in 0..shape.depth {
            for j in 0..SIZE {
                rows[k][j] = value(shape.element, b, shape.factor(block, j, k));
            }
        }
        for i in 0..SIZE {
            let (register, first) = shape.sum(block, i, 0);
            let sums = &mut c[register].0[first..first + SIZE];
            let mut row = [0f32; SIZE];
            for j in 0..SIZE {
                row[j] = without_denormal(sums[j]);
            }
            for k in (0..shape.depth).step_by(shape.each) {
                let mut factors = [0f32; 4];
                for n in 0..shape.each {
                    factors[n] = value(shape.element, a, shape.factor(block, i, k + n));
                }
                let [x, y, z, w] = factors;
                if shape.each == 2 {
                    for j in 0..SIZE {
                        let group = flushed::<FLUSHES>(x * rows[k][j])
                            + flushed::<FLUSHES>(y * rows[k + 1][j]);
                        row[j] = flushed::<FLUSHES>(row[j] + flushed::<FLUSHES>(group));
                    }
                    continue;
                }
                for j in 0..SIZE {
                    let low =
                        flushed::<FLUSHES>(x * rows[k][j]) + flushed::<FLUSHES>(y * rows[k + 1][j]);
                    let high = flushed::<FLUSHES>(z * rows[k + 2][j])
                        + flushed::<FLUSHES>(w * rows[k + 3][j]);
                    let group = flushed::<FLUSHES>(low) + flushed::<FLUSHES>(high);
                    row[j] = flushed::<FLUSHES>(row[j] + flushed::<FLUSHES>(group));
                }
            }
            for j in 0..SIZE {
                sums[j] = row[j].to_bits();
            }
        }
    }
    c
}

/// Without `FLUSHES` the value itself: products of f16 are multiples of 2^-48, and so are the sums of
/// them. No sum with a float that is not denormal can be denormal then.
#[inline(always)]
fn flushed<const FLUSHES: bool>(value: f32) -> f32 {
    if FLUSHES {
        fp::flush32(value)
    } else {
        value
    }
}

/// A float, or +0 for a denormal one.
#[inline(always)]
fn without_denormal(bits: u32) -> f32 {
    let denormal = (bits & 0x7fff_ffff).wrapping_sub(1) < 0x7f_ffff;
    f32::from_bits(fp::select32(denormal, 0, bits))
}

/// Adds the product of an element of each factor to one of the sum.
#[inline(always)]
fn add_product(
    element: Element,
    (a, x): (&[Row], (usize, usize)),
    (b, y): (&[Row], (usize, usize)),
    c: &mut [Row],
    register: usize,
    lane: usize,
) {
    match element {
        Element::F64 => {
            let sum = double(c, (lane, register));
            let sum = double(a, x).mul_add(double(b, y), sum).to_bits();
            c[2 * register].0[lane] = sum as u32;
            c[2 * register + 1].0[lane] = (sum >> 32) as u32;
        }
        Element::I8 => {
            let product = byte(a, x) * byte(b, y);
            let sum = &mut c[register].0[lane];
            *sum = sum.wrapping_add(product as u32);
        }
        element => {
            let sum = f32::from_bits(c[register].0[lane]);
            let sum = value(element, a, x).mul_add(value(element, b, y), sum);
            c[register].0[lane] = sum.to_bits();
        }
    }
}

/// Element `n` of a lane: f64.
#[inline(always)]
fn double(rows: &[Row], (lane, n): (usize, usize)) -> f64 {
    f64::from_bits(u64::from(rows[2 * n].0[lane]) | u64::from(rows[2 * n + 1].0[lane]) << 32)
}

/// Element `n` of a lane: a signed byte.
#[inline(always)]
fn byte(rows: &[Row], (lane, n): (usize, usize)) -> i32 {
    i32::from((rows[n / 4].0[lane] >> (8 * (n % 4))) as i8)
}

/// Element `n` of a lane, as f32; of 16 bits a denormal one is 0.
#[inline(always)]
fn value(element: Element, rows: &[Row], (lane, n): (usize, usize)) -> f32 {
    match element {
        Element::F16 => {
            let bits = half(rows, lane, n);
            let denormal = (bits & 0x7fff).wrapping_sub(1) < 0x3ff;
            f16::from_bits(if denormal { 0 } else { bits }).widen()
        }
        Element::Bf16 => without_denormal(u32::from(half(rows, lane, n)) << 16),
        _ => f32::from_bits(rows[n].0[lane]),
    }
}

#[inline(always)]
fn half(rows: &[Row], lane: usize, n: usize) -> u16 {
    (rows[n / 2].0[lane] >> (16 * (n % 2))) as u16
}
