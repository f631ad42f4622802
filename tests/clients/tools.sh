#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What rocm-smi, amd-smi and nvtop show of the GPU, with a process that works and without, as TAP. What only the SMU's firmware knows
# they are not to show.
out=/tmp/tools.$$
rocm='python3 /usr/libexec/rocm_smi/rocm_smi.py'
amd='python3 /usr/libexec/amdsmi_cli/amdsmi_cli.py'
device=$(echo /sys/class/drm/card*/device)
vram=$(cat "$device/mem_info_vram_total")

# check STATUS NAME: with what the tool printed, where it does not hold
check() {
	result "$1" "$2" || sed 's/^/# /' $out
}

# tool NAME COMMAND: runs it; what it prints is looked at afterwards
tool() {
	name=$1
	echo "# $name"
	suite trixie-smi "$2" >$out 2>&1
	check $? "$name exits 0"
	! grep -iE 'error|warning|traceback|exception|unable|cannot|fail' $out
	check $? "$name prints no line of an error"
}

# shows NAME REGULAR EXPRESSION: whether there is such a line, blanks made one
shows() {
	tr -s ' \t' ' ' <$out | grep -qE "$2"
	check $? "$name: $1"
}

# waits_for BUSY: until the GPU is as busy as that
waits_for() {
	i=0
	while [ "$(cat "$device/gpu_busy_percent")" != "$1" ] && [ $i -lt 600 ]; do
		i=$((i + 1))
		usleep 200000
	done
}

# what BUSY VRAM: what all of them show
what() {
	tool "rocm-smi, $1 %" "$rocm --showproductname --showmeminfo vram gtt vis_vram --showuse --showpids"
	shows 'vendor' '^GPU\[0\] : Card Vendor: Advanced Micro Devices'
	shows 'model' '^GPU\[0\] : Card Series: .*MI210'
	shows 'use' "^GPU\[0\] : GPU use \(%\): $1\$"
	shows 'VRAM' "^GPU\[0\] : VRAM Total Memory \(B\): $vram\$"
	shows 'VRAM in use' "^GPU\[0\] : VRAM Total Used Memory \(B\): $2\$"
	shows 'GTT' '^GPU\[0\] : GTT Total Memory \(B\): [1-9]'
	shows 'visible VRAM' "^GPU\[0\] : VIS_VRAM Total Memory \(B\): $vram\$"
	if [ "$1" = 0 ]; then
		shows 'no process' '^No KFD PIDs currently running'
	else
		shows 'process' "^$pid at_work 1 67108864 [1-9][0-9]* "
	fi

	tool "amd-smi, $1 %" "$amd process"
	if [ "$1" = 0 ]; then
		shows 'no process' 'PROCESS_INFO: No running processes'
	else
		shows 'name' 'NAME: .*at_work'
		shows 'process' " PID: $pid\$"
		shows 'VRAM' ' VRAM_MEM: 6[4-9](\.[0-9]+)? MB'
	fi

	tool "nvtop, $1 %" 'nvtop -s'
	shows 'name' '"device_name": "AMD Instinct MI210"'
	shows 'use' "\"gpu_util\": \"$1%\""
	shows 'memory' '"mem_util": "[0-9]+%"'
	for absent in temp fan_speed power_draw gpu_clock mem_clock; do
		shows "no $absent" "\"$absent\": null"
	done
}

. /rkfd/clients/tap.sh
tool 'amd-smi list' "$amd list"
shows 'place' ' BDF: 0000:'
waits_for 0
what 0 '[0-9]{1,7}'
at_work >/dev/null &
pid=$!
waits_for 100
what 100 '[0-9]{8,}'
tool 'nvtop on a terminal' 'python3 /rkfd/clients/screen.py 20 nvtop'
shows 'name' 'AMD Instinct MI210'
shows 'process' 'at_work'
kill -9 $pid
rm -f $out
finish
