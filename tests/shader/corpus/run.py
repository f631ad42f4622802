#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""run.py OBJECTS RUNNER [LEVEL...]: all kernels of the corpus, which were compiled for code object
versions 4, 5 and 6 at these levels of optimisation, in the shader core, against numpy and against
the corpus' own interpreter. Prints TAP.

The interpreter knows only some instructions, and is slow: it runs the kernels of version 5, unless
the environment has INTERPRETER=no.
"""
import os
import subprocess
import sys

import numpy as np

import cases
import interpreter
from case import BASE, CASES

objects, runner = sys.argv[1:3]
levels = sys.argv[3:] or ["0", "2", "3"]

VERSIONS = (4, 5, 6)
# For private memory of the interpreter.
ROOM = 32 << 20


def place(case, version):
    """The memory before the run, and the addresses of arguments and packet."""
    image = bytearray(case.image)
    kernarg = BASE + len(image)
    image += case.kernarg(version)
    image += bytes(-len(image) % 64)
    packet = BASE + len(image)
    image += case.packet()
    return image, kernarg, packet


def core(jobs):
    """Runs (case, version, level, file) in the shader core. Returns the memory after each, or the
    error."""
    lines = []
    for n, (case, version, level, path) in enumerate(jobs):
        image, kernarg, packet = place(case, version)
        with open(f"{objects}/{n}.memory", "wb") as file:
            file.write(image)
        poke = (case.poke[0].address, case.poke[1]) if case.poke else (0, 0)
        words = [path, case.kernel, *case.grid, *case.group, case.lds, kernarg, packet, *poke]
        lines.append(" ".join(map(str, [f"{objects}/{n}.memory", *words])))
    ran = subprocess.run([runner], input="\n".join(lines), capture_output=True, text=True, check=True)
    results = []
    for n, line in enumerate(ran.stdout.splitlines()):
        with open(f"{objects}/{n}.memory", "rb") as file:
            results.append((file.read(), None) if line == "ok" else (None, line))
        os.remove(f"{objects}/{n}.memory")
    assert len(results) == len(jobs), ran.stderr
    return results


def reference(case, path):
    """The memory after the interpreter's run; None where it lacks an instruction."""
    if case.poke:
        return None
    image, kernarg, packet = place(case, 5)
    memory = interpreter.Memory(BASE, len(image) + ROOM)
    memory.bytes[: len(image)] = np.frombuffer(bytes(image), np.uint8)
    memory.top = len(image)
    code, symbols = interpreter.load(path)
    descriptor = symbols[case.kernel + ".kd"]
    try:
        interpreter.dispatch(memory, code, descriptor, packet, kernarg, case.grid, case.group, case.lds)
    except interpreter.Unknown:
        return None
    return memory.bytes[: len(image)].tobytes()


def apart(case, core, reference):
    """The first difference of the two results beyond the tolerance of single instructions."""
    for buffer, values, *_ in case.checks:
        start = buffer.address - BASE
        ours, theirs = (np.frombuffer(m[start : start + values.nbytes], values.dtype) for m in (core, reference))
        same = ours == theirs
        if values.dtype.kind == "f":
            same = np.isclose(ours, theirs, *cases.CLOSE[values.dtype.type], equal_nan=True)
        if not same.all():
            n = int(np.argmin(same))
            return f"{(~same).sum()} numbers, the first at {n}: {ours[n]}, not {theirs[n]}"
    return None


jobs = [
    (case, version, level, f"{objects}/{case.file}.v{version}.O{level}.co")
    for level in levels
    for version in VERSIONS
    for case in CASES
    if os.environ.get("ONLY", case.kernel) == case.kernel
]
number = failed = interpreted = 0
for (case, version, level, path), (memory, error) in zip(jobs, core(jobs)):
    number += 1
    name = f"{case.kernel}{'' if case.label is None else f'({case.label})'}, version {version}, -O{level}"
    error = error or case.verdict(memory)
    asked = version == 5 and (case.kernel, level) not in cases.LITERALS
    if not error and asked and os.environ.get("INTERPRETER", "yes") == "yes":
        theirs = reference(case, path)
        if theirs is not None:
            interpreted += 1
            other = apart(case, memory, theirs)
            error = other and f"the interpreter's is another result: {other}"
    if error:
        failed += 1
        print(f"# {error}")
    print(f"{'not ok' if error else 'ok'} {number} {name}", flush=True)
print(f"1..{number}")
kernels = {(case.file, case.kernel) for case in CASES}
print(f"# {len(kernels)} kernels, {number} runs, {interpreted} of them compared with the interpreter, {failed} failed")
sys.exit(failed > 0)
