#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# hive_faults.sh: two GPUs of a hive, of which the first one's application for XGMI answers with
# errors or nonsense: one line says why the GPUs do not use XGMI, they show no link, and work alone.
# Members come and go in any order.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh

members() {
	cat /sys/bus/pci/drivers/rkfd/????:*/xgmi_physical_id 2>/dev/null | wc -l
}

begin
# wrong FAULT TEXT MEMBERS
wrong() {
	tell psp-fault none
	tell psp-fault "$1"
	mark
	load_rkfd
	bound && one "XGMI is not used: $2" && [ "$(links)" = 0 ] && [ "$(members)" = "$3" ] &&
		/rkfd/clients/one_copy >/dev/null
	result $? "$1"
	unload
}
wrong ta=unloaded 'the PSP refuses to load its application for XGMI: status 0xffff000f' 1
wrong ta=silent 'command 0x0 has no answer' 1
wrong ta=0x9 'command 0x0: status 0x9' 1
wrong ta=no-hive 'the hive has the number 0' 1
wrong ta=twice 'two GPUs have the number 0x8c3102f477000101' 1
wrong ta=no-hops '0 hops lead to GPU 0x8c3102f477000101' 1
wrong ta=many-links '9 links leave a GPU, which has 8 ports' 1
tell psp-fault none

mark
load_rkfd
[ "$(links)" = 2 ] && [ "$(members)" = 2 ] && [ -z "$(said)" ]
result $? "without faults they are a hive"
# shellcheck disable=SC2046
set -- $(basename -a /sys/bus/pci/drivers/rkfd/????:*)
for gone in "$1" "$2" "$2" "$1"; do
	echo "$gone" >/sys/bus/pci/drivers/rkfd/unbind
	[ "$(links)" = 0 ] && [ "$(members)" = 1 ]
	result $? "$gone goes"
	echo "$gone" >/sys/bus/pci/drivers/rkfd/bind
	[ "$(links)" = 2 ] && [ "$(members)" = 2 ] && [ -z "$(said)" ]
	result $? "it comes back"
done
[ "$(cat /sys/bus/pci/devices/"$1"/xgmi_num_links)" = "00 04 " ] ||
	[ "$(cat /sys/bus/pci/devices/"$1"/xgmi_num_links)" = "04 00 " ]
result $? "four links join them"
finish
