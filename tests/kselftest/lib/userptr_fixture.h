/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the USERPTR tests: memory of the process for the GPU, and access to it by the
 * GPU.
 */
#ifndef RKFD_TEST_USERPTR_FIXTURE_H
#define RKFD_TEST_USERPTR_FIXTURE_H

#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_userptr.h"
#include "packets.h"

#define MIB		(1ull << 20)
#define HUGE		(2 * MIB)
#define RING_SIZE	(16u << 10)
#define SIZE		(64u << 10)
#define WAIT_MS		KFD_HANG_MS

FIXTURE(userptr)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;	/* the other end of copies */
	uint8_t *mem;		/* the process's memory; also its address on the GPU */
	uint64_t handle;
	uint32_t fault;		/* the event */
};

FIXTURE_SETUP(userptr)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, true, &self->fault));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING_SIZE));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
	self->mem = kfd_reserve(SIZE, HUGE);
	ASSERT_NE(NULL, self->mem);
}

FIXTURE_TEARDOWN(userptr)
{
	kfd_close(&self->dev);
}

/* 0, or ETIMEDOUT when the copy does not end in time. */
static inline int copy(struct kfd_queue *queue, const void *dst, const void *src, unsigned int ms)
{
	return kfd_queue_copy(queue, (uintptr_t)dst, (uintptr_t)src, SIZE, ms);
}

/* Timeout for an operation that must not complete. */
#define STOPPED_MS	200u

static inline void start_copy(struct kfd_queue *queue, const void *dst, const void *src,
			      size_t bytes)
{
	struct packets p = { 0 };

	sdma_copy(&p, (uintptr_t)dst, (uintptr_t)src, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
}

/* A queue that has accessed a forbidden address faults, and does nothing more a moment later. */
#define EXPECT_QUEUE_STOPPED()							\
	do {									\
		EXPECT_EQ(0, event_wait(&self->dev, self->fault, WAIT_MS));	\
		usleep(100000);							\
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&self->queue, STOPPED_MS)); \
	} while (0)

/* A copy from that memory gives @value everywhere. */
#define EXPECT_GPU_SEES(value)							\
	do {									\
		memset(self->vram.cpu, 0xee, SIZE);				\
		EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, self->mem, WAIT_MS)); \
		EXPECT_TRUE(all(self->vram.cpu, value, SIZE));			\
	} while (0)

/* A copy to that memory arrives where the process sees it. */
#define EXPECT_GPU_WRITES(value)						\
	do {									\
		memset(self->vram.cpu, value, SIZE);				\
		EXPECT_EQ(0, copy(&self->queue, self->mem, self->vram.cpu, WAIT_MS)); \
		EXPECT_TRUE(all(self->mem, value, SIZE));			\
	} while (0)

/* Gives the GPU ordinary memory of the process, filled with @value. */
#define GIVE(value, flags)							\
	do {									\
		ASSERT_EQ(self->mem, anonymous(self->mem, SIZE, PROT_READ | PROT_WRITE)); \
		memset(self->mem, value, SIZE);					\
		ASSERT_EQ(0, kfd_userptr_create(&self->dev, self->mem, SIZE, flags,	\
						&self->handle));		\
	} while (0)

#endif /* RKFD_TEST_USERPTR_FIXTURE_H */
