#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# hive_reset.sh ROUNDS: one of two GPUs of a hive hangs: both are reset together, come back and reach
# each other's memory. Where the other one is not bound, the one that hangs stays as it is.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh

# wait_for COUNT PATTERN: waits until the log has so many such lines since the mark
wait_for() {
	tries=0
	until [ "$(since_mark | grep -c "$2")" -ge "$1" ]; do
		[ $tries -lt 120 ] || return 1
		tries=$((tries + 1))
		sleep 1
	done
}
hang() {
	mark
	tell hubs silent
	! RKFD_TIMEOUT=10 /rkfd/clients/one_copy >/dev/null 2>&1
}

load_rkfd reset=255
rounds=$1
# shellcheck disable=SC2046
set -- $(basename -a /sys/bus/pci/drivers/rkfd/????:*)
round=0
while [ $round -lt "$rounds" ]; do
	round=$((round + 1))
	# So the GPU of the model that is told comes first, which one_copy takes.
	echo "$2" >/sys/bus/pci/drivers/rkfd/unbind
	echo "$2" >/sys/bus/pci/drivers/rkfd/bind
	hang && wait_for 2 'GPU reset succeeded' && wait_for 2 'MiB of VRAM, gpu_id'
	result $? "round $round: both are reset"
	since_mark | grep -q 'another GPU of its hive is reset'
	result $? "round $round: the other one says why"
	[ "$(links)" = 2 ] && /rkfd/kselftest/hive -t vram -t copies >/tmp/hive-after
	result $? "round $round: they reach each other" || sed 's/^/# /' /tmp/hive-after
done

echo "$2" >/sys/bus/pci/drivers/rkfd/unbind
hang && wait_for 1 'the GPU is not reset, and stays as it is: .*: XGMI joins it to others'
result $? "without the other one it stays as it is"
finish
