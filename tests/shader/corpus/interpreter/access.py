# SPDX-License-Identifier: GPL-2.0
"""Instructions that use memory: LDS, buffers, generic and global addresses."""
import numpy as np

from .bits import LANES, U32, WORD, f32, of_f32, signed, words
from .encoding import Unknown
from .memory import Private
from .wave import FLAT_SCRATCH, PRIVATE_BASE, SHARED_BASE

LOADS = {
    "ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2,
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16,
}
STORES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
LDS_SIZES = {
    "u8": 1, "i8": 1, "u16": 2, "i16": 2, "b8": 1, "b16": 2,
    "b32": 4, "b64": 8, "b96": 12, "b128": 16,
}
# What an atomic instruction leaves in memory, of what was there and its operand.
ATOMICS = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "swap": lambda old, value: value,
    "umin": min,
    "umax": max,
}
NO_ADDRESS = 0x7F
GLOBAL, PRIVATE = 2, 1


def _known(table, key, name):
    if key not in table:
        raise Unknown(name)
    return table[key]


def _loaded(data, with_sign):
    """The words that a load of these bytes writes."""
    if len(data) < 4:
        return [int.from_bytes(data, "little", signed=with_sign) & WORD]
    return words(data)


def _changed(operation, old, value, size):
    """What an atomic instruction writes; None if it is not known."""
    bits = 8 * size
    if operation == "add_f32":
        return int(of_f32(f32(np.array([old], U32)) + f32(np.array([value], U32)))[0])
    if operation in ("smin", "smax"):
        choose = min if operation == "smin" else max
        return choose(signed(old, bits), signed(value, bits)) & ((1 << bits) - 1)
    if operation not in ATOMICS:
        return None
    return ATOMICS[operation](old, value) & ((1 << bits) - 1)


def _operand(wave, register, lane, size):
    return int.from_bytes(wave.bytes_of(register, lane, size), "little")


def _atomic(wave, memory, address, operation, lane, size, data, to, name):
    """One lane's atomic; `to` gets what was there before, unless it is None."""
    old = int.from_bytes(memory.read(address, size), "little")
    value = _operand(wave, data, lane, size)
    if operation == "cmpswap":
        new = value if old == _operand(wave, data + size // 4, lane, size) else old
    else:
        new = _changed(operation, old, value, size)
        if new is None:
            raise Unknown(name)
    memory.write(address, new.to_bytes(size, "little"))
    if to is not None:
        wave.write_words(to, lane, words(old.to_bytes(size, "little")))


def _transfer(wave, memory, address, operation, lane, data, to, name):
    """One lane's load or store, as "load_dword" or "store_byte" says."""
    way, kind = operation.split("_", 1)
    if way == "load":
        size = _known(LOADS, kind, name)
        wave.write_words(to, lane, _loaded(memory.read(address, size), kind[0] == "s"))
    else:
        size = _known(STORES, kind, name)
        memory.write(address, wave.bytes_of(data, lane, size))


def flat(wave, ins):
    """Generic and global addresses."""
    segment, name = ins.bits(14, 2), ins.name
    if segment == PRIVATE:
        raise Unknown(name)
    offset = signed(ins.bits(0, 13), 13) if segment == GLOBAL else ins.bits(0, 12)
    register, base = ins.bits(32, 8), ins.bits(48, 7)
    operation = name.split("_", 1)[1]
    accumulators = wave.accumulators if ins.bits(55, 1) else 0
    to, data = accumulators + ins.bits(56, 8), ins.bits(40, 8)
    for lane in LANES[wave.lanes]:
        if segment == GLOBAL and base != NO_ADDRESS:
            address = wave.pair(base) + int(wave.vgpr[register][lane])
        else:
            address = _operand(wave, register, lane, 8)
        address = (address + offset) % 2**64
        memory = wave.memory
        if segment != GLOBAL and address >> 48 == SHARED_BASE >> 48:
            memory, address = wave.lds, address & WORD
        elif segment != GLOBAL and address >> 48 == PRIVATE_BASE >> 48:
            memory = Private(wave.memory, int(lane), wave.pair(FLAT_SCRATCH))
            address &= WORD
        if operation.startswith("atomic_"):
            what = operation.removeprefix("atomic_").removesuffix("_x2")
            size = 8 if operation.endswith(("_x2", "_f64")) else 4
            returns = ins.bits(56, 8) if ins.bits(16, 1) else None
            _atomic(wave, memory, address, what, lane, size, data, returns, name)
        else:
            _transfer(wave, memory, address, operation, lane, accumulators + data, to, name)


def buffer(wave, ins):
    """Buffers, of which only that of private memory is known."""
    name = ins.name
    if name.startswith(("buffer_wb", "buffer_inv")):
        return
    resource, register = ins.bits(48, 5) * 4, ins.bits(40, 8)
    register += wave.accumulators if ins.bits(55, 1) else 0
    swizzled, adds_lane = wave.sgpr[resource + 1] >> 31, wave.sgpr[resource + 3] >> 23 & 1
    if not (swizzled and adds_lane):
        raise Unknown(f"{name} of a buffer that is not private memory")
    base = wave.pair(resource) & (1 << 48) - 1
    base += wave.scalar(ins.bits(56, 8), 0)
    for lane in LANES[wave.lanes]:
        address = ins.bits(0, 12)
        if ins.bits(12, 1):
            address += int(wave.vgpr[ins.bits(32, 8)][lane])
        memory = Private(wave.memory, int(lane), base)
        operation = name.removeprefix("buffer_")
        _transfer(wave, memory, address, operation, lane, register, register, name)


def _between_lanes(wave, ins, addresses):
    source, lane = wave.vgpr[ins.bits(40, 8)].copy(), addresses // 4 % 64
    if ins.name == "ds_bpermute_b32":
        result = np.where(wave.lanes[lane], source[lane], U32(0))
    else:
        result = np.zeros(64, U32)
        result[lane[wave.lanes]] = source[wave.lanes]
    wave.write_vector(ins.bits(56, 8), result)


def lds(wave, ins):
    """LDS, and exchanges between lanes. Addresses wrap at 32 bits."""
    name = ins.name
    _, what, *_ = parts = name.split("_")
    kind, offsets = parts[-1], (ins.bits(0, 8), ins.bits(8, 8))
    base = wave.vgpr[ins.bits(32, 8)].astype(np.int64)
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        _between_lanes(wave, ins, base + ins.bits(0, 16))
        return
    accumulators = wave.accumulators if ins.bits(25, 1) else 0
    data = [accumulators + ins.bits(40, 8), accumulators + ins.bits(48, 8)]
    to = accumulators + ins.bits(56, 8)
    unit = 64 if "st64" in what else 1
    for lane in LANES[wave.lanes]:
        if what.startswith(("read2", "write2")):
            step = _known(LDS_SIZES, kind, name) * unit
            addresses = [int(base[lane]) + n * step & WORD for n in offsets]
        else:
            addresses = [int(base[lane]) + ins.bits(0, 16) & WORD]
        if what.startswith("read"):
            size = _known(LDS_SIZES, kind, name)
            read = b"".join(wave.lds.read(address, size) for address in addresses)
            wave.write_words(to, lane, _loaded(read, kind[0] == "i"))
        elif what.startswith("write"):
            size = _known(LDS_SIZES, kind, name)
            for address, register in zip(addresses, data):
                wave.lds.write(address, wave.bytes_of(register, lane, size))
        else:
            operation = {"wrxchg": "swap"}.get(what, what)
            if what in ("min", "max") and kind[0] in "ui":
                operation = ("u" if kind[0] == "u" else "s") + what
            elif kind[0] == "f":
                operation += "_f32"
            size = 8 if kind.endswith("64") else 4
            returns = ins.bits(56, 8) if "rtn" in parts else None
            _atomic(wave, wave.lds, addresses[0], operation, lane, size, ins.bits(40, 8), returns, name)
