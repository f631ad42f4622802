#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# reference.sh TABLE...: whether this machine says of its GPUs what real ones say, by tables beside
# this script, as TAP. With RKFD_VALUES=FILE it keeps the values there.
here=$(dirname "$0")
[ -e /dev/kfd ] || exit 4
echo "TAP version 13"
values=${RKFD_VALUES:-/tmp/values}
n=0
bad=0
# Those of cards that no guest has, too.
for table in "$here"/mi*; do
	awk -v form=1 -v n=$((n + 1)) -f "$here/compare.awk" "$table" >/tmp/compared || bad=1
	cat /tmp/compared
	n=$((n + $(grep -cE '^(not )?ok ' /tmp/compared)))
done
for table; do
	# shellcheck disable=SC2046
	"$here/values.sh" $(sed -n 's/^# parts: //p' "$here/$table") >"$values"
	echo "# $table"
	awk -v n=$((n + 1)) -f "$here/compare.awk" "$here/$table" "$values" >/tmp/compared || bad=1
	cat /tmp/compared
	n=$((n + $(grep -cE '^(not )?ok ' /tmp/compared)))
done
[ -z "$RKFD_SHOW" ] || sed 's/^/# value /' "$values"
echo "1..$n"
exit $bad
