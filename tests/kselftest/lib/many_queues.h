/* SPDX-License-Identifier: GPL-2.0 */
/* Many SDMA queues on the same memory, to measure the cost of queues. */
#ifndef MANY_QUEUES_H
#define MANY_QUEUES_H

#include "kfd_harness.h"

struct queues {
	struct kfd_bo ring, pointers;
	uint32_t ids[1024];
	unsigned int count;
};

static inline int queues_prepare(const struct kfd_dev *dev, struct queues *queues, size_t ring,
			  uint32_t flags)
{
	int err;

	queues->count = 0;
	err = kfd_bo_create(dev, &queues->ring, ring, flags);
	return err ? err : kfd_bo_create(dev, &queues->pointers, KFD_PAGE, flags);
}

/* Adds a queue on the same memory as the others. */
static inline int queues_add(const struct kfd_dev *dev, struct queues *queues)
{
	struct kfd_ioctl_create_queue_args args;
	int err;

	kfd_queue_args(dev, &queues->ring, &queues->pointers, &args);
	err = kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_QUEUE, &args);
	if (!err)
		queues->ids[queues->count++] = args.queue_id;
	return err;
}

static inline int queues_remove(const struct kfd_dev *dev, struct queues *queues)
{
	int err = 0;

	while (queues->count && !err)
		err = kfd_destroy_queue(dev->fd, queues->ids[--queues->count]);
	return err;
}

#endif
