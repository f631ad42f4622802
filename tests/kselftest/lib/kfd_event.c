// SPDX-License-Identifier: GPL-2.0
/* KFD events by plain ioctls; see kfd_event.h. */
#include <errno.h>
#include <sys/ioctl.h>

#include "kfd_event.h"

int event_create_args(const struct kfd_dev *dev, struct kfd_ioctl_create_event_args *args)
{
	return kfd_ioctl(dev->fd, AMDKFD_IOC_CREATE_EVENT, args);
}

/* Gives the process a page of slots, as clients do. */
static int give_page(const struct kfd_dev *dev)
{
	struct kfd_bo page;
	uint32_t id;
	int err = event_page_user(dev, &page, &id);

	return err ? err : event_destroy(dev, id);
}

int event_create(const struct kfd_dev *dev, uint32_t type, bool auto_reset, uint32_t *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_type = type,
		.auto_reset = auto_reset,
	};
	int err = event_create_args(dev, &args);

	/* Since Linux 7.3 amdkfd does not make a page by itself. */
	if (err == ENOMEM && !kfd_is_rkfd() && !give_page(dev))
		err = event_create_args(dev, &args);
	*id = args.event_id;
	return err;
}

int event_destroy(const struct kfd_dev *dev, uint32_t id)
{
	struct kfd_ioctl_destroy_event_args args = { .event_id = id };

	return kfd_ioctl(dev->fd, AMDKFD_IOC_DESTROY_EVENT, &args);
}

int event_set(const struct kfd_dev *dev, uint32_t id)
{
	struct kfd_ioctl_set_event_args args = { .event_id = id };

	return kfd_ioctl(dev->fd, AMDKFD_IOC_SET_EVENT, &args);
}

int event_reset(const struct kfd_dev *dev, uint32_t id)
{
	struct kfd_ioctl_reset_event_args args = { .event_id = id };

	return kfd_ioctl(dev->fd, AMDKFD_IOC_RESET_EVENT, &args);
}

int event_wait_many(const struct kfd_dev *dev, struct kfd_event_data *data,
		    unsigned int count, bool all, uint32_t ms)
{
	struct kfd_ioctl_wait_events_args args = {
		.events_ptr = (uintptr_t)data,
		.num_events = count,
		.wait_for_all = all,
		.timeout = ms,
		.wait_result = 77,
	};

	if (ioctl(dev->fd, AMDKFD_IOC_WAIT_EVENTS, &args))
		return errno;
	switch (args.wait_result) {
	case KFD_IOC_WAIT_RESULT_COMPLETE:
		return 0;
	case KFD_IOC_WAIT_RESULT_TIMEOUT:
		return ETIMEDOUT;
	default:
		return EPROTO;
	}
}

int event_wait(const struct kfd_dev *dev, uint32_t id, uint32_t ms)
{
	struct kfd_event_data data = { .event_id = id };

	return event_wait_many(dev, &data, 1, true, ms);
}

int event_page_user(const struct kfd_dev *dev, struct kfd_bo *bo, uint32_t *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_type = KFD_IOC_EVENT_SIGNAL,
		.auto_reset = 1,
	};
	int err = kfd_bo_create(dev, bo, EVENT_PAGE_SIZE, KFD_ALLOC_GTT);

	if (err)
		return err;
	args.event_page_offset = bo->handle;
	err = event_create_args(dev, &args);
	*id = args.event_id;
	return err;
}

int event_page_kernel(const struct kfd_dev *dev, volatile uint64_t **slots, uint32_t *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_type = KFD_IOC_EVENT_SIGNAL,
		.auto_reset = 1,
	};
	int err = event_create_args(dev, &args);
	void *page;

	if (err)
		return err;
	*id = args.event_id;
	err = kfd_mmap(dev->fd, EVENT_PAGE_SIZE, args.event_page_offset, &page);
	*slots = page;
	return err;
}
