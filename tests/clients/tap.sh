#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# For shell programs that print TAP: . /rkfd/clients/tap.sh, then a result for each condition, then
# finish. The lines are those of the kernel's ktap_helpers.sh, whose plan comes last here.
. /rkfd/clients/ktap_helpers.sh
ktap_print_header

# result STATUS NAME: returns STATUS
result() {
	if [ "$1" = 0 ]; then
		ktap_test_pass "$2"
		return 0
	fi
	ktap_test_fail "$2"
	return "$1"
}

# skip NAME WHY
skip() {
	__ktap_test ok "$1" "SKIP $2"
	KTAP_CNT_SKIP=$((KTAP_CNT_SKIP + 1))
}

# bail TEXT: ends the program, which can't go on
bail() {
	ktap_exit_fail_msg "$*"
}

# finish: prints the plan; true if all was well
finish() {
	ktap_set_plan $((KTAP_TESTNO - 1))
	ktap_print_totals
	[ "$KTAP_CNT_FAIL" = 0 ] && [ "$KTAP_TESTNO" -gt 1 ]
}
