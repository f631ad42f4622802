/* SPDX-License-Identifier: GPL-2.0 */
/* The fixture of the tests of shared virtual memory's attributes: some memory of the process. */
#ifndef RKFD_TEST_SVM_FIXTURE_H
#define RKFD_TEST_SVM_FIXTURE_H

#include <sys/mman.h>

#include "kfd_harness.h"
#include "kfd_svm.h"
#include "kfd_userptr.h"

#define PAGES		64u
#define SIZE		(PAGES * (size_t)KFD_PAGE)
#define FD		(self->dev.fd)
#define GPU		(self->dev.gpu_id)
#define PAGE(n)		(self->mem + (size_t)(n) * KFD_PAGE)

FIXTURE(svm)
{
	struct kfd_dev dev;
	uint8_t *mem;	/* PAGES of the process */
};

FIXTURE_SETUP(svm)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	self->mem = kfd_reserve(SIZE, 2u << 20);
	ASSERT_NE(NULL, self->mem);
	ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE));
}

FIXTURE_TEARDOWN(svm)
{
	kfd_close(&self->dev);
}

#endif /* RKFD_TEST_SVM_FIXTURE_H */
