#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# unload.sh [MODULE]: unloads rkfd or that module, if it is loaded. A process that has closed its
# files holds it until a work item has freed its objects: the script waits for that, two minutes at
# most.
module=${1:-rkfd}
tries=0
while [ -e "/sys/module/$module" ] && ! rmmod "$module" 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 1200 ] || exec rmmod "$module"
	sleep 0.1
done
