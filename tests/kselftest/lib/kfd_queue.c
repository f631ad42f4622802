// SPDX-License-Identifier: GPL-2.0
/* SDMA queues by plain ioctls; see kfd.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kfd.h"
#include "packets.h"

static volatile uint64_t *pointer64(const struct kfd_queue *queue, size_t at)
{
	return (volatile uint64_t *)((char *)queue->pointers.cpu + at);
}

void kfd_queue_args(const struct kfd_dev *dev, const struct kfd_bo *ring,
		    const struct kfd_bo *pointers,
		    struct kfd_ioctl_create_queue_args *args)
{
	uintptr_t page = (uintptr_t)pointers->cpu;

	*args = (struct kfd_ioctl_create_queue_args){
		.ring_base_address = (uintptr_t)ring->cpu,
		.ring_size = (uint32_t)ring->size,
		.write_pointer_address = page + KFD_QUEUE_WPTR,
		.read_pointer_address = page + KFD_QUEUE_RPTR,
		.gpu_id = dev->gpu_id,
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = 7,
	};
}

/* With @engine < 0 the driver chooses: the engine with the fewest queues. */
static int create(const struct kfd_dev *dev, struct kfd_queue *queue, size_t ring_size,
		  int64_t engine)
{
	struct kfd_ioctl_create_queue_args args;
	int err;

	memset(queue, 0, sizeof(*queue));
	err = kfd_bo_create(dev, &queue->ring, ring_size, KFD_ALLOC_GTT);
	if (err)
		return err;
	err = kfd_bo_create(dev, &queue->pointers, KFD_PAGE, KFD_ALLOC_GTT);
	if (err)
		goto free_ring;
	memset(queue->pointers.cpu, 0, KFD_PAGE);
	kfd_queue_args(dev, &queue->ring, &queue->pointers, &args);
	if (engine >= 0) {
		args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
		args.sdma_engine_id = (uint32_t)engine;
	}
	err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	if (err)
		goto free_pointers;
	queue->id = args.queue_id;
	err = kfd_doorbell_map(dev->fd, args.doorbell_offset, &queue->slice, &queue->doorbell);
	if (!err)
		return 0;
	kfd_destroy_queue(dev->fd, queue->id);
free_pointers:
	kfd_bo_destroy(dev, &queue->pointers);
free_ring:
	kfd_bo_destroy(dev, &queue->ring);
	return err;
}

int kfd_doorbell_map(int fd, uint64_t offset, void **slice, volatile uint64_t **doorbell)
{
	const uint64_t within = offset & (KFD_DOORBELL_SLICE - 1);
	int err = kfd_mmap(fd, KFD_DOORBELL_SLICE, offset - within, slice);

	if (!err)
		*doorbell = (volatile uint64_t *)((char *)*slice + within);
	return err;
}

int kfd_queue_create(const struct kfd_dev *dev, struct kfd_queue *queue,
		     size_t ring_size)
{
	return create(dev, queue, ring_size, -1);
}

int kfd_queue_create_on(const struct kfd_dev *dev, struct kfd_queue *queue,
			size_t ring_size, uint32_t engine)
{
	return create(dev, queue, ring_size, engine);
}

int kfd_queue_destroy(const struct kfd_dev *dev, struct kfd_queue *queue)
{
	int err = kfd_destroy_queue(dev->fd, queue->id);

	if (err)
		return err;
	munmap(queue->slice, KFD_DOORBELL_SLICE);
	err = kfd_bo_destroy(dev, &queue->pointers);
	if (!err)
		err = kfd_bo_destroy(dev, &queue->ring);
	return err;
}

static void append(struct kfd_queue *queue, const uint32_t *dwords,
		   unsigned int count)
{
	uint32_t *ring = queue->ring.cpu;
	unsigned int mask = (unsigned int)(queue->ring.size / 4) - 1;
	unsigned int i;

	for (i = 0; i < count; i++)
		ring[(queue->wptr / 4 + i) & mask] = dwords[i];
	queue->wptr += count * 4;
}

void kfd_queue_submit(struct kfd_queue *queue, const uint32_t *dwords,
		      unsigned int count)
{
	append(queue, dwords, count);
	__sync_synchronize();
	*pointer64(queue, KFD_QUEUE_WPTR) = queue->wptr;
	__sync_synchronize();
	*queue->doorbell = queue->wptr;
}

int kfd_queue_finish(struct kfd_queue *queue, unsigned int timeout_ms)
{
	volatile uint32_t *fence = (volatile uint32_t *)pointer64(queue, KFD_QUEUE_FENCE);
	uint64_t end = kfd_now_ms() + timeout_ms;
	struct packets p = { 0 };

	sdma_fence(&p, (uintptr_t)fence, ++queue->fence);
	kfd_queue_submit(queue, p.dwords, p.count);
	while (*fence != queue->fence) {
		if (kfd_now_ms() > end)
			return ETIMEDOUT;
		usleep(50);
	}
	return 0;
}

int kfd_queue_fill(struct kfd_queue *queue, uint64_t dst, uint32_t value, size_t bytes,
		   unsigned int timeout_ms)
{
	struct packets p = { 0 };

	sdma_fill(&p, dst, value, (uint32_t)(bytes / 4));
	kfd_queue_submit(queue, p.dwords, p.count);
	return kfd_queue_finish(queue, timeout_ms);
}

int kfd_queue_copy(struct kfd_queue *queue, uint64_t dst, uint64_t src, size_t bytes,
		   unsigned int timeout_ms)
{
	struct packets p = { 0 };

	sdma_copy(&p, dst, src, bytes);
	kfd_queue_submit(queue, p.dwords, p.count);
	return kfd_queue_finish(queue, timeout_ms);
}
