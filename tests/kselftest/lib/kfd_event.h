/* SPDX-License-Identifier: GPL-2.0 */
/* KFD events by plain ioctls; results as in kfd.h. */
#ifndef RKFD_TEST_KFD_EVENT_H
#define RKFD_TEST_KFD_EVENT_H

#include "kfd.h"

#define EVENT_SLOTS		KFD_SIGNAL_EVENT_LIMIT
#define EVENT_PAGE_SIZE		(EVENT_SLOTS * 8u)
#define EVENT_UNSIGNALED	UINT64_MAX
#define EVENT_FIRST_OTHER	0x40000000u
#define EVENT_FOREVER		UINT32_MAX

int event_create_args(const struct kfd_dev *dev, struct kfd_ioctl_create_event_args *args);
/* An event of @type that resets itself if @auto_reset. */
int event_create(const struct kfd_dev *dev, uint32_t type, bool auto_reset, uint32_t *id);
int event_destroy(const struct kfd_dev *dev, uint32_t id);
int event_set(const struct kfd_dev *dev, uint32_t id);
int event_reset(const struct kfd_dev *dev, uint32_t id);

/*
 * Waits for one event. Returns 0 when it came, ETIMEDOUT when it did not, or the ioctl's errno.
 * The call is made once, whatever signal arrives.
 */
int event_wait(const struct kfd_dev *dev, uint32_t id, uint32_t ms);
/* The same for several events, whose data belongs to the caller. */
int event_wait_many(const struct kfd_dev *dev, struct kfd_event_data *data,
		    unsigned int count, bool all, uint32_t ms);

/*
 * Makes the event page: a buffer of the process, as libhsakmt does, or the driver's own,
 * mapped. Both make one event with a slot, *id.
 */
int event_page_user(const struct kfd_dev *dev, struct kfd_bo *bo, uint32_t *id);
int event_page_kernel(const struct kfd_dev *dev, volatile uint64_t **slots, uint32_t *id);

#endif /* RKFD_TEST_KFD_EVENT_H */
