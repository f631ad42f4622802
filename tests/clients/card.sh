#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# card.sh MIB [plain]: the PCI function as a driver finds it, which has bound it: BAR0 has so many
# MiB. With "plain" the function lacks all that it may lack, and has a function level reset. QEMU
# hides SR-IOV from the guest, as it does for all devices that it passes on.
. /rkfd/clients/tap.sh
mib=$1
plain=${2:-}

for dir in /sys/bus/pci/devices/*; do
	[ "$(cat "$dir/vendor") $(cat "$dir/device")" = "0x1002 0x740f" ] && break
done
[ -e "$dir/driver" ] || bail "no driver has a device"
driver=$(basename "$(readlink "$dir/driver")")

# byte OFFSET: a byte of configuration space
byte() {
	dd if="$dir/config" bs=1 skip=$(($1)) count=1 2>/dev/null | hexdump -e '1/1 "%u"'
}
word() {
	echo $(($(byte "$1") | $(byte $(($1 + 1))) << 8))
}

# bar NUMBER BYTES FLAGS: BAR 6 is the expansion ROM
bar() {
	line=$(sed -n "$(($1 + 1))p" "$dir/resource")
	set -- "$1" "$2" "$3" $line
	size=$(($5 - $4 + ($5 != 0)))
	[ $size = "$2" ] && [ $(($6 & 0xf00)) = $(($3)) ]
	result $? "BAR $1: $2 bytes: $line"
}
memory=0x200
io=0x100
bar 0 $((mib << 20)) $memory
bar 2 2097152 $memory
bar 5 524288 $memory
if [ -n "$plain" ]; then
	bar 4 0 0
	bar 6 0 0
	kind=msi standard=" 1@80 16@100 5@160" first=0 pmc=3
else
	bar 4 256 $io
	bar 6 131072 $memory
	kind=msix standard=" 1@80 16@100 5@160 17@192" first=11 pmc=$((0xf603))
fi

found=
at=$(byte 0x34)
while [ "$at" != 0 ]; do
	found="$found $(byte "$at")@$at"
	at=$(byte $((at + 1)))
done
[ "$found" = "$standard" ]
result $? "capabilities:$found"
[ "$(word 0x52)" = "$pmc" ]
result $? "power management: $(word 0x52)"

# There is no extended configuration space where the machine has PCI only.
if [ "$(wc -c <"$dir/config")" = 4096 ]; then
	found=
	at=256
	while [ $at != 0 ]; do
		found="$found $(word $at)@$at"
		at=$(($(word $((at + 2))) >> 4))
	done
	case $plain in
	'') extended=" 11@256 21@512 15@688" ;;
	*) extended=" 0@256" ;;
	esac
	[ "$found" = "$extended" ]
	result $? "extended capabilities:$found"
fi

[ "$(sort -u "$dir"/msi_irqs/*)" = $kind ] && [ "$(ls "$dir/msi_irqs" | wc -l)" = 1 ]
result $? "$driver has one vector of $kind"
/rkfd/clients/one_copy >/dev/null
irq=$(ls "$dir/msi_irqs")
[ "$(awk -v irq="$irq:" '$1 == irq { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i } END { print n + 0 }' /proc/interrupts)" -gt 0 ]
result $? "which has interrupted"

methods=$(cat "$dir/reset_method" 2>/dev/null)
case " $methods " in
*" flr "*) has=y ;;
*) has= ;;
esac
if [ -n "$plain" ] || [ "${FLR:-}" = y ]; then
	[ -n "$has" ]
else
	[ -z "$has" ]
fi
result $? "methods of reset: $methods"

# A board with firmware files has a BIOS in its flash chip.
if [ -z "$plain" ] && [ -d /lib/firmware/amdgpu ]; then
	echo 1 >"$dir/rom"
	[ "$(head -c 3 "$dir/rom" | hexdump -e '3/1 "%02x"')" = 55aa08 ] && [ "$(wc -c <"$dir/rom")" = 4096 ]
	result $? "the expansion ROM shows the BIOS"
	echo 0 >"$dir/rom"
fi
finish
