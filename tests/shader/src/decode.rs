// SPDX-License-Identifier: GPL-2.0
//! From instruction words to handlers. Encodings: GFX9, in the forms of gfx90a and gfx942.

use crate::counts::Class;
use crate::gaps;
use crate::isa::Isa;
use crate::simd::Handler;
use crate::valu;
use crate::valu::modify::Mods;
use crate::wave::TEMPS;
use crate::{lds_ops, matrix, salu, smem, vmem, vmem_buffer};

/// Origin of a source operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Src {
    /// A row of the wave, the first one if it is of 64 bits.
    V(u16),
    /// A scalar register, the first one if it is of 64 bits.
    S(u8),
    /// A constant, in the operand's type.
    K(u64),
    /// An operand code whose value depends on the wave: apertures, VCCZ, EXECZ, SCC.
    Special(u8),
}

/// Type of a source or result, which decides how constants, modifiers and clamp work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integer or bits.
    Int16,
    /// See above.
    Int32,
    /// See above.
    Int64,
    /// Binary floating point.
    F16,
    /// See above.
    F32,
    /// See above.
    F64,
}

impl Kind {
    /// Returns whether it takes two registers.
    pub const fn is_wide(self) -> bool {
        matches!(self, Kind::Int64 | Kind::F64)
    }

    /// Returns whether it is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Kind::F16 | Kind::F32 | Kind::F64)
    }
}

/// One decoded instruction.
pub struct Inst {
    /// Its handler.
    pub run: Handler,
    /// The class in which it is counted.
    pub class: Class,
    /// Opcode within its format.
    pub op: u16,
    /// Bytes: 4, 8 or 12.
    pub len: u8,
    /// Result: a row, or a scalar register.
    pub dst: u16,
    /// Second, scalar result or mask source.
    pub sdst: u8,
    /// Operands.
    pub src: [Src; 3],
    /// Offset, branch distance, or another constant.
    pub imm: i32,
    /// Bits of the memory formats: [`flag`].
    pub flags: u8,
    /// One more than the highest arch VGPR that it names.
    pub arch: u16,
    /// One more than the highest accumulation VGPR that it names.
    pub acc: u16,
    /// It names a TTMP.
    pub privileged: bool,
    /// It is a vector instruction whose operands MODE.GPR_IDX_EN moves.
    pub indexed: bool,
    /// Modifiers of a vector instruction.
    pub mods: Option<Box<Mods>>,
}

/// Bits of [`Inst::flags`].
pub mod flag {
    /// Atomics return the old value.
    pub const GLC: u8 = 1;
    /// The data register is an accumulation VGPR.
    pub const ACC: u8 = 2;
    /// MUBUF: the VGPR is an index.
    pub const IDXEN: u8 = 4;
    /// MUBUF: the VGPR is an offset.
    pub const OFFEN: u8 = 8;
    /// MUBUF: data goes to LDS.
    pub const LDS: u8 = 16;
    /// FLAT: private memory.
    pub const SCRATCH: u8 = 32;
    /// FLAT: addresses are checked for apertures.
    pub const GENERIC: u8 = 64;
    /// SMEM, FLAT: there is a scalar offset or address.
    pub const SCALAR: u8 = 128;
}

/// The error of words that are no instruction here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// The generation has none that is encoded so.
    Unknown,
    /// The generation has it, and it is not supported.
    Unsupported(&'static str),
}
pub use Lack::{Unknown, Unsupported};

/// Result of decoding.
pub type Decoded<T> = Result<T, Lack>;

impl Inst {
    /// An instruction without operands.
    pub fn new(run: Handler, op: u32, len: u8) -> Inst {
        Inst {
            run,
            class: Class::Scalar,
            op: op as u16,
            len,
            dst: 0,
            sdst: 0,
            src: [Src::K(0); 3],
            imm: 0,
            flags: 0,
            arch: 0,
            acc: 0,
            privileged: false,
            indexed: false,
            mods: None,
        }
    }

    /// Names arch VGPRs `first` to `first + count - 1`. Returns the first one's row.
    pub fn vgpr(&mut self, first: u32, count: u32) -> u16 {
        self.arch = self.arch.max((first + count) as u16);
        first as u16 + TEMPS as u16
    }

    /// Names accumulation VGPRs. Their row depends on the wave, so this returns the number.
    pub fn accvgpr(&mut self, first: u32, count: u32) -> u16 {
        self.acc = self.acc.max((first + count) as u16);
        first as u16
    }

    /// Names a scalar register.
    pub fn scalar(&mut self, code: u32) -> u8 {
        self.privileged |= (108..124).contains(&code);
        (code & 127) as u8
    }

    /// A source operand by its nine-bit code.
    pub fn source(&mut self, code: u32, kind: Kind, literal: Option<u32>) -> Decoded<Src> {
        Ok(match code {
            0..=124 | 126 | 127 => Src::S(self.scalar(code)),
            128..=192 => Src::K(u64::from(code - 128)),
            193..=208 => Src::K((-i64::from(code - 192)) as u64),
            235..=238 | 251..=253 => Src::Special(code as u8),
            240..=248 => Src::K(float_constant(code, kind)),
            255 => Src::K(literal_constant(literal.ok_or(Unknown)?, kind)),
            256..=511 => {
                let registers = if kind.is_wide() { 2 } else { 1 };
                Src::V(self.vgpr(code - 256, registers))
            }
            _ => return Err(Unknown),
        })
    }
}

fn float_constant(code: u32, kind: Kind) -> u64 {
    let value = match code {
        240 => 0.5,
        241 => -0.5,
        242 => 1.0,
        243 => -1.0,
        244 => 2.0,
        245 => -2.0,
        246 => 4.0,
        247 => -4.0,
        // 1 / (2 pi), rounded to each type.
        _ => match kind {
            Kind::Int64 | Kind::F64 => return 0x3fc4_5f30_6dc9_c882,
            Kind::Int16 | Kind::F16 => return 0x3118,
            _ => return 0x3e22_f983,
        },
    };
    match kind {
        Kind::Int64 | Kind::F64 => f64::to_bits(value),
        Kind::Int16 | Kind::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        Kind::Int32 | Kind::F32 => u64::from((value as f32).to_bits()),
    }
}

/// For operands other than signed ones of 64 bits: for these see [`signed_literal`].
fn literal_constant(literal: u32, kind: Kind) -> u64 {
    match kind {
        Kind::F64 => u64::from(literal) << 32,
        _ => u64::from(literal),
    }
}

/// A literal as a signed operand of 64 bits.
pub fn signed_literal(literal: u32) -> Src {
    Src::K(i64::from(literal as i32) as u64)
}

/// The bits `hi:lo` of a word.
#[inline(always)]
pub fn bits(word: u32, hi: u32, lo: u32) -> u32 {
    word >> lo & (!0 >> (31 - (hi - lo)))
}

/// The words of an instruction: its own, and the two that may belong to it.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub [u32; 3]);

impl Words {
    /// A literal behind `len` bytes of instruction if one of `codes` asks for it, and the new
    /// length.
    pub fn literal(&self, len: u8, codes: &[u32]) -> (Option<u32>, u8) {
        if codes.contains(&255) {
            (Some(self.0[usize::from(len / 4)]), len + 4)
        } else {
            (None, len)
        }
    }
}

/// Decodes the instruction at the start of `words`, by its format. Returns its class, too.
fn by_format(isa: Isa, words: Words) -> Decoded<(Class, Inst)> {
    let first = words.0[0];
    if first >> 31 == 0 {
        let inst = match first >> 25 {
            0x3f => valu::encode::vop1(isa, words),
            0x3e => valu::encode::vopc(words),
            _ => valu::encode::vop2(isa, words),
        };
        return Ok((Class::Vector, inst?));
    }
    if first >> 30 == 2 {
        let inst = match first >> 23 {
            0x17d => salu::decode_sop1(words),
            0x17e => salu::decode_sopc(words),
            0x17f => salu::decode_sopp(words),
            _ if first >> 28 == 0xb => salu::decode_sopk(isa, words),
            _ => salu::decode_sop2(words),
        };
        return Ok((Class::Scalar, inst?));
    }
    Ok(match first >> 26 {
        0b110000 => (Class::ScalarMemory, smem::decode(words)?),
        0b110100 if first >> 23 == 0x1a7 && bits(first, 22, 16) >= matrix::FIRST => {
            (Class::Matrix, matrix::decode(isa, words)?)
        }
        0b110100 if first >> 23 == 0x1a7 => (Class::Vector, valu::packed::decode(isa, words)?),
        0b110100 => (Class::Vector, valu::encode::vop3(isa, words)?),
        0b110110 => (Class::Lds, lds_ops::decode(isa, words)?),
        0b110111 => (Class::Memory, vmem::decode_flat(isa, words)?),
        0b111000 => (Class::Memory, vmem_buffer::decode(words)?),
        _ => return Err(Unknown),
    })
}

/// Decodes the instruction of a generation at the start of `words`. Words behind it may be
/// anything.
pub fn decode(isa: Isa, words: Words) -> Decoded<Inst> {
    if let Some(name) = gaps::name(isa, words.0[0]) {
        return Err(Unsupported(name));
    }
    let (class, mut inst) = by_format(isa, words)?;
    inst.class = class;
    Ok(inst)
}
