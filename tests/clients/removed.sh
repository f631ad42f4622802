#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# removed.sh TIMES: the GPU is pulled out during its probe, at TIMES moments, spread over the
# accesses to its registers; and during its reset after a hang, at four moments, with more than
# three TIMES at twenty. That ends soon, with one line about it, and nothing is left behind; when
# the GPU is put in again it works. Only with the model, which is told to be gone
# (Documentation/model-firmware.md).
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh
times=${1:-3}
# Timeout of a probe or a reset on a busy machine, seconds: later means a hang.
most=120

accesses() {
	echo "$(counted registers.reads) + $(counted registers.writes)"
}

# The time since boot, hundredths of a second.
now() {
	cut -d' ' -f1 /proc/uptime | tr -d .
}

# until_holds CONDITION: true if it does before long; $took is the time in hundredths of a second.
until_holds() {
	start=$(now)
	while ! eval "$1"; do
		took=$(($(now) - start))
		[ $took -lt $((most * 100)) ] || return 1
		usleep 20000
	done
	took=$(($(now) - start))
}

# new PATTERN: true if the log has that since the mark
new() {
	since_mark | grep -q "$1"
}

gone_is_told() {
	since_mark | grep 'rkfd .*the GPU cannot be used' >/tmp/gone
	[ "$(wc -l </tmp/gone)" = 1 ] && grep -q 'the GPU cannot be used: ENODEV: it is gone from the bus$' /tmp/gone && return
	sed 's/^/# /' /tmp/gone
	return 1
}

again() {
	unload
	tell power cold
	load_rkfd reset=255
	works
	result $? "$1: it works when it was put in again"
}

# The client of a hang ends: it may wait for a copy for as long as it lives.
leave() {
	kill -KILL $client 2>/dev/null
	wait
}

# Makes the driver notice that a hub does not answer, which leads to a reset of the GPU.
hang() {
	mark
	tell hubs silent
	/rkfd/clients/one_copy >/dev/null 2>&1 &
	client=$!
	until_holds 'new "does not answer a flush"'
	result $? "$1: the driver finds it"
}

begin
tell power cold
before=$(accesses)
load_rkfd reset=255
works || bail "no GPU"
probe=$(($(accesses) - (before)))
echo "# a probe and a copy: $probe accesses to registers"
i=0
while [ $i -lt "$times" ]; do
	i=$((i + 1))
	# A copy has a tenth of them.
	at=$((probe * 9 / 10 * i / (times + 1)))
	unload
	tell power cold
	tell remove $at
	mark
	start=$(now)
	load_rkfd reset=255
	took=$(($(now) - start))
	echo "# $took / 100 s"
	said | sed 's/^/# /'
	! bound && gone_is_told
	result $? "probe, gone after $at accesses: one line, ENODEV"
	nothing_left
	result $? "probe, gone after $at accesses: nothing is left"
	again "probe, gone after $at accesses"
done

hang "a hang"
until_holds 'new "AMD Instinct"'
leave
until_holds 'works 2>/dev/null'
result $? "a hang: it comes back and works"
offsets=0
[ "$times" -le 3 ] || offsets='0 10 30 90 200'
# From the first command to the board's firmware on: when engines stop in unbind, when it is reset,
# when it is probed after that.
while read -r at line; do
	name="reset, gone $at accesses after '$line'"
	tell remove $at "$line"
	hang "$name"
	until_holds 'new "gone from the bus\|does not come back"'
	result $? "$name: one line"
	echo "# $took / 100 s"
	leave
	until_holds nothing_left
	result $? "$name: nothing is left"
	said | grep -v 'is lost' | sed 's/^/# /'
	again "$name"
done <<EOF
$(for at in $offsets; do
	printf '%s\n' "$at engine sdma0 stop" "$at smu 0x3" "$at bl" "$at engine mec start"
done)
EOF
finish
