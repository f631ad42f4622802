#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Whether Debian's own driver accepts the device: its blocks, its rings, and the absence of errors
# in its log. The ring tests are those that it runs itself when it binds, the last of them two
# seconds later. With "later" user queues may have faulted by now; with "psp" it has loaded firmware
# by the PSP, whose block then is in its list, as is the SMU's; with "gfx942", or "gfx942 psp", the
# chip is that, whose blocks amdgpu knows from its IP discovery table. XCCS says how many XCCs it has.

log() { # TEXT NAME: the log has such a line
	dmesg | grep -q "$1"
	result $? "$2"
}

[ -e /dev/kfd ] || exit 4
fences=$(echo /sys/kernel/debug/dri/*/amdgpu_fence_info | cut -d' ' -f1)
# Opening the device waits for the tests that are still to come.
: </dev/dri/renderD128
. /rkfd/clients/tap.sh
off=6 rings=14
[ "$1" != psp ] || off=7
if [ "$1" = gfx942 ]; then
	xccs=${XCCS:-1} off=5
	# KIQ and eight compute rings of each XCC, and an SDMA ring of each engine.
	engines=$(((xccs + 1) / 2 * 4))
	rings=$((xccs * 9 + engines))
	if [ "${2:-}" = psp ]; then
		off=7
		log 'SMU is initialized successfully' "the SMU takes its messages"
		hwmon=$(echo /sys/class/drm/renderD128/device/hwmon/hwmon*)
		for line in 'power1_input 42000000' 'power1_cap 750000000' 'temp2_input 41250' \
			'temp2_label junction' 'temp3_input 44250'; do
			[ "$(cat "$hwmon/${line% *}")" = "${line#* }" ]
			result $? "sensors: $line"
		done
		log 'Requesting 1 partitions through PSP' "the PSP is asked for one partition"
	fi
	log 'ATOM BIOS: 113-MODEL942-001' "the BIOS is ours"
	log "RAM width $((engines * 512))bits HBM" "memory as the BIOS has it"
	log 'SE 4, SH per SE 1, CU per SH 10, active_cu_number '$((38 * xccs)) "compute units"
	log 'added device 1002:74a1' "amdkfd takes the device"
	node=/sys/class/kfd/kfd/topology/nodes/1/properties
	for line in 'gfx_target_version 90402' "simd_count $((152 * xccs))" "num_xcc $xccs" \
		"array_count $((4 * xccs))" 'num_sdma_engines 2' \
		"num_sdma_xgmi_engines $((engines - 2))" 'device_id 29857'; do
		grep -qx "$line" $node
		result $? "the node has $line"
	done
else
	log 'Fetched VBIOS from ROM' "the BIOS comes from the flash chip"
	log 'ATOM BIOS: 113-MODEL90A-001' "the BIOS is ours"
	log 'RAM width 4096bits HBM' "memory as the BIOS has it"
	log 'SE 8, SH per SE 1, CU per SH 14, active_cu_number 104' "compute units"
	log 'added device 1002:740f' "amdkfd takes the device"
fi
log "disabled ip block: $off " "the blocks that are not modelled are off"
log 'Initialized amdgpu' "amdgpu is there"

# Fences of every ring: emitted, and all of them signalled.
signalled() {
	awk -v wanted=$rings '/^--- ring/ { ring = $4; first = 1 }
		/^Last signaled fence/ { signaled = $NF }
		/^Last emitted/ && first { first = 0; rings++; if ($NF != signaled || $NF == "0x00000000") { print "# " ring, signaled, $NF; bad = 1 } }
		END { if (rings != wanted) print "# rings:", rings; exit bad || rings != wanted }' "$fences"
}
tries=0
until signalled >/tmp/rings || [ $tries = 240 ]; do
	tries=$((tries + 1))
	sleep 0.5
done
cat /tmp/rings
[ $tries -lt 240 ]
result $? "$rings rings have done what they were given"
interrupts=$(awk '/amdgpu/ { for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) sum += $i } END { print sum + 0 }' /proc/interrupts)
[ "$interrupts" -gt 13 ]
result $? "interrupts: $interrupts"
# amdgpu polls after half a second. On a busy host an interrupt may be that late; if they were lost,
# each of them would show here.
late=$(dmesg | grep -c 'Fence fallback timer')
[ $((late * 10)) -lt "$interrupts" ]
result $? "interrupts half a second late: $late"
faults='page fault|\[gfxhub|\[mmhub'
[ "$1" != later ] || faults='fault of VMID 0'
if dmesg | grep -E "$faults" || dmesg | grep -E 'ring .* test failed|IB test failed|Timeout waiting for|failed to write reg|fence wait loop|NOT added|Timeout wait for RLC|ring .* timeout'; then
	result 1 "nothing has failed"
else
	result 0 "nothing has failed"
fi
finish
