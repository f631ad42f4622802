#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# tools.sh [sensors]: the output of rocm-smi, amd-smi and nvtop about the GPUs, with a process that
# works on the first one and without, as TAP. They must not show figures that only the SMU's
# firmware knows. With sensors: only those figures, of a board whose SMU runs, with the values that
# the model is given.
out=/tmp/tools.$$
rocm='python3 /usr/libexec/rocm_smi/rocm_smi.py'
amd='python3 /usr/libexec/amdsmi_cli/amdsmi_cli.py'
mode=${1:-}
# shellcheck disable=SC2046
set -- $(echo /sys/class/drm/card*/device)
gpus=$# device=$1
vram=$(cat "$device/mem_info_vram_total")

# check STATUS NAME: prints the tool's output if the check fails
check() {
	result "$1" "$2" || sed 's/^/# /' $out
}

# tool NAME COMMAND: runs it; its output is checked afterwards
tool() {
	name=$1
	echo "# $name"
	suite trixie-smi "$2" >$out 2>&1
	check $? "$name exits 0"
	! grep -iE 'error|warning|traceback|exception|unable|cannot|fail' $out
	check $? "$name prints no line of an error"
}

# shows NAME REGULAR EXPRESSION: true if there is such a line, with blanks merged
shows() {
	tr -s ' \t' ' ' <$out | grep -qE "$2"
	check $? "$name: $1"
}

# so_many COUNT NAME REGULAR EXPRESSION: true if there are COUNT such lines
so_many() {
	[ "$(tr -s ' \t' ' ' <$out | grep -cE "$3")" = "$1" ]
	check $? "$name: $2, $1 times"
}

# waits_for BUSY: until the GPU has that load
waits_for() {
	i=0
	while [ "$(cat "$device/gpu_busy_percent")" != "$1" ] && [ $i -lt 600 ]; do
		i=$((i + 1))
		usleep 200000
	done
}

# what BUSY VRAM: the output of all of them
what() {
	tool "rocm-smi, $1 %" "$rocm --showproductname --showmeminfo vram gtt vis_vram --showuse --showpids"
	shows 'vendor' '^GPU\[0\] : Card Vendor: Advanced Micro Devices'
	shows 'model' '^GPU\[0\] : Card Series: .*MI210'
	shows 'use' "^GPU\[0\] : GPU use \(%\): $1\$"
	shows 'VRAM' "^GPU\[0\] : VRAM Total Memory \(B\): $vram\$"
	shows 'VRAM in use' "^GPU\[0\] : VRAM Total Used Memory \(B\): $2\$"
	shows 'GTT' '^GPU\[0\] : GTT Total Memory \(B\): [1-9]'
	shows 'visible VRAM' "^GPU\[0\] : VIS_VRAM Total Memory \(B\): $vram\$"
	# The others are idle.
	so_many $gpus 'model' '^GPU\[[0-9]\] : Card Series: .*MI210'
	so_many $((gpus - 1)) 'no use of others' '^GPU\[[1-9]\] : GPU use \(%\): 0$'
	so_many $((gpus - 1)) 'no VRAM of others in use' '^GPU\[[1-9]\] : VRAM Total Used Memory \(B\): [0-9]{1,7}$'
	if [ "$1" = 0 ]; then
		shows 'no process' '^No KFD PIDs currently running'
	else
		shows 'process' "^$pid at_work 1 67108864 [1-9][0-9]* "
	fi

	tool "amd-smi, $1 %" "$amd process"
	if [ "$1" = 0 ]; then
		so_many $gpus 'no process' 'PROCESS_INFO: No running processes'
	else
		shows 'name' 'NAME: .*at_work'
		shows 'process' " PID: $pid\$"
		shows 'VRAM' ' VRAM_MEM: 6[4-9](\.[0-9]+)? MB'
		so_many $((gpus - 1)) 'no process elsewhere' 'PROCESS_INFO: No running processes'
	fi

	tool "nvtop, $1 %" 'nvtop -s'
	so_many $gpus 'name' '"device_name": "AMD Instinct MI210"'
	shows 'use' "\"gpu_util\": \"$1%\""
	[ "$1" = 0 ] || so_many $((gpus - 1)) 'no use of others' '"gpu_util": "0%"'
	so_many $gpus 'memory' '"mem_util": "[0-9]+%"'
	for absent in temp fan_speed power_draw gpu_clock mem_clock; do
		so_many $gpus "no $absent" "\"$absent\": null"
	done
}

# sensors: the tools' output about them
sensors() {
	. /rkfd/clients/model.sh
	tell sensors default edge=51 junction=63 mem=70 power=287 sclk=1650 mclk=1600
	tool 'rocm-smi' "$rocm --showtemp --showpower --showvoltage --showenergycounter --showuniqueid"
	shows 'edge' '^GPU\[0\] : Temperature \(Sensor edge\) \(C\): 51\.0$'
	shows 'junction' '^GPU\[0\] : Temperature \(Sensor junction\) \(C\): 63\.0$'
	shows 'memory' '^GPU\[0\] : Temperature \(Sensor memory\) \(C\): 70\.0$'
	shows 'stack of memory' '^GPU\[0\] : Temperature \(Sensor HBM 3\) \(C\): 67\.0$'
	shows 'power' '^GPU\[0\] : Average Graphics Package Power \(W\): 287\.0$'
	shows 'voltage' '^GPU\[0\] : Voltage \(mV\): 850$'
	shows 'energy' '^GPU\[0\] : Accumulated Energy \(uJ\): [1-9]'
	shows 'number' '^GPU\[0\] : Unique ID: 0x1020390a00210$'

	tool 'amd-smi' "$amd metric --temperature --pcie"
	shows 'edge' ' EDGE: 51 .?.?C$'
	shows 'junction' ' HOTSPOT: 63 .?.?C$'
	shows 'memory' ' MEM: 70 .?.?C$'
	shows 'link' ' SPEED: 16 GT/s$'

	tool 'nvtop' 'nvtop -s'
	shows 'graphics clock' '"gpu_clock": "1650MHz"'
	shows 'memory clock' '"mem_clock": "1600MHz"'
	shows 'temperature' '"temp": "51C"'
	shows 'power' '"power_draw": "287W"'
	shows 'no fan' '"fan_speed": null'
	tell sensors default
}

. /rkfd/clients/tap.sh
if [ "$mode" = sensors ]; then
	sensors
	rm -f $out
	finish
	exit
fi
tool 'amd-smi list' "$amd list"
so_many $gpus 'place' ' BDF: 0000:'
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
wait $pid

# amd-smi adds up the values of a process's descriptors, though two of one file are the same: so it
# shows twice the VRAM of a program on libdrm, whatever the driver. nvtop and rocm-smi do not.
at_work twice >/dev/null &
pid=$!
waits_for 100
tool 'amd-smi, two descriptors' "$amd process"
shows 'VRAM' ' VRAM_MEM: 1(2[89]|3[0-9])(\.[0-9]+)? MB'
tool 'rocm-smi, two descriptors' "$rocm --showpids"
shows 'VRAM' "^$pid at_work 1 67108864 [1-9][0-9]* "
tool 'nvtop on a terminal, two descriptors' 'python3 /rkfd/clients/screen.py 20 nvtop'
shows 'VRAM' "$pid.* 6[4-9]MiB"
kill -9 $pid
rm -f $out
finish
