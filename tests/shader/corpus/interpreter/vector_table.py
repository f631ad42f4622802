# SPDX-License-Identifier: GPL-2.0
"""Vector instructions that compute a lane's result from its operands, by the number of these. They
get and return bits."""
import numpy as np

from .bits import (U32, U64, WORD, each, f32, f64, fma_f32, i16, i32, i64, of_f32, of_f64, signed,
                   wide)


def _exact(function):
    """A function of one f32 that is computed in f64 and rounded once."""
    return lambda a: of_f32(function(f32(a).astype(np.float64)))


def _integer(low, high, kind):
    """The whole part of an f32, within limits."""

    def convert(a):
        whole = np.nan_to_num(np.trunc(f32(a).astype(np.float64)))
        return np.clip(whole, low, high).astype(kind).astype(U32)

    return convert


def _low24(a):
    return a & U32(0xFFFFFF)


def _count(a):
    return a & U32(31)


def _ones(count):
    return (U32(1) << _count(count)) - U32(1)


def _permuted(high, low, selector):
    """v_perm_b32: each byte is one of eight, a sign, 0 or 255."""
    source, result = high << 32 | low, 0
    for n in range(4):
        select = selector >> 8 * n & 255
        if select < 8:
            byte = source >> 8 * select & 255
        elif select < 12:
            byte = 255 if source >> (16 * (select - 8) + 15) & 1 else 0
        else:
            byte = 0 if select == 12 else 255
        result |= byte << 8 * n
    return result


def _field(value, offset, width):
    """v_bfe_i32."""
    width &= 31
    return signed(value >> (offset & 31) & ((1 << width) - 1), width) if width else 0


def _median(a, b, c):
    return np.sort(np.stack([i32(a), i32(b), i32(c)]), 0)[1].view(U32)


ONE = {
    "v_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_cvt_f32_u32": lambda a: of_f32(a.astype(np.float64).astype(np.float32)),
    "v_cvt_f32_i32": lambda a: of_f32(i32(a).astype(np.float64).astype(np.float32)),
    "v_cvt_u32_f32": _integer(0, WORD, U64),
    "v_cvt_i32_f32": _integer(-(2**31), 2**31 - 1, np.int64),
    "v_rcp_f32": _exact(lambda x: 1 / x),
    "v_rcp_iflag_f32": _exact(lambda x: 1 / x),
    "v_sqrt_f32": _exact(np.sqrt),
    "v_rsq_f32": _exact(lambda x: 1 / np.sqrt(x)),
    "v_exp_f32": _exact(np.exp2),
    "v_log_f32": _exact(np.log2),
    "v_floor_f32": lambda a: of_f32(np.floor(f32(a))),
    "v_trunc_f32": lambda a: of_f32(np.trunc(f32(a))),
    "v_ceil_f32": lambda a: of_f32(np.ceil(f32(a))),
    "v_rndne_f32": lambda a: of_f32(np.rint(f32(a))),
    "v_fract_f32": lambda a: of_f32(f32(a) - np.floor(f32(a))),
    "v_ffbl_b32": lambda a: each(lambda x: (x & -x).bit_length() - 1, a),
    "v_ffbh_u32": lambda a: each(lambda x: 32 - x.bit_length() if x else WORD, a),
    "v_bfrev_b32": lambda a: each(lambda x: int(f"{x:032b}"[::-1], 2), a),
    "v_cvt_f32_ubyte0": lambda a: of_f32((a & U32(255)).astype(np.float32)),
    "v_cvt_f32_ubyte1": lambda a: of_f32((a >> U32(8) & U32(255)).astype(np.float32)),
    "v_cvt_f32_ubyte2": lambda a: of_f32((a >> U32(16) & U32(255)).astype(np.float32)),
    "v_cvt_f32_ubyte3": lambda a: of_f32((a >> U32(24)).astype(np.float32)),
}
TWO = {
    "v_add_f32": lambda a, b: of_f32(f32(a) + f32(b)),
    "v_sub_f32": lambda a, b: of_f32(f32(a) - f32(b)),
    "v_subrev_f32": lambda a, b: of_f32(f32(b) - f32(a)),
    "v_mul_f32": lambda a, b: of_f32(f32(a) * f32(b)),
    "v_max_f32": lambda a, b: of_f32(np.fmax(f32(a), f32(b))),
    "v_min_f32": lambda a, b: of_f32(np.fmin(f32(a), f32(b))),
    "v_ldexp_f32": lambda a, b: of_f32(np.ldexp(f32(a), i32(b))),
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_lshlrev_b32": lambda a, b: b << _count(a),
    "v_lshrrev_b32": lambda a, b: b >> _count(a),
    "v_ashrrev_i32": lambda a, b: (i32(b) >> i32(_count(a))).view(U32),
    "v_lshlrev_b16": lambda a, b: (b << (a & U32(15))) & U32(0xFFFF),
    "v_lshrrev_b16": lambda a, b: (b & U32(0xFFFF)) >> (a & U32(15)),
    "v_max_i32": lambda a, b: np.maximum(i32(a), i32(b)).view(U32),
    "v_min_i32": lambda a, b: np.minimum(i32(a), i32(b)).view(U32),
    "v_max_u32": np.maximum,
    "v_min_u32": np.minimum,
    "v_mul_lo_u32": lambda a, b: (wide(a) * wide(b)).astype(U32),
    "v_mul_hi_u32": lambda a, b: (wide(a) * wide(b) >> U64(32)).astype(U32),
    "v_mul_hi_i32": lambda a, b: each(lambda x, y: signed(x, 32) * signed(y, 32) >> 32, a, b),
    "v_mul_u32_u24": lambda a, b: _low24(a) * _low24(b),
    "v_bfm_b32": lambda a, b: _ones(a) << _count(b),
    "v_bcnt_u32_b32": lambda a, b: each(int.bit_count, a) + b,
}
THREE = {
    "v_fma_f32": fma_f32,
    "v_mad_f32": fma_f32,
    "v_mad_legacy_f32": fma_f32,
    "v_bfe_u32": lambda a, b, c: (a >> _count(b)) & _ones(c),
    "v_bfe_i32": lambda a, b, c: each(_field, a, b, c),
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_lshl_add_u32": lambda a, b, c: (a << _count(b)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << _count(c),
    "v_lshl_or_b32": lambda a, b, c: (a << _count(b)) | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_mad_u32_u24": lambda a, b, c: _low24(a) * _low24(b) + c,
    "v_alignbit_b32": lambda a, b, c: (
        (wide(a) << U64(32) | wide(b)) >> wide(_count(c))
    ).astype(U32),
    "v_perm_b32": lambda a, b, c: each(_permuted, a, b, c),
    "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_med3_i32": _median,
}
# Of operands and a result of 64 bits.
TWO_F64 = {
    "v_add_f64": lambda a, b: of_f64(f64(a) + f64(b)),
    "v_mul_f64": lambda a, b: of_f64(f64(a) * f64(b)),
    "v_max_f64": lambda a, b: of_f64(np.fmax(f64(a), f64(b))),
    "v_min_f64": lambda a, b: of_f64(np.fmin(f64(a), f64(b))),
}
SHIFTS_64 = {
    "v_lshlrev_b64": lambda a, b: b << wide(a & U32(63)),
    "v_lshrrev_b64": lambda a, b: b >> wide(a & U32(63)),
    "v_ashrrev_i64": lambda a, b: (i64(b) >> i64(wide(a & U32(63)))).view(U64),
}
# From operands to a result of f64.
TO_F64 = {
    "v_cvt_f64_u32": lambda a: of_f64(a.astype(np.float64)),
    "v_cvt_f64_i32": lambda a: of_f64(i32(a).astype(np.float64)),
    "v_cvt_f64_f32": lambda a: of_f64(f32(a).astype(np.float64)),
}
COMPARE = {
    "f": lambda a, b: np.zeros(64, bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": np.greater_equal,
    "o": lambda a, b: (a == a) & (b == b),
    "u": lambda a, b: ~((a == a) & (b == b)),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "t": lambda a, b: np.ones(64, bool),
}
# The types of comparisons: their words, and how their bits are read.
TYPES = {
    "u16": (1, lambda a: a & U32(0xFFFF)),
    "i16": (1, i16),
    "u32": (1, lambda a: a),
    "i32": (1, i32),
    "f32": (1, f32),
    "u64": (2, lambda a: a),
    "i64": (2, i64),
    "f64": (2, f64),
}
