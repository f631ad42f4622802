#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# run.sh CLIENT: runs a client of this folder in the guest, in the root that scripts/suite has made of
# Debian's packages. Prints TAP.
here=$(dirname "$0")

# gtest PROGRAM [FILTER]: the program's own tests, a result for each. A program that ends otherwise
# than by its own account, or has no test, has failed as a whole.
gtest() {
	local rc=0
	echo "# $*"
	"/$1" --gtest_color=no --gtest_filter="${2:-*}" 2>&1 || rc=$?
	echo "[ status ] $rc ${1##*/}"
}

# check NAME COMMAND...: one test, which passes when the command does.
check() {
	local name=$1 rc=0
	shift
	echo "# $*"
	"$@" 2>&1 || rc=$?
	if [ $rc = 0 ]; then
		echo "[       OK ] $name"
	else
		echo "[  FAILED  ] $name (status $rc)"
	fi
}

tap() {
	awk '
	# At its end gtest lists skipped and failed tests again.
	/^\[==========\] .* ran\./ { listed = 1 }
	/^\[ status \]/ {
		if ($4 && !failed) printf "not ok %d %s ended with status %d\n", ++n, $5, $4
		else if (!results) printf "not ok %d %s has no such test\n", ++n, $5
		listed = failed = results = 0
		next
	}
	/^\[       OK \]/ { results++; printf "ok %d %s\n", ++n, name($0); fflush(); next }
	/^\[  SKIPPED \]/ && !listed { results++; printf "ok %d %s # SKIP\n", ++n, name($0); fflush(); next }
	/^\[  FAILED  \]/ && !listed { failed++; results++; printf "not ok %d %s\n", ++n, name($0); fflush(); next }
	{ print "# " $0; fflush() }
	function name(line) { sub(/^\[[ A-Z]*\] /, "", line); gsub(/#/, "no.", line); return line }
	END { printf "1..%d\n", n }'
}

. "$here/$1.sh"
run | tap
