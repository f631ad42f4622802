#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# clinfo's output about the GPU, as TAP.
out=/tmp/clinfo.$$
clinfo >$out 2>&1
rc=$?

# says NAME REGULAR EXPRESSION: true if there is a line of just that
says() {
	sed 's/  */ /g; s/^ //; s/ $//' $out | grep -qxE "$1 $2"
	result $? "$1"
}

. /rkfd/clients/tap.sh
result $rc "clinfo exits 0"
says 'Number of platforms' 1
says 'Platform Name' 'AMD Accelerated Parallel Processing'
says 'Number of devices' 1
# The two chips that the model can be.
if grep -q 0x74a1 /sys/class/drm/renderD128/device/device; then
	xccs=$(sed -n 's/^num_xcc //p' /sys/class/kfd/kfd/topology/nodes/*/properties | sort -n | tail -n 1)
	name=gfx942 card=MI300X cus=$((38 * xccs))
else
	name=gfx90a card=MI210 cus=104
fi
says 'Device Name' "$name:sramecc\\+:xnack-"
says 'Device Board Name \(AMD\)' "AMD Instinct $card"
says 'Device Type' 'GPU'
says 'Max compute units' $cus
says 'Preferred work group size multiple \(kernel\)' 64
says 'Local memory size' '65536 \(64KiB\)'
says 'Compiler Available' 'Yes'
[ "$KTAP_CNT_FAIL" = 0 ] || sed 's/^/# /' $out
rm -f $out
finish
