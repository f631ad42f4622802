#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For shell programs that print TAP: . /rkfd/clients/tap.sh, then a result for each condition, then
# finish.
n=0
bad=0
echo "TAP version 13"

# result STATUS NAME: returns STATUS
result() {
	n=$((n + 1))
	[ "$1" = 0 ] && echo "ok $n $2" && return
	echo "not ok $n $2"
	bad=1
	return "$1"
}

# skip NAME WHY
skip() {
	n=$((n + 1))
	echo "ok $n $1 # SKIP $2"
}

# bail TEXT: ends the program, which can't go on
bail() {
	echo "Bail out! $*"
	exit 1
}

# finish: prints the plan; true if all was well
finish() {
	echo "1..$n"
	return $bad
}
