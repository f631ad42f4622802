#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# A GPU whose firmware another party has loaded: the output of probe_only, the use of that firmware
# when files are missing, and the GPUs that are left alone, with a reason: one that is not set up,
# is in a hive that cannot be, or has damaged files. Each time nothing is left behind, and the GPU works
# again once the fault is gone. The script writes registers by /dev/mem while no driver has the
# device.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
driver=/sys/bus/pci/drivers/rkfd
module=${RKFD_MODULE:-/rkfd/rkfd.ko}
files=/lib/firmware/amdgpu
here=$(dirname "$0")

device=$(basename "$(echo $driver/????:*)")
[ -e "$driver/$device" ] || bail "no device"
registers=$(sed -n 6p "/sys/bus/pci/devices/$device/resource" | cut -d' ' -f1)
base=$(cat /sys/kernel/debug/rkfd/*/objects)

register() { # DWORD [VALUE]
	devmem $((registers + 4 * $1)) 32 ${2:+"$2"}
}

# The lines of the log since the last mark.
mark() {
	lines=$(dmesg | wc -l)
}
said() {
	dmesg | tail -n +$((lines + 1)) | grep -q "$1"
}

state() {
	tell state
	echo "$answer" | md5sum
}

unbind() {
	echo "$device" >$driver/unbind || bail "it does not unbind"
	mark
}

# refused ERRNO'S TEXT, WHAT THE LOG SAYS, NAME
refused() {
	echo "$device" 2>/tmp/why >$driver/bind
	[ ! -e "$driver/$device" ] && said "$2"
	result $? "$3"
	grep -q "$1" /tmp/why
	result $? "$3: $1"
}

works() { # AFTER WHAT
	[ -e "$driver/$device" ] || echo "$device" >$driver/bind
	[ "$(cat /sys/kernel/debug/rkfd/*/objects)" = "$base" ] && "$here/one_copy" >/dev/null
	result $? "it works again after $1, and nothing was left"
}

"$here/unload.sh" || bail "the module does not go"
mark
before=$(state)
insmod "$module" probe_only=1
[ ! -e "$driver/$device" ] && said 'probe_only: warm' && said 'probe_only: .* MiB of VRAM, die 0, posted' &&
	said 'probe_only: PSP: .* runs: nothing' && said 'probe_only: no firmware file amdgpu/aldebaran_sos.bin'
result $? "probe_only tells the state, and binds nothing"
[ "$(state)" = "$before" ]
result $? "probe_only changes no register"
rmmod rkfd
mark
insmod "$module" probe_only=2
[ ! -e "$driver/$device" ] && said 'probe_only: no firmware was loaded'
result $? "probe_only=2 without files loads nothing, and binds nothing"
rmmod rkfd
mark
insmod "$module"
said 'the firmware that was loaded before is used: there is no file amdgpu/aldebaran_sos.bin .*firmware-amd-graphics'
result $? "without files what was loaded before is used, and the log says so"
works probe_only
[ ! -e "/sys/bus/pci/devices/$device/gpu_metrics" ] && [ ! -e "/sys/bus/pci/devices/$device/hwmon" ]
result $? "without an SMU of its own it shows no sensors"

if [ -e /dev/mem ]; then
	unbind
	posted=$(register 0x53)
	register 0x53 0
	refused 'No such device' 'the GPU is left alone: .*not posted' "a card that is not posted"
	register 0x53 "$posted"
	works "a card that is not posted"
	unbind
	alone=$(register 0x2978)
	register 0x2978 0x30
	refused 'No such device' 'the GPU is left alone: .* (node 0 of a hive of 4, segments of 0 MiB)' \
		"a hive without segments"
	register 0x2978 "$alone"
	works "a hive without segments"
else
	skip "a card that is not posted, and a hive without segments" "the debug kernel has no /dev/mem"
fi

mkdir -p $files
for part in sos smc sdma mec rlc; do
	head -c 31 /dev/zero >$files/aldebaran_$part.bin
done
unbind
refused 'Invalid argument' 'firmware file amdgpu/aldebaran_sos.bin: it has 31 bytes' "a file that is cut"
head -c 64 /dev/zero >$files/aldebaran_sos.bin
mark
refused 'Invalid argument' 'firmware file amdgpu/aldebaran_sos.bin: it has 64 bytes, and its header says 0' "a file of zeros"
# 64 bytes, header version 9.9.
printf '\100\0\0\0\40\0\0\0\11\0\11\0' >/tmp/header
{ cat /tmp/header; head -c 52 /dev/zero; } >$files/aldebaran_sos.bin
mark
refused 'Invalid argument' 'firmware file amdgpu/aldebaran_sos.bin: unknown header version 9.9' "a file of another kind"
rm $files/aldebaran_rlc.bin
mark
echo "$device" >$driver/bind
said 'there is no file amdgpu/aldebaran_rlc.bin'
result $? "files of which one is missing are not used"
rm -r $files
works "damaged files"
finish
