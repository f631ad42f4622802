#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# psp_trace.sh: the driver's commands to the PSP when it binds to a board fresh from power-up, as
# the model has recorded them, each line as a comment; and whether they came in order, were
# complete, and were accepted. Differences between the two drivers are noted below.
driver=amdgpu
[ ! -e /sys/module/rkfd ] || driver=rkfd
. /rkfd/clients/model.sh
trace_of_firmware
. /rkfd/clients/tap.sh

# has NAME BEGIN: the lines that begin so are those of standard input, of which each has as many
# words as are compared.
has() {
	cat >/tmp/expected
	echo "$trace" | grep "^$2" >/tmp/found
	awk 'NR == FNR { want[++n] = $0; words[n] = NF; next }
		{ m++; line = $1; for (i = 2; i <= words[m] && i <= NF; i++) line = line " " $i
		  if (line != want[m]) { print "# not as expected: " $0; bad = 1 } }
		END { if (m != n) print "# lines: " m + 0 ", expected: " n; exit bad || m != n }' /tmp/expected /tmp/found
	result $? "$1"
}

# where head|tail BEGIN: the number of the first or the last line that begins so.
where() {
	echo "$trace" | grep -nE "^$2" | "$1" -n 1 | cut -d: -f1
}

echo "$trace" | sed 's/^/# /'
case $answer in
ok*start*cold*) result 0 "the board was fresh from power-up" ;;
*) result 1 "the board was fresh from power-up" ;;
esac
has "the bootloader: keys, driver, secure OS" bl <<EOF
bl 0x80000 0xe30
bl 0x10000 0x21890
bl 0x20000 0x16480
EOF
has "one ring" ring <<EOF
ring make 0x1000 0x0
EOF
has "the trusted memory region" tmr <<EOF
tmr 0x800000
EOF
# Type and size. The SMU's is sent before the region exists.
has "firmware: SMU, SDMA, MEC, lists, RLC, registers" psp <<EOF
psp LOAD_IP_FW 18 0x3b300
psp SETUP_TMR 0x0
psp LOAD_IP_FW 9 0x8500
psp LOAD_IP_FW 10 0x8500
psp LOAD_IP_FW 52 0x8500
psp LOAD_IP_FW 53 0x8500
psp LOAD_IP_FW 54 0x8500
psp LOAD_IP_FW 4 0x41440
psp LOAD_IP_FW 5 0x480
psp LOAD_IP_FW 22 0x360
psp LOAD_IP_FW 20 0x700
psp LOAD_IP_FW 21 0x36e0
psp LOAD_IP_FW 8 0x4300
psp LOAD_IP_FW 67 0x15c0
EOF
[ "$(echo "$trace" | grep -E '^(bl|ring make|psp)' | awk '$NF != "0x0"' | wc -l)" = 0 ]
result $? "all of it was taken"
# The table of limits is that of the BIOS, with the board's own values in some places. The place of
# memory for tools, and the clocks, are exchanged in between.
has "the SMU: versions, where tables go, limits, features, calibration" 'smu \(0x4\|0x2\|0xf\|0x10\|0x14 0x0->ok\|0x7\|0x27\|0x43\) ' <<EOF
smu 0x4 0x0->0x8
smu 0x2
smu 0xf -->ok
smu 0x10 -->ok
smu 0x14 0x0->ok 0x2f8 01621e7477f4c033
smu 0x7 0x0->ok
smu 0x27 0x0->ok
smu 0x43 0x0->ok
EOF
# The MEC does nothing while the RLC is off. SDMA is before or after them.
{
	for engine in 0 1 2 3 4; do
		[ $driver = amdgpu ] || echo "engine sdma$engine start"
	done
	echo "engine rlc start"
	echo "engine mec start"
	for engine in 0 1 2 3 4; do
		[ $driver = rkfd ] || echo "engine sdma$engine start"
	done
} >/tmp/engines
has "the engines" 'engine .* start' </tmp/engines
[ "$(where tail '(bl|psp|smu (0x14 0x0->ok|0x7|0x27|0x43)) ')" -lt "$(where head 'engine .* start')" ]
result $? "engines start when all is loaded, and the SMU sets clocks"
finish
