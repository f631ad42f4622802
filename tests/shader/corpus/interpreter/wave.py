# SPDX-License-Identifier: GPL-2.0
"""A wave: its registers, and operands by their codes."""
import struct

import numpy as np

from .bits import U32, U64, WORD, lanes_of, signed
from .encoding import Unknown

FLAT_SCRATCH, VCC, EXEC = 102, 106, 126
LITERAL = 255
FIRST_VGPR = 256
REALS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
REALS[248] = 0.15915494309189532  # 1 / (2 pi)
# Where LDS and private memory are in the space of generic addresses.
SHARED_BASE, PRIVATE_BASE = 1 << 48, 2 << 48


class Wave:
    def __init__(self, memory, lds, pc, sgprs, vgpr0, lanes, accumulators):
        self.memory, self.lds, self.pc = memory, lds, pc
        self.sgpr = [0] * 128
        self.sgpr[: len(sgprs)] = sgprs
        self.vgpr = np.zeros((512, 64), U32)
        self.vgpr[0] = vgpr0
        # The number of the first accumulation register.
        self.accumulators = accumulators
        self.scc = 0
        self.write_scalar(EXEC, lanes, 2)

    @property
    def vcc(self):
        return self.pair(VCC)

    def pair(self, number):
        return self.sgpr[number] | self.sgpr[number + 1] << 32

    # An operand has `size` words.

    def scalar(self, code, literal, size=1):
        every = (1 << 32 * size) - 1
        if code < 128:
            return self.sgpr[code] if size == 1 else self.pair(code)
        if code <= 192:
            return code - 128
        if code <= 208:
            return (192 - code) & every
        if code in REALS:
            return int.from_bytes(struct.pack("<f" if size == 1 else "<d", REALS[code]), "little")
        if code == LITERAL:
            return literal if size == 1 else signed(literal, 32) & every
        if code == 251:
            return int(self.vcc == 0)
        if code == 252:
            return int(self.exec == 0)
        if code == 253:
            return self.scc
        if code == 235:
            return SHARED_BASE
        if code == 237:
            return PRIVATE_BASE
        raise Unknown(f"operand {code}")

    def write_scalar(self, code, value, size=1):
        self.sgpr[code] = value & WORD
        if size == 2:
            self.sgpr[code + 1] = value >> 32 & WORD
        if code in (EXEC, EXEC + 1):
            self.exec = self.pair(EXEC)
            self.lanes = lanes_of(self.exec)

    def vector(self, code, literal, size=1, real=False):
        """The bits of an operand in all lanes; `real` for one of f64."""
        if code >= FIRST_VGPR:
            number = code - FIRST_VGPR
            if size == 1:
                return self.vgpr[number].copy()
            return self.vgpr[number].astype(U64) | self.vgpr[number + 1].astype(U64) << U64(32)
        if size == 2 and code == LITERAL and real:
            return np.full(64, literal << 32, U64)
        return np.full(64, self.scalar(code, literal, size), U32 if size == 1 else U64)

    def write_vector(self, number, bits, size=1, lanes=None):
        """Writes the lanes that are in EXEC, or these."""
        lanes = self.lanes if lanes is None else lanes
        self.vgpr[number][lanes] = (bits & bits.dtype.type(WORD)).astype(U32)[lanes]
        if size == 2:
            self.vgpr[number + 1][lanes] = (bits >> U64(32)).astype(U32)[lanes]

    # What a lane has in registers.

    def bytes_of(self, number, lane, size):
        """`size` bytes of a lane's registers from this one on."""
        words = self.vgpr[number : number + (size + 3) // 4, lane]
        return words.tobytes()[:size]

    def write_words(self, number, lane, words):
        for n, word in enumerate(words):
            self.vgpr[number + n][lane] = word
