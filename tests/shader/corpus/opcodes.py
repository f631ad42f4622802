#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""opcodes.py: reads what `llvm-objdump -d` prints of the kernels, and prints the interpreter's table
of instructions (interpreter/opcodes.txt): the encoding, the opcode and the name of each that is in
them. `OPCODES=y scripts/corpus` runs it."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "interpreter"))
from encoding import Unknown, encoding_of  # noqa: E402

# "\ts_load_dword s0, s[4:5], 0x24   // 000000001234: C0020002 00000024"
LINE = re.compile(r"\t(\w+).*// [0-9A-F]+: ([0-9A-F]{8})")
HEADING = """\
# SPDX-License-Identifier: GPL-2.0
# The instructions of the corpus' kernels: encoding, opcode, name.
# Source: what LLVM 19 says of them (llvm/lib/Target/AMDGPU, under Apache-2.0 with LLVM-exception).
# Made by: OPCODES=y scripts/corpus (opcodes.py), which has llvm-objdump disassemble the kernels as
# clang compiles them for gfx90a at each level and version.
"""

names = {}
for line in sys.stdin:
    if not (found := LINE.match(line)):
        continue
    name = re.sub(r"_(e32|e64|sdwa|dpp)$", "", found[1])
    try:
        encoding, opcode, _ = encoding_of(int(found[2], 16))
    except Unknown:
        continue
    before = names.setdefault((encoding, opcode), name)
    if before != name:
        sys.exit(f"{encoding} {opcode} is {before} and {name}")
print(HEADING, end="")
for (encoding, opcode), name in sorted(names.items()):
    print(encoding, opcode, name)
