/* SPDX-License-Identifier: GPL-2.0 */
/* A file of the render node with a context and two buffers, and jobs of it for SDMA. */
#ifndef RKFD_TEST_CS_FIXTURE_H
#define RKFD_TEST_CS_FIXTURE_H

#include <time.h>

#include "cs.h"
#include "kfd_harness.h"
#include "objects.h"

#define IB_VA		0x10000000ull
#define DATA_VA		0x20000000ull
#define IB_SIZE		(16u * 1024)
#define DATA_SIZE	(256u * 1024)
/* The word that jobs wait for, behind the data that they copy. */
#define WORD		(DATA_SIZE - 4096)
#define UNKNOWN		12345u
#define MS		1000000ull
/* Somewhere where nothing is mapped. */
#define NOWHERE		0x7000000000ull

FIXTURE(cs)
{
	struct kfd_dev dev;
	char base[OBJECTS_MAX];
	struct cs_bo ib, data;
	uint32_t ctx;
};

FIXTURE_VARIANT(cs)
{
	bool acquired;
	uint64_t domain;
};

/* A file of the render node alone. */
FIXTURE_VARIANT_ADD(cs, plain)
{
	.domain = AMDGPU_GEM_DOMAIN_GTT,
};

/* A file whose address space is a process's of KFD. */
FIXTURE_VARIANT_ADD(cs, acquired)
{
	.acquired = true,
	.domain = AMDGPU_GEM_DOMAIN_VRAM,
};

FIXTURE_SETUP(cs)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	ASSERT_TRUE(objects_base(self->base, 0));
	ASSERT_EQ(0, variant->acquired ? kfd_open(&self->dev) :
					 kfd_open_render(&self->dev, &self->dev.drm_fd));
	ASSERT_EQ(0, make_bo(self->dev.drm_fd, AMDGPU_GEM_DOMAIN_GTT, IB_SIZE, IB_VA, &self->ib));
	ASSERT_EQ(0, make_bo(self->dev.drm_fd, variant->domain, DATA_SIZE, DATA_VA, &self->data));
	memset(self->data.cpu, 0, DATA_SIZE);
	ASSERT_EQ(0, make_ctx(self->dev.drm_fd, &self->ctx));
}

FIXTURE_TEARDOWN(cs)
{
	munmap(self->ib.cpu, IB_SIZE);
	munmap(self->data.cpu, DATA_SIZE);
	kfd_close(&self->dev);
	EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));
}

#endif /* RKFD_TEST_CS_FIXTURE_H */
