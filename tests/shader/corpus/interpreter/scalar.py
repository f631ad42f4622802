# SPDX-License-Identifier: GPL-2.0
"""Scalar instructions: arithmetic, comparisons, branches, loads."""
from .bits import WORD, signed, words
from .encoding import Unknown
from .wave import EXEC

ALL = (1 << 64) - 1
# What the clocks say.
CLOCK = 12345
SAVE_EXEC = {
    "s_and": lambda s, x: s & x,
    "s_or": lambda s, x: s | x,
    "s_xor": lambda s, x: s ^ x,
    "s_andn2": lambda s, x: s & ~x & ALL,
    "s_orn2": lambda s, x: s | ~x & ALL,
    "s_nand": lambda s, x: ~(s & x) & ALL,
}
COMPARE = {
    "eq": lambda x, y: x == y,
    "lg": lambda x, y: x != y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}
# SCC says whether their result is other than zero.
LOGIC = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
}
LOADS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def sop1(wave, ins):
    name, to, code = ins.name, ins.bits(16, 7), ins.bits(0, 8)
    size = 2 if "64" in name else 1
    value = None if name == "s_getpc_b64" else wave.scalar(code, ins.literal, size)
    scc = None
    if name in ("s_mov_b32", "s_mov_b64"):
        wave.write_scalar(to, value, size)
    elif name in ("s_not_b32", "s_not_b64"):
        scc = ~value & ((1 << 32 * size) - 1)
        wave.write_scalar(to, scc, size)
    elif name.endswith("saveexec_b64"):
        before = wave.exec
        scc = SAVE_EXEC[name.removesuffix("_saveexec_b64")](value, before)
        wave.write_scalar(to, before, 2)
        wave.write_scalar(EXEC, scc, 2)
    elif name == "s_getpc_b64":
        wave.write_scalar(to, wave.pc, 2)
    elif name == "s_setpc_b64":
        wave.pc = value
    elif name == "s_swappc_b64":
        wave.write_scalar(to, wave.pc, 2)
        wave.pc = value
    elif name.startswith("s_ff1_i32"):
        wave.write_scalar(to, (value & -value).bit_length() - 1 if value else WORD)
    elif name.startswith("s_flbit_i32_b"):
        wave.write_scalar(to, 32 * size - value.bit_length() if value else WORD)
    elif name.startswith("s_bcnt1"):
        scc = value.bit_count()
        wave.write_scalar(to, scc)
    elif name == "s_abs_i32":
        scc = abs(signed(value, 32)) & WORD
        wave.write_scalar(to, scc)
    else:
        raise Unknown(name)
    if scc is not None:
        wave.scc = int(scc != 0)


def sopc(wave, ins):
    name, size = ins.name, 2 if "64" in ins.name else 1
    bit = "bitcmp" in name
    x = wave.scalar(ins.bits(0, 8), ins.literal, size)
    y = wave.scalar(ins.bits(8, 8), ins.literal, 1 if bit else size)
    if bit:
        wave.scc = int((x >> (y & (32 * size - 1)) & 1) == (name[8] == "1"))
        return
    if name.endswith("_i32"):
        x, y = signed(x, 32), signed(y, 32)
    wave.scc = int(COMPARE[name.split("_")[2]](x, y))


def sopk(wave, ins):
    name, to, number = ins.name, ins.bits(16, 7), signed(ins.bits(0, 16), 16)
    old = signed(wave.sgpr[to], 32)
    if name == "s_movk_i32":
        wave.write_scalar(to, number)
    elif name == "s_addk_i32":
        wave.write_scalar(to, old + number)
        wave.scc = int(not -(2**31) <= old + number < 2**31)
    elif name == "s_mulk_i32":
        wave.write_scalar(to, old * number)
    elif name.startswith("s_cmpk"):
        if name.endswith("u32"):
            old, number = old & WORD, number & 0xFFFF
        wave.scc = int(COMPARE[name.split("_")[2]](old, number))
    else:
        raise Unknown(name)


def sopp(wave, ins):
    """Returns "end" or "barrier" for these."""
    name = ins.name
    if name == "s_endpgm":
        return "end"
    if name == "s_barrier":
        return "barrier"
    if name in ("s_waitcnt", "s_nop", "s_sleep", "s_setprio"):
        return None
    taken = {
        "s_branch": True,
        "s_cbranch_scc0": wave.scc == 0,
        "s_cbranch_scc1": wave.scc == 1,
        "s_cbranch_vccz": wave.vcc == 0,
        "s_cbranch_vccnz": wave.vcc != 0,
        "s_cbranch_execz": wave.exec == 0,
        "s_cbranch_execnz": wave.exec != 0,
    }
    if name not in taken:
        raise Unknown(name)
    if taken[name]:
        wave.pc += 4 * signed(ins.bits(0, 16), 16)
    return None


def _shifted(operation, x, y, bits):
    """The result of a shift or of a field's extraction; None for other operations."""
    shift = y & (bits - 1)
    if operation == "lshl":
        return x << shift
    if operation == "lshr":
        return x >> shift
    if operation == "ashr":
        return signed(x, bits) >> shift
    return None


def _field(x, y, bits, with_sign):
    width = y >> 16 & 127
    field = x >> (y & (bits - 1)) & ((1 << width) - 1)
    return signed(field, width) if with_sign and width else field


def _sum(operation, kind, x, y, scc):
    """The result and the carry or overflow of sums and differences."""
    if kind == "i32":
        y = signed(y, 32) if operation == "add" else -signed(y, 32)
        result = signed(x, 32) + y
        return result, not -(2**31) <= result < 2**31
    if operation in ("add", "addc"):
        result = x + y + (scc if operation == "addc" else 0)
        return result, result >> 32
    y += scc if operation == "subb" else 0
    return x - y, y > x


def sop2(wave, ins):
    name = ins.name
    operation, kind = name.removeprefix("s_").rsplit("_", 1)
    size = 2 if name.endswith("64") else 1
    bits = 32 * size
    x = wave.scalar(ins.bits(0, 8), ins.literal, size)
    amount = operation in ("lshl", "lshr", "ashr", "bfe")
    y = wave.scalar(ins.bits(8, 8), ins.literal, 1 if amount else size)
    every = (1 << bits) - 1
    scc = None
    if operation in LOGIC:
        result = LOGIC[operation](x, y) & every
        scc = result != 0
    elif operation in ("add", "sub", "addc", "subb"):
        result, scc = _sum(operation, kind, x, y, wave.scc)
    elif operation in ("lshl", "lshr", "ashr"):
        result = _shifted(operation, x, y, bits) & every
        scc = result != 0
    elif operation == "bfe":
        result = _field(x, y, bits, kind.startswith("i")) & every
        scc = result != 0
    elif operation == "bfm":
        result = ((1 << (x & 31)) - 1) << (y & 31)
    elif operation == "mul":
        result = x * y
    elif operation == "mul_hi":
        result = (signed(x, 32) * signed(y, 32) if kind == "i32" else x * y) >> 32
    elif operation in ("min", "max"):
        one, other = (signed(x, 32), signed(y, 32)) if kind == "i32" else (x, y)
        scc = one < other if operation == "min" else one > other
        result = x if scc else y
    elif operation == "cselect":
        result = x if wave.scc else y
    elif operation.startswith("lshl") and operation.endswith("_add"):
        result = (x << int(operation[4])) + y
        scc = result >> 32 != 0
    else:
        raise Unknown(name)
    wave.write_scalar(ins.bits(16, 7), result & every, size)
    if scc is not None:
        wave.scc = int(scc)


def smem(wave, ins):
    name, to = ins.name, ins.bits(6, 7)
    if name.startswith("s_load_"):
        if ins.bits(17, 1):
            offset = signed(ins.bits(32, 21), 21)
        else:
            offset = wave.scalar(ins.bits(32, 7), 0)
        if ins.bits(14, 1):
            offset += wave.scalar(ins.bits(57, 7), 0)
        address = (wave.pair(ins.bits(0, 6) * 2) + offset) & ~3
        data = wave.memory.read(address, 4 * LOADS[name.removeprefix("s_load_")])
        for n, word in enumerate(words(data)):
            wave.write_scalar(to + n, word)
    elif name in ("s_memtime", "s_memrealtime"):
        wave.write_scalar(to, CLOCK, 2)
    elif not name.startswith("s_dcache"):
        raise Unknown(name)
