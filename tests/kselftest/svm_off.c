// SPDX-License-Identifier: GPL-2.0
/* The module without shared virtual memory (svm=0): it is neither reported nor available. */
#include <errno.h>
#include <stdio.h>

#include "svm_fixture.h"

TEST_F(svm, is_not_there)
{
	uint64_t capability = ~0ull;
	char file[128];

	snprintf(file, sizeof(file), KFD_TOPOLOGY "/nodes/%u/properties", self->dev.node);
	ASSERT_TRUE(kfd_property(file, "capability", &capability));
	EXPECT_EQ(0, capability >> 27 & 1);
	EXPECT_EQ(EPERM, svm_set(FD, self->mem, SIZE, SVM_ACCESS, GPU));
	EXPECT_EQ(EPERM, svm(FD, SVM_GET, self->mem, SIZE, NULL, 0));
}

TEST_F(svm, page_faults_are_not_retried)
{
	EXPECT_EQ(0, xnack_get(FD));
	EXPECT_EQ(EPERM, xnack_set(FD, 1));
	EXPECT_EQ(0, xnack_set(FD, 0));
	EXPECT_EQ(0, xnack_get(FD));
}

KFD_HARNESS_MAIN
