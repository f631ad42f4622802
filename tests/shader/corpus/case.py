# SPDX-License-Identifier: GPL-2.0
"""A kernel's run: its arguments, the memory before it, and the expected memory after it."""
import struct

import numpy as np

# The address of memory: as in tests/common/memory.rs.
BASE = 0x20_0000_0000
ALIGN = 256
CASES = []


class Buffer:
    """Numbers in memory."""

    def __init__(self, address, array):
        self.address = address
        self.array = array

    def at(self, offset):
        """A pointer to `offset` bytes in."""
        return np.uint64(self.address + offset)


class Case:
    """One kernel with one set of arguments."""

    def __init__(self, file, kernel, label):
        self.file, self.kernel, self.label = file, kernel, label
        self.image = bytearray(ALIGN)
        self.checks = []
        self.numbers = np.random.default_rng(len(CASES))
        self.lds = 0
        self.poke = None

    # Numbers.

    def ints(self, low, high, shape, kind):
        """Whole numbers in low..high."""
        return self.numbers.integers(low, high, shape, dtype=np.int64).astype(kind)

    def words(self, shape, kind):
        """Any bits."""
        size = np.dtype(kind).itemsize * int(np.prod(shape))
        return np.frombuffer(self.numbers.bytes(size), kind).reshape(shape).copy()

    def reals(self, shape, kind, exponents=0):
        """Reals around 1, or with exponents of ten up to that."""
        scale = 10.0 ** self.numbers.integers(-exponents, exponents + 1, shape)
        return (self.numbers.standard_normal(shape) * scale).astype(kind)

    # Memory.

    def put(self, array):
        """A buffer with these numbers."""
        array = np.ascontiguousarray(array)
        address = BASE + len(self.image)
        self.image += array.tobytes()
        # A gap behind it shows writes beyond its end.
        self.image += bytes(64 + -(len(self.image) + 64) % ALIGN)
        return Buffer(address, array)

    def out(self, count, kind):
        """A buffer for results."""
        return self.put(np.zeros(count, kind))

    # The run, and its expected results.

    def run(self, args, grid, group):
        """`args`: buffers, numpy scalars, or (bytes, alignment)."""
        three = lambda n: tuple(n) + (1,) * (3 - len(n)) if isinstance(n, tuple) else (n, 1, 1)
        self.grid, self.group = three(grid), three(group)
        self.args = bytearray()
        for arg in args:
            if isinstance(arg, Buffer):
                arg = arg.at(0)
            data, align = arg if isinstance(arg, tuple) else (arg.tobytes(), arg.nbytes)
            self.args += bytes(-len(self.args) % align) + data

    def expect(self, buffer, values, rtol=0, atol=0, where=None):
        """Expects these numbers in the buffer, of which `where` are compared."""
        values = np.array(values, buffer.array.dtype)
        self.checks.append((buffer, values.reshape(-1), rtol, atol, where))

    def unchanged(self, buffer):
        """Expects no change."""
        self.expect(buffer, buffer.array)

    def kernarg(self, version):
        """All arguments, with those that the compiler adds."""
        args = self.args + bytes(-len(self.args) % 8)
        if version == 4:
            return bytes(args + bytes(56))
        hidden = bytearray(256)
        groups = [self.grid[n] // self.group[n] for n in range(3)]
        rest = [self.grid[n] % self.group[n] for n in range(3)]
        struct.pack_into("<3I6H", hidden, 0, *groups, *self.group, *rest)
        struct.pack_into("<H", hidden, 64, 3)
        return bytes(args + hidden)

    def packet(self):
        """The dispatch packet, as far as kernels read it."""
        packet = bytearray(64)
        struct.pack_into("<6H3I", packet, 0, 0, 3, *self.group, 0, *self.grid)
        return bytes(packet)

    def verdict(self, memory):
        """The first difference in `memory`, the bytes from BASE on; None if there is none."""
        for buffer, values, rtol, atol, where in self.checks:
            start = buffer.address - BASE
            got = np.frombuffer(memory[start : start + values.nbytes], values.dtype)
            if where is not None:
                got, values = got[where], values[where]
            if values.dtype.kind == "f":
                same = np.isclose(got, values, rtol, atol, equal_nan=True)
            else:
                same = got == values
            if not same.all():
                n = int(np.argmin(same))
                return f"{(~same).sum()} of {same.size} numbers, the first at {n}: {got[n]}, not {values[n]}"
        return None


def case(file, kernel, *labels):
    """Makes a case of a function that gets it, or one for each label, which the function gets too."""

    def make(function):
        for label in labels or (None,):
            new = Case(file, kernel, label)
            CASES.append(new)
            function(new) if label is None else function(new, label)
        return function

    return make
