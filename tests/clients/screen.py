# SPDX-License-Identifier: GPL-2.0
"""screen.py SECONDS COMMAND...: a program's output to a terminal of 50 lines of 200 columns, with
control sequences turned into ends of lines. After SECONDS it is sent a "q"."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

seconds, command = float(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    # The parent sets the terminal's size.
    time.sleep(1)
    os.environ["TERM"] = "linux"
    os.execvp(command[0], command)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
end = time.monotonic() + seconds
output = b""
asked = False
while True:
    if not asked and time.monotonic() > end:
        os.write(terminal, b"q")
        asked = True
    if not select.select([terminal], [], [], 0.5)[0]:
        continue
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    output += more
text = re.sub(r"\x1b[^a-zA-Z]*[a-zA-Z]|[\x00-\x1f]", "\n", output.decode(errors="replace"))
print("\n".join(line.strip() for line in text.split("\n") if line.strip()))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
