#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# For run.sh: the commands of Documentation/silicon.md, which is beside it, in the order in which they
# are there. They run as they stand, by root's shell, where the packages are installed.
page=$here/silicon.md

# page_programs: the programs that the page names, as the folder of the packages has them
page_programs() {
	grep -oE '(kselftest|clients|bench|fuzz)/[a-z][a-z_0-9]*' "$page" | sort -u
}

# no_card LINE: prints why this machine cannot run a line of the page; false if it can
no_card() {
	case $1 in
	lspci*) echo "the disk has no pciutils" ;;
	"modprobe amdgpu"*) echo "amdgpu wants a BIOS that this board does not have" ;;
	*amdgpu_firmware_info*) echo "it is a file of amdgpu's" ;;
	*rocm-smi*) echo "the disk has neither xxd nor rocm-smi" ;;
	*) return 1 ;;
	esac
}

# page_runs: a result for each line
page_runs() {
	folder=/tmp skipped=0
	sed -n 's/^    //p' "$page" >/tmp/lines
	while read -r line; do
		case $line in
		"cd "*)
			folder=${line#cd }
			debian test -d "$folder"
			result $? "silicon.md: $line"
			continue ;;
		esac
		why=$(no_card "$line")
		if [ -n "$why" ]; then
			echo "# not run, as $why: $line"
			skipped=$((skipped + 1))
			continue
		fi
		# As in a shell that stops at the first command that fails.
		debian RKFD_QUICK=1 sh -ec "cd $folder; $line" >/tmp/log 2>&1 </dev/null
		rc=$?
		[ $rc -eq 0 ] || grep -vE '^ok ' /tmp/log | tail -n 30 | sed 's/^/# /'
		result $rc "silicon.md: $line"
	done </tmp/lines
	[ $skipped = 4 ]
	result $? "silicon.md: four lines cannot run here"
}
