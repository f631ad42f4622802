#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Measures with scheduled and with direct queues, reloading the module between
# them, and prints one table. RKFD_MODULE names the module file.

module=${RKFD_MODULE:-/rkfd/rkfd.ko}
here=$(dirname "$0")
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

load() { # sdma_sched
	rmmod rkfd && insmod "$module" sdma_sched="$1" || {
		echo "bench: the module does not load with sdma_sched=$1"
		exit 1
	}
}

measure() { # sdma_sched, argument
	echo "bench: measuring with sdma_sched=$1" >&2
	# shellcheck disable=SC2086
	"$here/bench" $2 >"$out/$1.$round" || {
		cat "$out/$1.$round"
		exit 1
	}
}

[ -e /dev/kfd ] || exit 4
# Each mode twice, in turn, so that a busy moment of the host hits both.
for round in 1 2; do
	load 0
	measure 0 copies
	load 1
	measure 1 "$([ $round = 1 ] && echo copies)"
done

awk '
function size_name(n) {
	if (n >= 1073741824) return n / 1073741824 " GiB"
	if (n >= 1048576) return n / 1048576 " MiB"
	if (n >= 1024) return n / 1024 " KiB"
	return n ? n " B" : "-"
}
# Of the two rounds the better one: least time, most throughput.
$1 == "bench" {
	key = $2 " " $3
	mode = FILENAME
	sub(/.*\//, "", mode)
	mode = substr(mode, 1, 1)
	unit[key] = $5
	if (!(key in seen)) { seen[key] = 1; order[++n] = key }
	id = mode " " key
	if (!(id in value) || ($5 == "us" ? $4 < value[id] : $4 > value[id]))
		value[id] = $4
}
END {
	printf "%-16s %9s %12s %12s %8s  %s\n", "copy", "size", "scheduled", "direct", "ratio", "unit"
	for (i = 1; i <= n; i++) {
		key = order[i]
		if (!(("0 " key) in value) || !(("1 " key) in value)) continue
		split(key, part, " ")
		s = value["1 " key]; d = value["0 " key]
		printf "%-16s %9s %12.1f %12.1f %8.2f  %s\n", part[1], size_name(part[2]), s, d, d ? s / d : 0, unit[key]
	}
	printf "\n%-16s %9s %12s  %s\n", "operation", "size", "value", "unit"
	for (i = 1; i <= n; i++) {
		key = order[i]
		if (("0 " key) in value) continue
		split(key, part, " ")
		printf "%-16s %9s %12.1f  %s\n", part[1], size_name(part[2]), value["1 " key], unit[key]
	}
}' "$out"/1.* "$out"/0.*
