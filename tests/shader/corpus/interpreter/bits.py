# SPDX-License-Identifier: GPL-2.0
"""Bits as numbers, and numbers as bits."""
from fractions import Fraction

import numpy as np

U32, U64 = np.uint32, np.uint64
WORD = 0xFFFFFFFF
LANES = np.arange(64)


def signed(value, bits):
    """The lowest `bits` of a value as a signed number."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def words(data):
    """The words of some bytes, of which there are four for each."""
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def mask_of(lanes):
    """64 lanes, each true or false, as bits."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_of(mask):
    """64 bits as lanes."""
    return np.array([mask >> lane & 1 for lane in range(64)], bool)


def f32(bits):
    return bits.view(np.float32)


def f64(bits):
    return bits.view(np.float64)


def i32(bits):
    return bits.view(np.int32)


def i64(bits):
    return bits.view(np.int64)


def i16(bits):
    return (bits & U32(0xFFFF)).astype(np.uint16).view(np.int16)


def wide(bits):
    """Words as numbers of 64 bits."""
    return bits.astype(U64)


def of_f32(numbers):
    return np.asarray(numbers, np.float32).view(U32)


def of_f64(numbers):
    return np.asarray(numbers, np.float64).view(U64)


def each(function, *lanes):
    """A word for each lane, computed from Python's integers."""
    return np.array([function(*map(int, lane)) & WORD for lane in zip(*lanes)], U64).astype(U32)


def fma_f32(a, b, c):
    a, b, c = (f32(x).astype(np.float64) for x in (a, b, c))
    return of_f32((a * b + c).astype(np.float32))


def fma_f64(a, b, c, exponents=None):
    """a * b + c, times two to these exponents, rounded once."""

    def one(x, y, z, exponent):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            return x * y + z
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        exact *= Fraction(2) ** int(exponent)
        try:
            return float(exact) if exact else x * y + z
        except OverflowError:
            return float("inf") if exact > 0 else float("-inf")

    exponents = [0] * 64 if exponents is None else exponents
    return of_f64(np.array([one(*lane) for lane in zip(f64(a), f64(b), f64(c), exponents)]))
