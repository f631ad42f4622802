#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For /init and programs of the shell that load and unload drivers: . /rkfd/clients/drivers.sh

load_rkfd() {
	modprobe rkfd "$@"
}

# Debian's amdgpu, with firmware loaded by the driver and not by the PSP, with only the first five
# blocks of its list (common, memory, interrupts, graphics, SDMA), and nothing reset or managed, nor
# gated on gfx90a, of which the model lacks such registers. The model may take long on a busy host.
# Further parameters come last and take precedence.
load_amdgpu() {
	grep -q 0x74a1 /sys/bus/pci/devices/*/device || set -- cg_mask=0 "$@"
	while read -r file; do
		case $file in
		*/amdgpu.ko)
			insmod "$file" fw_load_type=0 ip_block_mask=0x1f ras_enable=0 gpu_recovery=0 dpm=0 ppfeaturemask=0 \
				pg_mask=0 runpm=0 audio=0 lockup_timeout=60000 \
				queue_preemption_timeout_ms=60000 "$@" || return ;;
		*) [ -e "/sys/module/$(basename "$file" .ko | tr - _)" ] || insmod "$file" || return ;;
		esac
	done </rkfd/amdgpu.modules
	[ -e /dev/kfd ] && [ -e /dev/dri/renderD128 ]
}

# bound [DRIVER]: true if it has a device
bound() {
	ls "/sys/bus/pci/drivers/${1:-rkfd}" | grep -q '^0000:'
}
