#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# criu.sh [SUITE PROGRAM]: CRIU saves a program whose waves are in the middle of their work, ends it,
# and makes it again, twice. The program, clients/saved or one among these clients of a Debian
# release, gets the name of a file as its argument, and goes on until that is there.
for f in unix_diag udp_diag tcp_diag inet_diag af_packet_diag netlink_diag; do modprobe -q $f; done
# CRIU tries TCP before it does anything.
ifconfig lo 127.0.0.1 up
if [ $# = 2 ]; then
	# The plugin knows render nodes by their paths, so the release is the root of both.
	suite "$1" true || exit
	mkdir -p /tmp/bin
	busybox --install /tmp/bin
	export PATH=/tmp/bin:$PATH
	exec unshare -m sh -c 'cd "/suite/$0" && mount --move . / && exec chroot . sh "/rkfd/clients/criu.sh" "$1"' "$@"
fi
. /rkfd/clients/tap.sh
criu=/rkfd/criu
work=/tmp/criu
[ $# = 1 ] || set -- saved
rm -rf $work
mkdir -p $work

# The last lines of CRIU's log, for whoever reads the result.
log() {
	tail -n 25 "$1" | sed 's/^/# /'
	dmesg | tail -n 5 | sed 's/^/# /'
}

# lives: true if the program runs, and is no zombie.
lives() {
	grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null
}

# until_true COMMAND...: true if the command is in time
until_true() {
	for n in $(seq 600); do
		! "$@" || return 0
		sleep 0.1
	done
	return 1
}

save() {
	mkdir -p "$1"
	LD_LIBRARY_PATH=$criu $criu/criu dump -t $pid -D "$1" -o dump.log -v4 -L $criu
}

restore() {
	LD_LIBRARY_PATH=$criu $criu/criu restore -d -D "$1" -o restore.log -v4 -L $criu
}

setsid "$@" $work/stop </dev/null >$work/out 2>&1 &
pid=$!
until_true grep -q ' runs\?$' $work/out || { sed 's/^/# /' $work/out; bail "the program does not start"; }
for round in 1 2; do
	save $work/$round
	result $? "saved, round $round" || { log $work/$round/dump.log; finish; exit 1; }
	! lives
	result $? "it has ended, round $round"
	restore $work/$round
	result $? "restored, round $round" || { log $work/$round/restore.log; finish; exit 1; }
	lives
	result $? "it lives, round $round"
done
touch $work/stop
until_true grep -q '^1\.\.' $work/out
sed 's/^/# /' $work/out
! grep -q '^not ok' $work/out && grep -q '^ok' $work/out && grep -q '^1\.\.' $work/out
result $? "its work is right"
finish
