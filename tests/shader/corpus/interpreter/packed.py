# SPDX-License-Identifier: GPL-2.0
"""Instructions on pairs of words (VOP3P), and moves from and to accumulation registers."""
import numpy as np

from .bits import U32, f32, fma_f32, of_f32
from .encoding import Unknown
from .wave import FIRST_VGPR

FIRST_CONSTANT = 106
REALS = {
    "v_pk_add_f32": lambda a, b, c: of_f32(f32(a) + f32(b)),
    "v_pk_mul_f32": lambda a, b, c: of_f32(f32(a) * f32(b)),
    "v_pk_fma_f32": fma_f32,
}


def packed(wave, ins):
    name, to = ins.name, ins.bits(0, 8)
    sources = [ins.bits(32 + 9 * n, 9) for n in range(3)]
    # For each operand: which word the low and high results take, and whether it is negated.
    select = ins.bits(11, 3), ins.bits(59, 2) | ins.bits(14, 1) << 2
    negative = ins.bits(61, 3), ins.bits(8, 3)

    def word(code, which):
        if code >= FIRST_VGPR:
            return wave.vgpr[code - FIRST_VGPR + which].copy()
        scalar = wave.sgpr[code + which] if code < FIRST_CONSTANT else wave.scalar(code, 0)
        return np.full(64, scalar, U32)

    def operand(number, half):
        bits = word(sources[number], select[half] >> number & 1)
        return bits ^ U32(1 << 31) if negative[half] >> number & 1 else bits

    if name in REALS:
        count = 3 if name == "v_pk_fma_f32" else 2
        # Before the first result is written: it may be an operand of the second one.
        halves = [[operand(n, half) for n in range(count)] + [None] * (3 - count) for half in (0, 1)]
        for half in (0, 1):
            wave.write_vector(to + half, REALS[name](*halves[half]))
    elif name == "v_pk_mov_b32":
        low, high = operand(0, 0), word(sources[1], select[0] >> 1 & 1)
        wave.write_vector(to, low)
        wave.write_vector(to + 1, high)
    elif name == "v_accvgpr_read_b32":
        code = sources[0]
        in_register = code >= FIRST_VGPR
        number = wave.accumulators + code - FIRST_VGPR
        wave.write_vector(to, wave.vgpr[number] if in_register else wave.vector(code, 0))
    elif name == "v_accvgpr_write_b32":
        wave.write_vector(wave.accumulators + to, wave.vector(sources[0], 0))
    else:
        raise Unknown(name)
