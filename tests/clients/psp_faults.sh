#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# Possible errors of PSP, SMU and engines, at every step of probe at which they can occur: the
# errno, one line with the cause, nothing left behind, and the GPU works once the fault is gone;
# without a power cycle, where the hung part was not the PSP itself. The faults are the model's
# (Documentation/model-firmware.md). psp_faults.sh SHARE: only each SHARE-th of them.
. /rkfd/clients/tap.sh
. /rkfd/clients/model.sh
. /rkfd/clients/drivers.sh
. /rkfd/clients/probe.sh
share=${1:-1}
case=0

# fault FAULT: loads the driver with that fault, unless it is not in the share of faults.
fault() {
	case=$((case + 1))
	[ $((case % share)) = 0 ] || return
	unload
	tell power cold
	tell psp-fault "$1"
	mark
	load_rkfd clocks=1
	return 0
}

# again FAULT [power]: the fault is gone, and the GPU works; with power after a power cycle.
again() {
	tell psp-fault none
	unload
	[ -z "${2:-}" ] || tell power cold
	load_rkfd clocks=1
	works
	result $? "$1: it works again${2:+ when the board was switched off and on}"
}

# refused FAULT ERRNO LINE [power]
refused() {
	fault "$1" || return 0
	! bound && since_mark | grep -q "the GPU cannot be used: $2\$"
	result $? "$1: $2"
	one "$3"
	result $? "$1: one line, $3"
	nothing_left
	result $? "$1: nothing is left"
	again "$1" "${4:-}"
}

# survived FAULT LINE: it is used nevertheless
survived() {
	fault "$1" || return 0
	works && one "$2"
	result $? "$1: it is used, and one line, $2"
	again "$1"
}

# leaving FAULT LINE: the fault occurs when the module is unloaded
leaving() {
	fault "$1" || return 0
	works
	result $? "$1: it is used"
	mark
	unload
	one "$2"
	result $? "$1: one line, $2"
	again "$1"
}

# chip LINE [AT=BYTE...]: with these bytes in the flash chip, or a blank one, it is used
# nevertheless, with sensors
chip() {
	case=$((case + 1))
	[ $((case % share)) = 0 ] || return 0
	line=$1
	shift
	unload
	tell power cold
	[ $# != 0 ] || tell flash blank
	for poke in "$@"; do
		tell flash "$poke"
	done
	mark
	load_rkfd clocks=1
	works && one "$line" && [ -e "/sys/bus/pci/devices/$device/gpu_metrics" ]
	result $? "flash ${*:-blank}: it is used, and one line, $line"
	tell flash whole
	again "flash ${*:-blank}"
}

begin

survived no-flash 'the firmware of the flash chip does not say that it has run'
refused no-bootloader ENODEV 'the GPU is left alone: .*C2PMSG_35 = 0x00000000' power
code=10
for part in "kdb PSP's key database" "sys PSP's system driver" "sos PSP's secure OS"; do
	name=${part%% *} what=${part#* } code=$((code + 1))
	case $name in
	# After that one it is silent in any case.
	sos) silence="$what does not begin" ;;
	*) silence="bootloader: the $what: no answer" ;;
	esac
	refused "bootloader=$name:$code" EIO "bootloader: it refuses the $what: code $(printf '0x%x' $code)" power
	refused "bootloader-hangs=$name" ETIMEDOUT "$silence" power
done
refused no-secure-os ETIMEDOUT "PSP's secure OS does not begin" power
refused ring=0x124 EIO 'making the ring: status 0x124'
refused ring-hangs ETIMEDOUT 'making the ring: no answer' power

# The commands of the ring in order, and whether the GPU works without them.
command=0
while read -r how what; do
	command=$((command + 1))
	case $how in
	needed) refused "status=$command:0xffff000f" EIO "$what: status 0xffff000f" ;;
	*) survived "status=$command:0xffff000f" "$what: status 0xffff000f" ;;
	esac
	refused "no-fence=$command" ETIMEDOUT "$what: no answer"
done <<EOF
needed SMU firmware (type 18)
needed its own memory
needed SDMA firmware (type 9)
needed SDMA firmware (type 10)
needed SDMA firmware (type 52)
needed SDMA firmware (type 53)
needed SDMA firmware (type 54)
needed MEC firmware (type 4)
needed MEC's jump table (type 5)
list RLC's restore control (type 22)
list RLC's GPM list (type 20)
list RLC's SRM list (type 21)
needed RLC firmware (type 8)
list register list (type 67)
EOF
leaving "status=$((command + 1)):0xffff0007" 'giving up its memory: status 0xffff0007'
leaving "no-fence=$((command + 1))" 'giving up its memory: no answer'

refused smu-off EIO 'SMU: its firmware was loaded, and does not run'
refused smu=4:0xff EIO 'SMU: GetDriverIfVersion (0x4): it failed'
refused smu=4:0xfe EIO 'SMU: GetDriverIfVersion (0x4): unknown message'
refused smu=2:0xfd EIO 'SMU: GetSmuVersion (0x2): something has to come before'
refused smu=2:0xfc EIO 'SMU: GetSmuVersion (0x2): it is busy'
refused smu=2:0x77 EIO 'SMU: GetSmuVersion (0x2): answer 0x77'
refused smu-hangs=4 ETIMEDOUT 'SMU: GetDriverIfVersion (0x4): no answer'
refused smu-hangs=2 ETIMEDOUT 'SMU: GetSmuVersion (0x2): no answer'
# Without sensors then, and with the clocks of the board's own firmware.
none='SMU: there are no sensors, and clocks and limits of power stay as at power-on:'
survived smu=0xf:0xfe "$none SetDriverDramAddrHigh (0xf): unknown message"
survived smu=0x10:0xfc "$none SetDriverDramAddrLow (0x10): it is busy"
survived smu=0xe:0xff "$none GetEnabledSmuFeaturesHigh (0xe): it failed"
survived smu=0xd:0xff "$none GetEnabledSmuFeaturesLow (0xd): it failed"
survived smu-hangs=0xf "$none SetDriverDramAddrHigh (0xf): no answer"
survived smu-hangs=0xd "$none GetEnabledSmuFeaturesLow (0xd): no answer"
# With these clocks: it is told to end what it may have begun.
boot='SMU: clocks and limits of power stay as at power-on:'
survived smu=0x11:0xfe "$boot SetToolsDramAddrHigh (0x11): unknown message"
survived smu=0x12:0xff "$boot SetToolsDramAddrLow (0x12): it failed"
survived smu=0x14:0xff "$boot TransferTableDram2Smu (0x14): it failed"
survived smu=0x7:0xfd "$boot EnableAllSmuFeatures (0x7): something has to come before"
survived smu=0x27:0xff "$boot RunDcBtc (0x27): it failed"
survived smu=0x43:0xfe "$boot BoardPowerCalibration (0x43): unknown message"
for message in 'SetToolsDramAddrLow (0x12)' 'TransferTableDram2Smu (0x14)' 'EnableAllSmuFeatures (0x7)' 'RunDcBtc (0x27)' 'BoardPowerCalibration (0x43)'; do
	number=${message#*(}
	survived "smu-hangs=${number%)}" "$boot $message: no answer"
done
clocks='SMU: it does not say how high clocks get: GetDpmFreqByIndex (0x1e):'
survived smu=0x1e:0xff "$clocks it failed"
survived smu-hangs=0x1e "$clocks no answer"
survived smu=0x13:0xfd 'SMU: TransferTableSmu2Dram (0x13): something has to come before'
survived smu-hangs=0x13 'SMU: TransferTableSmu2Dram (0x13): no answer'
# A BIOS with a defect: other bytes in some places (tests/model/src/bin/board-files/vbios.rs).
bios="$boot the card's BIOS:"
chip "$bios there is none: it begins with ff ff"
chip "$bios there is none: it begins with 00 aa" 0=0
chip "$bios it has no tables" 0x104=0
chip "$bios its table 15 (powerplayinfo) is missing" 0x222=0 0x223=0
chip "$bios its table 15 (powerplayinfo) is not all in it" 0x601=0xff
chip "$bios its table 15 (powerplayinfo) has 986 bytes, not 1242" 0x601=3
chip "$bios its table 2 (smc_dpm_info) is of revision 4.9" 0x503=9
chip "$bios PptLimit is 65324, which is not sane" 0x7ef=0xff
leaving smu=8:0xff 'SMU: DisableAllSmuFeatures (0x8): it failed'
leaving smu=0x24:0xfe 'SMU: PrepareMp1ForUnload (0x24): unknown message'
leaving smu-hangs=8 'SMU: DisableAllSmuFeatures (0x8): no answer'
leaving smu-hangs=0x24 'SMU: PrepareMp1ForUnload (0x24): no answer'

refused dead=rlc EIO "RLC: it was started, and the GPU's clock stands"
refused dead=mec ETIMEDOUT "the CP's firmware does not start its scheduler"
for engine in 0 1 2 3 4; do
	refused "dead=sdma$engine" ETIMEDOUT "sdma$engine: the engine was started, and does not work"
done
finish
