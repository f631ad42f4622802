#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeline.sh COMMAND...: runs the commands, of HIP, at the same time while the kernel traces rkfd,
# the GPU scheduler and the interrupt. A compressed tar archive goes to standard output: the trace,
# and each command's output and HIP's (AMD_LOG_LEVEL).
out=$(mktemp -d)
trace=/sys/kernel/tracing/instances/rkfd-timeline

fail() {
	echo "timeline: $1" >&2
	exit 1
}

mkdir $trace || fail "no instance of tracefs"
# The names of processes: init has turned that off.
echo 1 >/sys/kernel/tracing/options/record-cmd || fail "no names of processes"
# HIP's times are by the same clock.
echo mono >$trace/trace_clock || fail "no clock"
echo 32768 >$trace/buffer_size_kb
# Of the CPU's interrupts only rkfd's.
irqs=$(sed -n 's/^ *\([0-9]*\):.* rkfd$/irq == \1/p' /proc/interrupts | sed '2,$s/^/|| /' | tr '\n' ' ')
[ -n "$irqs" ] || fail "rkfd has no interrupt"
for event in irq_handler_entry irq_handler_exit; do
	echo "$irqs" >$trace/events/irq/$event/filter || fail "no filter of $event"
	echo 1 >$trace/events/irq/$event/enable
done
echo 1 >$trace/events/rkfd/enable || fail "no events of rkfd"
for event in drm_run_job drm_sched_job_queue drm_sched_job_run drm_sched_job_done; do
	echo 1 >$trace/events/gpu_scheduler/$event/enable || fail "no event $event"
done

pids='' n=0
for command; do
	n=$((n + 1))
	AMD_LOG_LEVEL=4 sh -c "exec $command" >"$out/hip.$n" 2>&1 &
	pids="$pids $!"
done
rc=0
for pid in $pids; do
	wait "$pid" || rc=$?
done
echo 0 >$trace/tracing_on
if [ $rc != 0 ]; then
	grep -hv '^:[0-9]:' "$out"/hip.* >&2
	fail "a command has failed with status $rc"
fi
for cpu in $trace/per_cpu/cpu*; do
	lost=$(sed -n 's/^\(overrun\|dropped events\|commit overrun\): *//p' "$cpu/stats" | grep -vx 0)
	[ -z "$lost" ] || fail "$(basename "$cpu") has lost events: the buffer is too small"
done
cat $trace/trace >"$out/trace"
echo 0 >$trace/events/enable
rmdir $trace
tar -c -C "$out" . | gzip
