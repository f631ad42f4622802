#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# swap.sh COMMAND...: runs a command with swap, on a disk in memory, which has to be there as a module; without it
# where there is none.

[ -e /dev/kfd ] || exit 4
modprobe brd rd_nr=1 rd_size=131072 2>/dev/null
mkswap /dev/ram0 >/dev/null 2>&1 && swapon /dev/ram0 && export RKFD_SWAP=1
"$@"
status=$?
if [ -n "$RKFD_SWAP" ]; then
	echo "# pages swapped out: $(sed -n 's/^pswpout //p' /proc/vmstat), in: $(sed -n 's/^pswpin //p' /proc/vmstat)"
	swapoff /dev/ram0
fi
rmmod brd 2>/dev/null
exit $status
