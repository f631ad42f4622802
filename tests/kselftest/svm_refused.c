// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults that are retried (XNACK on) at mapped addresses: accesses that the mapping does
 * not allow. They would repeat for ever, and are errors like all others.
 */
#include <drm/amdgpu_drm.h>

#include "debugfs.h"
#include "kfd_event.h"
#include "kfd_harness.h"
#include "kfd_dmabuf.h"
#include "packets.h"
#include "svm_work.h"

#define STOPPED_MS	200u

FIXTURE(svm_refused)
{
	struct kfd_dev dev;
	struct kfd_queue queue;
	struct kfd_bo vram;
	uint32_t fault;
};

FIXTURE_SETUP(svm_refused)
{
	ASSERT_EQ(0, kfd_open(&self->dev));
	ASSERT_EQ(0, xnack_set(self->dev.fd, 1));
	ASSERT_EQ(0, event_create(&self->dev, KFD_IOC_EVENT_MEMORY, true, &self->fault));
	ASSERT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	ASSERT_EQ(0, kfd_bo_create(&self->dev, &self->vram, SIZE, KFD_ALLOC_VRAM));
}

FIXTURE_TEARDOWN(svm_refused)
{
	EXPECT_EQ(0, kfd_queue_destroy(&self->dev, &self->queue));
	/* Other queues are unharmed. */
	EXPECT_EQ(0, kfd_queue_create(&self->dev, &self->queue, RING));
	EXPECT_EQ(0, copy(&self->queue, self->vram.cpu, (uint8_t *)self->vram.cpu + SIZE / 2,
			  SIZE / 2));
	kfd_close(&self->dev);
}

/* Maps a buffer with the access of @flags for the GPU; returns its address. */
static uint64_t map_for(const struct kfd_dev *dev, uint32_t flags)
{
	struct drm_amdgpu_gem_va place = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = flags,
		.va_address = 1ull << 44,
		.map_size = SIZE,
	};

	if (drm_gem_create(dev->drm_fd, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &place.handle) ||
	    kfd_ioctl(dev->drm_fd, DRM_IOCTL_AMDGPU_GEM_VA, &place))
		return 0;
	return place.va_address;
}

/* Expects @p to be an error at @address, and the queue to do no more. */
#define EXPECT_REFUSED(p, address)						\
	do {									\
		struct kfd_event_data data = { .event_id = self->fault };	\
		kfd_queue_submit(&self->queue, (p)->dwords, (p)->count);	\
		ASSERT_EQ(0, event_wait_many(&self->dev, &data, 1, false, WAIT_MS)); \
		EXPECT_EQ(address, data.memory_exception_data.va);		\
		EXPECT_EQ(ETIMEDOUT, kfd_queue_finish(&self->queue, STOPPED_MS)); \
	} while (0)

TEST_F(svm_refused, read_of_what_is_for_writing)
{
	const uint64_t va = map_for(&self->dev, AMDGPU_VM_PAGE_WRITEABLE);
	struct packets p = { 0 };

	ASSERT_NE(0, va);
	sdma_copy(&p, (uintptr_t)self->vram.cpu, va, KFD_PAGE);
	EXPECT_REFUSED(&p, va);
}

TEST_F(svm_refused, atomic_of_what_is_for_writing)
{
	const uint64_t va = map_for(&self->dev, AMDGPU_VM_PAGE_WRITEABLE);
	struct packets p = { 0 };

	ASSERT_NE(0, va);
	sdma_atomic_add64(&p, va + KFD_PAGE, 1);
	EXPECT_REFUSED(&p, va + KFD_PAGE);
}

TEST_F(svm_refused, write_to_what_is_for_reading)
{
	const uint64_t va = map_for(&self->dev, AMDGPU_VM_PAGE_READABLE);
	struct packets p = { 0 };

	ASSERT_NE(0, va);
	sdma_copy(&p, va, (uintptr_t)self->vram.cpu, KFD_PAGE);
	EXPECT_REFUSED(&p, va);
}

/* The GPU cannot access doorbells that the driver watches. */
TEST_F(svm_refused, doorbells_that_are_watched)
{
	struct packets p = { 0 };
	uint64_t va, handle;
	char text[256];

	if (!debugfs_read("parameters", text, sizeof(text)) ||
	    debugfs_number(text, "sdma_sched") == 0)
		SKIP(return, "none is watched");
	va = kfd_map_registers(&self->dev, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, KFD_DOORBELL_SLICE,
			       &handle);
	ASSERT_NE(0, va);
	va += KFD_PAGE;
	sdma_write(&p, va, (const uint32_t[]){ 0, 0 }, 2);
	EXPECT_REFUSED(&p, va);
}

KFD_HARNESS_MAIN
