#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# load.sh: whether the kernel's log has the lines of amdgpu's load that it has on a card, in their
# order, by the table load beside this script, as TAP.
echo "TAP version 13"
dmesg >/tmp/log
awk '
BEGIN { FS = " [|] " }
FNR == 1 { files++ }
files == 1 && (/^#/ || /^$/) { next }
files == 1 { wanted[++rows] = $1; reason[rows] = $4; next }
{ line[++lines] = $0 }
END {
	at = 0
	for (r = 1; r <= rows; r++) {
		found = 0
		for (i = at + 1; i <= lines && !found; i++) if (line[i] ~ wanted[r]) found = i
		if (found && reason[r] == "") { at = found; same++; continue }
		if (!found && reason[r] != "") { explained++; print "# missing: " wanted[r] ": " reason[r]; continue }
		early = 0
		for (i = 1; i <= at && !early; i++) if (line[i] ~ wanted[r]) early = i
		print "not ok " ++n " " (found ? "the line is there, and a reason why not: " : early ? "too early in the log: " : "not in the log: ") wanted[r]
		failed = 1
	}
	printf "# %d lines: %d in their order, %d missing with a reason\n", rows, same, explained
	if (!failed) print "ok " ++n " the lines of a load"
	print "1.." n
	exit failed
}' "$(dirname "$0")/load" /tmp/log
