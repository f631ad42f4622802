#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# names.sh WANT: with amdgpu_names=WANT of the module, that name is where it ought to be, and
# nowhere else.
. /rkfd/clients/tap.sh
folder=/sys/module/amdgpu
device=$(echo /sys/bus/pci/drivers/rkfd/????:*)
sensors=$(cat "$device"/hwmon/hwmon*/name) || bail "no sensors"
if [ "$1" = 1 ]; then
	[ "$(cat $folder/initstate)" = live ] && [ -e $folder/parameters/cwsr_enable ] &&
		[ -e "$folder/drivers/pci:amdgpu/$(basename "$device")" ]
	result $? "the folder of a module"
	[ "$sensors" = amdgpu ]
	result $? "sensors"
else
	[ ! -e $folder ]
	result $? "no folder of a module"
	[ "$sensors" = rkfd ]
	result $? "sensors have the driver's own name"
fi
/rkfd/clients/one_copy >/dev/null
result $? "a copy arrives"
finish
