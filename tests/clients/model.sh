#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For programs of the shell that tell the device model something: . /rkfd/clients/model.sh, then tell COMMAND...; what is
# answered is in $answer.

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

# In $trace what the PSP, the SMU and engines were told since power-up, each in a line.
trace_of_firmware() {
	tell firmware
	trace=$(echo "$answer" | tr -d '\r"' | sed 's/.*trace:\[//; s/\].*//' | tr ',' '\n')
}
