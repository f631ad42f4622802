#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# kexec.sh [hang | slow]: another kernel takes over while the GPU copies and has compute queues
# without end; with hang on engines that hang and behind hubs that do not answer, with slow on
# engines that take longer to release all queues than the driver waits. It finds an idle GPU, or
# with slow one that was left in the middle, loads rkfd and copies. The second half runs in that
# kernel: /init finds a plan that begins with this. A GPU that writes to memory without permission
# ends the run (the model reports it).
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh

if [ ! -e /rkfd/run/began ]; then
	load_rkfd && bound || bail "no GPU"
	# The root file system is in memory: the other kernel gets the same, without files that only
	# other tests need.
	mkdir -p /tmp/more/rkfd/run
	sed -n '/kexec\.sh/,$p' /rkfd/run/plan >/tmp/more/rkfd/run/plan
	date +%s >/tmp/more/rkfd/run/began
	cd / || exit
	{
		find dev proc sys tmp run root -maxdepth 0
		find init bin sbin lib lib64 etc usr rkfd -xdev | grep -v '^rkfd/\(bench\|fuzz\|kexec\|kselftest\|rocr\)/'
	} | cpio -o -H newc 2>/dev/null >/tmp/initrd
	(cd /tmp/more && find . | cpio -o -H newc 2>/dev/null) >>/tmp/initrd
	# For the test runner, which reads the log with its levels.
	{ echo log; dmesg -r; } >/dev/ttyS3
	/rkfd/clients/kexec /rkfd/kexec/vmlinuz /tmp/initrd "$@" >/tmp/why
	bail "$(tail -n 1 /tmp/why)"
fi

result 0 "another kernel runs"
echo "# after $(($(date +%s) - $(cat /rkfd/run/began))) s"
after=$(counted registers.without_master)
echo "# $after accesses to registers since the GPU may not write to memory"
case ${1:-} in
hang)
	# By registers, when it may not write to memory any more.
	[ "$after" != 0 ]
	result $? "it was reset when it was taken down"
	for engine in 0 1 2 3 4; do
		tell resume $engine
	done
	tell hubs answer ;;
slow)
	# A thread that was at a register when the driver gave up.
	tell linger 0 ;;
*)
	[ "$after" = 0 ]
	result $? "nobody has used the GPU's registers since it was taken down" ;;
esac
load_rkfd && bound
result $? "rkfd takes the GPU"
left=$(dmesg | grep 'a driver went and left running')
if [ "${1:-}" = slow ]; then
	[ -n "$left" ]
	result $? "which was not taken down to the end"
else
	[ -z "$left" ]
	result $? "on which nothing ran" || echo "# $left"
fi
/rkfd/clients/one_copy >/dev/null
result $? "and copies"
/rkfd/clients/unload.sh
result $? "the module goes"
finish
