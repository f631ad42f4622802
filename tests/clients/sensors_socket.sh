#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# sensors_socket.sh: as sensors.sh, for MI300X, whose SMU measures other things, and in another form:
# whether the driver shows the values of the board's sensors, which the model is given. With rkfd
# also: the results when the SMU refuses or does not answer, when it is slow to measure, and without
# clocks=1. With amdgpu this tests the model and this script.
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

# absent FILE
absent() {
	[ -z "$(ls "$device"/hwmon/hwmon*/"$1" 2>/dev/null)" ]
	result $? "there is no $1"
}

# info NAME NUMBER ANSWER: of AMDGPU_INFO, SENSOR
info() {
	value=$("$here/info_sensor" "$2")
	[ "$value" = "$3" ]
	result $? "AMDGPU_INFO says of $1: $3" || echo "# $value"
}

# hex BYTE COUNT: that many bytes of gpu_metrics from there on
hex() {
	od -An -v -tx1 -j "$1" -N "$2" /tmp/metrics | tr -d ' \n'
}

# bytes NAME BYTE HEX
bytes() {
	value=$(hex "$2" $((${#3} / 2)))
	[ "$value" = "$3" ]
	result $? "gpu_metrics: $1" || echo "# $value, wanted $3"
}

tell sensors default edge=51 junction=63 mem=70 vrgfx=52 vrsoc=53 vrmem=54 power=287 sclk=1650 socclk=1090 mclk=1600 throttle=65
pause
sensor name amdgpu
absent temp1_input
# The model's sensors are a quarter of a degree above what they are set to.
sensor temp2_input 63250
sensor temp2_label junction
sensor temp3_input 70250
sensor temp3_label mem
absent power1_average
sensor power1_input 287000000
sensor power1_label PPT
sensor freq1_input 1650000000
sensor freq1_label sclk
sensor freq2_input 1600000000
sensor freq2_label mclk
absent in0_input
sensor in2_input 48000
sensor in2_label vddboard

info GFX_SCLK 1 1650
info GFX_MCLK 2 1600
info GPU_TEMP 3 EINVAL
info GPU_LOAD 4 0
info GPU_AVG_POWER 5 287
info VDDNB 6 EINVAL
# For amdgpu the model has no register of the regulator.
[ $driver = amdgpu ] || info VDDGFX 7 EINVAL
info STABLE_PSTATE_GFX_SCLK 8 132
info STABLE_PSTATE_GFX_MCLK 9 900
info PEAK_PSTATE_GFX_SCLK 10 2100
info PEAK_PSTATE_GFX_MCLK 11 1300
info GPU_INPUT_POWER 12 287
info 'no sensor' 0 EINVAL
info 'no sensor' 13 EINVAL

[ "$(cat "$device/unique_id")" = 0001020390a00210 ]
result $? "the board's number is told" || cat "$device/unique_id"
grep -qx "unique_id $((0x0001020390a00210))" /sys/class/kfd/kfd/topology/nodes/1/properties
result $? "and in the topology"

pause
cat "$device/gpu_metrics" >/tmp/metrics
[ "$(wc -c </tmp/metrics)" = 1258 ]
result $? "gpu_metrics has 1258 bytes"
bytes "version, and fifty values" 0 ea04010932000000
bytes "hottest place, 63" 8 01002002000000003f00
bytes "memory, 70, and regulators, 54" 18 01042002000000004600010820020000000036
bytes "power, 287" 38 010c2003000000001f01
bytes "how much memory can do" 68 0118600800000000b414000000000000
bytes "how long power was at its limit" 148 012c6000000000004100000000000000
bytes "the link, sixteen lanes of 32 GT/s" 224 01402000000000001000014420070000000040
bytes "no links of XGMI" 408 0874600900000000ffffffffffffffff
bytes "clocks of one XCC" 592 08842001000000007206ffffffffffffffffffffffffffff
bytes "of SOC" 616 04882001000000004204420442044204
bytes "of memory" 664 01942001000000004006
bytes "and at the end what is not measured" 1234 08cc200200000000ffffffffffffffffffffffffffffffff
if [ $driver = amdgpu ]; then
	finish
	exit
fi

# Only for rkfd.
before=$(cat "$device"/hwmon/hwmon*/energy1_input)
pause
[ "$(cat "$device"/hwmon/hwmon*/energy1_input)" -gt "$before" ]
result $? "energy1_input goes up"

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
file=hwmon/$(basename "$device"/hwmon/hwmon*)/temp2_input
mark
tell psp-fault smu=0x9:0xff
pause
fails "$file" 'Input/output error'
result $? "what the SMU refuses is an error"
pause
fails gpu_metrics 'Input/output error' && lines 'SMU: GetMetricsTable (0x9): it failed' 1
result $? "of which there is one line"
tell psp-fault none
mark
tell psp-fault smu-hangs=0x9
pause
fails "$file" 'timed out' && lines 'SMU: GetMetricsTable (0x9): no answer' 1
result $? "an SMU that does not answer is an error, of which there is one line"
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
sensor temp2_input 63250

tell psp-fault smu=0x59:0xfe
mark
reload "where the SMU does not tell the board's voltage"
lines 'SMU: GetStaticMetricsTable (0x59): unknown message' 1
result $? "which is one line"
# The SMU has its last message, as amdgpu sends it, and takes others.
trace_of_firmware
[ "$(echo "$trace" | grep -c '^smu 0x34 0x0->ok')" = 1 ]
result $? "it was told that the driver goes"
absent in2_input
sensor temp2_input 63250
tell psp-fault smu=0x9:0xfe
reload "where the SMU gives no table"
[ ! -e "$device/gpu_metrics" ] && [ ! -e "$device/hwmon" ] && [ ! -e "$device/unique_id" ]
result $? "nothing is shown then"
info 'clocks then' 1 ENOENT
mark
tell psp-fault smu=0x5:0xff
reload "where the SMU sets no clocks"
lines 'SMU: clocks and limits of power stay as at power-on: EnableAllSmuFeatures (0x5): it failed' 1
result $? "which is one line, too"
info PEAK_PSTATE_GFX_SCLK 10 EINVAL
tell psp-fault none
reload "with its defaults, which leave clocks alone" -
info PEAK_PSTATE_GFX_MCLK 11 EINVAL
sensor temp2_input 63250
reload "again"
info PEAK_PSTATE_GFX_MCLK 11 1300
tell sensors default
pause
sensor temp2_input 41250
# The lowest, as the GPU is idle.
sensor freq1_input 132000000
finish
