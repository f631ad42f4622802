// SPDX-License-Identifier: GPL-2.0
//! The shapes of matrix instructions, and the places of their elements (AMD's matrix instruction
//! calculator).

use super::dots::Format;
use crate::wave::LANES;

/// Element type of the factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// See there.
    F32,
    /// f16, with gfx90a's arithmetic.
    F16,
    /// bf16, the same.
    Bf16,
    /// Signed bytes.
    I8,
    /// See there.
    F64,
    /// Small floats of A and of B, with gfx942's arithmetic.
    Small(Format, Format),
}

/// A product of `size` x `depth` by `depth` x `size`, in `blocks` with lanes of their own.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Rows of A, and columns of B.
    pub size: usize,
    /// Columns of A, and rows of B.
    pub depth: usize,
    /// Independent products.
    pub blocks: usize,
    /// Of A and B.
    pub element: Element,
    /// Elements of one lane.
    pub each: usize,
}

impl Shape {
    /// Those of gfx90a.
    pub fn gfx90a(op: u32) -> Option<Shape> {
        use Element::*;
        let found = match op {
            72 => (32, 4, 2, F16, 4),
            73 => (16, 4, 4, F16, 4),
            74 => (4, 4, 16, F16, 4),
            76 => (32, 8, 1, F16, 4),
            77 => (16, 16, 1, F16, 4),
            84 => (32, 8, 1, I8, 4),
            85 => (16, 16, 1, I8, 4),
            99 => (32, 4, 2, Bf16, 4),
            100 => (16, 4, 4, Bf16, 4),
            101 => (4, 4, 16, Bf16, 4),
            102 => (32, 8, 1, Bf16, 4),
            103 => (16, 16, 1, Bf16, 4),
            104 => (32, 2, 2, Bf16, 2),
            105 => (16, 2, 4, Bf16, 2),
            107 => (4, 2, 16, Bf16, 2),
            108 => (32, 4, 1, Bf16, 2),
            109 => (16, 8, 1, Bf16, 2),
            _ => return Shape::common(op),
        };
        Some(Shape::new(found))
    }

    /// Those of gfx942.
    pub fn gfx942(op: u32) -> Option<Shape> {
        use Element::{Small, I8};
        use Format::{Bf16, Bf8, Fp8, Xf32, F16};
        let found = match op {
            62 => (16, 8, 1, Small(Xf32, Xf32), 2),
            63 => (32, 4, 1, Small(Xf32, Xf32), 2),
            72 => (32, 4, 2, Small(F16, F16), 4),
            73 => (16, 4, 4, Small(F16, F16), 4),
            74 => (4, 4, 16, Small(F16, F16), 4),
            76 => (32, 8, 1, Small(F16, F16), 4),
            77 => (16, 16, 1, Small(F16, F16), 4),
            86 => (32, 16, 1, I8, 8),
            87 => (16, 32, 1, I8, 8),
            93 => (32, 4, 2, Small(Bf16, Bf16), 4),
            94 => (16, 4, 4, Small(Bf16, Bf16), 4),
            95 => (4, 4, 16, Small(Bf16, Bf16), 4),
            96 => (32, 8, 1, Small(Bf16, Bf16), 4),
            97 => (16, 16, 1, Small(Bf16, Bf16), 4),
            112..=119 => {
                let format = |is_fp8: bool| if is_fp8 { Fp8 } else { Bf8 };
                let element = Small(format(op & 2 != 0), format(op & 1 != 0));
                if op < 116 {
                    (16, 32, 1, element, 8)
                } else {
                    (32, 16, 1, element, 8)
                }
            }
            _ => return Shape::common(op),
        };
        Some(Shape::new(found))
    }

    /// Those that are the same.
    fn common(op: u32) -> Option<Shape> {
        use Element::*;
        let found = match op {
            64 => (32, 1, 2, F32, 1),
            65 => (16, 1, 4, F32, 1),
            66 => (4, 1, 16, F32, 1),
            68 => (32, 2, 1, F32, 1),
            69 => (16, 4, 1, F32, 1),
            80 => (32, 4, 2, I8, 4),
            81 => (16, 4, 4, I8, 4),
            82 => (4, 4, 16, I8, 4),
            110 => (16, 4, 1, F64, 1),
            111 => (4, 4, 4, F64, 1),
            _ => return None,
        };
        Some(Shape::new(found))
    }

    fn new((size, depth, blocks, element, each): (usize, usize, usize, Element, usize)) -> Shape {
        Shape {
            size,
            depth,
            blocks,
            element,
            each,
        }
    }

    /// Returns whether BLGP means something: other lanes for B, or for f64 other signs.
    pub fn permutes(&self) -> bool {
        self.blocks > 1 || matches!(self.element, Element::F32 | Element::F64)
    }

    /// Registers of a factor and of the sum.
    pub fn registers(&self) -> (u32, u32) {
        let factor = match self.element {
            Element::F32 => 1,
            Element::F64 => 2,
            Element::I8 => self.each as u32 / 4,
            Element::F16 | Element::Bf16 => self.each as u32 / 2,
            Element::Small(format, _) => (self.each * format.bits()) as u32 / 32,
        };
        let words = if self.element == Element::F64 { 2 } else { 1 };
        let elements = self.size * self.size * self.blocks;
        (factor, (elements / LANES * words) as u32)
    }

    /// Lane, and element within it, of a factor's element `k` in row or column `i`.
    #[inline(always)]
    pub fn factor(&self, block: usize, i: usize, k: usize) -> (usize, usize) {
        let group = block + self.blocks * (k / self.each);
        (i + self.size * group, k % self.each)
    }

    /// Register and lane of the sum's element. The registers of f64 count pairs.
    #[inline(always)]
    pub fn sum(&self, block: usize, i: usize, j: usize) -> (usize, usize) {
        match (self.size, self.element) {
            (16, Element::F64) => (i / 4, j + 16 * (i % 4)),
            (_, Element::F64) => (0, 16 * i + 4 * block + j),
            (32, _) => (16 * block + i % 4 + 4 * (i / 8), j + 32 * (i / 4 % 2)),
            (16, _) => (4 * block + i % 4, j + 16 * (i / 4)),
            _ => (i, j + 4 * block),
        }
    }
}
