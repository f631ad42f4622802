# SPDX-License-Identifier: GPL-2.0
"""A kernel's run: its code object, its groups and their waves."""
import struct

from .access import buffer, flat, lds
from .bits import LANES, U32, WORD
from .decode import Program
from .memory import Lds
from .packed import packed
from .scalar import smem, sop1, sop2, sopc, sopk, sopp
from .vector import vector
from .wave import Wave

CODE = 0x1000_0000
IMAGE = 1 << 18
# Parts of a code object, which is an ELF file.
LOAD, RELOCATIONS, SYMBOLS, RELATIVE64 = 1, 4, 11, 13
# The words of the resource of private memory that say how it is swizzled.
SWIZZLED, PRIVATE_FORMAT = 1 << 31, 0x00EA_4FAC
# Waves that have private memory of their own at a time, and what recursion gets of it.
PRIVATE_WAVES, DYNAMIC_STACK = 1024, 1024
EXECUTE = {
    "SOP1": sop1, "SOP2": sop2, "SOPC": sopc, "SOPK": sopk, "SOPP": sopp, "SMEM": smem,
    "VOP1": vector, "VOP2": vector, "VOPC": vector, "VOP3": vector, "VOP3P": packed,
    "DS": lds, "FLAT/FLAT": flat, "FLAT/GLOBAL": flat, "FLAT/SCRATCH": flat, "MUBUF": buffer,
}


def load(path):
    """A code object's image, with its relocations for CODE, and the offsets of its symbols."""
    with open(path, "rb") as file:
        data = file.read()
    headers, sections = struct.unpack_from("<2Q", data, 32)
    (header_count,) = struct.unpack_from("<H", data, 56)
    (section_count,) = struct.unpack_from("<H", data, 60)
    image = bytearray(IMAGE)
    for n in range(header_count):
        kind, _, offset, address, _, size = struct.unpack_from("<2I4Q", data, headers + 56 * n)
        if kind == LOAD:
            image[address : address + size] = data[offset : offset + size]
    table = [struct.unpack_from("<2I4Q2I2Q", data, sections + 64 * n) for n in range(section_count)]
    symbols = {}
    for _, kind, _, _, offset, size, link, *_ in table:
        entries = range(offset, offset + size, 24)
        if kind == RELOCATIONS:
            for entry in entries:
                place, info, addend = struct.unpack_from("<2Qq", data, entry)
                if info & WORD == RELATIVE64:
                    struct.pack_into("<Q", image, place, CODE + addend)
        elif kind == SYMBOLS:
            for entry in entries:
                name, _, _, _, value, _ = struct.unpack_from("<IBBH2Q", data, entry)
                start = table[link][4] + name
                symbols[data[start : data.index(b"\0", start)].decode()] = value
    return bytes(image), symbols


class Descriptor:
    """What a kernel's descriptor asks for."""

    def __init__(self, image, offset):
        self.lds, self.private = struct.unpack_from("<2I", image, offset)
        (entry,) = struct.unpack_from("<q", image, offset + 16)
        resources3, _, self.resources2 = struct.unpack_from("<3I", image, offset + 44)
        (self.properties,) = struct.unpack_from("<H", image, offset + 56)
        self.entry = CODE + offset + entry
        self.accumulators = ((resources3 & 63) + 1) * 4
        if self.properties >> 11 & 1:
            self.private = max(self.private, DYNAMIC_STACK)
        # The private memory of a wave.
        self.wave_private = -(-self.private * 64 // 1024) * 1024

    def user_sgprs(self, packet, arguments, private):
        pair = lambda address: [address & WORD, address >> 32]
        has = lambda bit: self.properties >> bit & 1
        sgprs = []
        if has(0):
            sgprs += [private & WORD, private >> 32 | SWIZZLED, self.wave_private, PRIVATE_FORMAT]
        sgprs += pair(packet) * has(1) + [0, 0] * has(2) + pair(arguments) * has(3)
        sgprs += [0, 0] * has(4) + pair(private) * has(5) + [self.private] * has(6)
        assert len(sgprs) == self.resources2 >> 1 & 31, "user SGPRs"
        return sgprs

    def system_sgprs(self, group, wave):
        """The group's place, and the offset of a wave's private memory."""
        sgprs = [group[n] for n in range(3) if self.resources2 >> (7 + n) & 1]
        sgprs += [0] * (self.resources2 >> 10 & 1)
        return sgprs + [wave % PRIVATE_WAVES * self.wave_private] * (self.resources2 & 1)

    def places(self, items, size):
        """The first VGPR: the places of these items in a group of this size."""
        dimensions = 1 + (self.resources2 >> 11 & 3)
        places = (items % size[0], items // size[0] % size[1], items // (size[0] * size[1]))
        vgpr = places[0].astype(U32)
        for n in range(1, min(dimensions, 3)):
            vgpr = vgpr | places[n].astype(U32) << U32(10 * n)
        return vgpr


def _run(wave, program):
    """Runs a wave; stops at each barrier."""
    while True:
        instruction = program.at(wave.pc)
        wave.pc += instruction.size
        event = EXECUTE[instruction.encoding](wave, instruction)
        if event == "barrier":
            yield
        elif event == "end":
            return


def dispatch(memory, image, descriptor, packet, arguments, grid, group, dynamic_lds):
    """Runs all groups of a grid. `descriptor`: the offset of the kernel's in the image; `packet` and
    `arguments`: addresses; sizes are in items."""
    kernel, program = Descriptor(image, descriptor), Program(image, CODE)
    memory.code_base, memory.code = CODE, image
    private = memory.reserve(kernel.wave_private * PRIVATE_WAVES or 256)
    user, started = kernel.user_sgprs(packet, arguments, private), 0
    counts = [-(-grid[n] // group[n]) for n in range(3)]
    for number in range(counts[0] * counts[1] * counts[2]):
        place = (number % counts[0], number // counts[0] % counts[1], number // (counts[0] * counts[1]))
        size = [min(group[n], grid[n] - place[n] * group[n]) for n in range(3)]
        items = size[0] * size[1] * size[2]
        shared = Lds(max(kernel.lds + dynamic_lds, 1))
        waves = []
        for first in range(0, items, 64):
            sgprs = user + kernel.system_sgprs(place, started)
            vgpr = kernel.places(first + LANES, size)
            lanes = (1 << min(64, items - first)) - 1
            wave = Wave(memory, shared, kernel.entry, sgprs, vgpr, lanes, kernel.accumulators)
            waves.append(_run(wave, program))
            started += 1
        # Each wave runs to its next barrier, or to its end.
        while waves:
            waves = [wave for wave in waves if next(wave, "ended") is None]
