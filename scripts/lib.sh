# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts here, sourced by bash: paths, progress messages, the sysroot.
# shellcheck shell=bash
set -euo pipefail
# For messages and numbers that scripts read.
export LC_ALL=C.UTF-8

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${RKFD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rkfd}
BASE=trixie
# The kernel's series that rkfd is for, newest first: the scripts take the first one that the
# archive has in full. SERIES=7.2 in the environment asks for that one.
SERIES=${SERIES:-7.3 7.2}
# Other Debian suites, on whose kernels scripts/kernels tests the module.
SUITES='forky sid experimental'
JOBS=${JOBS:-$(nproc)}

# A script must not end with the message of a tool: every known failure gets one line of ours.
die() {
	printf 'rkfd: %s\n' "$*" >&2
	exit 1
}

# A message takes the place of a terminal's line of progress.
note() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
	printf 'rkfd: %s\n' "$*" >&2
}

# step LABEL COMMAND...: runs a command with its output in a log. One line has the label and the
# time. A failure shows the end of the log, and then the message of the script's function hint, if
# it has one. A signal ends the command with all that it has started. Not for use in a condition:
# errexit would be lost. Under scripts/steps, which runs several of them, that script shows the
# progress, and gets the times.
step() {
	local label=$1 log pid guard rc=0 start=$SECONDS began=$EPOCHREALTIME shown=0 t
	shift
	mkdir -p "$CACHE/log"
	log=$CACHE/log/$(printf %s "$label" | tr -c 'A-Za-z0-9.' '-').$$.log
	if [ -n "${RKFD_STEPS:-}" ]; then
		times >"$RKFD_STEPS/cpu.$$"
		printf '%s\t%s\t%s\n' "$began" "$label" "$log" >"$RKFD_STEPS/run.$$"
	elif [ ! -t 2 ]; then
		note "$label ..."
	fi
	# In a process group of its own.
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	guard_group $pid
	# The shell would print that the command was terminated.
	trap 'exec 2>/dev/null; end_group '$pid'; exit 143' INT TERM HUP
	while [ -z "${RKFD_STEPS:-}" ] && kill -0 $pid 2>/dev/null; do
		sleep 0.2
		t=$((SECONDS - start))
		if [ -t 2 ]; then
			printf '\rrkfd: %s ... %d s ' "$label" $t >&2
		elif [ $((t - shown)) -ge 60 ]; then
			shown=$t
			note "$label ... $t s: $(last_line "$log")"
		fi
	done
	wait $pid || rc=$?
	exec {guard}>&-
	trap - INT TERM HUP
	t=$((SECONDS - start))
	if [ -n "${RKFD_STEPS:-}" ]; then
		times >>"$RKFD_STEPS/cpu.$$"
		printf '%s\t%s\t%s\t%s\n' "$label" "$began" "$EPOCHREALTIME" \
			"$(tr '\n' ' ' <"$RKFD_STEPS/cpu.$$")" >>"$RKFD_STEPS/times"
		rm -f "$RKFD_STEPS/run.$$" "$RKFD_STEPS/cpu.$$"
	fi
	if [ $rc -ne 0 ]; then
		note "$label: failed after $t s; the end of $log:"
		tail -n 20 "$log" >&2
		if declare -F hint >/dev/null; then
			hint "$log"
		fi
		exit $rc
	fi
	note "$label: $t s"
	rm -f "$log"
}

# end_group ID: ends all programs of a process group.
end_group() {
	local n
	trap '' INT TERM HUP
	kill -- -"$1" 2>/dev/null || return 0
	for n in {1..100}; do
		sleep 0.1
		kill -0 -- -"$1" 2>/dev/null || return 0
	done
	kill -KILL -- -"$1" 2>/dev/null || true
}

# guard_group ID: ends that process group when this script has ended, also if it was killed, until the
# descriptor in "guard" is closed. The process that does it waits for the end of a pipe, in a session
# of its own, as whoever kills the script may kill its whole process group.
guard_group() {
	exec {guard}> >(exec setsid bash -c "$(declare -f end_group); cat >/dev/null; end_group $1" >/dev/null 2>&1)
}

# last_line LOG: what a step says now.
last_line() {
	tail -c 300 "$1" 2>/dev/null | tr '\r\t' '\n ' | grep -v '^ *$' | tail -n 1 | cut -c 1-90 || true
}

need_root() {
	[ "$(id -u)" = 0 ] || die "root is needed (chroot, mmdebstrap): run it as root or with sudo"
}

# The disk that the cache needs at first (Documentation/testing.md), and the machine's memory for two
# guests or a compiler at a time, in MiB.
NEED_DISK=6000
NEED_MEMORY=6000

# need_room: ends a first build before it begins where it could not end.
need_room() {
	local free memory
	mkdir -p "$CACHE" || die "$CACHE cannot be made: set RKFD_CACHE=FOLDER"
	free=$(df -Pm "$CACHE" | awk 'END { print $4 }')
	[ "$free" -ge $NEED_DISK ] ||
		die "$CACHE has $free MB free, and a first build takes $NEED_DISK: make room, or set RKFD_CACHE=FOLDER"
	# There may be no /proc.
	memory=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo 2>/dev/null) || return 0
	[ "${memory:-$NEED_MEMORY}" -ge $NEED_MEMORY ] ||
		die "this machine has $memory MB of memory, and builds and guests need $NEED_MEMORY"
}

digest() {
	sha256sum | cut -c 1-12
}

# sysroot_of SERIES...: the path of a sysroot, a function of the package list and of the kernel's
# series, with PINNED=y also of the list of versions; the scripts that make the sysroot may change
# freely. For several series it is a link to the sysroot of the chosen one, and the path also depends
# on the script that chooses.
sysroot_of() {
	echo "$CACHE/sysroot-$({
		echo "$BASE $*"
		cat "$TOP/scripts/packages"
		[ $# -eq 1 ] || cat "$TOP/scripts/kernel-packages"
		[ -z "${PINNED:-}" ] || cat "$TOP/scripts/pinned"
	} | digest)"
}
# shellcheck disable=SC2086
SYSROOT=$(sysroot_of $SERIES)
# This checkout's places inside the sysroot: copies of the sources, and the built files. make cannot
# have spaces in paths.
CHECKOUT=$(basename "$TOP" | tr -c 'A-Za-z0-9._+\n-' -)-$(printf %s "$TOP" | digest | cut -c 1-6)
SRC=/src/$CHECKOUT
OUT=/out/$CHECKOUT

# locked NAME COMMAND...: runs the command under a lock of that name, for all checkouts on this
# machine. The lock is held until the last program that the command has started is gone.
locked() {
	local name=$1 lock
	shift
	mkdir -p "$CACHE"
	(
		exec {lock}>"$CACHE/$name.lock"
		flock -n $lock || { note "waiting for another run ($name)"; flock $lock; }
		"$@"
	)
}

# ENTER is the prefix that runs a command in the sysroot: chroot, with /proc where the machine
# allows it. The mount is in a separate mount namespace and ends with it, so that the cache never
# holds a mount. Every link of the chain is an exec, so the process id of a background job is that
# of the command.
enter() {
	ENTER=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" "$@")
	if unshare -m true 2>/dev/null; then
		# shellcheck disable=SC2016
		ENTER+=(unshare -m --propagation private /bin/sh -c
			'mount -t proc proc "$0/proc" 2>/dev/null; exec chroot "$0" "$@"' "$SYSROOT")
	else
		ENTER+=(chroot "$SYSROOT")
	fi
}
enter

in_sysroot() {
	"${ENTER[@]}" "$@"
}

# The sysroot's rsync, run on the machine's own files, because a minimal machine has no rsync.
rsync() {
	"$SYSROOT/lib64/ld-linux-x86-64.so.2" --library-path "$SYSROOT/usr/lib/x86_64-linux-gnu" \
		"$SYSROOT/usr/bin/rsync" "$@"
}

# sync_sources DIR: brings a copy of this checkout in the sysroot up to date. Build products stay on
# both sides.
sync_sources() {
	local f filters=(--exclude=/.git --exclude=/target)
	for f in '*.o' '*.ko' '.*.cmd' '*.mod' '*.mod.c' '*.rmeta' '*.d' '*_generated.rs' \
		.module-common.o Module.symvers modules.order; do
		filters+=(--exclude="$f")
	done
	mkdir -p "$SYSROOT$1"
	(
		# Steps that run side by side have the same sources.
		flock 8
		rsync -a --delete "${filters[@]}" "$TOP/" "$SYSROOT$1/"
	) 8>"$CACHE/$CHECKOUT-sources.lock"
}

# fresh NAME FOLDER...: removes these folders of the sysroot if a build of that name (whole) was ended
# half way, because some compilers leave a part of a file then.
fresh() {
	local name=$1 f
	shift
	[ -e "$SYSROOT$name.unfinished" ] || return 0
	for f; do rm -rf "${SYSROOT:?}$f"; done
}

# whole NAME COMMAND...: runs a command of a step, which builds. Unless a signal ends it, it has
# finished, well or not.
whole() {
	unfinished=$SYSROOT$1.unfinished
	shift
	mkdir -p "$(dirname "$unfinished")"
	touch "$unfinished"
	trap 'exit 143' INT TERM HUP
	trap '[ $? = 143 ] || rm -f "$unfinished"' EXIT
	"$@"
}

# of_kernel KERNEL: sets K to the folder of that kernel: stock, Debian's of the sysroot; debug; or
# one of SUITES, which has a root of its own within the sysroot, with the compilers of that suite.
K=$SYSROOT/k
of_kernel() {
	case $1 in
	stock | debug) K=$SYSROOT/k ;;
	*)
		[[ " $SUITES " == *" $1 "* ]] || die "no kernel $1: there are stock, debug, ${SUITES// /, }"
		K=$(suite_root "$1")/k ;;
	esac
}

# suite_root SUITE: a link to the root with the kernel of that suite. The archive is asked again
# when the scripts that make the root change.
suite_root() {
	echo "$SYSROOT/kernel/$1-$(cat "$TOP/scripts/kernel-root" "$TOP/scripts/kernel-packages" | digest)"
}

# work_in ROOT: makes that root take the sysroot's place.
work_in() {
	SYSROOT=$1
	enter
}

kernel_release() {
	cat "$K/release"
}

# The series as in Debian's package names, such as 7.3.
kernel_series() {
	kernel_release | sed -E 's/^([0-9]+\.[0-9]+).*/\1/'
}

# stock_config NAME: the value of a setting in Debian's own configuration.
stock_config() {
	sed -nE "s/^CONFIG_$1=\"?([^\"]*)\"?\$/\1/p" "$K/stock/usr/src/linux-headers-$(kernel_release)/.config"
}

# stock_make ARGUMENTS...: runs make as for Debian's kernel: with the compiler that the kernel was
# built with, and for the release that it reports, which for a release candidate differs from its
# Makefile. Rust code gets no debug information, which costs a third of the time and is in no
# guest; KRUSTFLAGS= among the arguments brings it back.
stock_make() {
	local release compiler
	release=$(kernel_release)
	compiler=$(stock_config CC_VERSION_TEXT)
	in_sysroot make CC="${compiler%% *}" KERNELVERSION="${release%%[+-]*}" LOCALVERSION="${release#"${release%%[+-]*}"}" \
		KRUSTFLAGS=-Cdebuginfo=0 -j"$JOBS" "$@"
}

debug_kernel() {
	echo "debug-$(cat "$TOP"/scripts/debug.{config,Kconfig} | digest)"
}

# suite_form KERNEL: the form in which a guest gets ROCm clients. The debug kernel is built without
# disks.
suite_form() {
	[ "$1" = debug ] && echo archive || echo disk
}

# registry_hint LOG: the reason why cargo failed, if its log says that it did not reach the registry.
registry_hint() {
	! grep -qiE 'could not resolve|download of|failed to (get|fetch)|spurious network|timed out' "$1" ||
		note "the crate registry cannot be reached: check the network and cargo's settings (~/.cargo/config.toml)"
}

# runner ARGUMENTS: tests/runner takes this shell's place. It is linked statically, as it runs on
# the machine itself, whose C library may be older than the sysroot's.
runner() {
	[ -n "${RKFD_PREPARED:-}" ] || locked "$CHECKOUT" "$TOP/scripts/part" runner
	exec "$SYSROOT$OUT/target/debug/rkfd-runner" --top "$TOP" --cache "$CACHE" \
		--sysroot "$SYSROOT" --out "$OUT" --checkout "$CHECKOUT" --base "$BASE" \
		--suites "$SUITES" "$@"
}
