// SPDX-License-Identifier: GPL-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>

#include "call.h"
#include "keep.h"
#include "kfd_event.h"

void keep(enum kind kind, uint64_t value)
{
	keep_not(kind, pool_put(kind, value));
}

void keep_not(enum kind kind, uint64_t value)
{
	const int fd = (int)value;

	if (!value)
		return;
	switch (kind) {
	case KFD_FILE:
	case RENDER_FILE:
	case SHARED_FILE:
	case SMI_FILE:
		if (fd > 2 && fd != own.fd && fd != own.drm_fd)
			close(fd);
		break;
	case BUFFER:
		kfd_unmap(own.fd, value, own.gpu_id);
		kfd_free(own.fd, value);
		break;
	case GEM: {
		struct drm_gem_close args = { .handle = (uint32_t)value };

		kfd_ioctl(own.drm_fd, DRM_IOCTL_GEM_CLOSE, &args);
		break;
	}
	case QUEUE:
		kfd_destroy_queue(own.fd, (uint32_t)value);
		break;
	case EVENT:
		event_destroy(&own, (uint32_t)value);
		break;
	case MAPPING:
		munmap((void *)(uintptr_t)value, KFD_PAGE);
		break;
	default:
		/* Numbers without an object. */
		break;
	}
}
