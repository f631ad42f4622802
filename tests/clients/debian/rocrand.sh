# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
# rocRAND: distributions and generators of the host's and the device's interface. Its own tests
# compare with the processor's generators, and means and deviations with what they should be.
rocm=7.2.4
packages='librocrand1-tests'
tests=usr/libexec/rocm/librocrand1-tests
files="$tests/test_*"
memory=6G
run() {
	gtest $tests/test_rocrand_basic
	gtest $tests/test_rocrand_generate_uniform
	gtest $tests/test_rocrand_generate_normal
	gtest $tests/test_rocrand_kernel_philox4x32_10
	gtest $tests/test_rocrand_kernel_xorwow
}
