# SPDX-License-Identifier: GPL-2.0
"""The corpus' kernels, their arguments, and the results that numpy computes."""
import zlib

import numpy as np

from case import BASE, case

F16, F32, F64 = np.float16, np.float32, np.float64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
N = 1000
GRID, GROUP = 1024, 256
# Possible effects of a fused multiplication or its order.
ULPS = {F16: 2e-3, F32: 1e-6, F64: 1e-14}
# Relative and absolute, of two ways to execute the same instructions.
CLOSE = {F16: (2e-3, 1e-4), F32: (1e-6, 1e-6), F64: (1e-13, 1e-13)}
# Kernel and level of optimisation at which there is a literal of 64 bits, unsigned, with bit 31
# set: hardware has zeros above it (LLVM's pull request 70274), and the interpreter has ones.
LITERALS = {("mul64", "0")}
np.seterr(all="ignore")


def wrap(value, bits, signed=True):
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


# 01 and 02: vectors.


def vadd(kernel, kind):
    @case("01_vecadd", kernel)
    def _(c):
        number = lambda: c.reals(N, kind, 3) if kind in (F32, F64) else c.words(N, kind)
        a, b, o = c.put(number()), c.put(number()), c.out(N, kind)
        count = U64(N) if kernel in ("vadd_i64", "vadd_stride") else I32(N)
        c.run([a, b, o, count], 512 if kernel == "vadd_stride" else GRID, GROUP)
        c.expect(o, a.array + b.array)


for k, kind in [("f32", F32), ("f64", F64), ("i32", I32), ("i64", I64), ("stride", F32)]:
    vadd("vadd_" + k, kind)


def axpy(kernel, kind, width):
    @case("02_saxpy", kernel)
    def _(c):
        x, y = c.put(c.reals(N * width, kind)), c.put(c.reals(N * width, kind))
        c.run([I32(N), kind(2.5), x, y], GRID, GROUP)
        c.expect(y, F64(2.5) * x.array + y.array, ULPS[kind], ULPS[kind])


axpy("saxpy", F32, 1)
axpy("daxpy", F64, 1)
axpy("saxpy4", F32, 4)


@case("02_saxpy", "pk2")
def _(c):
    x, y = c.put(c.reals((N, 2), F32)), c.put(c.reals((N, 2), F32))
    a = np.array([1.5, -3.25], F32)
    c.run([I32(N), (a.tobytes(), 8), x, y], GRID, GROUP)
    c.expect(y, (x.array.astype(F64) * a + y.array) ** 2, 1e-5, 1e-6)


# 03 and 04: sums.


@case("03_dot", "dot_f32")
def _(c):
    a, b = c.put(c.ints(-8, 8, 4096, F32)), c.put(c.ints(-8, 8, 4096, F32))
    o = c.out(1, F32)
    c.run([a, b, o, I32(4096)], GRID, GROUP)
    c.expect(o, [(a.array * b.array).sum()])


@case("03_dot", "dot_f64")
def _(c):
    a, b = c.put(c.ints(-8, 8, 4096, F64)), c.put(c.ints(-8, 8, 4096, F64))
    o = c.out(4, F64)
    c.run([a, b, o, I32(4096)], GRID, GROUP)
    c.expect(o, (a.array * b.array).reshape(4, 4, 256).sum((0, 2)))


def reduced(kernel, parts):
    @case("04_reduce", kernel)
    def _(c):
        a, o = c.put(c.words(N, I32)), c.out(parts, I32)
        c.run([a, o, I32(N)], GRID, GROUP)
        whole = np.zeros(GRID, I32)
        whole[:N] = a.array
        c.expect(o, whole.reshape(parts, -1).sum(1, dtype=I32))


reduced("reduce_i32", 4)
reduced("reduce_dpp", 16)


@case("04_reduce", "count_if")
def _(c):
    a, o = c.put(c.reals(N, F32)), c.out(1, U32)
    c.run([a, o, F32(0.5), I32(N)], GRID, GROUP)
    c.expect(o, [(a.array > 0.5).sum()])


@case("04_reduce", "sum_atomic")
def _(c):
    a, o = c.put(c.words(N, I32)), c.out(1, I32)
    c.run([a, o, I32(N)], GRID, GROUP)
    c.expect(o, [a.array.sum(dtype=I32)])


@case("04_reduce", "max_f32")
def _(c):
    a, o = c.put(c.reals(4096, F32, 5)), c.out(4, F32)
    c.run([a, o, I32(4096)], GRID, GROUP)
    c.expect(o, a.array.reshape(4, 4, 256).max((0, 2)))


@case("04_reduce", "swizzle")
def _(c):
    a, o = c.put(c.words(512, I32)), c.out(512, I32)
    c.run([a, o], 512, GROUP)
    v = a.array.reshape(8, 64)
    pairs = np.arange(64) ^ 1
    v = v + v[:, pairs]
    v = v ^ v[:, :1]
    v = v + v[:, 5:6]
    c.expect(o, v + v[:, pairs])


# 05: matrices.


def matmul(kernel, kind, n, grid):
    @case("05_matmul", kernel)
    def _(c):
        a, b = c.put(c.ints(-4, 4, (n, n), kind)), c.put(c.ints(-4, 4, (n, n), kind))
        o = c.out(n * n, kind)
        c.run([a, b, o, I32(n)], (grid, grid), (16, 16))
        c.expect(o, a.array @ b.array)


matmul("matmul_f32", F32, 32, 32)
matmul("matmul_f64", F64, 32, 32)
matmul("matmul_naive", F32, 20, 32)
matmul("matmul_i32", I32, 20, 32)

LANE = np.arange(64)
# The row and column of a lane's results of matrix instructions: four of 16 x 16, sixteen of 32 x
# 32, four of f64.
OF_16 = (4 * (LANE[:, None] // 16) + np.arange(4), np.broadcast_to(LANE[:, None] % 16, (64, 4)))
PART = np.arange(16)
OF_32 = (PART % 4 + 8 * (PART // 4) + 4 * (LANE[:, None] // 32), np.broadcast_to(LANE[:, None] % 32, (64, 16)))
OF_F64 = (4 * np.arange(4) + LANE[:, None] // 16, OF_16[1])


@case("05m_mfma", "mfma_f32")
def _(c):
    steps = 3
    a, b = c.put(c.ints(-4, 4, (steps, 64), F32)), c.put(c.ints(-4, 4, (steps, 64), F32))
    small, large = c.put(c.ints(-4, 4, (64, 4), F32)), c.put(c.ints(-4, 4, (64, 16), F32))
    c.run([a, b, small, large, I32(steps)], 64, 64)
    product = lambda n: sum(a.array[i].reshape(-1, n).T @ b.array[i].reshape(-1, n) for i in range(steps))
    c.expect(small, small.array + product(16)[OF_16])
    c.expect(large, large.array + product(32)[OF_32])


@case("05m_mfma", "mfma_f16")
def _(c):
    a, b = c.put(c.ints(-4, 4, (64, 4), F16)), c.put(c.ints(-4, 4, (64, 4), F16))
    o = c.put(c.ints(-4, 4, (64, 4), F32))
    c.run([a, b, o], 64, 64)
    # A lane has four neighbours of the depth.
    matrix = lambda x: x.array.astype(F32).reshape(4, 16, 4).transpose(1, 0, 2).reshape(16, 16)
    c.expect(o, o.array + (matrix(a) @ matrix(b).T)[OF_16])


@case("05m_mfma", "mfma_f64")
def _(c):
    a, b = c.put(c.ints(-4, 4, 64, F64)), c.put(c.ints(-4, 4, 64, F64))
    o = c.put(c.ints(-4, 4, (64, 4), F64))
    c.run([a, b, o], 64, 64)
    c.expect(o, o.array + (a.array.reshape(4, 16).T @ b.array.reshape(4, 16))[OF_F64])


# 06: histograms.


@case("06_hist", "hist_lds")
def _(c):
    a, h = c.put(c.words(2000, U32)), c.out(256, U32)
    c.run([a, h, I32(2000)], 512, GROUP)
    c.expect(h, np.bincount(a.array & 255, minlength=256))


@case("06_hist", "hist_global")
def _(c):
    a, h = c.put(c.words(N, U8)), c.out(256, U32)
    c.run([a, h, I32(N)], GRID, GROUP)
    c.expect(h, np.bincount(a.array, minlength=256))


@case("06_hist", "hist_u64")
def _(c):
    a, h = c.put(c.words(N, U32)), c.out(256, U64)
    c.run([a, h, I32(N)], GRID, GROUP)
    sums = np.zeros(256, U64)
    np.add.at(sums, a.array >> U32(24), a.array.astype(U64))
    c.expect(h, sums)


@case("06_hist", "hist_packed")
def _(c):
    a, h = c.put(c.words(N, U32)), c.out(GRID, U32)
    c.run([a, h, I32(N)], GRID, GROUP)
    words = np.zeros(GRID, U32)
    words[:N] = U32(1) << (a.array % 4 * 8).astype(U32)
    c.expect(h, words)


# 07: scans.


@case("07_scan", "scan_hs")
def _(c):
    a, o, sums = c.put(c.ints(0, 100, 500, I32)), c.out(500, I32), c.out(2, I32)
    c.run([a, o, sums, I32(500)], 512, GROUP)
    whole = np.zeros(512, I32)
    whole[:500] = a.array
    scan = whole.reshape(2, 256).cumsum(1)
    c.expect(o, scan.reshape(-1)[:500])
    c.expect(sums, scan[:, -1])


@case("07_scan", "scan_blelloch")
def _(c):
    a, sums = c.put(c.ints(0, 100, 1024, I32)), c.out(2, I32)
    c.run([a, sums], 512, GROUP)
    parts = a.array.reshape(2, 512)
    c.expect(a, parts.cumsum(1) - parts)
    c.expect(sums, parts.sum(1))


@case("07_scan", "scan_add")
def _(c):
    o, sums = c.put(c.ints(0, 100, N, I32)), c.put(c.ints(0, 100, 4, I32))
    c.run([o, sums, I32(N)], GRID, GROUP)
    c.expect(o, o.array + np.repeat([0, *sums.array[:3]], 256)[:N])


@case("07_scan", "scan_wave")
def _(c):
    a, o = c.put(c.ints(0, 100, 512, I32)), c.out(512, I32)
    c.run([a, o, I32(512)], 512, GROUP)
    c.expect(o, a.array.reshape(8, 64).cumsum(1))


# 08 and 09: two and three dimensions.


def transpose(kernel, kind, grid, group):
    @case("08_transpose", kernel)
    def _(c):
        a, o = c.put(c.words((36, 40), kind)), c.out(36 * 40, kind)
        c.run([a, o, I32(40), I32(36)], grid, group)
        c.expect(o, a.array.T)


transpose("transpose_lds", U32, (64, 16), (32, 8))
transpose("transpose_naive", U64, (48, 48), (16, 16))


@case("09_stencil", "stencil1")
def _(c):
    a, o = c.put(c.ints(-64, 64, N, F32)), c.out(N, F32)
    c.run([a, o, I32(N)], GRID, GROUP)
    p = np.pad(a.array, 1)
    c.expect(o, p[:-2] * 0.25 + p[1:-1] * 0.5 + p[2:] * 0.25)


@case("09_stencil", "stencil5")
def _(c):
    a = c.ints(0, 64, (36, 40), F32)
    a, o = c.put(a), c.put(a)
    c.run([a, o, I32(40), I32(36)], (48, 48), (16, 16))
    e, a = a.array.copy(), a.array
    around = a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1]
    e[1:-1, 1:-1] = a[1:-1, 1:-1] * 0.5 + around * 0.125
    c.expect(o, e)


@case("09_stencil", "stencil7")
def _(c):
    z, y, x = 6, 10, 12
    a, o = c.put(c.ints(-64, 64, (z, y, x), F64)), c.out(z * y * x, F64)
    c.run([a, o, I32(x), I32(y), I32(z)], (16, 16), (16, 16))
    a, e = a.array, np.zeros((z, y, x))
    inner = (slice(1, -1),) * 3
    near = sum(np.roll(a, step, axis) for axis in range(3) for step in (1, -1))
    e[inner] = ((near - 6 * a) * 0.1666)[inner]
    c.expect(o, e, 1e-15)


# 10: division.


def divide(kernel, kind):
    @case("10_intdiv", kernel)
    def _(c):
        a, b = c.words(N, kind), c.words(N, kind)
        b >>= (c.ints(0, 8 * b.itemsize - 1, N, kind)).astype(kind)
        b[b == 0] = 7
        a[0], b[0] = np.iinfo(kind).max, 1
        a, b, q, r = c.put(a), c.put(b), c.out(N, kind), c.out(N, kind)
        c.run([a, b, q, r, I32(N)], GRID, GROUP)
        pairs = [(int(x), int(y)) for x, y in zip(a.array, b.array)]
        quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
        bits, signed = 8 * a.array.itemsize, a.array.dtype.kind == "i"
        c.expect(q, [wrap(n, bits, signed) for n in quotients])
        c.expect(r, [x - n * y for n, (x, y) in zip(quotients, pairs)])


for k, kind in [("i32", I32), ("u32", U32), ("i64", I64), ("u64", U64)]:
    divide("div_" + k, kind)


def trunc(x, y):
    q = np.abs(x.astype(I64)) // y
    return np.where(x < 0, -q, q)


@case("10_intdiv", "div_const")
def _(c):
    a, b, q, r = c.put(c.words(N, U32)), c.put(c.words(N, I32)), c.out(N, U32), c.out(N, I32)
    c.run([a, b, q, r, I32(N)], GRID, GROUP)
    c.expect(q, a.array // 10 + a.array % 7)
    b = b.array
    c.expect(r, trunc(b, 1000) - (b - trunc(b, 13) * 13))


@case("10_intdiv", "div_uniform")
def _(c):
    o = c.out(64, U32)
    a, b, x, y = 4000000007, 12345, -(10**15), 999983
    c.run([o, U32(a), U32(b), I64(x), I64(y)], 64, 64)
    c.expect(o, np.full(64, (a // b + a % b - (-x // y)) % 2**32, U32))


@case("10_intdiv", "idx3")
def _(c):
    nx, ny, nz = 9, 11, 7
    n = nx * ny * nz
    a, o = c.put(c.reals(n, F32)), c.out(n, F32)
    c.run([a, o, U32(nx), U32(ny), U32(n)], GRID, GROUP)
    c.expect(o, a.array.reshape(nz, ny, nx).transpose(2, 1, 0))


# 11: mathematics.


def function(kernel, wide, of, spread):
    @case("11_math", kernel)
    def _(c):
        a, o = c.put(spread(c, F32)), c.out(N, F32)
        args = [a, o]
        if wide:
            d, p = c.put(spread(c, F64)), c.out(N, F64)
            args += [d, p]
            c.expect(p, of(d.array), 1e-14, 1e-15)
        c.run(args + [I32(N)], GRID, GROUP)
        c.expect(o, of(a.array.astype(F64)), 1e-6, 1e-7)


function("m_sqrt", True, np.sqrt, lambda c, kind: np.abs(c.reals(N, kind, 9)))
function("m_exp", True, np.exp, lambda c, kind: c.reals(N, kind) * 10)
function("m_sin", False, np.sin, lambda c, kind: c.reals(N, kind, 3))


@case("11_math", "m_sin64")
def _(c):
    a, o = c.put(c.reals(N, F64, 3)), c.out(N, F64)
    c.run([a, o, I32(N)], GRID, GROUP)
    c.expect(o, np.sin(a.array), 1e-13, 1e-15)


function(
    "m_log",
    False,
    lambda a: np.log(a) + a ** F64(F32(1.7)) + np.tanh(a) + np.fmod(a, F64(F32(3.1))),
    lambda c, kind: c.numbers.uniform(2, 50, N).astype(kind),
)


@case("11_math", "m_div")
def _(c):
    a, b = c.reals(N, F32, 30), c.reals(N, F32, 30)
    d, e = c.reals(N, F64, 250), c.reals(N, F64, 250)
    a[:6], b[:6] = [0, 1, np.inf, -3e-40, np.nan, 1], [1, 0, 2, 1e-3, 1, np.inf]
    d[:6], e[:6] = [0, 1, np.inf, -3e-320, np.nan, 1], [1, 0, 2, 1e-3, 1, np.inf]
    a, b, o, d, e, p = c.put(a), c.put(b), c.out(N, F32), c.put(d), c.put(e), c.out(N, F64)
    c.run([a, b, o, d, e, p, I32(N)], GRID, GROUP)
    c.expect(o, a.array / b.array)
    c.expect(p, d.array / e.array)


@case("11_math", "m_round")
def _(c):
    a = c.ints(0, 1 << 20, N, F32) / 4
    d = c.ints(0, 1 << 52, N, F64) / 8
    a, o, q, d = c.put(a.astype(F32)), c.out(N, F32), c.out(N, I32), c.put(d)
    l, m = c.out(N, I64), c.out(N, U64)
    c.run([a, o, q, d, l, m, I32(N)], GRID, GROUP)
    a, d = a.array.astype(F64), d.array
    c.expect(o, np.floor(a) + np.rint(a) + np.trunc(a) + np.ceil(a) + a + np.floor(a + 0.5), 1e-6)
    c.expect(q, 2 * np.trunc(a))
    c.expect(l, np.trunc(d).astype(I64) + np.trunc(a).astype(I64))
    c.expect(m, np.trunc(d).astype(U64))


@case("11_math", "m_cvt")
def _(c):
    numbers = [c.put(c.words(N, kind)) for kind in (I32, U32, I64, U64)]
    o, p = c.out(N, F32), c.out(N, F64)
    c.run([*numbers, o, p, I32(N)], GRID, GROUP)
    sums = lambda kind: sum((x.array.astype(kind) for x in numbers[1:]), numbers[0].array.astype(kind))
    c.expect(o, sums(F32))
    c.expect(p, sums(F64) + sums(F32))


@case("11_math", "m_f64")
def _(c):
    a, b, o = c.put(np.abs(c.reals(N, F64, 2))), c.put(np.abs(c.reals(N, F64, 2))), c.out(N, F64)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    x, y = a.array, b.array
    c.expect(o, (x * y + (x - y)) * np.fmin(x, y) + np.floor(x) + y + np.rint(y), 1e-9, 1e-9)


@case("11_math", "m_cls")
def _(c):
    a, b = c.reals(N, F32, 4), c.reals(N, F64, 4)
    a[:5], b[:7] = [0, 1, 2, 3, -1], [np.nan, np.inf, -np.inf, 1, 2, 3, -0.0]
    a, b, o = c.put(a), c.put(b), c.out(N, I32)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    x, y = a.array, b.array
    m, e = np.frexp(x)
    flags = [x < 1, x >= 2, x != 3, y < 1, y >= 2, y == 3, np.signbit(y)]
    c.expect(o, sum(flag.astype(I32) << n for n, flag in enumerate(flags, 2)) + e + np.trunc(m * 8) + np.trunc(x * 8))


# 12: addresses.


@case("12_addr64", "gather")
def _(c):
    a, at, o = c.put(c.reals(N, F32)), c.put(c.ints(0, N, N, I64)), c.out(N, F32)
    c.run([a, at, o, I64(N)], GRID, GROUP)
    c.expect(o, a.array[at.array])


@case("12_addr64", "scatter")
def _(c):
    a, at, o = c.put(c.reals(N, F32)), c.put(c.numbers.permutation(N).astype(U32)), c.out(N, F32)
    c.run([a, at, o, U32(N)], GRID, GROUP)
    e = np.zeros(N, F32)
    e[at.array] = a.array
    c.expect(o, e)


@case("12_addr64", "strided")
def _(c):
    n, step, off = 100, 5, 3
    a, o = c.put(c.reals(3 * step * n + off, F32)), c.out(step * n + off, F32)
    c.run([a.at(4 * off), o, I64(step), I64(off), I64(n)], 128, 64)
    e = np.zeros(step * n + off, F32)
    e[off + step * np.arange(n)] = a.array[3 * step * np.arange(n)]
    c.expect(o, e)


@case("12_addr64", "chase")
def _(c):
    lists, length = 200, 7
    values = c.ints(-(2**40), 2**40, (lists, length), I64)
    nodes = c.put(np.zeros((lists, length, 2), I64))
    links = np.zeros((lists, length, 2), I64)
    links[..., 1] = values
    for n in range(lists):
        end = n % length
        for k in range(end):
            links[n, k, 0] = int(nodes.address) + 16 * (n * length + k + 1)
    start = nodes.address - BASE
    c.image[start : start + links.nbytes] = links.tobytes()
    heads, o = c.put(nodes.address + 16 * length * np.arange(lists, dtype=I64)), c.out(lists, I64)
    c.run([heads, o, I32(lists)], 256, GROUP)
    c.expect(o, [values[n, : n % length + 1].sum() for n in range(lists)])


@case("12_addr64", "aos")
def _(c):
    a, o = c.put(c.reals((N, 3), F32)), c.out(3 * N, F32)
    c.run([a, o, I32(N)], GRID, GROUP)
    c.expect(o, np.roll(a.array, -1, 1))


@case("12_addr64", "byval")
def _(c):
    p, f, k, b = c.ints(0, 1000, 12, U64), c.ints(0, 1000, 9, F32), 77, c.words(7, U8)
    data = p.tobytes() + f.tobytes() + I32(k).tobytes() + b.tobytes() + bytes(1)
    o = c.out(256, F32)
    c.run([(data, 8), o], 256, 64)
    n = np.arange(256)
    c.expect(o, f[n % 9] + p[n % 12].astype(F32) + b[n % 7] + k)


@case("12_addr64", "mul64")
def _(c):
    a, b, lo, hi = c.put(c.words(N, U64)), c.put(c.words(N, U64)), c.out(N, U64), c.out(N, U64)
    c.run([a, b, lo, hi, I32(N)], GRID, GROUP)
    products = [int(x) * int(y) for x, y in zip(a.array, b.array)]
    c.expect(lo, [n % 2**64 for n in products])
    c.expect(hi, [n >> 64 for n in products])


@case("12_addr64", "shifts")
def _(c):
    a, b, o = c.put(c.words(N, I64)), c.put(c.words(N, U32)), c.out(N, I64)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    x, s = a.array, b.array.astype(I64)
    unsigned = (x.astype(U64) >> U64(3)).astype(I64)
    c.expect(o, (x << (s & 63)) ^ (x >> (s & 31)) ^ unsigned ^ (x.astype(I32).astype(I64) >> (s & 15)))


# 13: control flow.


@case("13_diverge", "collatz")
def _(c):
    a, o = c.put(c.ints(1, 5000, N, U32)), c.out(N, U32)
    c.run([a, o, I32(N)], GRID, GROUP)

    def steps(n):
        count = 0
        while n != 1:
            n, count = 3 * n + 1 if n & 1 else n >> 1, count + 1
        return count

    c.expect(o, [steps(int(n)) for n in a.array])


@case("13_diverge", "mandel")
def _(c):
    w, h, times = 40, 30, 24
    o = c.out(w * h, U32)
    x0, y0, scale = -2.0, -1.25, 1 / 13
    c.run([o, I32(w), I32(h), F32(x0), F32(y0), F32(scale), I32(times)], (48, 32), (16, 16))
    y, x = np.mgrid[:h, :w]
    at = F32(x0) + x * F64(F32(scale)) + 1j * (F32(y0) + y * F64(F32(scale)))
    z, count = np.zeros((h, w), complex), np.zeros((h, w), U32)
    for _ in range(times):
        inside = (z.real**2 + z.imag**2) < 4
        count += inside
        z = np.where(inside, z * z + at, z)
    # Other rounding changes the count at the edge, where it grows fast.
    c.expect(o, count, where=(count < times).reshape(-1))


@case("13_diverge", "nested")
def _(c):
    n = 200
    a, o = c.put(c.ints(0, 90, n, I32)), c.out(n, I32)
    c.run([a, o, I32(n)], 256, 64)

    def one(i):
        s = 0
        for j in range(0, a.array[i], 2):
            for k in range(j, a.array[(i + j) % n]):
                if k == 77:
                    break
                s += k * j if (k ^ j) & 4 else -k
            if s > 100000:
                break
        return s

    c.expect(o, [one(i) for i in range(n)])


@case("13_diverge", "sw")
def _(c):
    a = c.words(N, I32)
    # These are the results that others read.
    a[[5, 13]] = [8, 17]

    def one(v, results):
        which = v & 7
        return [
            v + 1,
            v * 3,
            v ^ 0x55,
            -v << 2,
            v << 2,
            results.get(v & 15, 0),
            ~v,
            bin(v & 0xFFFFFFFF).count("1"),
        ][which]

    known = {n: one(int(a[n]), {}) for n in (5, 13)}
    before = np.zeros(N, I32)
    before[[5, 13]] = list(known.values())
    a, o = c.put(a), c.put(before)
    c.run([a, o, I32(N)], GRID, GROUP)
    c.expect(o, [wrap(one(int(v), known), 32) for v in a.array])


@case("13_diverge", "uniform")
def _(c):
    a = c.ints(-2, 40, 50, I32)
    a[40] = -3
    a, o = c.put(a), c.out(128, I32)
    c.run([a, o, I32(50)], 128, 64)
    s = 0
    for n in a.array[:40]:
        s = s + int(n) if n > 5 else s ^ int(n)
    c.expect(o, np.full(128, s, I32))


@case("13_diverge", "bsearch")
def _(c):
    a, k, o = c.put(np.sort(c.words(300, I32))), c.put(c.words(N, I32)), c.out(N, I32)
    c.run([a, k, o, I32(300), I32(N)], GRID, GROUP)
    c.expect(o, np.searchsorted(a.array, k.array))


@case("13_diverge", "sortsm")
def _(c):
    a = c.put(c.reals((125, 8), F32))
    c.run([a, I32(125)], 128, 64)
    c.expect(a, np.sort(a.array, 1))


# 14: calls and private memory.


def called(kernel, of):
    @case("14_call", kernel)
    def _(c):
        a, o = c.put(c.ints(0, 1000, N, I32)), c.out(N, I32)
        c.run([a, o, I32(N)], GRID, GROUP)
        c.expect(o, of(a.array, np.arange(N)))


called("call_direct", lambda a, i: a + i * 3 + i * a - 1)
called("call_indirect", lambda a, i: np.choose(a % 3, [a + i * 3, a * i - 1, a + (i & 7)]))


def called_by_two(kernel, of, *more):
    @case("14_call", kernel)
    def _(c):
        a, o = c.put(c.ints(0, 1000, 1024, I32)), c.out(128, I32)
        c.run([a, o, *more], 128, 64)
        c.expect(o, of(a.array))


called_by_two("recurse", lambda a: np.array([0, 1, 1, 2, 3, 5, 8, 13])[a[:128] & 7])
called_by_two(
    "scratch_arr",
    lambda a: [sum(a[(i + ((int(a[j]) ^ i) & 63)) & 1023] for j in range(64)) for i in range(128)],
    I32(1),
)
called_by_two("virt", lambda a: np.where(a[:128] & 1, a[:128] + 1, a[:128] * 2))


# 15: LDS.


@case("15_dynlds", "dyn_rev")
def _(c):
    a, o = c.put(c.words(512, I32)), c.out(512, I32)
    c.lds = 1024
    c.run([a, o], 512, GROUP)
    c.expect(o, a.array.reshape(2, 256)[:, ::-1])


@case("15_dynlds", "dyn_two")
def _(c):
    a, o = c.put(c.ints(-99, 99, 512, F64)), c.out(512, F64)
    c.lds = 4096
    c.run([a, o, I32(3)], 512, GROUP)
    n, a = np.arange(256), a.array.reshape(2, 256)
    c.expect(o, a[:, (n + 3) % 256] + 2 * a[:, n * 3 % 256])


@case("15_dynlds", "lds_vec")
def _(c):
    a, o = c.put(c.ints(0, 200, (256, 4), F32)), c.out(1024, F32)
    c.run([a, o], 256, GROUP)
    n, v = np.arange(256), a.array[::-1].copy()
    x, y = v[:, 0].astype(U8), v[:, 1].astype(U16)
    v[:, 2] += x[n ^ 1]
    v[:, 3] += y[n ^ 3].astype(I16) + x[n ^ 5].astype(I8).astype(F32)
    c.expect(o, v)


@case("15_dynlds", "lds_atom")
def _(c):
    a, o = c.put(c.ints(-1000, 1000, 256, I32)), c.out(256, I32)
    p, f = c.out(256, U64), c.out(256, F32)
    c.run([a, o, p, f], 256, GROUP)
    a, n = a.array.astype(I64), np.arange(256)
    # In the order of items, as in the core and the reference.
    r = a.cumsum() - a
    r += np.concatenate([[0], a[:-1]])
    first = int(np.argmax(a != 0))
    r[: first + 1] += 1
    ored, xored = np.bitwise_or.reduce(a), np.bitwise_xor.reduce(a)
    s = np.array([a.sum(), max(0, a.max()), min(0, a.min()), ored, 0, a[-1], a[first], xored])
    c.expect(o, r + s[n & 7])
    q = np.array([a[k::4].sum() for k in range(4)])
    c.expect(p, q.astype(U64)[n & 3])
    c.expect(f, np.full(256, 384, F32))


# 16: halves.


@case("16_half", "h_add")
def _(c):
    a, b, o = c.put(c.reals(N, F16)), c.put(c.reals(N, F16)), c.out(N, F16)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    c.expect(o, a.array.astype(F64) + b.array.astype(F64) * 1.5, 2e-3, 2e-3)


@case("16_half", "h2_fma")
def _(c):
    a, b, o = (c.put(c.reals(2 * N, F16)) for _ in range(3))
    c.run([a, b, o, I32(N)], GRID, GROUP)
    c.expect(o, a.array.astype(F64) * b.array + o.array, 2e-3, 2e-3)


@case("16_half", "h_cvt")
def _(c):
    a, o, b, p = c.put(c.words(N, U16)), c.out(N, F32), c.put(c.reals(N, F32, 6)), c.out(N, F16)
    c.run([a, o, b, p, I32(N)], GRID, GROUP)
    c.expect(o, a.array.view(F16))
    c.expect(p, b.array)


def bfloat(x):
    """The bits of bfloat16, rounded to the nearest even."""
    bits = x.astype(F32).view(U32)
    rounded = (bits.astype(U64) + 0x7FFF + (bits >> U32(16) & U32(1))) >> U64(16)
    return np.where(np.isnan(x), bits >> U32(16) | U32(0x40), rounded).astype(U16)


def widened(bits):
    return (bits.astype(U32) << U32(16)).view(F32)


@case("16_half", "bf_cvt")
def _(c):
    a, b, o = c.put(c.words(N, U16)), c.put(c.words(N, U16)), c.out(N, U16)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    product = widened(a.array) * widened(b.array)
    c.expect(o, bfloat(product), where=~np.isnan(product))


@case("16_half", "bf_nat")
def _(c):
    a, b, o = c.put(bfloat(c.reals(N, F32, 9))), c.put(bfloat(c.reals(N, F32, 9))), c.out(N, U16)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    c.expect(o, bfloat(widened(a.array) + widened(b.array)))


@case("16_half", "h_relu")
def _(c):
    a, o = c.put(c.reals(2 * N, F16)), c.out(2 * N, F16)
    c.run([a, o, I32(N)], GRID, GROUP)
    c.expect(o, np.maximum(a.array, 0))


@case("16_half", "pack")
def _(c):
    a, o = c.put(c.reals(2 * N, F32, 3)), c.out(2 * N, F16)
    c.run([a, o, I32(N)], GRID, GROUP)
    near = a.array.astype(F16)
    too_far = np.abs(near.astype(F32)) > np.abs(a.array)
    c.expect(o, np.where(too_far, np.nextafter(near, F16(0)), near))


@case("16_half", "h_acc")
def _(c):
    a, o = c.put(c.reals(4096, F16)), c.out(GRID, F32)
    c.run([a, o, I32(4096)], GRID, GROUP)
    c.expect(o, (a.array.astype(F64) ** 2).reshape(4, GRID).sum(0), 1e-6)


# 17: bytes and bits.


@case("17_bytes", "b_copy")
def _(c):
    a, o = c.put(c.words(N, U8)), c.out(N, U8)
    c.run([a, o, U64(N)], GRID, GROUP)
    c.expect(o, a.array)


@case("17_bytes", "b_rgb")
def _(c):
    a, o = c.put(c.words(N, U32)), c.out(N, U32)
    c.run([a, o, I32(N)], GRID, GROUP)
    r, g, b = ((a.array >> U32(8 * n) & U32(255)).astype(F64) for n in range(3))
    y = 0.299 * r + 0.587 * g + 0.114 * b
    e = np.trunc(y).astype(U32)
    # Where it is nearly a whole number, rounding decides.
    c.expect(o, e * U32(0x10101) | a.array & U32(0xFF000000), where=np.abs(y - np.rint(y)) > 1e-4)


@case("17_bytes", "b_i16")
def _(c):
    a, b, o = c.put(c.words(N, I16)), c.put(c.words(N, I8)), c.out(N, I16)
    c.run([a, b, o, I32(N)], GRID, GROUP)
    c.expect(o, (a.array.astype(I32) * b.array + (a.array >> 3)).astype(I16))


@case("17_bytes", "b_bits")
def _(c):
    a, o, b, p = c.put(c.words(N, U32)), c.out(N, U32), c.put(c.words(N, U64)), c.out(N, U64)
    c.run([a, o, b, p, I32(N)], GRID, GROUP)

    def bits(v, size):
        reverse = int(format(v, f"0{size}b")[::-1], 2)
        swap = int.from_bytes(v.to_bytes(size // 8, "little"), "big")
        return bin(v).count("1") + size - (v | 1).bit_length() + reverse + swap

    def narrow(v):
        ones = (v | 256) & -(v | 256)
        return bits(v, 32) + ones.bit_length() - 1 + ((v << 7 | v >> 25) & 0xFFFFFFFF)

    c.expect(o, [narrow(int(v)) % 2**32 for v in a.array])
    c.expect(p, [bits(int(v), 64) % 2**64 for v in b.array])


@case("17_bytes", "b_ballot")
def _(c):
    a, o, q = c.put(c.ints(-5, 5, 512, I32)), c.out(8, U64), c.out(512, U32)
    c.run([a, o, q], 512, GROUP)
    yes = a.array.reshape(8, 64) > 0
    masks = [sum(1 << int(n) for n in np.flatnonzero(row)) for row in yes]
    c.expect(o, np.array(masks, U64))
    lowest = np.argmax(yes, 1)[:, None] + 1
    c.expect(q, yes.sum(1)[:, None] + lowest + np.where(yes, yes.cumsum(1) - yes, 0))


@case("17_bytes", "b_minmax")
def _(c):
    a, b, o, q = c.put(c.ints(-300, 300, N, I32)), c.put(c.ints(0, 500, N + 1, U32)), c.out(N, I32), c.out(N, U32)
    c.run([a, b, o, q, I32(N)], GRID, GROUP)
    c.expect(o, np.abs(np.clip(a.array, -100, 100)))
    b = b.array.astype(I64)
    c.expect(q, np.abs(np.minimum(b[:N], 255) - b[1:]))


@case("17_bytes", "b_sad")
def _(c):
    a, b, o = c.put(c.words(3 * GRID, U32)), c.put(c.words(3 * GRID, U32)), c.out(GRID, U32)
    c.run([a, b, o, I32(3 * GRID)], GRID, GROUP)
    x, y = (v.array.view(U8).astype(I32) for v in (a, b))
    c.expect(o, np.abs(x - y).reshape(3, GRID, 4).sum((0, 2)))


@case("17_bytes", "b_dot8")
def _(c):
    a, b, o = c.put(c.words(N, U32)), c.put(c.words(N, U32)), c.put(c.ints(-99, 99, N, I32))
    c.run([a, b, o, I32(N)], GRID, GROUP)
    dot = lambda kind: (a.array.view(kind).astype(I64) * b.array.view(kind)).reshape(N, 4).sum(1)
    c.expect(o, o.array + dot(I8) + dot(U8))


# 18: generic addresses.


@case("18_flat", "generic_ptr", 0, 1, 3)
def _(c, select):
    a, o = c.put(c.ints(0, 1000, 64, I32)), c.out(64, I32)
    c.run([a, o, I32(select)], 64, 64)
    n = np.arange(64)
    if select == 3:
        private = np.array([1, 2, select, 4])
        mine, shared, old = private[n & 3], 5, 1 + n
    else:
        mine, shared = 5, a.array
        old = (a.array[0] if select == 1 else 5) + n
    # The first one is the one that all change.
    c.expect(o, mine + shared + old, where=n > 0)


@case("18_flat", "is_shared")
def _(c):
    o = c.out(64, I32)
    # For an argument compilers know that it is neither.
    c.run([o, o], 64, 64)
    c.expect(o, np.ones(64, I32))


# 19: atomics.

STEPS = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "min": min,
    "max": max,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exchange": lambda old, v: v,
}


def atomics(kernel, kind, signed, unsigned, returns):
    @case("19_atomics", kernel)
    def _(c):
        p, a, o = c.put(c.words(256, kind)), c.put(c.words(256, kind)), c.out(256, kind)
        c.run([p, a, o] if kernel != "at_i64" else [p, a], 256, 64)
        bits = 8 * np.dtype(kind).itemsize
        memory, results = [], []
        for old, v in zip(p.array, a.array):
            old, v, r = int(old), int(v), 0
            for step in signed:
                r ^= old
                old = wrap(STEPS[step](old, v), bits)
            for step in unsigned:
                old = wrap(STEPS[step](wrap(old, bits, False), wrap(v, bits, False)), bits)
            if returns:
                expected = v
                r = wrap(r, bits)
                if old == v:
                    old, r = r, r ^ 1
                else:
                    expected = old
                r ^= expected
            memory.append(old)
            results.append(wrap(r, bits))
        c.expect(p, memory)
        if returns:
            c.expect(o, results)


ALL = ["add", "min", "max", "and", "or", "xor", "sub"]
atomics("at_i32", I32, ALL, ["min", "max"], False)
atomics("at_i32r", I32, ALL + ["exchange"], [], True)
atomics("at_i64r", I64, ALL + ["exchange"], [], True)
atomics("at_i64", I64, ["add", "max", "or"], ["min", "max"], False)


@case("19_atomics", "at_f")
def _(c):
    p, d = c.put(c.ints(-50, 50, 65, F32)), c.put(c.ints(-50, 50, 64, F64))
    a, o, q = c.put(c.ints(-50, 50, 64, F32)), c.out(64, F32), c.out(64, F64)
    c.run([p, d, a, o, q], 64, 64)
    for memory, old in ((p, o), (d, q)):
        then = memory.array.copy()
        then[0] += a.array.sum()
        c.expect(old, then[:64])
        then[:64] += a.array
        if memory is p:
            then[64] = max(then[64], a.array.max())
        c.expect(memory, then)


@case("19_atomics", "at_cas")
def _(c):
    p, a = c.put(np.array([3], F32)), c.put(F32(2) ** c.ints(-2, 3, 64, F32))
    c.run([p, a], 64, 64)
    c.expect(p, [3 * a.array.prod()])


@case("19_atomics", "at_ord")
def _(c):
    p, f, o = c.out(64, U32), c.out(1, U32), c.out(64, U32)
    c.run([p, f, o], 64, 64)
    c.expect(o, np.arange(64) ^ 1)
    c.expect(f, [65])


@case("19_atomics", "at_sys")
def _(c):
    p, f = c.out(1, U64), c.out(1, U32)
    c.run([p, f, U64(2**40)], 1, 1)
    # Another party answers.
    c.poke = (f, 2)
    c.expect(p, [2**40 + 1])
    c.expect(f, [2])


@case("19_atomics", "at_grid")
def _(c):
    count, o = c.out(1, U32), c.out(256, U32)
    c.run([count, o], 256, 64)
    c.expect(count, [4])
    c.expect(o, [4] * 64 + [1] * 192)


@case("19_atomics", "at_wrap")
def _(c):
    p, o, limit = c.put(np.array([17, 5], U32)), c.out(64, U32), 20
    c.run([p, o, U32(limit)], 64, 64)
    up, down = 17, 5
    ups, downs = [], []
    for _ in range(64):
        ups.append(up)
        downs.append(down)
        up = 0 if up >= limit else up + 1
        down = limit if down == 0 or down > limit else down - 1
    c.expect(o, [x + y for x, y in zip(ups, downs)])
    c.expect(p, [up, down])


# 20: copies, fills, waits.


@case("20_blit", "own_fill16")
def _(c):
    o, v = c.out((300, 2), U64), c.words(2, U64)
    c.run([o, (v.tobytes(), 16), U64(300)], 128, 64)
    c.expect(o, np.tile(v, 300))


@case("20_blit", "own_fill_pat")
def _(c):
    o, pattern = c.out(7 * 300, U8), c.put(c.words(7, U8))
    c.run([o, pattern, U32(7), U64(300)], 128, 64)
    c.expect(o, np.tile(pattern.array, 300))


def copied(kernel, kind, width, *more):
    @case("20_blit", kernel)
    def _(c):
        count = 300 * width + (3 if more else 0)
        a, o = c.put(c.words(count, kind)), c.out(count, kind)
        c.run([a, o, U64(300), *more], 128, 64)
        c.expect(o, a.array)


copied("own_copy16", U64, 2)
copied("own_copy4", U8, 4, U64(3))
copied("own_copy1", U8, 1)


@case("20_blit", "own_rect")
def _(c):
    source, sink = (70, 70 * 9), (50, 50 * 7)
    a, before = c.put(c.words(3 * source[1], U8)), c.words(3 * sink[1], U8)
    o = c.put(before)
    w, h = 40, 6
    c.run([a, o, *map(U64, source), *map(U64, sink), U64(w), U64(h)], (64, 8, 3), (64, 2, 1))
    e = before.reshape(3, 7, 50).copy()
    e[:, :h, :w] = a.array.reshape(3, 9, 70)[:, :h, :w]
    c.expect(o, e)


@case("20_blit", "own_wait", 0, 1, 2, 3)
def _(c, how):
    # Not the awaited value, and the awaited value.
    mask, value = 0xFF00, 0x1200
    before, after = [(0x1100, 0x1300), (0x1100, 0x12FF), (0x2D00, 0x0200), (0x1234, 0x1000)][how]
    p = c.put(np.array([before], U64))
    c.run([p, U64(value), U64(mask), I32(how)], 64, 64)
    c.poke = (p, after)
    c.expect(p, [after])


@case("20_blit", "own_write", 0, 1)
def _(c, wide):
    p, q = c.out(1, U32), c.out(1, U64)
    value = 0x123456789ABCDEF0
    c.run([U64(0) if wide else p, q, U64(value)], 1, 1)
    c.expect(p, [0 if wide else value & 0xFFFFFFFF])
    c.expect(q, [value if wide else 0])


# 21: others.


@case("21_misc", "clk")
def _(c):
    o = c.out(64, U64)
    c.run([o], 64, 64)
    # All clocks stand.
    c.expect(o, np.full(64, 3 * 12345, U64))


def trapped(kernel):
    @case("21_misc", kernel)
    def _(c):
        a = c.put(c.ints(0, 1000, 64, I32))
        c.run([a], 64, 64)
        c.unchanged(a)


trapped("trapk")
trapped("dbgtrap")


@case("21_misc", "hwregs")
def _(c):
    o = c.out(64, U32)
    c.run([o], 64, 64)
    # HW_ID is 0; MODE has denormals, DX10_CLAMP and IEEE.
    c.expect(o, np.full(64, 0x3F0, U32))


@case("21_misc", "dims")
def _(c):
    grid, group = (24, 6, 4), (8, 2, 2)
    o = c.out(24, U64)
    c.run([o], grid, group)
    # Of those that have x in common the last one stays, in the order of items and groups.
    number = grid[0] + grid[1] * 3 + grid[2] // group[2] * 5 + group[1] * 7
    c.expect(o, np.full(24, number + 1 + 1, U64))


@case("21_misc", "xorshift")
def _(c):
    o = c.out(960, U32)
    c.run([o, I32(20)], 960, 192)
    s = np.arange(960, dtype=U32) * U32(2654435761) + U32(1)
    for _ in range(20):
        s ^= s << U32(13)
        s ^= s >> U32(17)
        s ^= s << U32(5)
    c.expect(o, s)


@case("21_misc", "lcg")
def _(c):
    o = c.out(256, U64)
    c.run([o, I32(20)], 256, 64)
    s = np.arange(256, dtype=U64)
    for _ in range(20):
        s = s * U64(6364136223846793005) + U64(1442695040888963407)
    c.expect(o, s)


@case("21_misc", "nbody")
def _(c):
    a, o = c.put(c.reals((256, 4), F32)), c.out((256, 4), F32)
    c.run([a, o, I32(256)], 256, GROUP)
    p = a.array.astype(F64)
    apart = p[None] - p[:, None]
    near = (apart[..., :3] ** 2).sum(2) + F64(F32(1e-6))
    weight = p[None, :, 3] * near**-1.5
    c.expect(o, (apart * weight[:, :, None]).sum(1), 2e-3, 1e-2)


@case("21_misc", "crc")
def _(c):
    a, o = c.put(c.words((64, 16), U8)), c.out(64, U32)
    c.run([a, o, I32(16)], 64, 64)
    c.expect(o, [zlib.crc32(row.tobytes()) for row in a.array])


@case("21_misc", "bitonic")
def _(c):
    a = c.put(c.words(256, I32))
    j, k = 4, 16
    c.run([a, I32(j), I32(k)], 256, 64)
    e = a.array.copy()
    for i in range(256):
        x = i ^ j
        if x > i and (e[i] > e[x]) == ((i & k) == 0):
            e[i], e[x] = e[x], e[i]
    c.expect(a, e)
