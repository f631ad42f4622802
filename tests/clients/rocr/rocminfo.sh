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
gpu 'Name: gfx90a' "name gfx90a"
gpu 'Marketing Name: AMD Instinct MI210' "marketing name"
gpu 'Vendor Name: AMD' "vendor"
gpu 'Chip ID: 29711\(0x740f\)' "chip"
gpu 'Compute Unit: 104' "compute units"
gpu 'SIMDs per CU: 4' "SIMDs"
gpu 'Shader Engines: 8' "shader engines"
gpu 'Wavefront Size: 64\(0x40\)' "wavefront"
gpu 'L1: 16\(0x10\) KB' "L1 cache"
gpu 'L2: 8192\(0x2000\) KB' "L2 cache"
gpu 'Segment: GLOBAL; FLAGS: COARSE GRAINED' "pool of VRAM"
gpu "Size: $vram\\(0x[0-9a-f]+\\) KB" "size of VRAM"
gpu 'Segment: GROUP' "pool of LDS"
gpu 'Size: 64\(0x40\) KB' "size of LDS"
gpu "Name: amdgcn-amd-amdhsa--gfx90a:sramecc\\$sramecc:xnack-" "ISA"
grep -q 'Segment: *GLOBAL; FLAGS: *KERNARG, FINE GRAINED' $out
result $? "pool of kernel arguments"
[ "$KTAP_CNT_FAIL" = 0 ] || sed 's/^/# /' $out
rm -f $out $out.gpu
finish
