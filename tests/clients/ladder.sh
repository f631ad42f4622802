#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Whether first-error names the right ioctl, for clients that fail on purpose, after calls that
# succeed.

check() { # NAME COMMAND...: whether the command succeeds
	name=$1
	shift
	"$@"
	result $? "$name"
}

# The output of first-error at the end of a command, and its status.
run() {
	first-error sh -c "$1" >/tmp/ladder
	status=$?
	said=$(sed -n 's/^# first ioctl answered with an error: //p' /tmp/ladder)
}

[ -e /dev/kfd ] || exit 4
. /rkfd/clients/tap.sh

# The runtime registers twice, which is RUNTIME_ENABLE's EBUSY; later it does so with queues:
# EEXIST.
run '/rkfd/kselftest/ioctls -t runtime_enable; exit 3'
check "the first of several errors" [ "${said#pid=* }" = "nr=0x25 error=-16" ]
check "the status is the client's" [ $status = 3 ]

run '/rkfd/kselftest/version -t unknown_commands; exit 1'
check "an ioctl that nobody has" [ "${said#pid=* }" = "nr=0x00 error=-25" ]

run 'exit 1'
check "a client that fails by itself" [ "$said" = none ]
run '/rkfd/kselftest/ioctls -t runtime_enable'
check "nothing of a client that succeeds" [ "$said.$status" = .0 ]
finish
