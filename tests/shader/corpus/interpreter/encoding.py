# SPDX-License-Identifier: GPL-2.0
"""The encodings of instructions, by their first words."""


class Unknown(NotImplementedError):
    """The interpreter does not know an instruction or operand."""


SEGMENTS = ("FLAT", "SCRATCH", "GLOBAL")


def encoding_of(word):
    """The encoding of an instruction with this first word, its opcode, and whether it always has
    two words."""
    if word >> 31 == 0:
        if word >> 25 == 0x3F:
            return "VOP1", word >> 9 & 255, False
        if word >> 25 == 0x3E:
            return "VOPC", word >> 17 & 255, False
        return "VOP2", word >> 25 & 63, False
    if word >> 30 == 2:
        if word >> 23 == 0x17D:
            return "SOP1", word >> 8 & 255, False
        if word >> 23 == 0x17E:
            return "SOPC", word >> 16 & 127, False
        if word >> 23 == 0x17F:
            return "SOPP", word >> 16 & 127, False
        if word >> 28 == 0xB:
            return "SOPK", word >> 23 & 31, False
        return "SOP2", word >> 23 & 127, False
    if word >> 26 == 0x30:
        return "SMEM", word >> 18 & 255, True
    if word >> 23 == 0x1A7:
        return "VOP3P", word >> 16 & 127, True
    if word >> 26 == 0x34:
        return "VOP3", word >> 16 & 0x3FF, True
    if word >> 26 == 0x36:
        return "DS", word >> 17 & 255, True
    if word >> 26 == 0x37 and word >> 14 & 3 != 3:
        return "FLAT/" + SEGMENTS[word >> 14 & 3], word >> 18 & 127, True
    if word >> 26 == 0x38:
        return "MUBUF", word >> 18 & 127, True
    raise Unknown(f"encoding of {word:#x}")
