#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# rocminfo's output about the GPU, as TAP.
out=/tmp/rocminfo.$$
rocminfo >$out 2>&1
rc=$?

# field TEXT AGENT-SECTION-ONLY: true if a line of the GPU's section is exactly this, apart from
# blanks
gpu() {
	tr -s ' \t' ' ' <$out.gpu | sed 's/^ //; s/ $//' | grep -qxE "$1"
	result $? "$2"
}

. /rkfd/clients/tap.sh
result $rc "rocminfo exits 0"
# The section of the agent that is a GPU.
awk '/^Agent [0-9]/ { s = "" } { s = s $0 "\n" } /Device Type: *GPU/ { g = 1 } g { print s; s = "" }' $out >$out.gpu
sramecc=+
if [ -d /sys/module/rkfd ]; then
	vram=$(($(cat /sys/kernel/debug/rkfd/*/vram | sed -n 's/^total //p' | head -n 1) / 1024))
	gpus=$(ls -d /sys/kernel/debug/rkfd/*/ | wc -l)
else
	vram=$(($(cat /sys/class/drm/card0/device/mem_info_vram_total) / 1024))
	gpus=1
	# amdgpu reads from the BIOS whether there is ECC, and ours does not say so.
	sramecc=-
fi
[ "$(grep -c 'Device Type: *GPU' $out)" = $gpus ]
result $? "$gpus GPUs"
# The two chips that the model can be.
if grep -q 0x74a1 /sys/class/drm/renderD128/device/device; then
	xccs=$(sed -n 's/^num_xcc //p' /sys/class/kfd/kfd/topology/nodes/*/properties | sort -n | tail -n 1)
	cus=$((38 * xccs)) engines=$((4 * xccs))
	name=gfx942 card=MI300X chip='29857\(0x74a1\)' l1='32\(0x20\)' l2='4096\(0x1000\)'
else
	name=gfx90a card=MI210 chip='29711\(0x740f\)' cus=104 engines=8 l1='16\(0x10\)' l2='8192\(0x2000\)'
fi
gpu "Name: $name" "name $name"
gpu "Marketing Name: AMD Instinct $card" "marketing name"
gpu 'Vendor Name: AMD' "vendor"
gpu "Chip ID: $chip" "chip"
gpu "Compute Unit: $cus" "compute units"
gpu 'SIMDs per CU: 4' "SIMDs"
gpu "Shader Engines: $engines" "shader engines"
gpu 'Wavefront Size: 64\(0x40\)' "wavefront"
gpu "L1: $l1 KB" "L1 cache"
gpu "L2: $l2 KB" "L2 cache"
gpu 'Segment: GLOBAL; FLAGS: COARSE GRAINED' "pool of VRAM"
gpu "Size: $vram\\(0x[0-9a-f]+\\) KB" "size of VRAM"
gpu 'Segment: GROUP' "pool of LDS"
gpu 'Size: 64\(0x40\) KB' "size of LDS"
gpu "Name: amdgcn-amd-amdhsa--$name:sramecc\\$sramecc:xnack-" "ISA"
grep -q 'Segment: *GLOBAL; FLAGS: *KERNARG, FINE GRAINED' $out
result $? "pool of kernel arguments"
[ "$KTAP_CNT_FAIL" = 0 ] || sed 's/^/# /' $out
rm -f $out $out.gpu
finish
