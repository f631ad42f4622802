# SPDX-License-Identifier: GPL-2.0
"""The instructions of which compilers make the division of reals."""
import numpy as np

from .bits import U32, U64, f32, f64, fma_f64, lanes_of, of_f32, of_f64


class Real:
    """A type of reals: how its bits are read and written, and its limits."""

    def __init__(self, size, read, write, least, apart, scale, tiny, bias):
        self.size, self.read, self.write = size, read, write
        self.least = 2.0**least
        self.apart, self.scale, self.tiny, self.bias = apart, scale, tiny, bias


REALS = {
    "f32": Real(1, f32, of_f32, -126, 96, 64, 23, 127),
    "f64": Real(2, f64, of_f64, -1022, 768, 128, 53, 1023),
}


def scale(real, value, denominator, numerator):
    """v_div_scale: the value, scaled where the division would lose bits, and the lanes in which
    the quotient is scaled back."""
    over, under = real.read(numerator), real.read(denominator)
    result, back = real.read(value).copy(), np.zeros(64, bool)
    for lane in range(64):
        n, d = float(over[lane]), float(under[lane])
        if n == 0 or d == 0:
            result[lane] = np.nan
            continue
        if not (np.isfinite(n) and np.isfinite(d)):
            continue
        is_denominator = value[lane] == denominator[lane]
        is_numerator = value[lane] == numerator[lane]
        exponent = int(np.frexp(n)[1]) - 1
        distance = exponent - (int(np.frexp(d)[1]) - 1)
        small_inverse, small_quotient = abs(1 / d) < real.least, abs(n / d) < real.least
        by = 0
        if distance >= real.apart:
            back[lane] = True
            by = real.scale if is_denominator else 0
        elif abs(d) < real.least:
            by = real.scale
        elif small_inverse and small_quotient:
            back[lane] = True
            by = real.scale if is_denominator else 0
        elif small_inverse:
            by = -real.scale
        elif small_quotient:
            back[lane] = True
            by = real.scale if is_numerator else 0
        elif exponent + real.bias <= real.tiny:
            by = real.scale
        if by:
            result[lane] = np.ldexp(result[lane], by)
    return real.write(result), back


def fmas_f32(wave, a, b, c):
    """v_div_fmas_f32: a * b + c, scaled where VCC says so, rounded once after that."""
    by = np.where((c >> U32(23)) & U32(255) > 127, 64, -64)
    by = np.where(lanes_of(wave.vcc), by, 0)
    a, b, c = (f32(x).astype(np.float64) for x in (a, b, c))
    return of_f32(np.ldexp(a * b + c, by).astype(np.float32))


def fmas_f64(wave, a, b, c):
    """v_div_fmas_f64."""
    by = np.where((c >> U64(52)) & U64(2047) > 1023, 128, -128)
    return fma_f64(a, b, c, np.where(lanes_of(wave.vcc), by, 0))


def fixup(real, quotient, denominator, numerator):
    """v_div_fixup: the quotient with its sign, or what division gives for special operands."""
    q, d, n = real.read(quotient), real.read(denominator), real.read(numerator)
    sign = np.where(np.signbit(d) ^ np.signbit(n), -1.0, 1.0)
    result = np.copysign(np.abs(q), sign).astype(q.dtype)
    with np.errstate(all="ignore"):
        special = ~(np.isfinite(d) & np.isfinite(n)) | (d == 0) | (n == 0)
        overflow = np.where(np.isnan(q), np.copysign(np.inf, result), result)
        result = np.where(special, n / d, overflow).astype(q.dtype)
    return real.write(result)
