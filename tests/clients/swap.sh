#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# swap.sh COMMAND...: runs a command with swap, on a disk in memory, for which there must be a
# module; without swap if there is none. Behind a loop device the kernel takes it for a real disk,
# for which pages stay in the swap cache.

[ -e /dev/kfd ] || exit 4
modprobe brd rd_nr=1 rd_size=131072 2>/dev/null
disk=/dev/ram0
modprobe loop 2>/dev/null && losetup /dev/loop0 $disk && disk=/dev/loop0
if [ -b $disk ]; then
	mkswap $disk >/dev/null && swapon $disk || { echo "Bail out! no swap on $disk"; exit 1; }
	export RKFD_SWAP=1
fi
"$@"
status=$?
if [ -n "$RKFD_SWAP" ]; then
	echo "# pages swapped out: $(sed -n 's/^pswpout //p' /proc/vmstat), in: $(sed -n 's/^pswpin //p' /proc/vmstat)"
	swapoff $disk
fi
[ $disk = /dev/ram0 ] || losetup -d $disk
rmmod loop brd 2>/dev/null
exit $status
