/* SPDX-License-Identifier: GPL-2.0 */
/* Calls for DRM's sync objects. Each returns an errno. */
#ifndef RKFD_TEST_SYNCOBJ_H
#define RKFD_TEST_SYNCOBJ_H

#include <stdint.h>

#include <drm/drm.h>

#include "kfd.h"

static inline int syncobj_make(int drm_fd, uint32_t flags, uint32_t *handle)
{
	struct drm_syncobj_create args = { .flags = flags };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_CREATE, &args);

	*handle = args.handle;
	return err;
}

static inline int syncobj_to_fd(int drm_fd, uint32_t handle, uint32_t flags, int *fd)
{
	struct drm_syncobj_handle args = { .handle = handle, .flags = flags, .fd = -1 };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &args);

	*fd = args.fd;
	return err;
}

/* With a sync file, @handle is that of an object which gets its fence. */
static inline int syncobj_from_fd(int drm_fd, int fd, uint32_t flags, uint32_t *handle)
{
	struct drm_syncobj_handle args = { .handle = *handle, .flags = flags, .fd = fd };
	int err = kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &args);

	*handle = args.handle;
	return err;
}

/* Waits until @until of the monotonic clock. */
static inline int syncobj_wait(int drm_fd, uint32_t handle, uint64_t until)
{
	struct drm_syncobj_wait args = {
		.handles = (uintptr_t)&handle,
		.timeout_nsec = (int64_t)until,
		.count_handles = 1,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_WAIT, &args);
}

static inline int syncobj_wait_point(int drm_fd, uint32_t handle, uint64_t point, uint64_t until)
{
	struct drm_syncobj_timeline_wait args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.timeout_nsec = (int64_t)until,
		.count_handles = 1,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &args);
}

/* The last point of the timeline whose fence is signalled. */
static inline int syncobj_query(int drm_fd, uint32_t handle, uint64_t *point)
{
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)point,
		.count_handles = 1,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_QUERY, &args);
}

static inline int syncobj_signal_point(int drm_fd, uint32_t handle, uint64_t point)
{
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&handle,
		.points = (uintptr_t)&point,
		.count_handles = 1,
	};

	return kfd_ioctl(drm_fd, DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &args);
}

#endif /* RKFD_TEST_SYNCOBJ_H */
