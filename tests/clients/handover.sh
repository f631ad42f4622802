#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# handover.sh [amdgpu]: one board, two drivers by turns: each takes over from the other or from
# itself, and copies. The board is neither reset nor switched off meanwhile: its bootloader has
# worked once, for the first driver. With amdgpu only the first turn.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh

# load DRIVER: amdgpu, too, with firmware by the PSP
load() {
	case $1 in
	amdgpu) load_amdgpu fw_load_type=-1 ip_block_mask=0x7f dpm=-1 ;;
	rkfd) load_rkfd clocks=1 ;;
	esac
}

# turn DRIVER PREVIOUS
turn() {
	lines=$(dmesg | wc -l)
	load "$1" && bound "$1" && [ -e /dev/kfd ]
	result $? "$1 binds, after $2" || dmesg | tail -n +$((lines + 1)) | tail -n 30 | sed 's/^/# /'
	/rkfd/clients/one_copy >/dev/null
	result $? "$1 copies, after $2"
	/rkfd/clients/unload.sh "$1" || bail "$1 does not go"
	[ ! -e /dev/kfd ] && ! dmesg | tail -n +$((lines + 1)) | grep -E 'a driver went and left running|[Tt]imeout|GPU reset|MODE[12] reset'
	result $? "$1 goes in good order, after $2"
}

turn amdgpu "power-up"
if [ "${1:-}" = amdgpu ]; then
	finish
	exit
fi
turn rkfd "amdgpu"
turn rkfd "itself"
turn amdgpu "rkfd"
turn amdgpu "itself"
# Firmware that amdgpu has loaded works without files, too.
mv /lib/firmware/amdgpu /lib/firmware/away
turn rkfd "amdgpu, without files"
mv /lib/firmware/away /lib/firmware/amdgpu
turn rkfd "itself, with files again"
trace_of_firmware
echo "$trace" | sed 's/^/# /'
[ "$(echo "$trace" | grep -c '^bl ')" = 3 ] && ! echo "$trace" | grep -q '^smu 0x3 '
result $? "the board was never reset"
[ "$(echo "$trace" | grep -c '^smu 0x14 0x0->ok 0x2f8 01621e7477f4c033$')" = 6 ] && [ "$(echo "$trace" | grep -c '^smu 0x7 ')" = 6 ]
result $? "both give the SMU the same limits each time that they have loaded it, and turn its features on"
echo "$trace" | awk '/^smu 0x7 / { on = 1 } /^smu 0x8 / { on = 0 } /^engine rlc stop|^smu 0x24 / { bad += on } END { exit bad || on }'
result $? "which end before the RLC stops, and before the SMU is told to unload"
finish
