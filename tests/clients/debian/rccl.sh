# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
# RCCL, by Debian's package of its unit tests, which compare each collective with the processor's
# result: two GPUs of one process, over XGMI if they are a hive.
rocm=7.2.4
packages='librccl1-tests'
tests=usr/libexec/rocm/librccl1-tests
files="$tests/rccl-UnitTests"
memory=12G
gpus=2
hive=all:16384
firmware=cold
run() {
	# RCCL's processes find each other by a network.
	ip link set lo up
	export NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=INFO UT_MIN_GPUS=2 UT_MAX_GPUS=2 UT_PROCESS_MASK=1
	gtest $tests/rccl-UnitTests 'AllReduce.OutOfPlace:AllGather.OutOfPlace:ReduceScatter.OutOfPlace:Broadcast.OutOfPlace:SendRecv.SinglePairs:AllToAll.OutOfPlace'
}
