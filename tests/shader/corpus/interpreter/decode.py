# SPDX-License-Identifier: GPL-2.0
"""From words to instructions: the encoding, the name, the length and the fields."""
import pathlib
import struct

from .encoding import Unknown, encoding_of


def _table():
    """Names by encoding and opcode."""
    names = {}
    for line in (pathlib.Path(__file__).parent / "opcodes.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            encoding, opcode, name = line.split()
            names[encoding, int(opcode)] = name
    return names


NAMES = _table()
# Codes of a first operand behind which there is another word: SDWA, DPP, a literal.
SDWA, DPP, LITERAL = 249, 250, 255
# Instructions with a literal that is no operand.
WITH_LITERAL = ("v_madmk_f32", "v_madak_f32", "v_fmamk_f32", "v_fmaak_f32")


class Instruction:
    def __init__(self, low, high):
        self.words = low | high << 32
        self.encoding, self.opcode, two = encoding_of(low)
        if (self.encoding, self.opcode) not in NAMES:
            raise Unknown(f"{self.encoding} {self.opcode}")
        self.name = NAMES[self.encoding, self.opcode]
        self.size = 8 if two or self._has_literal() else 4

    def bits(self, first, count):
        """A field: bits of the first word are 0 to 31, those of the second one 32 to 63."""
        return self.words >> first & ((1 << count) - 1)

    @property
    def literal(self):
        return self.words >> 32

    def _has_literal(self):
        if self.encoding in ("VOP1", "VOPC", "VOP2"):
            return self.bits(0, 9) in (SDWA, DPP, LITERAL) or self.name in WITH_LITERAL
        if self.encoding == "SOP1":
            return self.bits(0, 8) == LITERAL
        if self.encoding in ("SOP2", "SOPC"):
            return LITERAL in (self.bits(0, 8), self.bits(8, 8))
        return False


class Program:
    """Code at an address."""

    def __init__(self, image, base):
        self.image, self.base = image, base
        self.decoded = {}

    def at(self, pc):
        """The instruction at an address."""
        if pc not in self.decoded:
            offset = pc - self.base
            words = self.image[offset : offset + 8].ljust(8, b"\0")
            self.decoded[pc] = Instruction(*struct.unpack("<2I", words))
        return self.decoded[pc]
