#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Memory that is lent to the GPU and swapped out: to a disk in memory, which has to be there as a module.

skip() {
	echo "TAP version 13"
	echo "1..1"
	echo "ok 1 # SKIP $1"
	exit 0
}

[ -e /dev/kfd ] || exit 4
[ -e /proc/swaps ] || skip "the kernel does not swap"
modprobe brd rd_nr=1 rd_size=131072 2>/dev/null || skip "no disk in memory"
mkswap /dev/ram0 >/dev/null && swapon /dev/ram0 || skip "no swap on /dev/ram0"
RKFD_SWAP=1 /rkfd/kselftest/userptr -t swapped
status=$?
swapoff /dev/ram0
rmmod brd
exit $status
