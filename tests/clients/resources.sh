#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# resources.sh [amdgpu]: the machine does not give the device what a driver needs: addresses for its
# BARs, MSI-X or MSI. For rkfd: the errno, one line that says what to change, nothing left behind,
# and the GPU works once it is changed. For amdgpu: the errno.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh
driver=${1:-rkfd}

# Powers of two that the BARs are told to be multiples of: no 32-bit address, and no address at all.
narrow=33
all=41

# found [ORDER]: the device is removed and found anew
found() {
	echo "${1:+$1@$device}" >/sys/bus/pci/resource_alignment
	echo 1 >"/sys/bus/pci/devices/$device/remove"
	echo 1 >/sys/bus/pci/rescan
}

# unassigned BAR...: exactly these have no address
unassigned() {
	[ "$(awk '(NR == 1 || NR == 3 || NR == 6) && $1 ~ /^0x0*$/ { printf "%s%d", sep, NR - 1; sep = " " }' \
		"/sys/bus/pci/devices/$device/resource")" = "$*" ]
}

# msi 0|1: whether the kernel gives the device MSI-X and MSI
msi() {
	echo "$1" >"/sys/bus/pci/devices/$device/msi_bus"
}

# refused ERRNO NAME LINE
refused() {
	mark
	load_rkfd
	! bound && since_mark | grep -q "the GPU cannot be used: $1\$"
	result $? "$2: $1"
	one "$3"
	result $? "$2: one line, $3"
	nothing_left
	result $? "$2: nothing is left"
	unload
}

# fails ERRNO NAME: the same for amdgpu, as far as it goes
fails() {
	mark
	load_amdgpu >/dev/null 2>&1
	! bound amdgpu && since_mark | grep -q "probe with driver amdgpu failed with error $1\$"
	result $? "amdgpu, $2: $1" || since_mark | grep amdgpu | tail -n 5 | sed 's/^/# /'
	/rkfd/clients/unload.sh amdgpu || bail "amdgpu does not go"
}

again() {
	load_rkfd
	works
	result $? "$1: it works again"
	unload
}

if [ "$driver" = amdgpu ]; then
	device=$(basename "$(dirname "$(grep -l 0x740f /sys/bus/pci/devices/*/device)")")
	found $narrow
	fails -12 "no address for the registers"
	found $all
	fails -12 "no address for any BAR"
	found
	msi 0
	fails -22 "neither MSI-X nor MSI"
	msi 1
	finish
	exit
fi

begin
setup='in the BIOS setup,'
found $narrow
unassigned 5
result $? "the registers have no address"
refused ENODEV "no address for the registers" "no address for BAR5 (registers): $setup .*below 4 GiB"
found $all
unassigned 0 2 5
result $? "no BAR has an address"
refused ENODEV "no address for any BAR" \
	"no address for BAR0 (VRAM), BAR2 (doorbells), BAR5 (registers): $setup enable Above 4G Decoding"
found
unassigned
result $? "all have one"
again "addresses"
msi 0
refused EINVAL "neither MSI-X nor MSI" "no interrupt, neither MSI-X nor MSI: EINVAL: $setup enable MSI"
msi 1
again "vectors"
load_rkfd
finish
