#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# One board, two drivers in turns: each takes what the other or it itself has left, and copies by it. Nobody resets the board or switches
# it off meanwhile: its bootloader has worked once, for who came first.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
module=${RKFD_MODULE:-/rkfd/rkfd.ko}

# As /init has them for amdgpu, but with firmware by the PSP.
amdgpu() {
	while read -r file; do
		case $file in
		*/amdgpu.ko)
			insmod "$file" ip_block_mask=0x7f ras_enable=0 gpu_recovery=0 ppfeaturemask=0 cg_mask=0 pg_mask=0 runpm=0 audio=0 \
				lockup_timeout=60000 || return ;;
		*) [ -e "/sys/module/$(basename "$file" .ko | tr - _)" ] || insmod "$file" || return ;;
		esac
	done </rkfd/amdgpu.modules
}

rkfd() {
	insmod "$module"
}

# gone DRIVER: unloads it. What a process had is taken back a moment after its end.
gone() {
	tries=0
	until rmmod "$1" 2>/tmp/why; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || bail "$(cat /tmp/why)"
		sleep 0.2
	done
}

# turn DRIVER AFTER WHOM
turn() {
	lines=$(dmesg | wc -l)
	$1 && ls /sys/bus/pci/drivers/"$1" | grep -q '^0000:' && [ -e /dev/kfd ]
	result $? "$1 binds, after $2" || dmesg | tail -n +$((lines + 1)) | tail -n 30 | sed 's/^/# /'
	/rkfd/clients/one_copy >/dev/null
	result $? "$1 copies, after $2"
	gone "$1"
	[ ! -e /dev/kfd ] && ! dmesg | tail -n +$((lines + 1)) | grep -E 'a driver went and left running|[Tt]imeout|GPU reset|MODE[12] reset'
	result $? "$1 goes in good order, after $2"
}

turn amdgpu "power-up"
turn rkfd "amdgpu"
turn rkfd "itself"
turn amdgpu "rkfd"
turn amdgpu "itself"
# What amdgpu has loaded does without files, too.
mv /lib/firmware/amdgpu /lib/firmware/away
turn rkfd "amdgpu, without files"
mv /lib/firmware/away /lib/firmware/amdgpu
turn rkfd "itself, with files again"
tell firmware
trace=$(echo "$answer" | tr -d '\r"' | sed 's/.*trace:\[//; s/\].*//' | tr ',' '\n')
echo "$trace" | sed 's/^/# /'
[ "$(echo "$trace" | grep -c '^bl ')" = 3 ] && ! echo "$trace" | grep -q '^smu 0x3 '
result $? "the board was never reset"
finish
