#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For shell programs that command the device model: . /rkfd/clients/model.sh, then tell COMMAND...;
# the answer is in $answer.

tell() {
	exec 5<>/dev/rkfd-model
	echo "$*" >&5
	IFS= read -r answer <&5
	exec 5>&-
	case $answer in
	ok*) ;;
	*)
		echo "Bail out! the model says: $answer"
		exit 1 ;;
	esac
}

# counted GROUP.KEY: prints that counter of the model
counted() {
	tell count "$1"
	echo "$answer" | tr -d '\r' | cut -d' ' -f2
}

# Puts into $trace the commands to the PSP, the SMU and engines since power-up, each in a line.
trace_of_firmware() {
	tell firmware
	trace=$(echo "$answer" | tr -d '\r"' | sed 's/.*trace:\[//; s/\].*//' | tr ',' '\n')
}
