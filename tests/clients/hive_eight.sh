#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# hive_eight.sh: the eight dies of four cards of MI250X: each pair has one link in the topology, by
# the number of links on the way; pairs of a card have four. The files xgmi_* say the same.
. /rkfd/clients/tap.sh

topology=/sys/class/kfd/kfd/topology/nodes
# The neighbours of each die.
map="0:1,2,6 1:0,3,5 2:0,3,4 3:1,2,7 4:2,5,6 5:1,4,7 6:0,4,7 7:3,5,6"
# hops FROM TO: links on the shortest way
hops() {
	echo "$map" | tr ' ' '\n' | awk -F '[:,]' -v from="$1" -v to="$2" '
		{ for (n = 2; n <= NF; n++) near[$1 "," $n] = 1 }
		END {
			reached[from] = 1
			for (hops = 0; !(to in reached); hops++) {
				for (die in reached) before[die] = 1
				for (die in before)
					for (n = 0; n < 8; n++)
						if (near[die "," n]) reached[n] = 1
			}
			print hops
		}'
}

gpus=
for node in $(ls $topology | sort -n); do
	[ "$(cat $topology/"$node"/gpu_id)" = 0 ] || gpus="$gpus $node"
done
# shellcheck disable=SC2086
set -- $gpus
[ $# = 8 ]
result $? "there are eight GPUs"
first=$1
hive=$(awk '$1 == "hive_id" { print $2 }' $topology/"$first"/properties)
[ "$hive" != 0 ]
result $? "they are in a hive"

wrong=0
for from in "$@"; do
	grep -q "^hive_id $hive\$" $topology/"$from"/properties || wrong=$((wrong + 1))
	a=$((from - first))
	for to in "$@"; do
		[ "$from" != "$to" ] || continue
		b=$((to - first))
		far=$(hops $a $b)
		most=0
		[ "$far" != 1 ] || most=50000
		least=$most
		[ $((a / 2)) != $((b / 2)) ] || most=200000
		links=$(grep -l "^node_to $to\$" $topology/"$from"/io_links/*/properties)
		found=$(awk '$1 == "type" || $1 == "weight" || $1 ~ /bandwidth/ { printf "%s ", $2 }' "$links")
		[ "$found" = "11 $((15 * far)) $least $most " ] || {
			echo "# from $a to $b: $found"
			wrong=$((wrong + 1))
		}
	done
done
[ $wrong = 0 ]
result $? "each pair has its link"

wrong=0
for dir in /sys/bus/pci/drivers/rkfd/????:*; do
	own=$(cat "$dir"/xgmi_physical_id)
	expected=
	for other in 0 1 2 3 4 5 6 7; do
		expected="$expected$(printf '%02x' "$(hops "$own" $other)") "
	done
	[ "$(cat "$dir"/xgmi_num_hops)" = "$expected" ] || {
		echo "# die $own: $(cat "$dir"/xgmi_num_hops)"
		wrong=$((wrong + 1))
	}
done
[ $wrong = 0 ]
result $? "the files tell the hops"
finish
