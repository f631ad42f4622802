# SPDX-License-Identifier: GPL-2.0
"""Operands of other lanes (DPP), and of parts of registers (SDWA)."""
import numpy as np

from .bits import LANES, U32, WORD


class Dpp:
    """The word behind an instruction that takes its first operand from other lanes."""

    def __init__(self, word):
        self.register = word & 255
        self.control = word >> 8 & 0x1FF
        self.bound_control = bool(word >> 19 & 1)
        self.banks, self.rows = word >> 24 & 15, word >> 28

    def _source(self):
        """The lane that each lane reads, and whether there is one."""
        control, row, place = self.control, LANES // 16, LANES % 16
        step, exists = control & 15, np.ones(64, bool)
        if control < 0x100:
            return (LANES & ~3) | (control >> (2 * (LANES & 3)) & 3), exists
        if 0x101 <= control <= 0x10F:
            return LANES + step, place + step < 16
        if 0x111 <= control <= 0x11F:
            return LANES - step, place - step >= 0
        if 0x121 <= control <= 0x12F:
            return row * 16 + (place - step) % 16, exists
        if 0x150 <= control <= 0x15F:
            return row * 16 + step, exists
        others = {
            0x130: (LANES + 1, LANES < 63),
            0x134: ((LANES + 1) % 64, exists),
            0x138: (LANES - 1, LANES > 0),
            0x13C: ((LANES - 1) % 64, exists),
            0x140: (row * 16 + 15 - place, exists),
            0x141: ((LANES & ~7) | (7 - (LANES & 7)), exists),
            0x142: (np.where(row > 0, row * 16 - 1, 0), row > 0),
            0x143: (np.where(row > 1, 31, 0), row > 1),
        }
        return others.get(control, (LANES, exists))

    def apply(self, bits, active):
        """The operand, and the lanes that the instruction writes."""
        source, valid = self._source()
        source = np.clip(source, 0, 63)
        valid = valid & active[source]
        chosen = (self.rows >> (LANES // 16) & 1) & (self.banks >> (LANES % 16 // 4) & 1)
        return np.where(valid, bits[source], U32(0)), chosen.astype(bool) & (valid | self.bound_control)


class Sdwa:
    """The word behind an instruction that takes bytes or halves of operands."""

    def __init__(self, word):
        self.word = word
        self.first = (word & 255) + (0 if word >> 23 & 1 else 256)
        self.second_is_scalar = bool(word >> 31 & 1)
        self.scalar = word >> 8 & 127 if word >> 15 & 1 else None

    def operand(self, number, bits, sign):
        """A part of the first or second operand, whose sign bit is `sign`."""
        at = 16 + 8 * number
        part, extend = self.word >> at & 7, self.word >> at + 3 & 1
        negative, absolute = self.word >> at + 4 & 1, self.word >> at + 5 & 1
        if part < 4:
            bits = _extended(bits >> U32(8 * part), 8, extend)
        elif part < 6:
            bits = _extended(bits >> U32(16 * (part - 4)), 16, extend)
        if absolute:
            bits = bits & ~U32(sign)
        return bits ^ U32(sign) if negative else bits

    def result(self, bits, before):
        """The register with the part that an instruction writes."""
        part, unused = self.word >> 8 & 7, self.word >> 11 & 3
        if part < 4:
            shift, width = 8 * part, 8
        elif part < 6:
            shift, width = 16 * (part - 4), 16
        else:
            shift, width = 0, 32
        mask = (1 << width) - 1
        placed = (bits & U32(mask)) << U32(shift)
        if unused == 2:
            return placed | before & U32(~(mask << shift) & WORD)
        if unused == 1:
            above = WORD << (shift + width) & WORD
            negative = (bits & U32(mask)) >> U32(width - 1)
            return np.where(negative, placed | U32(above), placed).astype(U32)
        return placed


def _extended(bits, width, extend):
    bits = bits & U32((1 << width) - 1)
    above = U32(WORD << width & WORD)
    return np.where(extend & (bits >> U32(width - 1)), bits | above, bits).astype(U32)
