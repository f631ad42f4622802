#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# sensors.sh: whether the driver shows the values of the board's sensors (the model is given them),
# by hwmon, in gpu_metrics, byte for byte, and by AMDGPU_INFO. With rkfd also: a program that reads
# all the time does not keep the SMU busy, the results when the SMU refuses or does not answer, and
# the absence of sensors where nothing is measured. With amdgpu, which shows the same in the same
# places, this tests the model and this script.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
driver=amdgpu
[ ! -e /sys/module/rkfd ] || driver=rkfd
module=${RKFD_MODULE:-/rkfd/rkfd.ko}
device=$(realpath /sys/class/drm/renderD128/device) || bail "no device"
here=$(dirname "$0")

# A table is reused for some milliseconds.
pause() {
	usleep 30000
}

# sensor FILE VALUE
sensor() {
	value=$(cat "$device"/hwmon/hwmon*/"$1")
	[ "$value" = "$2" ]
	result $? "$1 is $2" || echo "# $value"
}

# info NAME NUMBER ANSWER: of AMDGPU_INFO, SENSOR
info() {
	value=$("$here/info_sensor" "$2")
	[ "$value" = "$3" ]
	result $? "AMDGPU_INFO says of $1: $3" || echo "# $value"
}

# Numbers of two bytes from gpu_metrics, in a line.
metrics() {
	cat "$device/gpu_metrics" >/tmp/metrics && od -An -v -tu2 -w120 /tmp/metrics
}

# long BYTE: a number of eight bytes at that place in the data of metrics
long() {
	od -An -v -tu8 -j "$1" -N 8 /tmp/metrics | tr -d ' '
}

ms() {
	awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime
}

measurements() {
	counted smu.measurements
}

tell sensors default edge=51 junction=63 mem=70 vrgfx=52 vrsoc=53 vrmem=54 power=287 sclk=1650 socclk=1090 mclk=1600 throttle=65
pause
[ "$(cat "$device"/hwmon/hwmon*/name)" = amdgpu ]
result $? "its name is amdgpu"
sensor temp1_input 51000
sensor temp1_label edge
sensor temp2_input 63000
sensor temp2_label junction
sensor temp3_input 70000
sensor temp3_label mem
sensor power1_average 287000000
sensor power1_label PPT
sensor freq1_input 1650000000
sensor freq1_label sclk
sensor freq2_input 1600000000
sensor freq2_label mclk
# Of the regulator, which the model has at the code 112.
sensor in0_input 850
sensor in0_label vddgfx

info GFX_SCLK 1 1650
info GFX_MCLK 2 1600
info GPU_TEMP 3 51000
info GPU_LOAD 4 0
info GPU_AVG_POWER 5 287
info VDDNB 6 EINVAL
info VDDGFX 7 850
# From the table of limits in the BIOS, and from the SMU's levels.
info STABLE_PSTATE_GFX_SCLK 8 500
info STABLE_PSTATE_GFX_MCLK 9 400
info PEAK_PSTATE_GFX_SCLK 10 1700
info PEAK_PSTATE_GFX_MCLK 11 1600
info GPU_INPUT_POWER 12 EINVAL
info 'no sensor' 0 EINVAL
info 'no sensor' 13 EINVAL
info 'no sensor' 4294967295 EINVAL

# The model's board has this number; libhsakmt gets it from the topology.
[ "$(cat "$device/unique_id")" = 0001020390a00210 ]
result $? "the board's number is told" || cat "$device/unique_id"
grep -qx "unique_id $((0x0001020390a00210))" /sys/class/kfd/kfd/topology/nodes/1/properties
result $? "and in the topology" || grep unique_id /sys/class/kfd/kfd/topology/nodes/*/properties

# Only the SMU knows the actual clocks, and it sets them.
pause
begin=$(ms)
metrics >/tmp/halves
end=$(ms)
# A dot stands for a byte that changes.
cat >/tmp/wanted <<END
120 769 51 63 70 52 53 54
. . 65535 287 . . . . . . . .
1650 1090 1600 0 0 65535 65535
1650 1090 1600 1000 800 65535 65535
65 0 0 16 160 65535 . . . . 70 69 68 67
. . . . 65535 65535 65535 65535 1 0 1 0
END
tr -s ' \n' '\n\n' </tmp/wanted | grep . >/tmp/w
tr -s ' \n' '\n\n' </tmp/halves | grep . >/tmp/h
[ "$(wc -c </tmp/metrics)" = 120 ] && paste /tmp/w /tmp/h | awk '$1 != "." && $1 != $2 { printf "# byte %#x: %s, wanted %s\n", 2 * (NR - 1), $2, $1; bad = 1 }
	END { exit bad || NR != 60 }'
result $? "gpu_metrics has what the sensors show"
# /proc/uptime has hundredths of a second.
now=$(($(long 32) / 1000000))
[ $now -ge $((begin - 20)) ] && [ $now -le $((end + 20)) ]
result $? "the time in it is the system's" || echo "# $now, and it was read from $begin to $end"

# Units of 15.259 uJ, ticks of 10 ns.
energy=$(long 24) tick=$(long 96)
usleep 300000
metrics >/dev/null
energy=$(($(long 24) - energy)) tick=$(($(long 96) - tick))
wanted=$((tick * 287 * 10 / 15259))
[ $tick -gt 20000000 ] && [ $((energy - wanted)) -ge -1 ] && [ $((energy - wanted)) -le 1 ]
result $? "energy is power over time" || echo "# $energy, wanted $wanted"

# The memory load compares so within a hundred reads: -gt or -eq, and percent. On a slow guest it is
# low.
await_memory() {
	tries=0
	until [ "$(metrics | awk '{ print $10 }')" "$1" "$2" ] || [ $tries = 100 ]; do
		tries=$((tries + 1))
		usleep 100000
	done
	[ $tries -lt 100 ]
}

"$here/at_work" copies >/dev/null &
pid=$!
await_memory -gt 0
result $? "memory is busy while there is work"
kill -9 $pid
wait $pid 2>/dev/null
await_memory -eq 0
result $? "and idle after it"
if [ $driver = amdgpu ]; then
	finish
	exit
fi

# Only for rkfd.
before=$(cat "$device"/hwmon/hwmon*/energy1_input)
pause
[ "$(cat "$device"/hwmon/hwmon*/energy1_input)" -gt "$before" ]
result $? "energy1_input goes up"

begin=$(ms) count=$(measurements)
i=0
while [ $i -lt 500 ]; do
	read -r _ <"$device/hwmon/$(basename "$device"/hwmon/hwmon*)/temp1_input"
	i=$((i + 1))
done
count=$(($(measurements) - count)) passed=$(($(ms) - begin))
[ $count -le $((passed / 10 + 2)) ]
result $? "who reads all the time has it measured each 10 ms at most" || echo "# $count times in $passed ms"

mark() {
	lines=$(dmesg | wc -l)
}
# lines PATTERN COUNT
lines() {
	[ "$(dmesg | tail -n +$((lines + 1)) | grep -c "$1")" = "$2" ]
}
# fails FILE TEXT OF ERRNO
fails() {
	! cat "$device/$1" >/dev/null 2>/tmp/why && grep -q "$2" /tmp/why
}
file=hwmon/$(basename "$device"/hwmon/hwmon*)/temp1_input
mark
tell psp-fault smu=0x13:0xff
pause
fails "$file" 'Input/output error'
result $? "what the SMU refuses is an error"
info 'what the SMU refuses' 3 EINVAL
info 'what it is not asked' 7 850
pause
fails "$file" 'Input/output error' && pause && fails gpu_metrics 'Input/output error' && lines 'SMU: TransferTableSmu2Dram (0x13): it failed' 1
result $? "of which there is one line"
tell psp-fault none
pause
sensor temp1_input 51000

mark
tell psp-fault smu-late=0x13:4000
pause
fails "$file" 'timed out'
result $? "an answer that comes late is waited for two seconds"
tell psp-fault none
sleep 4
sensor temp1_input 51000
lines 'SMU: TransferTableSmu2Dram (0x13): no answer' 1
result $? "when it has come all is well again, after one line"

mark
tell psp-fault smu-hangs=0x13
pause
begin=$(ms)
cat "$device/gpu_metrics" >/dev/null 2>&1 &
fails "$file" 'timed out'
result $? "an SMU that does not answer is an error"
wait $!
echo "# both readers: $(($(ms) - begin)) ms, and two seconds is what one waits"
info 'an SMU that does not answer' 5 EINVAL
begin=$(ms)
for i in 1 2 3 4 5; do
	pause
	fails "$file" 'timed out'
done
echo "# five more: $(($(ms) - begin)) ms, and ten seconds if each waited"
lines 'SMU: TransferTableSmu2Dram (0x13): no answer' 1
result $? "of that there is one line, too"
tell psp-fault none

# reload NAME [PARAMETER]: loads the driver anew, without a power cycle; with clocks=1 unless another
# parameter is given, "-" for none
reload() {
	set -- "$1" "${2:-clocks=1}"
	"$here/unload.sh" || bail "the module does not go"
	insmod "$module" ${2#-}
	[ -e /dev/kfd ] && "$here/one_copy" >/dev/null
	result $? "it works $1"
}
reload "after an SMU that did not answer"
sensor temp1_input 51000

# Readers during the unload.
touch /tmp/reading
for i in 1 2 3; do
	while [ -e /tmp/reading ] && cat "$device/gpu_metrics" "$device"/hwmon/hwmon*/*_input >/dev/null 2>&1; do :; done &
done
usleep 200000
reload "and goes while it is read"
rm /tmp/reading
wait
sensor temp3_input 70000

tell psp-fault smu=0x13:0xfe
reload "where the SMU gives no table"
[ ! -e "$device/gpu_metrics" ] && [ ! -e "$device/hwmon" ] && [ ! -e "$device/unique_id" ]
result $? "nothing is shown then"
info 'clocks then' 1 ENOENT
info 'the voltage then' 7 ENOENT
info 'how busy it is' 4 0
tell psp-fault none
tell sensors default edge=51 sclk=1650 mclk=1600
tell flash blank
mark
reload "without a BIOS"
lines "SMU: clocks and limits of power stay as at power-on: the card's BIOS: there is none: it begins with ff ff" 1
result $? "which is one line"
sensor temp1_input 51000
sensor freq1_input 1650000000
metrics | awk '{ exit $28 || $29 || $30 }'
result $? "no clock is the SMU's then"
info STABLE_PSTATE_GFX_SCLK 8 EINVAL
info PEAK_PSTATE_GFX_MCLK 11 EINVAL
tell flash whole
reload "with its defaults, which leave clocks alone" -
info PEAK_PSTATE_GFX_MCLK 11 EINVAL
sensor temp1_input 51000
reload "again"
info PEAK_PSTATE_GFX_MCLK 11 1600
tell sensors default
pause
sensor temp1_input 35000
# The lowest of the table, as the GPU is idle.
sensor freq1_input 500000000
finish
