#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# BAR0 shows less VRAM than the driver itself needs: the errno, one line that says what to change,
# and nothing left behind.
. /rkfd/clients/tap.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh

device=$(basename "$(dirname "$(grep -l 0x740f /sys/bus/pci/devices/*/device)")")
unmapped=$(mappings)
mark
load_rkfd
! bound && since_mark | grep -q 'the GPU cannot be used: ENOMEM$'
result $? "it is not used: ENOMEM"
one 'BAR0 shows 16 of 512 MiB of VRAM, and the rest is not used: in the BIOS setup, enable Above 4G Decoding and Resizable BAR'
result $? "one line"
nothing_left
result $? "nothing is left"
unload
finish
