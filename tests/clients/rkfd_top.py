#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Output of rkfd-top without and with a busy process, as text and on a terminal. Prints TAP."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import fcntl

PATIENCE = 120  # seconds until a timeout
number = 0
failed = False


def ok(passed, name):
    global number, failed
    number += 1
    failed |= not passed
    print(f"{'ok' if passed else 'not ok'} {number} {name}", flush=True)
    return passed


def once(*arguments):
    return subprocess.run(["rkfd-top", "--once", "--delay", "0.5", *arguments], capture_output=True, text=True, check=False)


def tables(text):
    """The tables of the text, by the first word of their headlines: lists of dictionaries."""
    found = {}
    for block in text.split("\n\n"):
        if block.startswith("  LAST PAGE FAULTS\n"):
            continue
        lines = [line for line in block.splitlines() if not line.startswith("GPU ")]
        head, *rows = [line.split() for line in lines] or [[]]
        # Processes and queues both begin with a process.
        name = "queues" if "QUEUE" in head else {"PID": "processes", "ENGINE": "engines"}.get(head[0], head[0])
        assert all(len(row) == len(head) for row in rows), block
        found[name] = [dict(zip(head, row)) for row in rows]
    return found


def is_size(text):
    return re.fullmatch(r"[0-9]+(\.[0-9])?[BKMG]", text) is not None


def percent(text):
    """The number; 0 where it is unknown."""
    return int(text.removesuffix("%")) if re.fullmatch("[0-9]+%", text) else 0


def idle():
    result = once()
    ok(result.returncode == 0 and result.stderr == "", "ends well")
    if not ok(re.match(r"GPU [0-9a-f:.]+   busy [0-9]+%   VRAM [0-9.]+[BKMG] of 512M \([0-9]+%\)\n", result.stdout), "tells of the GPU and its VRAM"):
        print(result.stdout)
    shown = tables(result.stdout)
    ok(shown["processes"] == [] and shown["queues"] == [], "nobody is there")
    engines = [engine["ENGINE"] for engine in shown["engines"]]
    ok(engines == ["sdma0", "sdma1", "sdma2", "sdma3", "sdma4", "cp"], "all engines")
    ok(all(engine["TIME"] == "-" for engine in shown["engines"]), "none works for anybody")
    ok(all(engine["LOADED"] == "0" and engine["QUEUES"] == "0" for engine in shown["engines"]), "none has a queue")


def busy(pid):
    """Polls until all of a process that works without end shows at once."""
    end = time.monotonic() + PATIENCE
    shown = {}
    while time.monotonic() < end:
        shown = tables(once().stdout)
        queues = [queue for queue in shown["queues"] if queue["PID"] == str(pid)]
        if any(queue["DONE/s"] not in ("-", "0") and percent(queue["TIME"]) for queue in queues):
            break
    print("# " + "\n# ".join(str(row) for rows in shown.values() for row in rows))
    mine = [row for row in shown["processes"] if row["PID"] == str(pid)]
    if not ok(len(mine) == 1, "the process"):
        return
    row = mine[0]
    ok(row["COMMAND"] == "at_work", "its name")
    ok(all(is_size(row[key]) for key in ("VRAM", "EVICTED", "PINNED", "GTT", "USERPTR")), "its memory")
    ok(all(row[key].endswith("M") for key in ("VRAM", "GTT")) and row["EVICTED"] == "0B", "it has some of both kinds")
    ok(row["QUEUES"] == "1" and len(queues) == 1, "its queue")
    ok(row["STATE"] == "home", "its state")
    ok(all(queue["MODE"] in ("scheduled", "followed") and re.fullmatch("sdma[0-4]", queue["ENGINE"]) for queue in queues), "which is of SDMA, and has jobs")
    ok(any(queue["DONE/s"] not in ("-", "0") for queue in queues), "which gets on")
    # It copies without a break; the measurement error is within the limits.
    ok(all(0 < percent(queue["TIME"]) <= 110 for queue in queues), "and for how much of the time")
    times = {engine["TIME"] for engine in shown["engines"] if engine["TIME"] != "-"}
    ok(times == {row["TIME"]} == {queue["TIME"] for queue in queues}, "which is the process's time, and its engine's")
    mine = [queue["ENGINE"] for queue in queues]
    ok(all(engine["QUEUES"] == str(mine.count(engine["ENGINE"])) for engine in shown["engines"]), "its engine, and no other, has a queue")


def load():
    """The GPU's own figure, which covers all engines."""
    end = time.monotonic() + PATIENCE
    figure = 0
    while figure == 0 and time.monotonic() < end:
        figure = int(re.search(r"   busy ([0-9]+)%", once().stdout)[1])
    ok(0 < figure <= 100, "the GPU is busy")


def on_terminal(pid):
    """The same on a terminal of 30 lines of 120, until q is pressed."""
    child, fd = pty.fork()
    if child == 0:
        os.environ["TERM"] = "linux"
        os.execvp("rkfd-top", ["rkfd-top", "--delay", "0.5"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    drawn = b""
    end = time.monotonic() + PATIENCE
    wanted = (b"GPU ", b"ENGINE", b"sdma4", str(pid).encode(), b"q: quit")
    while time.monotonic() < end and not all(word in drawn for word in wanted):
        if select.select([fd], [], [], 1)[0]:
            drawn += os.read(fd, 65536)
    ok(all(word in drawn for word in wanted), "the terminal shows GPU, process and engines")
    os.write(fd, b"q")
    # The terminal is read to its end, or the program could not write to it.
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    ok(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "q ends it")


def page_fault():
    """One that a test causes."""
    ok("LAST PAGE FAULTS" not in once().stdout, "no page fault so far")
    test = subprocess.run(["/rkfd/kselftest/events_gpu", "-t", "last_fault"], capture_output=True, text=True, check=False)
    ok(test.returncode == 0, "a process reads where it has no memory")
    _, headline, after = once().stdout.partition("  LAST PAGE FAULTS\n")
    told = r"  [0-9]+ s ago, events_gpu pid [0-9]+ pasid [0-9]+: (read|write) at 0x[0-9a-f]+, .*"
    if not ok(headline and re.fullmatch(told, after.splitlines()[0]), "the fault is shown"):
        print(after)


def bad_input():
    ok(once("--delay", "0").returncode == 2, "no delay of 0")
    ok(once("--nonsense").returncode == 2, "no unknown option")


def main():
    if not os.path.exists("/dev/kfd"):
        sys.exit(4)
    print("TAP version 13")
    idle()
    process = subprocess.Popen(["/rkfd/clients/at_work", "copies"], stdout=subprocess.PIPE)
    try:
        ok(process.stdout.readline() == b"ready\n", "a process begins to copy")
        busy(process.pid)
        load()
        on_terminal(process.pid)
    finally:
        process.kill()
        process.wait()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and tables(once().stdout)["processes"]:
        pass
    ok(tables(once().stdout)["processes"] == [], "the process is gone")
    page_fault()
    bad_input()
    print(f"1..{number}")
    sys.exit(failed)


main()
