# SPDX-License-Identifier: GPL-2.0
"""Vector instructions: their operands and results, and those that are more than a function."""
import numpy as np

from . import division
from .bits import (LANES, U32, U64, WORD, each, f32, f64, fma_f32, fma_f64, lanes_of, mask_of,
                   of_f32, of_f64, wide)
from .decode import DPP, SDWA
from .encoding import Unknown
from .lanes import Dpp, Sdwa
from .vector_table import COMPARE, ONE, SHIFTS_64, THREE, TO_F64, TWO, TWO_F64, TYPES
from .wave import EXEC, FIRST_VGPR, VCC

# Instructions with a scalar result, whose register is where others have modifiers.
WITH_SCALAR_RESULT = (
    "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32",
    "v_subbrev_co_u32", "v_div_scale_f32", "v_div_scale_f64", "v_mad_u64_u32", "v_mad_i64_i32",
)
OUTPUT_FACTORS = {1: 2, 2: 4, 3: 0.5}
SIGN = {1: U32(1 << 31), 2: U64(1 << 63)}


class Vector:
    """A vector instruction of a wave."""

    def __init__(self, wave, ins):
        self.wave, self.ins, self.name = wave, ins, ins.name
        self.dpp = self.sdwa = None
        self.absolute = self.negative = self.factor = self.clamp = 0
        # The lanes that it writes; None for those of EXEC.
        self.written = None
        if ins.encoding == "VOP3":
            self._long()
        else:
            self._short()

    def _long(self):
        ins = self.ins
        self.to = ins.bits(0, 8)
        self.sources = [ins.bits(32, 9), ins.bits(41, 9), ins.bits(50, 9)]
        self.literal = 0
        self.negative, self.factor, self.clamp = ins.bits(61, 3), ins.bits(59, 2), ins.bits(15, 1)
        self.scalar_to = self.to
        if self.name in WITH_SCALAR_RESULT:
            self.scalar_to = ins.bits(8, 7)
        else:
            self.absolute = ins.bits(8, 3)
        self.mask_from = self.sources[2]

    def _short(self):
        ins = self.ins
        self.to = ins.bits(17, 8)
        self.sources = [ins.bits(0, 9), FIRST_VGPR + ins.bits(9, 8)]
        self.literal = ins.literal
        self.scalar_to = self.mask_from = VCC
        if self.sources[0] == SDWA:
            self.sdwa = Sdwa(ins.literal)
            self.sources[0] = self.sdwa.first
            if self.sdwa.second_is_scalar:
                self.sources[1] -= FIRST_VGPR
            if ins.encoding == "VOPC" and self.sdwa.scalar is not None:
                self.scalar_to = self.sdwa.scalar
        elif self.sources[0] == DPP:
            self.dpp = Dpp(ins.literal)
            self.sources[0] = FIRST_VGPR + self.dpp.register

    def source(self, number, size=1):
        """An operand of `size` words, with its modifiers."""
        real = "f64" in self.name
        bits = self.wave.vector(self.sources[number], self.literal, size, real)
        if self.dpp and number == 0:
            bits, written = self.dpp.apply(bits, self.wave.lanes)
            self.written = self.wave.lanes & written
        if self.sdwa and number < 2:
            bits = self.sdwa.operand(number, bits, 0x8000 if "f16" in self.name else 1 << 31)
        if self.absolute >> number & 1:
            bits = bits & ~SIGN[size]
        if self.negative >> number & 1:
            bits = bits ^ SIGN[size]
        return bits

    def put(self, bits, size=1, real=True):
        """Writes the result, with its modifiers."""
        if self.factor and real and size == 1:
            bits = of_f32(f32(bits) * OUTPUT_FACTORS[self.factor])
        if self.clamp and size == 1 and "f32" in self.name:
            bits = of_f32(np.clip(f32(bits), 0, 1))
        if self.sdwa:
            bits = self.sdwa.result(bits, self.wave.vgpr[self.to])
        self.wave.write_vector(self.to, bits, size, self.written)

    def old(self, size=1):
        """The register of the result."""
        return self.wave.vector(FIRST_VGPR + self.to, 0, size)

    def put_mask(self, lanes):
        self.wave.write_scalar(self.scalar_to, mask_of(lanes & self.wave.lanes), 2)

    def mask(self):
        return lanes_of(self.wave.scalar(self.mask_from, 0, 2))


def _compare(v):
    """v_cmp and v_cmpx: a bit for each lane, and with the latter the new EXEC."""
    with_exec, condition, kind = v.name.removeprefix("v_").split("_")[:3]
    if kind not in TYPES or condition not in COMPARE:
        raise Unknown(v.name)
    size, read = TYPES[kind]
    a, b = v.source(0, size), v.source(1, size)
    v.put_mask(COMPARE[condition](read(a), read(b)))
    if with_exec == "cmpx":
        v.wave.write_scalar(EXEC, v.wave.scalar(v.scalar_to, 0, 2), 2)


def _carry(v):
    """Sums and differences with a carry."""
    operation = v.name.removeprefix("v_").removesuffix("_co_u32")
    a, b = wide(v.source(0)), wide(v.source(1))
    carry = v.mask().astype(U64) if operation in ("addc", "subb", "subbrev") else U64(0)
    if operation.endswith("rev"):
        a, b = b, a
    result = a + b + carry if operation.startswith("add") else a - b - carry
    v.wave.write_vector(v.to, result & U64(WORD), lanes=v.wave.lanes)
    v.put_mask(result >> U64(32) != 0)


def _multiply_add_wide(v):
    product, addend = wide(v.source(0)) * wide(v.source(1)), v.source(2, 2)
    v.wave.write_vector(v.to, product + addend, 2)
    v.put_mask(product + addend < addend)


def _read_lane(v):
    wave, source = v.wave, v.sources[0]
    if v.name == "v_readlane_b32":
        lane = wave.scalar(v.sources[1], v.literal) & 63
    else:
        lane = int(np.argmax(wave.lanes)) if wave.exec else 0
    in_vgpr = source >= FIRST_VGPR
    value = int(wave.vgpr[source - FIRST_VGPR][lane]) if in_vgpr else wave.scalar(source, v.literal)
    wave.write_scalar(v.to, value)


def _write_lane(v):
    wave = v.wave
    lane = wave.scalar(v.sources[1], v.literal) & 63
    wave.vgpr[v.to][lane] = wave.scalar(v.sources[0], v.literal)


def _count_below(v):
    """v_mbcnt: how many bits of a mask belong to lanes below each."""
    below = LANES if v.name == "v_mbcnt_lo_u32_b32" else LANES - 32
    masks = [(1 << min(max(int(n), 0), 32)) - 1 for n in below]
    v.put(each(lambda bits, mask: (bits & mask).bit_count(), v.source(0), masks) + v.source(1))


def _select(v):
    v.put(np.where(v.mask(), v.source(1), v.source(0)), real=False)


def _division(v):
    operation, kind = v.name.removeprefix("v_div_").split("_")
    real = division.REALS[kind]
    a, b, c = (v.source(n, real.size) for n in range(3))
    if operation == "scale":
        bits, back = division.scale(real, a, b, c)
        v.put(bits, real.size)
        v.put_mask(back)
    elif operation == "fmas":
        fmas = division.fmas_f32 if kind == "f32" else division.fmas_f64
        v.put(fmas(v.wave, a, b, c), real.size)
    else:
        v.put(division.fixup(real, a, b, c), real.size)


def _literal(v):
    return np.full(64, v.literal, U32)


def _multiply_add(v):
    """Sums of products whose third operand is the register of the result, or a literal."""
    name = v.name
    if name in ("v_fmac_f32", "v_mac_f32"):
        v.put(fma_f32(v.source(0), v.source(1), v.old()))
    elif name == "v_fmac_f64":
        v.put(fma_f64(v.source(0, 2), v.source(1, 2), v.old(2)), 2)
    elif name in ("v_madmk_f32", "v_fmamk_f32"):
        v.put(fma_f32(v.source(0), _literal(v), v.source(1)))
    else:
        v.put(fma_f32(v.source(0), v.source(1), _literal(v)))


OTHERS = {
    "v_cndmask_b32": _select,
    "v_mad_u64_u32": _multiply_add_wide,
    "v_readlane_b32": _read_lane,
    "v_readfirstlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_mbcnt_lo_u32_b32": _count_below,
    "v_mbcnt_hi_u32_b32": _count_below,
    "v_fma_f64": lambda v: v.put(fma_f64(*(v.source(n, 2) for n in range(3))), 2),
    "v_rcp_f64": lambda v: v.put(of_f64(1 / f64(v.source(0, 2))), 2),
    "v_cvt_f32_f64": lambda v: v.put(of_f32(f64(v.source(0, 2)).astype(np.float32))),
}
for _name in ("mac", "fmac", "madmk", "fmamk", "madak", "fmaak"):
    OTHERS[f"v_{_name}_f32"] = _multiply_add
OTHERS["v_fmac_f64"] = _multiply_add


def vector(wave, ins):
    name = ins.name
    v = Vector(wave, ins)
    if name.startswith("v_cmp"):
        _compare(v)
    elif name in ONE:
        v.put(ONE[name](v.source(0)))
    elif name in TWO:
        v.put(TWO[name](v.source(0), v.source(1)))
    elif name in THREE:
        v.put(THREE[name](v.source(0), v.source(1), v.source(2)))
    elif name in TWO_F64:
        v.put(TWO_F64[name](v.source(0, 2), v.source(1, 2)), 2)
    elif name in SHIFTS_64:
        v.put(SHIFTS_64[name](v.source(0), v.source(1, 2)), 2)
    elif name in TO_F64:
        v.put(TO_F64[name](v.source(0)), 2)
    elif name.endswith("_co_u32"):
        _carry(v)
    elif name.startswith("v_div_"):
        _division(v)
    elif name in OTHERS:
        OTHERS[name](v)
    else:
        raise Unknown(name)
