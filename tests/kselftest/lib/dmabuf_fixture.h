/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the dma-buf tests: a queue, and the counts of objects that must return at the
 * end.
 */
#ifndef RKFD_TEST_DMABUF_FIXTURE_H
#define RKFD_TEST_DMABUF_FIXTURE_H

#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "objects.h"

#define SIZE		(256u * 1024)
#define RING		(64u * 1024)
#define TIMEOUT_MS	KFD_HANG_MS

#define DMABUF_FIXTURE(name)						\
	FIXTURE(name)							\
	{								\
		struct kfd_dev dev;					\
		struct kfd_queue queue;					\
		char base[OBJECTS_MAX];					\
	};								\
	FIXTURE_SETUP(name)						\
	{								\
		ASSERT_TRUE(objects_base(self->base, 0));		\
		ASSERT_EQ(0, kfd_open(&self->dev));			\
		ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));	\
	}								\
	FIXTURE_TEARDOWN(name)						\
	{								\
		EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));	\
		kfd_close(&self->dev);					\
		EXPECT_TRUE(objects_return_to(self->base, KFD_HANG_MS));	\
	}

static inline int gpu_copy(struct kfd_queue *queue, const void *dst, const void *src, size_t bytes)
{
	return kfd_queue_copy(queue, (uintptr_t)dst, (uintptr_t)src, bytes, TIMEOUT_MS);
}

#endif /* RKFD_TEST_DMABUF_FIXTURE_H */
