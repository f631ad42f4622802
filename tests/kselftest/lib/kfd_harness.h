/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's test harness with a main() that skips where there is no KFD, and the fixture
 * that most tests use: both files open, the VM acquired.
 *
 * The harness runs each test in a process of its own, so that each starts with a fresh KFD
 * process.
 */
#ifndef RKFD_TEST_KFD_HARNESS_H
#define RKFD_TEST_KFD_HARNESS_H

#include "kselftest_harness.h"

/*
 * Default time limit of a test, in seconds. A test that takes longer hangs, on the debug kernel
 * beside other guests too. On a fast kernel a test that prints nothing is ended earlier: see
 * tests/guest/plan.toml.
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	900

#include "expect.h"
#include "kfd.h"

#define KFD_HARNESS_MAIN						\
	int main(int argc, char **argv)					\
	{								\
		struct kfd_dev probe;					\
									\
		if (access(KFD_PATH, F_OK) != 0 || kfd_find_gpu(&probe))	\
			ksft_exit_skip("no " KFD_PATH " with a GPU\n");	\
		return test_harness_run(argc, argv);			\
	}

#define KFD_FIXTURE(name)						\
	FIXTURE(name)							\
	{								\
		struct kfd_dev dev;					\
	};								\
	FIXTURE_SETUP(name)						\
	{								\
		ASSERT_EQ(0, kfd_open(&self->dev));			\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		kfd_close(&self->dev);					\
	}

/*
 * First statement of a test that amdkfd cannot pass; @why is in the result. With RKFD_ALL the
 * test runs all the same.
 */
#define SKIP_ON_AMDKFD(why)						\
	do {								\
		if (!kfd_is_rkfd() && !getenv("RKFD_ALL"))		\
			SKIP(return, "amdkfd: " why);			\
	} while (0)

#endif /* RKFD_TEST_KFD_HARNESS_H */
