#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# hive.sh: a die of MI250 that XGMI joins to another one, which no driver has. It works by itself,
# shows its hive and no link, and is not reset alone.
# hive.sh impossible: registers place it outside of its hive: it is left alone, with one line.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh

if [ "${1:-}" = impossible ]; then
	device=$(basename "$(dirname "$(grep -l 0x740c /sys/bus/pci/devices/*/device)")")
	unmapped=$(mappings)
	mark
	load_rkfd
	! bound
	result $? "it is not used"
	one 'the GPU is left alone: its registers contradict each other (node 3 of a hive of 2, segments of 8192 MiB)'
	result $? "one line"
	nothing_left
	result $? "nothing is left"
	unload
	finish
	exit
fi

begin
mark
load_rkfd probe_only=1
since_mark |
	grep -q 'MiB of VRAM, die 1, posted, XGMI: node 1 of a hive of 2, segments of 8192 MiB'
result $? "probe_only tells its place"
unload
mark
load_rkfd
works
result $? "a copy arrives"
for node in /sys/class/kfd/kfd/topology/nodes/*; do
	[ "$(cat "$node/gpu_id")" = 0 ] || break
done
# property NAME VALUE
property() {
	grep -q "^$1 $2\$" "$node/properties"
	result $? "$1 is $2"
}
property device_id 29708
property hive_id 364129961858474
property num_sdma_xgmi_engines 3
# file NAME VALUE
file() {
	[ "$(cat "/sys/bus/pci/devices/$device/$1")" = "$2" ]
	result $? "$1 is $2"
}
file xgmi_device_id 10101858688160497921
file xgmi_physical_id 1
file xgmi_num_hops "00 "
file xgmi_num_links "00 "
file xgmi_hive_info/xgmi_hive_id 364129961858474
[ "$(cat "$node"/io_links/*/properties | grep -c '^type 11$')" = 0 ]
result $? "no link is of XGMI"
tell sensors power=287
usleep 30000
[ "$(cat /sys/bus/pci/devices/"$device"/hwmon/hwmon*/power1_average)" = 0 ]
result $? "only the first die tells the power"

tell hubs silent
RKFD_TIMEOUT=10 /rkfd/clients/one_copy >/dev/null 2>&1 && bail "a copy arrives though no hub answers"
tries=0
why='the GPU is not reset, and stays as it is: .*: XGMI joins it to others'
until since_mark | grep -q "$why" || [ $tries = 120 ]; do
	tries=$((tries + 1))
	sleep 1
done
[ $tries -lt 120 ]
result $? "a GPU that hangs stays as it is"
tell hubs answer
unload
tell power warm
load_rkfd
! since_mark | grep -q 'GPU reset begin'
result $? "it was not reset"
works
result $? "after power was off it works"
finish
