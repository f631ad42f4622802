#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Unloads and loads the module 20 times: debugfs' counts begin at the same base line each time, and
# a copy still works. RKFD_MODULE names the module file.

module=${RKFD_MODULE:-/rkfd/rkfd.ko}
cycles=20
[ "${RKFD_QUICK:-0}" = 0 ] || cycles=4
here=$(dirname "$0")

objects() {
	cat /sys/kernel/debug/rkfd/*/objects 2>/dev/null
}

parameters() {
	for file in /sys/module/rkfd/parameters/*; do
		[ -r "$file" ] && echo "${file##*/}=$(cat "$file")"
	done
}

if [ ! -e /dev/kfd ] || [ ! -e "$module" ]; then
	echo "TAP version 13"
	echo "1..0 # SKIP no /dev/kfd, or no $module"
	exit 4
fi

. /rkfd/clients/tap.sh
params=$(parameters | tr '\n' ' ')
[ "$(objects)" != "" ]
result $? "debugfs counts objects"

base=
cycle=0
wrong=
while [ $cycle -lt $cycles ]; do
	cycle=$((cycle + 1))
	unload.sh || { wrong="rmmod in cycle $cycle"; break; }
	[ ! -e /dev/kfd ] || { wrong="/dev/kfd left by cycle $cycle"; break; }
	# The parameters are names and numbers, and may split into words.
	# shellcheck disable=SC2086
	insmod "$module" $params || { wrong="insmod in cycle $cycle"; break; }
	now=$(objects)
	[ -n "$base" ] || base=$now
	[ "$now" = "$base" ] || { wrong="another base line in cycle $cycle"; break; }
	"$here/one_copy" || { wrong="no copy in cycle $cycle"; break; }
	waited=0
	while [ "$(objects)" != "$base" ] && [ $waited -lt 6000 ]; do
		waited=$((waited + 1))
		sleep 0.02
	done
	[ "$(objects)" = "$base" ] || { wrong="left behind in cycle $cycle"; break; }
done
[ -z "$wrong" ] || {
	echo "# $wrong"
	objects | sed 's/^/# /'
}
[ -z "$wrong" ]
result $? "$cycle of $cycles times rmmod, insmod and a copy"
finish
