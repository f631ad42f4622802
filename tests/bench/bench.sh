#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Measures with scheduled, followed and direct SDMA queues, then compute queues with
# both schedulers, reloading the module between them, and prints tables.
# RKFD_MODULE names the module file; the argument "compute" leaves out all but
# compute queues, "small" all but small copies.

module=${RKFD_MODULE:-/rkfd/rkfd.ko}
here=$(dirname "$0")
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT

# The letter that names the results, the module's parameter, the measurement.
measure() {
	rmmod rkfd && insmod "$module" "$2" || {
		echo "bench: the module does not load with $2"
		exit 1
	}
	echo "bench: measuring with $2" >&2
	# shellcheck disable=SC2086
	"$here/bench" $3 >"$out/$1.$round" || {
		cat "$out/$1.$round"
		exit 1
	}
}

[ -e /dev/kfd ] || exit 4
# Each mode twice, in turn, so that a busy moment of the host hits both.
for round in 1 2; do
	if [ "$1" = small ]; then
		measure u sdma_sched=0 small
		measure s sdma_sched=1 small
		continue
	fi
	if [ "$1" != compute ]; then
		measure u sdma_sched=0 copies
		measure s sdma_sched=1 "$([ $round = 1 ] && echo copies)"
		measure f sdma_sched=2 copies
		measure v svm=1 svm
	fi
	measure d sched=direct compute
	measure h sched=hws compute
done

small=
[ "$1" != small ] || small=1
awk -v small=$small -v copies="$([ -e "$out/s.1" ] && echo 1)" '
function size_name(n) {
	if (n >= 1073741824) return n / 1073741824 " GiB"
	if (n >= 1048576) return n / 1048576 " MiB"
	if (n >= 1024) return n / 1024 " KiB"
	return n ? n " B" : "-"
}
# Rows that both modes have, with their ratio.
function table(title, one, other, one_name, other_name,    i, key, part, a, b) {
	printf "%-17s %9s %12s %12s %8s  %s\n", title, "size", one_name, other_name, "ratio", "unit"
	for (i = 1; i <= n; i++) {
		key = order[i]
		if (!((one " " key) in value) || !((other " " key) in value)) continue
		split(key, part, " ")
		a = value[one " " key]
		b = value[other " " key]
		printf "%-17s %9s %12s %12s %8.2f  %s\n", part[1], size_name(part[2]), a, b, b ? a / b : 0, unit[key]
	}
}
# Of the two rounds the better one: least time, most of anything else.
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
	if (copies) {
		table("copy", "s", "u", "scheduled", "direct")
		if (small)
			exit
		print ""
		table("copy", "f", "u", "followed", "direct")
		printf "\n%-17s %9s %12s  %s\n", "operation", "size", "value", "unit"
		for (i = 1; i <= n; i++) {
			key = order[i]
			id = ("v " key) in value ? "v " key : "s " key
			if (("u " key) in value || !(id in value)) continue
			split(key, part, " ")
			printf "%-17s %9s %12s  %s\n", part[1], size_name(part[2]), value[id], unit[key]
		}
		print ""
	}
	table("compute", "d", "h", "direct", "hws")
}' "$out"/*
