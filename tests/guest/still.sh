#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Guests that stand still, and what the test runner makes of them. They are stopped by QEMU's
# monitor, or with QEMU as a whole. No device and no module is there. Prints TAP.
. "$(dirname "$0")/../../scripts/lib.sh"
export RKFD_SILENCE=150
n=0 bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# boot: starts a guest in DIR; its runner's process is VM.
boot() {
	dir=$(mktemp -d "$SYSROOT/vm/$CHECKOUT.XXXXXX")
	CMD='echo it has run; sleep 2' ADD='' PARAMS=nomod TIMEOUT=100 MODEL=none MEMORY=1G DIR=$dir \
		"$TOP/scripts/guest" >/dev/null 2>"$work/err" &
	vm=$!
}

# once FILE TEXT: waits until FILE of DIR has it.
once() {
	local _
	for _ in $(seq 1200); do
		! grep -qa "$2" "$dir/$1" 2>/dev/null || return 0
		kill -0 $vm 2>/dev/null || return 1
		sleep 0.1
	done
	return 1
}

# stop: its processors stand still, and QEMU answers.
stop() {
	echo stop 1<>"$dir/monitor.in"
}

# result NAME STATUS BOOTS TEXT: how the runner ended, after how many boots, and what it said.
result() {
	local rc=0 boots=1
	wait $vm || rc=$?
	[ ! -e "$dir/console.again" ] || boots=2
	n=$((n + 1))
	if [ $rc = "$2" ] && [ $boots = "$3" ] && grep -q "$4" "$work/err"; then
		echo "ok $n $1"
	else
		echo "# status $rc, boots: $boots; it said:"
		sed 's/^/# /' "$work/err"
		echo "not ok $n $1"
		bad=1
	fi
}

boot
once console 'Linux version' && stop
once out 'it has run' || echo '# the command has not run'
result 'a kernel that stands still before its first program is started again' 0 2 '^rkfd: the kernel stood still (CPU#0 [ER]IP=.*booting again'

boot
once console 'Linux version' && stop
once console.again 'Linux version' && once console 'Linux version' && stop
result 'and not a second time' 1 2 'no sign of life'

boot
once status '^begin' && stop
result 'one that stands still where modules are loaded is not' 1 1 'no sign of life'

boot
once console 'Linux version' && kill -STOP "$(pgrep -f "^qemu-system-x86_64 .*path=${dir#"$SYSROOT"}/console")"
result 'nor is a QEMU that stands still' 1 1 'QEMU does not answer'

echo "1..$n"
exit $bad
