#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Unloads the module, if it is loaded. A process that has closed its files holds it until a work item has taken back what
# it had: that is waited for, 20 seconds at most.
tries=0
while [ -e /sys/module/rkfd ] && ! rmmod rkfd 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 200 ] || exec rmmod rkfd
	sleep 0.1
done
