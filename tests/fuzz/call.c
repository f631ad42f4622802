// SPDX-License-Identifier: GPL-2.0
#include <stdatomic.h>
#include <sys/ioctl.h>

#include <drm/drm.h>

#include "call.h"
#include "pool.h"

/* Sync objects of a call, whose tables in the core are small. */
#define MOST_OBJECTS	512u

struct counts *counts;
struct kfd_dev gpu;

void count_call(void)
{
	atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
}

/*
 * The count of sync objects in the arguments of a call of DRM's core; NULL if it names none. The core
 * allocates room for all of them at once, and of more than an allocation may have the kernel warns,
 * whatever the driver.
 */
static uint32_t *objects_named(char type, unsigned int number, void *args)
{
	if (type != 'd')
		return NULL;
	switch (number) {
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT):
		return &((struct drm_syncobj_wait *)args)->count_handles;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_RESET):
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_SIGNAL):
		return &((struct drm_syncobj_array *)args)->count_handles;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
		return &((struct drm_syncobj_timeline_wait *)args)->count_handles;
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_QUERY):
		return &((struct drm_syncobj_timeline_array *)args)->count_handles;
	default:
		return NULL;
	}
}

bool fuzz_call(int fd, char type, unsigned int number, void *args, size_t size)
{
	struct tally *tally = type == 'K' ? &counts->kfd : &counts->drm;
	size_t told = once_in(50) ? below(1u << _IOC_SIZEBITS) : size;
	uint32_t *objects = objects_named(type, number, args);
	void *passed = objects ? args : some_pointer(args);
	unsigned char *bytes = args;
	bool good;

	if (once_in(20)) {
		for (unsigned int n = 1 + below(4); n && size; n--)
			bytes[below((uint32_t)size)] = (unsigned char)random32();
	}
	if (objects && *objects > MOST_OBJECTS)
		*objects %= MOST_OBJECTS;
	/* Arguments are in a buffer that is larger than any of them. */
	if (told > 4096)
		told = 4096;
	good = ioctl(fd, _IOC(once_in(50) ? below(4) : _IOC_READ | _IOC_WRITE, type, number, told),
		     passed) == 0;
	atomic_fetch_add_explicit(good ? &tally->good[number] : &tally->bad[number], 1,
				  memory_order_relaxed);
	count_call();
	return good;
}
