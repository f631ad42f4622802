#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# rkfd's handling of a board whose firmware start has stopped at any point: it works, or is not
# bound, with a line that says why, and works again after a power cycle.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh

# on START NAME [LOG TEXT]: with the text it is not bound, without it works. START is a state of the
# board's, or stuck-engine: dirty, with an engine that has crashed.
on() {
	/rkfd/clients/unload.sh || bail "the module does not go"
	case $1 in
	stuck-engine)
		tell power dirty
		tell crash sdma2
		;;
	*)
		tell power "$1"
		;;
	esac
	lines=$(dmesg | wc -l)
	load_rkfd
	if [ -z "${3:-}" ]; then
		bound && /rkfd/clients/one_copy >/dev/null
	else
		! bound && dmesg | tail -n +$((lines + 1)) | grep -q "$3"
	fi
	result $? "$2"
}

on cold "a board that is fresh from power-up"
on dirty "one on which a driver has crashed"
on stuck-engine "one on which an engine does not stop either" 'sdma2, which a driver has left running, does not stop'
on warm "one that a driver has left in good order"
on unposted "one that is not posted" 'the GPU is left alone: .*not posted'
on stuck "one whose bootloader has failed" 'the GPU is left alone: .*C2PMSG_35 = 0x8000000b'
on cold "all is well again"
finish
