# SPDX-License-Identifier: GPL-2.0
"""What addresses lead to: memory that all waves share, a group's LDS, a lane's private memory."""
import numpy as np


class Memory:
    """Memory from `base` on, and the code, which is elsewhere."""

    def __init__(self, base, size):
        self.base = base
        self.bytes = np.zeros(size, np.uint8)
        self.top = 0
        self.code_base, self.code = 0, b""

    def reserve(self, size, align=256):
        """The address of memory behind all that is in use."""
        start = -(-self.top // align) * align
        self.top = start + size + 64
        return self.base + start

    def _offset(self, address, size):
        offset = int(address) - self.base
        if not 0 <= offset <= len(self.bytes) - size:
            raise IndexError(f"nothing is at {int(address):#x}")
        return offset

    def read(self, address, size):
        code = int(address) - self.code_base
        if 0 <= code < len(self.code):
            return bytes(self.code[code : code + size])
        offset = self._offset(address, size)
        return self.bytes[offset : offset + size].tobytes()

    def write(self, address, data):
        offset = self._offset(address, len(data))
        self.bytes[offset : offset + len(data)] = np.frombuffer(bytes(data), np.uint8)


class Lds:
    """A group's LDS: reads beyond its end give zeros, writes there do nothing."""

    def __init__(self, size):
        self.bytes = bytearray(size)

    def read(self, address, size):
        if address + size > len(self.bytes):
            return bytes(size)
        return bytes(self.bytes[address : address + size])

    def write(self, address, data):
        if address + len(data) <= len(self.bytes):
            self.bytes[address : address + len(data)] = data


class Private:
    """A lane's private memory: its words are 256 bytes apart, with those of other lanes between."""

    def __init__(self, memory, lane, base):
        self.memory, self.lane, self.base = memory, lane, base

    def _at(self, address):
        return self.base + (address >> 2) * 256 + self.lane * 4 + (address & 3)

    def read(self, address, size):
        parts = range(0, size, 4)
        return b"".join(self.memory.read(self._at(address + n), min(4, size - n)) for n in parts)

    def write(self, address, data):
        for n in range(0, len(data), 4):
            self.memory.write(self._at(address + n), data[n : n + 4])
