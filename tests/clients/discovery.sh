#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The discovery table of a gfx942 at the top of VRAM: what the driver says it has, shows of it in
# sysfs, and refuses: a damaged table, and a chip whose parts do not fit each other. No module is loaded at
# the beginning.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh

device=$(basename "$(dirname "$(grep -l 0x74a1 /sys/bus/pci/devices/*/device)")")
[ -e "/sys/bus/pci/devices/$device" ] || bail "no device"
unmapped=$(mappings)

found() {
	since_mark | grep 'discovery table: ' >/tmp/found
	[ "$(wc -l </tmp/found)" = 1 ] &&
		grep -q ' 0 of them fused off: 1 XCCs of 4 engines with 1 arrays of 10 CUs, 1 MMHUBs, 4 SDMA engines' /tmp/found &&
		grep -q 'GC 9.4.3, MMHUB 1.8.0, SDMA 4.4.2, NBIO 7.9.0' /tmp/found && return
	sed 's/^/# /' /tmp/found
	return 1
}

mark
load_rkfd probe_only=1
found
result $? "probe_only says what the table has"
! bound
result $? "probe_only binds nothing"
unload
nothing_left
result $? "probe_only leaves nothing"

mark
load_rkfd
found
result $? "probe says what the table has"
bound
result $? "the GPU is bound"
/rkfd/clients/one_copy >/dev/null
result $? "it copies"

# shown ENTRY FILE VALUE: what sysfs shows of an entry
shown() {
	value=$(cat "/sys/bus/pci/devices/$device/ip_discovery/die/0/$1/$2" | tr '\n' ' ')
	[ "$value" = "$3 " ]
	result $? "ip_discovery, $1: $2 $value"
}
shown . num_ips 14
shown GC/0 hw_id 11
shown GC/0 major 9
shown GC/0 minor 4
shown 11/0 revision 3
shown 11/0 num_base_addresses 2
shown 11/0 base_addr '0x00002000 0x0000A000'
shown SDMA0/3 num_instance 3
shown SDMA0/3 harvest 0x0
shown SDMA0/3 base_addr 0x00019800
shown NBIF/0 hw_id 108
[ "$(ls "/sys/bus/pci/devices/$device/ip_discovery/die/0" | wc -l)" = 23 ]
result $? "eleven blocks, each by id and name"
unload
nothing_left
result $? "nothing is left"

# bar NUMBER: its address
bar() {
	sed -n "$(($1 + 1))p" "/sys/bus/pci/devices/$device/resource" | cut -d' ' -f1
}
echo 1 >"/sys/bus/pci/devices/$device/enable"
size=$(devmem $(($(bar 5) + 4 * 0xde3)) 32)
table=$(($(bar 0) + size * 1048576 - 65536))
# left_alone TEXT REASON: a load leaves the card alone and says so in one line
left_alone() {
	echo 0 >"/sys/bus/pci/devices/$device/enable"
	mark
	load_rkfd
	one "the GPU is left alone: $2"
	result $? "$1: one line"
	! bound
	result $? "$1: it is left alone"
	unload
	echo 1 >"/sys/bus/pci/devices/$device/enable"
}
# refused BYTE VALUE, WHAT THE LOG SAYS
refused() {
	before=$(devmem $((table + $1)) 8)
	devmem $((table + $1)) 8 "$2"
	left_alone "byte $1 is damaged" "its discovery table at the top of VRAM: $3"
	devmem $((table + $1)) 8 "$before"
}
refused 3 0 'it begins with 0x00211407'
refused 4 9 'it is of unknown version 9\.'
refused 100 $(($(devmem $((table + 100)) 8) ^ 255)) 'it is damaged: its bytes sum up to '

# The entry of ATHUB (id 35, two bases) becomes one of a second MMHUB (id 34, number 1), which leaves
# the sums as they are.
entry=$table
until [ $(($(devmem $entry 32))) = $((0x02000023)) ]; do
	entry=$((entry + 4))
	[ $entry -lt $((table + 4096)) ] || bail "no entry of ATHUB"
done
devmem $entry 32 0x02010022
left_alone "two MMHUBs" 'it has 1 XCCs and 2 MMHUBs, which do not belong to its SDMA engines'
devmem $entry 32 0x02000023

echo 0 >"/sys/bus/pci/devices/$device/enable"
mark
load_rkfd
bound
result $? "the table is whole again"
unload
finish
