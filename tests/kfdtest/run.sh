#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# run.sh [quick] [FILTER]: KFDTest's cases, each in a process of its own, as TAP, compared with the
# file list beside this one: an unexpected pass is as wrong as an unexpected failure. FILTER is
# patterns separated by colons, as in gtest; quick runs only those that list marks so. The head of
# list explains its expectations.
here=$(dirname "$0")
quick=
[ "${1:-}" != quick ] || { quick=y; shift; }
filter=${1:-*}
out=/tmp/kfdtest.out
limit=${RKFD_TIMEOUT:-60}
# PtraceAccessInvisibleVram makes libhsakmt map memory that the CPU may not touch.
export HSA_DEBUG=1
# With rkfd there is a /sys/module/amdgpu, too, where libraries look for its parameters.
driver=amdgpu
[ ! -e /sys/module/rkfd ] || driver=rkfd
n=0 bad=0

selected() {
	set -f
	IFS=:
	for pattern in $filter; do
		case $1 in
		$pattern) set +f; unset IFS; return 0 ;;
		esac
	done
	set +f
	unset IFS
	return 1
}

# The result of a case: passes, skips, fails, hangs or crashes. Waits for the GPU take at most 30 s,
# and not 10, as an emulated one on a busy host may need more than those.
verdict() { # CASE SECONDS
	timeout -s KILL "$2" "$here/kfdtest" --gtest_filter="$1" --timeout=30000 >$out 2>&1
	case $? in
	0) ;;
	1) echo fails; return ;;
	124 | 137)
		# Its children would go on, beside the following cases.
		killall -KILL kfdtest 2>/dev/null
		echo hangs
		return ;;
	*) echo crashes; return ;;
	esac
	if ! grep -q "^\[       OK \]" $out; then
		echo fails
	elif grep -qiE 'skip(ping)?( the)? test|test is skipped' $out; then
		echo skips
	else
		echo passes
	fi
}

report() { # ok|"not ok" TEXT
	n=$((n + 1))
	echo "$1 $n $2"
}

wrong() { # TEXT
	bad=1
	tail -n 40 $out | sed 's/^/# /'
	report "not ok" "$1"
}

while read -r name expected amdgpu mark why; do
	case $name in
	"" | "#"*) continue ;;
	esac
	[ -z "$quick" ] || [ "$mark" = quick ] || continue
	selected "$name" || continue
	[ $driver = rkfd ] || [ "$amdgpu" = same ] || expected=$amdgpu
	case $expected in
	# Its reason gives the effect on the guest.
	never) report ok "$name # SKIP $why"; continue ;;
	untried) [ "$filter" != '*' ] || { report ok "$name # SKIP untried: $why"; continue; } ;;
	esac
	start=$(date +%s)
	[ "$mark" = long ] && most=$((limit * 30)) || most=$limit
	found=$(verdict "$name" $most)
	took=$(($(date +%s) - start))
	[ $took -lt 5 ] || echo "# $name: $took s"
	case $found/$expected in
	passes/passes) report ok "$name" ;;
	skips/skips | passes/empty) report ok "$name # SKIP $why" ;;
	fails/fails | crashes/crashes) report "not ok" "$name # TODO $why" ;;
	*) wrong "$name $found, and $expected by the list${why:+: $why}" ;;
	esac
done <"$here/list"

if [ -z "$quick" ] && [ "$filter" = '*' ]; then
	"$here/kfdtest" --gtest_list_tests 2>/dev/null |
		awk '/^[A-Za-z]/ { suite = $1 } /^  / { print suite $1 }' | sort >/tmp/kfdtest.cases
	awk '!/^#/ && NF { print $1 }' "$here/list" | sort >/tmp/kfdtest.listed
	if diff /tmp/kfdtest.cases /tmp/kfdtest.listed >$out; then
		report ok "the list has all cases"
	else
		wrong "the list has all cases"
	fi
fi
echo "1..$n"
exit $bad
