#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For shell programs that check the end of a probe: . /rkfd/clients/probe.sh, after tap.sh, model.sh
# and drivers.sh. The module is loaded and has a GPU; begin notes the state of that, and unloads it.

unload() {
	/rkfd/clients/unload.sh || bail "the module does not go"
}

# works: the GPU is bound, nothing was left, and a copy arrives
works() {
	bound && [ "$(cat /sys/kernel/debug/rkfd/*/objects)" = "$base" ] && /rkfd/clients/one_copy >/dev/null
}

# links: how many links by XGMI the topology has
links() {
	cat /sys/class/kfd/kfd/topology/nodes/*/io_links/*/properties | grep -c '^type 11$'
}

mark() {
	lines=$(dmesg | wc -l)
}

# since_mark [OPTION]: the kernel's log since the mark
since_mark() {
	dmesg "$@" | tail -n +$((lines + 1))
}

# The driver's messages since the mark, from warnings up, except the one that probe has failed.
said() {
	since_mark -r | grep '^<[1-4]>.* rkfd ' |
		grep -v 'the GPU cannot be used: \|probe with driver rkfd failed with error'
}

# one PATTERN: there was one line, and it matches
one() {
	said >/tmp/said
	[ "$(wc -l </tmp/said)" = 1 ] && grep -q "$1" /tmp/said && return
	sed 's/^/# /' /tmp/said
	return 1
}

# Resources that a device without a driver does not hold: mappings, memory of its BARs, interrupts,
# nodes.
mappings() {
	grep -c 'phys=' /proc/vmallocinfo
}
nothing_left() {
	[ "$(cat "/sys/bus/pci/devices/$device/enable")" = 0 ] && ! grep -q rkfd /proc/iomem /proc/interrupts &&
		[ ! -e /dev/dri/renderD128 ] && [ "$(mappings)" = "$unmapped" ]
}

begin() {
	device=$(basename "$(echo /sys/bus/pci/drivers/rkfd/????:*)")
	[ -e "/sys/bus/pci/devices/$device" ] || bail "no device"
	base=$(cat /sys/kernel/debug/rkfd/*/objects)
	unload
	unmapped=$(mappings)
}
